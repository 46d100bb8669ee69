// The interface of a peer: two processes, and messages between them that arrive in order.
//
// A transport that fails prints the cause to standard error and ends the process.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Messages that may be on their way at once in streaming, as in users' programs and in the usual bandwidth
// tests.
enum { WINDOW = 64 };

// Connects the two processes. Returns whether this one is the client.
bool transport_open(int *argc, char ***argv);

// Prepares for messages of up to `bytes_max` bytes, until the next call. Both processes call it at the same
// time.
void transport_prepare(size_t bytes_max);

// Returns whether a message's bytes move from buffer to buffer. A transport that passes a reference has
// nothing to check.
bool transport_copies(void);

// Writes the library and its version, as the library names it, to one line of the caller's.
void transport_version(char *text, size_t bytes);

// One message at a time.
void transport_send(const void *from, size_t bytes);
void transport_recv(void *to, size_t bytes);

// Messages that overlap: each in one of WINDOW slots, which must be finished before it is used again.
void transport_start_send(unsigned slot, const void *from, size_t bytes);
void transport_start_recv(unsigned slot, void *to, size_t bytes);
void transport_finish(unsigned slot);

void transport_close(void);
