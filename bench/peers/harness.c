// Measures a peer as rperf measures superpipe: half round trips, and streams timed at the receiver, with
// buffers that are reused or were never used before. It is linked with one transport.
//
//     harness --cores 0,1 --seconds-max 60 TEST:BYTES:MESSAGES...
//     harness --cores 0,1 --seconds-max 60 --control NAME
//
// with TEST one of latency, stream, latency-fresh, stream-fresh. The process that measures prints one JSON
// object per test. With --control the two processes read the same tests, line by line, from the named pipes
// NAME.client and NAME.server until their end. In between both sleep.
#include "common.h"
#include "tests.h"
#include "transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const size_t BYTES_MAX = (size_t)1 << 30, MESSAGES_MAX = 10000000;

static const struct {
    const char *name;
    bool stream, fresh;
} kinds[] = {
    {"latency", false, false},
    {"stream", true, false},
    {"latency-fresh", false, true},
    {"stream-fresh", true, true},
};

static void parse_test(const char *text, struct test *test) {
    char name[32];
    if (sscanf(text, "%31[a-z-]:%zu:%zu", name, &test->bytes, &test->messages) != 3)
        fail("a test is TEST:BYTES:MESSAGES, such as latency:8:10000");
    if (test->bytes == 0 || test->bytes > BYTES_MAX) fail("messages have 1 B to 1 GiB");
    if (test->messages == 0 || test->messages > MESSAGES_MAX) fail("a test has 1 to 10000000 messages");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(name, kinds[i].name) != 0) continue;
        test->stream = kinds[i].stream, test->fresh = kinds[i].fresh;
        return;
    }
    fail("the tests are latency, stream, latency-fresh and stream-fresh");
}

static void print_result(const struct test *test, struct samples *samples) {
    struct summary summary = summarize(samples->us, samples->count);
    // in a stream the receiver cannot tell when the first message was sent
    char first[32] = "null";
    if (!test->stream) snprintf(first, sizeof first, "%.4f", samples->first_us);
    printf(
        "{\"event\":\"result\",\"test\":\"%s\",\"fresh\":%s,\"bytes\":%zu,\"first_us\":%s,\"min_us\":%.4f,"
        "\"p50_us\":%.4f,\"avg_us\":%.4f,\"p99_us\":%.4f,\"p999_us\":%.4f,\"max_us\":%.4f,\"gb_per_s\":%.4f,"
        "\"samples\":%zu,\"messages_per_sample\":%zu}\n",
        test->stream ? "stream" : "latency", test->fresh ? "true" : "false", test->bytes, first,
        summary.min_us, summary.p50_us, samples->avg_us, summary.p99_us, summary.p999_us, summary.max_us,
        (double)test->bytes / 1e3 / (test->stream ? samples->avg_us : summary.p50_us), samples->count,
        samples->batch);
    fflush(stdout);
}

static void run(const char *text, bool is_client) {
    struct test test;
    struct samples samples;
    parse_test(text, &test);
    if (run_test(&test, is_client, &samples)) print_result(&test, &samples);
    free(samples.us);
}

static void run_controlled(const char *name, bool is_client, unsigned seconds_max) {
    char path[4096], line[64];
    int length = snprintf(path, sizeof path, "%s.%s", name, is_client ? "client" : "server");
    if (length < 0 || (size_t)length >= sizeof path) fail("the name of the control pipe is too long");
    FILE *control = fopen(path, "r");
    if (control == NULL) fail("cannot open the control pipe");
    for (;;) {
        alarm(0);
        bool more = fgets(line, sizeof line, control) != NULL;
        alarm(seconds_max);
        if (!more) break;
        run(line, is_client);
    }
    fclose(control);
}

int main(int argc, char **argv) {
    int client_core, server_core;
    unsigned seconds_max;
    bool is_client = transport_open(&argc, &argv);
    if (argc < 6 || strcmp(argv[1], "--cores") != 0 ||
        sscanf(argv[2], "%d,%d", &client_core, &server_core) != 2 || strcmp(argv[3], "--seconds-max") != 0 ||
        sscanf(argv[4], "%u", &seconds_max) != 1 || seconds_max == 0)
        fail("usage: --cores A,B --seconds-max N (--control NAME | TEST:BYTES:MESSAGES...)");
    // The kernel ends a process whose peer hangs.
    alarm(seconds_max);
    pin_to(is_client ? client_core : server_core);
    if (is_client) {
        char version[256];
        transport_version(version, sizeof version);
        printf("{\"event\":\"version\",\"version\":\"%s\"}\n", version);
        fflush(stdout);
    }
    if (argc == 7 && strcmp(argv[5], "--control") == 0)
        run_controlled(argv[6], is_client, seconds_max);
    else
        for (int i = 5; i < argc; i++)
            run(argv[i], is_client);
    transport_close();
    return 0;
}
