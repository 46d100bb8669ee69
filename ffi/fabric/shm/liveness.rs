//! Liveness of the peer: by the socket, which the kernel closes when a process dies, and by the process if it is visible.

use super::socket::Socket;
use crate::os::PidFd;
use crate::os::poll::{PollFd, poll_now};
use std::os::fd::AsFd;

/// Watches the peer of a socket.
#[derive(Debug)]
pub struct Liveness {
    pidfd: Option<PidFd>,
}

impl Liveness {
    /// Watches the process that is at the other end of `socket` now; by the socket alone if that process is not visible.
    #[must_use]
    pub fn of_peer(socket: &Socket) -> Self {
        let pid = socket.peer_cred().map_or(0, |cred| cred.pid);
        Self { pidfd: PidFd::of_peer(socket.as_fd(), pid.cast_signed()) }
    }

    /// Watches by the socket alone.
    #[must_use]
    pub const fn of_socket() -> Self {
        Self { pidfd: None }
    }

    /// Returns true if the peer's process is watched, too.
    #[must_use]
    pub fn sees_process(&self) -> bool {
        self.pidfd.is_some()
    }

    /// Returns false if the peer closed its end, or its process ended. What it wrote before can still be read. Makes one system
    /// call, which does not wait and takes nothing out of the socket.
    #[must_use]
    pub fn is_alive(&self, socket: &Socket) -> bool {
        let mut fds = self.interests(socket);
        !(poll_now(&mut fds) && Self::is_gone(&fds))
    }

    /// Descriptors to poll: the socket, then the process.
    pub(super) fn interests<'fd>(&'fd self, socket: &'fd Socket) -> [PollFd<'fd>; 2] {
        [socket.interest(), self.pidfd.as_ref().map_or(PollFd::none(), PidFd::interest)]
    }

    /// Returns true if a poll of [`Liveness::interests`] found that the peer is gone.
    pub(super) fn is_gone([socket, process]: &[PollFd<'_>; 2]) -> bool {
        socket.is_hung_up() || process.is_readable()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_end_is_alive_and_a_closed_one_is_gone() {
        let (a, b) = Socket::pair().unwrap();
        let liveness = Liveness::of_peer(&a);
        assert!(liveness.is_alive(&a));
        b.send(b"unread", None).unwrap();
        assert!(liveness.is_alive(&a));
        drop(b);
        assert!(!liveness.is_alive(&a));
        let mut buf = [0; 8];
        assert_eq!(a.receive(&mut buf, 0).unwrap().bytes, 6);
        assert!(!liveness.is_alive(&a));
    }
}
