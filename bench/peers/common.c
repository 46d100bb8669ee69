#define _GNU_SOURCE
#include "common.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

void fail(const char *what) {
    fprintf(stderr, "error: %s\n", what);
    exit(1);
}

uint64_t now_ns(void) {
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) fail("no monotonic clock");
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void pin_to(int core) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    if (sched_setaffinity(0, sizeof cores, &cores) != 0) fail("cannot pin to the core asked for");
}

unsigned char *map_fresh(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail("cannot map a buffer");
    return memory;
}

unsigned char *map_resident(size_t bytes) {
    unsigned char *memory = map_fresh(bytes);
    memset(memory, 1, bytes);
    return memory;
}

void unmap(void *memory, size_t bytes) {
    if (munmap(memory, bytes) != 0) fail("cannot unmap a buffer");
}

static uint64_t pattern_word(uint64_t number, uint64_t index) {
    uint64_t mixed = (number + (index << 20)) * 0x9E3779B97F4A7C15u;
    return mixed ^ mixed >> 29;
}

void pattern_fill(uint64_t number, unsigned char *bytes, size_t count) {
    for (size_t at = 0; at < count; at += sizeof(uint64_t)) {
        uint64_t word = pattern_word(number, at);
        memcpy(bytes + at, &word, count - at < sizeof word ? count - at : sizeof word);
    }
}

void pattern_check(uint64_t number, const unsigned char *bytes, size_t count) {
    for (size_t at = 0; at < count; at += sizeof(uint64_t)) {
        uint64_t word = pattern_word(number, at);
        if (memcmp(bytes + at, &word, count - at < sizeof word ? count - at : sizeof word) != 0)
            fail("a message arrived with wrong contents");
    }
}

static int ascending(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

// Returns the sample that `permille` of 1000 don't exceed.
static double percentile(const double *sorted, size_t count, size_t permille) {
    size_t rank = (count * permille + 999) / 1000;
    return sorted[rank > 0 ? rank - 1 : 0];
}

struct summary summarize(double *samples_us, size_t count) {
    if (count == 0) fail("nothing was timed");
    qsort(samples_us, count, sizeof *samples_us, ascending);
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += samples_us[i];
    return (struct summary){
        .min_us = samples_us[0],
        .p50_us = percentile(samples_us, count, 500),
        .avg_us = sum / (double)count,
        .p99_us = percentile(samples_us, count, 990),
        .p999_us = percentile(samples_us, count, 999),
        .max_us = samples_us[count - 1],
    };
}
