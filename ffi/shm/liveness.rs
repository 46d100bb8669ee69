//! Whether the peer still is: by the socket, which the kernel closes for whoever dies, and by its process where visible.

use super::socket::Socket;
use crate::os::PidFd;
use crate::os::poll::{PollFd, poll_now};
use std::os::fd::AsFd;

/// What is known of the peer's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Its end of the socket is open, and its process runs as far as can be seen.
    Alive,
    /// It closed its end, or its process ended. What it wrote before is still there to be read.
    Gone,
}

/// Watches the peer of one socket.
#[derive(Debug)]
pub struct Liveness {
    pidfd: Option<PidFd>,
}

impl Liveness {
    /// Watches who is at the other end of `socket` now; by the socket alone where their process is not visible.
    #[must_use]
    pub fn of_peer(socket: &Socket) -> Self {
        let pid = socket.peer_cred().map_or(0, |cred| cred.pid);
        Self { pidfd: PidFd::of_peer(socket.as_fd(), pid) }
    }

    /// Watches by the socket alone.
    #[must_use]
    pub const fn of_socket() -> Self {
        Self { pidfd: None }
    }

    /// Whether the peer's process is watched, too.
    #[must_use]
    pub fn sees_process(&self) -> bool {
        self.pidfd.is_some()
    }

    /// Looks without waiting; one system call. Takes nothing out of the socket.
    #[must_use]
    pub fn check(&self, socket: &Socket) -> Life {
        let mut fds = self.interests(socket);
        if poll_now(&mut fds) { Self::told_by(&fds) } else { Life::Alive }
    }

    /// What to poll for: the socket, then the process.
    pub(super) fn interests<'fd>(&'fd self, socket: &'fd Socket) -> [PollFd<'fd>; 2] {
        [socket.interest(), self.pidfd.as_ref().map_or(PollFd::none(), PidFd::interest)]
    }

    /// What a poll of [`Liveness::interests`] found.
    pub(super) fn told_by([socket, process]: &[PollFd<'_>; 2]) -> Life {
        if socket.is_hung_up() || process.is_readable() { Life::Gone } else { Life::Alive }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_end_is_alive_and_a_closed_one_is_gone() {
        let (a, b) = Socket::pair().unwrap();
        let liveness = Liveness::of_peer(&a);
        assert_eq!(liveness.check(&a), Life::Alive);
        b.send(b"unread", None).unwrap();
        assert_eq!(liveness.check(&a), Life::Alive);
        drop(b);
        assert_eq!(liveness.check(&a), Life::Gone);
        let mut buf = [0; 8];
        assert_eq!(a.receive(&mut buf, 0).unwrap().bytes, 6);
        assert_eq!(liveness.check(&a), Life::Gone);
    }
}
