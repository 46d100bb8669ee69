// Two processes, for peers that bring no launcher: this one, the client, forks the other.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Forks. Returns whether this is the client. The forked process dies with the client.
bool pair_fork(void);

// Exchanges a few bytes: both send, and both receive.
void pair_write(const void *from, size_t bytes);
void pair_read(void *to, size_t bytes);

// Returns when both processes have called it.
void pair_meet(void);

// Waits for the end of the other process, and fails if that failed. Must be called last.
void pair_join(void);
