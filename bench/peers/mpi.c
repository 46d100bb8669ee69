// The harness's transport over MPI: blocking calls one at a time, nonblocking ones in a window.
#include "common.h"
#include "transport.h"

#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int other;
static MPI_Request requests[WINDOW];

static int count_of(size_t bytes) {
    if (bytes > INT_MAX) fail("over 2 GiB in one message");
    return (int)bytes;
}

// The default error handler ends the job, so no result needs a check.
bool transport_open(int *argc, char ***argv) {
    int rank, ranks;
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2) fail("two processes are needed: mpirun -n 2");
    other = 1 - rank;
    return rank == 0;
}

void transport_prepare(size_t bytes_max) { (void)bytes_max; }

bool transport_copies(void) { return true; }

void transport_version(char *text, size_t bytes) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(version, &length);
    version[strcspn(version, "\n")] = '\0';
    snprintf(text, bytes, "%s", version);
}

void transport_send(const void *from, size_t bytes) {
    MPI_Send(from, count_of(bytes), MPI_BYTE, other, 0, MPI_COMM_WORLD);
}

void transport_recv(void *to, size_t bytes) {
    MPI_Recv(to, count_of(bytes), MPI_BYTE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

void transport_start_send(unsigned slot, const void *from, size_t bytes) {
    MPI_Isend(from, count_of(bytes), MPI_BYTE, other, 0, MPI_COMM_WORLD, &requests[slot]);
}

void transport_start_recv(unsigned slot, void *to, size_t bytes) {
    MPI_Irecv(to, count_of(bytes), MPI_BYTE, other, 0, MPI_COMM_WORLD, &requests[slot]);
}

void transport_finish(unsigned slot) { MPI_Wait(&requests[slot], MPI_STATUS_IGNORE); }

void transport_close(void) { MPI_Finalize(); }
