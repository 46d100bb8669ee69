// Shared parts of the tests: the clock, buffers, contents that identify a message, and statistics.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Ends the process with a message.
_Noreturn void fail(const char *what);

// Nanoseconds since an arbitrary start. A call costs about 22 ns: it is made once a batch of small messages.
uint64_t now_ns(void);

// Pins the calling thread.
void pin_to(int core);

// Memory that was never used, and of which no page is resident.
unsigned char *map_fresh(size_t bytes);
// The same, made resident.
unsigned char *map_resident(size_t bytes);
void unmap(void *memory, size_t bytes);

// Contents that identify message `number` at every place.
void pattern_fill(uint64_t number, unsigned char *bytes, size_t count);
// Ends the process if a byte is not message `number`'s.
void pattern_check(uint64_t number, const unsigned char *bytes, size_t count);

// Microseconds a message, of many samples.
struct summary {
    double min_us, p50_us, avg_us, p99_us, p999_us, max_us;
};
// Sorts the samples.
struct summary summarize(double *samples_us, size_t count);
