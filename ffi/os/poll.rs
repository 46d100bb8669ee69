//! Waits for descriptors (ppoll(2)), with timeouts in nanoseconds and a result of its own for signals.
//!
//! By libc: in rustix an entry cannot be empty, nor outlive the borrow of its descriptor.

use super::error::{OsError, last_errno};
use core::ffi::c_short;
use core::marker::PhantomData;
use core::ptr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A descriptor, the events to wait for, and after a poll those that occurred.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct PollFd<'fd> {
    raw: libc::pollfd,
    fd: PhantomData<BorrowedFd<'fd>>,
}

/// Result of a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Polled {
    /// At least one descriptor is ready.
    Ready,
    /// The timeout expired.
    TimedOut,
    /// A signal handler ran.
    Interrupted,
}

impl<'fd> PollFd<'fd> {
    /// Waits for `events` (POLLIN, POLLRDHUP, ..); hang-up and error are always reported.
    #[must_use]
    pub fn new(fd: BorrowedFd<'fd>, events: c_short) -> Self {
        Self { raw: libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 }, fd: PhantomData }
    }

    /// Makes an empty entry, which waits for nothing.
    #[must_use]
    pub fn none() -> Self {
        Self { raw: libc::pollfd { fd: -1, events: 0, revents: 0 }, fd: PhantomData }
    }

    /// Returns true if the entry is empty.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.raw.fd < 0
    }

    /// Returns the descriptor. `None` for an empty entry.
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'fd>> {
        // SAFETY: the entry was made of a descriptor that is borrowed as long as the result.
        (self.raw.fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(self.raw.fd) })
    }

    /// Drops the borrow of the descriptor.
    ///
    /// # Safety
    /// The descriptor stays open for as long as the result is used.
    #[must_use]
    pub const unsafe fn without_borrow(self) -> PollFd<'static> {
        PollFd { raw: self.raw, fd: PhantomData }
    }

    /// Returns true if any event occurred.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.raw.revents != 0
    }

    /// Returns true if there is something to read.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.raw.revents & libc::POLLIN != 0
    }

    /// Returns true if the other end is closed, or the descriptor is in error.
    #[must_use]
    pub fn is_hung_up(&self) -> bool {
        self.raw.revents & (libc::POLLHUP | libc::POLLRDHUP | libc::POLLERR | libc::POLLNVAL) != 0
    }
}

/// Waits until a descriptor is ready, `timeout_ns` has passed or a signal arrives.
///
/// # Errors
/// The kernel lacks memory, the only failure with borrowed descriptors.
pub fn poll(fds: &mut [PollFd<'_>], timeout_ns: u64) -> Result<Polled, OsError> {
    let timeout = timespec(timeout_ns);
    let count = libc::nfds_t::try_from(fds.len()).unwrap_or(libc::nfds_t::MAX);
    // SAFETY: PollFd is a transparent pollfd, `count` is the slice's length, and the timespec outlives the call.
    let ready = unsafe { libc::ppoll(fds.as_mut_ptr().cast(), count, &raw const timeout, ptr::null()) };
    match ready {
        0 => Ok(Polled::TimedOut),
        1.. => Ok(Polled::Ready),
        _ if last_errno() == libc::EINTR => Ok(Polled::Interrupted),
        _ => Err(OsError::last("cannot poll")),
    }
}

/// Polls without waiting. Returns true if any descriptor is ready, and false if the poll fails.
pub fn poll_now(fds: &mut [PollFd<'_>]) -> bool {
    loop {
        match poll(fds, 0) {
            Ok(Polled::Interrupted) => {}
            polled => return polled == Ok(Polled::Ready),
        }
    }
}

fn timespec(ns: u64) -> libc::timespec {
    let seconds = i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX);
    let rest = i64::try_from(ns % 1_000_000_000).unwrap_or(0);
    libc::timespec { tv_sec: seconds, tv_nsec: rest }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Write, pipe};
    use std::os::fd::AsFd;

    #[test]
    fn ready_timed_out_and_hung_up_are_distinguished() {
        let (reader, mut writer) = pipe().unwrap();
        let mut fds = [PollFd::none(), PollFd::new(reader.as_fd(), libc::POLLIN)];
        assert_eq!(poll(&mut fds, 1).unwrap(), Polled::TimedOut);
        assert!(!fds[1].is_readable());
        writer.write_all(b"x").unwrap();
        assert_eq!(poll(&mut fds, u64::MAX).unwrap(), Polled::Ready);
        assert!(fds[1].is_readable() && !fds[1].is_hung_up() && !fds[0].is_readable());
        drop(writer);
        assert!(poll_now(&mut fds));
        assert!(fds[1].is_readable() && fds[1].is_hung_up());
    }

    #[test]
    fn nanoseconds_become_a_timespec() {
        let spec = timespec(2_000_000_003);
        assert_eq!((spec.tv_sec, spec.tv_nsec), (2, 3));
        let spec = timespec(u64::MAX);
        assert_eq!((spec.tv_sec, spec.tv_nsec), (18_446_744_073, 709_551_615));
    }
}
