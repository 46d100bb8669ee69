// Two processes, for peers that bring no launcher: this one, the client, forks the other.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Forks. Gives whether this is the client. The forked process dies with the client.
bool pair_fork(void);

// A few bytes that both send, and both receive.
void pair_write(const void *from, size_t bytes);
void pair_read(void *to, size_t bytes);

// Both have come here.
void pair_meet(void);

// Waits for the other process's end, and ends with a failure if it had one. To be called last.
void pair_join(void);
