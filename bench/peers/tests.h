// The four tests. Both processes run the same one at the same time; one of them measures.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct test {
    bool stream, fresh;
    size_t bytes, messages;
};

// The samples of a test, in microseconds a message: of half a round trip, or of the time from one message's
// end to the next one's at the receiver.
struct samples {
    double *us;
    size_t count;
    // messages whose average is one sample
    size_t batch;
    // the first message of this size: the first one timed in ping-pong, alone
    double first_us;
    // over all that was timed
    double avg_us;
};

// Checks the contents both ways, then times. Gives whether this process measured: the client in ping-pong,
// the receiver in streaming. The samples are the caller's to free.
bool run_test(const struct test *test, bool is_client, struct samples *samples);
