//! Waiting for descriptors (ppoll(2)), with timeouts in nanoseconds and signals told apart.

use super::error::{OsError, last_errno};
use core::ffi::c_short;
use core::marker::PhantomData;
use core::ptr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// One descriptor, what is waited for, and after a poll what happened.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct PollFd<'fd> {
    raw: libc::pollfd,
    fd: PhantomData<BorrowedFd<'fd>>,
}

/// Why a poll came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Polled {
    /// At least one descriptor has something to say.
    Ready,
    /// The time went by.
    TimedOut,
    /// A signal handler ran.
    Interrupted,
}

impl<'fd> PollFd<'fd> {
    /// Waits for `events` (POLLIN, POLLRDHUP, ..); hang-up and error are always told.
    #[must_use]
    pub fn new(fd: BorrowedFd<'fd>, events: c_short) -> Self {
        Self { raw: libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 }, fd: PhantomData }
    }

    /// A place in an array that waits for nothing.
    #[must_use]
    pub fn none() -> Self {
        Self { raw: libc::pollfd { fd: -1, events: 0, revents: 0 }, fd: PhantomData }
    }

    /// Returns true if it waits for nothing.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.raw.fd < 0
    }

    /// The same without the borrow of its descriptor.
    ///
    /// # Safety
    /// The descriptor stays open for as long as the result is used.
    #[must_use]
    pub const unsafe fn without_borrow(self) -> PollFd<'static> {
        PollFd { raw: self.raw, fd: PhantomData }
    }

    /// Whether anything happened.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.raw.revents != 0
    }

    /// Whether there is something to read.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.raw.revents & libc::POLLIN != 0
    }

    /// Whether the other end is closed, or the descriptor is in error.
    #[must_use]
    pub fn is_hung_up(&self) -> bool {
        self.raw.revents & (libc::POLLHUP | libc::POLLRDHUP | libc::POLLERR | libc::POLLNVAL) != 0
    }
}

/// Waits until a descriptor is ready, `timeout_ns` went by or a signal arrived.
///
/// # Errors
/// Where the kernel lacks memory; nothing else can be wrong with borrowed descriptors.
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

/// Looks without waiting: whether any descriptor is ready. A failed look saw nothing.
pub fn poll_now(fds: &mut [PollFd<'_>]) -> bool {
    loop {
        match poll(fds, 0) {
            Ok(Polled::Interrupted) => {}
            looked => return looked == Ok(Polled::Ready),
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
    fn tells_ready_from_time_and_from_hang_up() {
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
