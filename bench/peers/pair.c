#include "pair.h"

#include "common.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t child;
static int socket_fd;

bool pair_fork(void) {
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) fail("cannot make a socket pair");
    pid_t parent = getpid();
    child = fork();
    if (child < 0) fail("cannot fork");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        // a parent that died before prctl sends no signal
        if (getppid() != parent) fail("the other process ended");
    }
    bool is_client = child != 0;
    socket_fd = sockets[is_client ? 0 : 1];
    close(sockets[is_client ? 1 : 0]);
    return is_client;
}

void pair_write(const void *from, size_t bytes) {
    if (send(socket_fd, from, bytes, MSG_NOSIGNAL) != (ssize_t)bytes) fail("the other process ended");
}

void pair_read(void *to, size_t bytes) {
    if (recv(socket_fd, to, bytes, MSG_WAITALL) != (ssize_t)bytes) fail("the other process ended");
}

void pair_meet(void) {
    char byte = 0;
    pair_write(&byte, 1);
    pair_read(&byte, 1);
}

void pair_join(void) {
    int status = 0;
    if (child != 0 && (waitpid(child, &status, 0) != child || status != 0)) fail("the other process failed");
}
