// The harness's transport over UCX: tagged messages (UCP). One process forks the other, and they exchange
// addresses through a socket pair. The harness sends its first messages long before it measures, so UCX is
// connected by then.
#include "common.h"
#include "pair.h"
#include "transport.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucp/api/ucp.h>

enum { TAG = 7 };

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h endpoint;
static ucs_status_ptr_t requests[WINDOW];
static const ucp_request_param_t plain = {.op_attr_mask = 0};

static void expect_ok(ucs_status_t status, const char *what) {
    if (status == UCS_OK) return;
    fprintf(stderr, "error: %s: %s\n", what, ucs_status_string(status));
    exit(1);
}

static void exchange_addresses(void) {
    ucp_address_t *own;
    size_t own_bytes, peer_bytes;
    expect_ok(ucp_worker_get_address(worker, &own, &own_bytes), "cannot get the worker's address");
    pair_write(&own_bytes, sizeof own_bytes);
    pair_write(own, own_bytes);
    ucp_worker_release_address(worker, own);
    pair_read(&peer_bytes, sizeof peer_bytes);
    if (peer_bytes == 0 || peer_bytes > 1 << 16) fail("the other process sent no address");
    void *peer = malloc(peer_bytes);
    if (peer == NULL) fail("no memory for an address");
    pair_read(peer, peer_bytes);
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = peer};
    expect_ok(ucp_ep_create(worker, &params, &endpoint), "cannot make an endpoint");
    free(peer);
}

bool transport_open(int *argc, char ***argv) {
    (void)argc, (void)argv;
    bool is_client = pair_fork();
    ucp_config_t *config;
    expect_ok(ucp_config_read(NULL, NULL, &config), "cannot read the configuration");
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    expect_ok(ucp_init(&params, config, &context), "cannot start UCX");
    ucp_config_release(config);
    ucp_worker_params_t worker_params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                         .thread_mode = UCS_THREAD_MODE_SINGLE};
    expect_ok(ucp_worker_create(context, &worker_params, &worker), "cannot make a worker");
    exchange_addresses();
    return is_client;
}

void transport_prepare(size_t bytes_max) { (void)bytes_max; }

bool transport_copies(void) { return true; }

void transport_version(char *text, size_t bytes) {
    snprintf(text, bytes, "UCX %s", ucp_get_version_string());
}

// Progresses until the operation is complete. NULL was complete at once.
static void finish(ucs_status_ptr_t request) {
    if (request == NULL) return;
    if (UCS_PTR_IS_ERR(request)) expect_ok(UCS_PTR_STATUS(request), "cannot send or receive");
    ucs_status_t status;
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
        ucp_worker_progress(worker);
    ucp_request_free(request);
    expect_ok(status, "a message was lost");
}

void transport_send(const void *from, size_t bytes) {
    finish(ucp_tag_send_nbx(endpoint, from, bytes, TAG, &plain));
}

void transport_recv(void *to, size_t bytes) {
    finish(ucp_tag_recv_nbx(worker, to, bytes, TAG, UINT64_MAX, &plain));
}

void transport_start_send(unsigned slot, const void *from, size_t bytes) {
    requests[slot] = ucp_tag_send_nbx(endpoint, from, bytes, TAG, &plain);
}

void transport_start_recv(unsigned slot, void *to, size_t bytes) {
    requests[slot] = ucp_tag_recv_nbx(worker, to, bytes, TAG, UINT64_MAX, &plain);
}

void transport_finish(unsigned slot) { finish(requests[slot]); }

void transport_close(void) {
    finish(ucp_ep_close_nbx(endpoint, &plain));
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    pair_join();
}
