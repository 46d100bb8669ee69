#include "tests.h"

#include "common.h"
#include "transport.h"

#include <stdlib.h>
#include <string.h>

// The shortest time of a batch of messages that are timed together: many times a reading of the clock.
static const double BATCH_NS = 20000;
// Bytes of fresh buffers that may be mapped at a time, and their number.
enum { FRESH_BYTES_MAX = 64 << 20, FRESH_MAX = 64, FRESH_MIN = 2 };

static size_t batch_of(const struct test *test) {
    double guess_ns = 100 + (double)test->bytes / 10;
    size_t batch = (size_t)(BATCH_NS / guess_ns) + 1;
    return batch < test->messages ? batch : test->messages;
}

// Both are here.
static void meet(bool is_client) {
    char byte = 0;
    if (is_client) {
        transport_send(&byte, 1);
        transport_recv(&byte, 1);
    } else {
        transport_recv(&byte, 1);
        transport_send(&byte, 1);
    }
}

static void ping_pong(bool is_client, const unsigned char *from, unsigned char *to, size_t bytes) {
    if (is_client) {
        transport_send(from, bytes);
        transport_recv(to, bytes);
    } else {
        transport_recv(to, bytes);
        transport_send(from, bytes);
    }
}

static void check_contents(bool is_client, unsigned char *from, unsigned char *to, size_t bytes) {
    for (uint64_t number = 1; number <= 2; number++) {
        uint64_t own = is_client ? number : number + 100, others = is_client ? number + 100 : number;
        pattern_fill(own, from, bytes);
        memset(to, 0, bytes);
        ping_pong(is_client, from, to, bytes);
        pattern_check(others, to, bytes);
    }
}

static void time_latency(const struct test *test, bool is_client, unsigned char *from, unsigned char *to,
                         struct samples *samples) {
    size_t batch = batch_of(test);
    for (size_t i = 0; i < test->messages / 10 + 1; i++)
        ping_pong(is_client, from, to, test->bytes);
    samples->batch = batch;
    uint64_t begin = now_ns(), start = begin;
    for (size_t done = 0; done + batch <= test->messages; done += batch) {
        for (size_t i = 0; i < batch; i++)
            ping_pong(is_client, from, to, test->bytes);
        uint64_t end = now_ns();
        samples->us[samples->count++] = (double)(end - start) / 2e3 / (double)batch;
        start = end;
    }
    samples->avg_us = (double)(start - begin) / 2e3 / (double)(batch * samples->count);
}

static void send_stream(size_t messages, const unsigned char *from, size_t stride, size_t bytes) {
    for (size_t i = 0; i < messages; i++) {
        if (i >= WINDOW) transport_finish(i % WINDOW);
        transport_start_send(i % WINDOW, from + i * stride, bytes);
    }
    for (size_t i = messages < WINDOW ? 0 : messages - WINDOW; i < messages; i++)
        transport_finish(i % WINDOW);
}

// Receives a stream, and returns its microseconds, from now to the end of its last message: several large
// messages may end at about the same time, so the end of the first one shows little. Samples, where there is
// room for them, are of `batch` messages each.
static double receive_stream(size_t messages, unsigned char *to, size_t stride, size_t bytes,
                             struct samples *samples) {
    uint64_t begin = now_ns(), start = begin, end = begin;
    for (size_t i = 0; i < messages && i < WINDOW; i++)
        transport_start_recv(i % WINDOW, to + i * stride, bytes);
    for (size_t i = 0; i < messages; i++) {
        transport_finish(i % WINDOW);
        size_t next = i + WINDOW;
        if (next < messages) transport_start_recv(next % WINDOW, to + next * stride, bytes);
        if ((i + 1) % samples->batch != 0) continue;
        end = now_ns();
        samples->us[samples->count++] = (double)(end - start) / 1e3 / (double)samples->batch;
        start = end;
    }
    return (double)(end - begin) / 1e3;
}

// Every message from the same buffer, and into the same one, as the usual bandwidth tests have it.
static void time_stream(const struct test *test, bool is_client, unsigned char *from, unsigned char *to,
                        struct samples *samples) {
    size_t bytes = test->bytes, batch = batch_of(test), warm_up = (test->messages / 10 / batch + 1) * batch;
    size_t messages = test->messages / batch * batch;
    pattern_fill(7, from, bytes);
    memset(to, 0, bytes);
    samples->batch = batch;
    meet(is_client);
    if (is_client) {
        send_stream(warm_up, from, 0, bytes);
        meet(is_client);
        send_stream(messages, from, 0, bytes);
    } else {
        receive_stream(warm_up, to, 0, bytes, samples);
        samples->count = 0;
        meet(is_client);
        samples->avg_us = receive_stream(messages, to, 0, bytes, samples) / (double)messages;
        if (transport_copies()) pattern_check(7, to, bytes);
    }
    meet(is_client);
}

static size_t fresh_count(const struct test *test) {
    size_t count = FRESH_BYTES_MAX / test->bytes;
    if (count > FRESH_MAX) count = FRESH_MAX;
    if (count < FRESH_MIN) count = FRESH_MIN;
    return count;
}

static double time_ping_pongs(bool is_client, size_t count, unsigned char *from, unsigned char *to,
                              size_t bytes, struct samples *samples) {
    double sum_us = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t start = now_ns();
        ping_pong(is_client, from + i * bytes, to + i * bytes, bytes);
        double us = (double)(now_ns() - start) / 2e3;
        samples->us[samples->count++] = us;
        sum_us += us;
    }
    return sum_us;
}

// Measures with buffers that were never used, at both ends, for each message, made before the time is measured.
// The sender's were written, as real data is; no page of the receiver's is resident.
static void time_fresh(const struct test *test, bool is_client, struct samples *samples) {
    size_t bytes = test->bytes, count = fresh_count(test), messages = 0;
    double sum_us = 0;
    samples->batch = 1;
    for (; messages < test->messages; messages += count) {
        unsigned char *from = map_resident(count * bytes), *to = map_fresh(count * bytes);
        meet(is_client);
        if (!test->stream)
            sum_us += time_ping_pongs(is_client, count, from, to, bytes, samples);
        else if (is_client)
            send_stream(count, from, bytes, bytes);
        else
            sum_us += receive_stream(count, to, bytes, bytes, samples);
        meet(is_client);
        unmap(from, count * bytes);
        unmap(to, count * bytes);
    }
    samples->avg_us = sum_us / (double)messages;
}

bool run_test(const struct test *test, bool is_client, struct samples *samples) {
    size_t bytes = test->bytes;
    unsigned char *from = map_resident(bytes), *to = map_resident(bytes);
    // a round of fresh buffers more than was asked for, or the warm-up
    size_t room = test->messages + FRESH_MAX;
    *samples = (struct samples){.us = calloc(room, sizeof *samples->us)};
    if (samples->us == NULL) fail("no memory for samples");
    // resident before anything is timed
    memset(samples->us, 1, room * sizeof *samples->us);
    transport_prepare(bytes);
    meet(is_client);
    uint64_t start = now_ns();
    ping_pong(is_client, from, to, bytes);
    samples->first_us = (double)(now_ns() - start) / 2e3;
    if (transport_copies()) check_contents(is_client, from, to, bytes);
    if (test->fresh)
        time_fresh(test, is_client, samples);
    else if (test->stream)
        time_stream(test, is_client, from, to, samples);
    else
        time_latency(test, is_client, from, to, samples);
    unmap(from, bytes);
    unmap(to, bytes);
    return is_client != test->stream;
}
