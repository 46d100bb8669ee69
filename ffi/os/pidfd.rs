//! A handle on a peer's process that a recycled pid cannot fool (pidfd_open(2)).

use super::poll::{PollFd, poll_now};
use core::ffi::c_int;
use core::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A process that can be watched until it ends.
#[derive(Debug)]
pub struct PidFd {
    fd: OwnedFd,
}

impl PidFd {
    /// The process at the other end of a connected unix socket. None where it is not visible from here (another pid
    /// namespace, an old kernel, a seccomp filter): then the socket's end of file is all there is.
    #[must_use]
    pub fn of_peer(socket: BorrowedFd<'_>, pid: libc::pid_t) -> Option<Self> {
        Self::by_socket(socket).or_else(|| Self::open(pid))
    }

    /// The process with this pid, which may have been recycled since it was learnt: prefer [`PidFd::of_peer`].
    #[must_use]
    pub fn open(pid: libc::pid_t) -> Option<Self> {
        if pid <= 0 {
            return None;
        }
        // SAFETY: pidfd_open takes two integers and touches no memory of ours.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        Self::own(c_int::try_from(fd).ok()?)
    }

    /// Whether the process has ended. Until it is reaped, its descriptors are closed all the same.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let mut fds = [self.interest()];
        poll_now(&mut fds) && fds[0].is_readable()
    }

    /// What to poll for: readable when the process has ended.
    #[must_use]
    pub fn interest(&self) -> PollFd<'_> {
        PollFd::new(self.fd.as_fd(), libc::POLLIN)
    }

    /// Linux 6.5 hands out the peer that connected, whatever has become of its pid.
    fn by_socket(socket: BorrowedFd<'_>) -> Option<Self> {
        const SO_PEERPIDFD: c_int = 77;
        let mut fd: c_int = -1;
        let mut fd_bytes = u32::try_from(size_of::<c_int>()).ok()?;
        // SAFETY: both pointers are to locals of the sizes that the call is told.
        let answer = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                SO_PEERPIDFD,
                (&raw mut fd).cast(),
                &raw mut fd_bytes,
            )
        };
        if answer == 0 { Self::own(fd) } else { None }
    }

    fn own(fd: c_int) -> Option<Self> {
        if fd < 0 {
            return None;
        }
        // SAFETY: the kernel has just made this descriptor for us, and nobody else knows its number.
        Some(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn sees_a_process_end() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let Some(pidfd) = PidFd::open(child.id().try_into().unwrap()) else {
            println!("no pidfd here");
            child.kill().unwrap();
            child.wait().unwrap();
            return;
        };
        assert!(!pidfd.has_ended());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(pidfd.has_ended());
    }

    #[test]
    fn a_pid_of_another_world_is_none() {
        assert!(PidFd::open(0).is_none());
        assert!(PidFd::open(-1).is_none());
        assert!(PidFd::open(libc::pid_t::MAX).is_none());
    }
}
