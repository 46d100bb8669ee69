//! A handle on a peer's process, which a recycled pid cannot confuse (pidfd_open(2)).

use super::poll::{PollFd, poll_now};
use core::ffi::c_int;
use core::mem::size_of;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A process that can be watched until it ends.
#[derive(Debug)]
pub struct PidFd {
    fd: OwnedFd,
}

impl PidFd {
    /// Opens the process at the other end of a connected unix socket. None if it is not visible from here (another pid
    /// namespace, an old kernel, a seccomp filter): then only the socket's end of file tells that the peer is gone.
    #[must_use]
    pub fn of_peer(socket: BorrowedFd<'_>, pid: libc::pid_t) -> Option<Self> {
        Self::by_socket(socket).or_else(|| Self::open(pid))
    }

    /// Opens the process with this pid, which may have been recycled since it was learnt: prefer [`PidFd::of_peer`].
    #[must_use]
    pub fn open(pid: libc::pid_t) -> Option<Self> {
        // `from_raw` takes no negative number.
        let pid = Pid::from_raw(pid.max(0))?;
        Some(Self { fd: pidfd_open(pid, PidfdFlags::empty()).ok()? })
    }

    /// Returns true if the process has ended. Its descriptors are closed then, even if it was not reaped.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let mut fds = [self.interest()];
        poll_now(&mut fds) && fds[0].is_readable()
    }

    /// Descriptor that is readable once the process has ended.
    #[must_use]
    pub fn interest(&self) -> PollFd<'_> {
        PollFd::new(self.fd.as_fd(), libc::POLLIN)
    }

    /// Asks for the peer that connected, even if its pid was recycled (Linux 6.5).
    fn by_socket(socket: BorrowedFd<'_>) -> Option<Self> {
        // rustix has no such option.
        const SO_PEERPIDFD: c_int = 77;
        let mut fd: c_int = -1;
        let mut fd_bytes = u32::try_from(size_of::<c_int>()).ok()?;
        // SAFETY: both pointers are to locals of the sizes that the call gets.
        let refused = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                SO_PEERPIDFD,
                (&raw mut fd).cast(),
                &raw mut fd_bytes,
            )
        };
        if refused != 0 || fd < 0 {
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
    fn the_end_of_a_process_is_seen() {
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
    fn a_pid_without_a_process_is_none() {
        assert!(PidFd::open(0).is_none());
        assert!(PidFd::open(-1).is_none());
        assert!(PidFd::open(libc::pid_t::MAX).is_none());
    }
}
