//! A set of descriptors of which the kernel reports those that became ready (epoll(7), edge-triggered): the cost of asking does not grow with their number.

use core::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;

use super::OsError;
use super::poll::{PollFd, poll};

/// Descriptors reported by one call.
const READY_MAX: usize = 64;

/// A set of descriptors, each with a number that its owner gave it.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

impl Epoll {
    /// Makes an empty set.
    ///
    /// # Errors
    /// Too many files are open.
    pub fn new() -> Result<Self, OsError> {
        let fd = epoll::create(CreateFlags::CLOEXEC)
            .map_err(|errno| OsError::of(errno, "cannot make a set of descriptors (epoll)"))?;
        Ok(Self(fd))
    }

    /// Reports `number` from now on whenever this descriptor becomes ready to read, or its other end is closed. One that is in the set already gets the number. A descriptor that is
    /// closed leaves the set, unless a child of fork keeps it open.
    ///
    /// # Errors
    /// The system has no memory or no watches left (/proc/sys/fs/epoll/max_user_watches).
    pub fn watch(&self, fd: BorrowedFd<'_>, number: u64) -> Result<(), OsError> {
        self.add(fd, number, EventFlags::IN | EventFlags::RDHUP | EventFlags::ET)
    }

    /// Makes the descriptor of the set ready for as long as this descriptor is.
    ///
    /// # Errors
    /// As [`watch`](Self::watch).
    #[cfg(feature = "verbs")]
    pub(crate) fn watch_level(&self, fd: BorrowedFd<'_>) -> Result<(), OsError> {
        self.add(fd, 0, EventFlags::IN)
    }

    fn add(&self, fd: BorrowedFd<'_>, number: u64, flags: EventFlags) -> Result<(), OsError> {
        let data = EventData::new_u64(number);
        let added = match epoll::add(&self.0, fd, data, flags) {
            Err(Errno::EXIST) => epoll::modify(&self.0, fd, data, flags),
            added => added,
        };
        added.map_err(|errno| OsError::of(errno, "cannot watch a descriptor (epoll)"))
    }

    /// Takes a descriptor out of the set, if it is there.
    pub fn forget(&self, fd: BorrowedFd<'_>) {
        let _ = epoll::delete(&self.0, fd);
    }

    /// Returns numbers of descriptors that became ready, without waiting. A call returns 64 at most, and with that many the next one may return others.
    pub fn ready(&self) -> heapless::Vec<u64, READY_MAX> {
        let mut events = [const { MaybeUninit::uninit() }; READY_MAX];
        let zero = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(&self.0, &mut events[..], Some(&zero)) {
            Ok((ready, _)) => ready.iter().map(|event| event.data.u64()).collect(),
            // A signal: the next call returns them.
            Err(_) => heapless::Vec::new(),
        }
    }

    /// Waits until a descriptor became ready, a signal arrives, or the time has passed.
    pub fn wait(&self, timeout_ns: u64) {
        // What fails here returns at once, and the caller looks.
        let _ = poll(&mut [PollFd::new(self.0.as_fd(), libc::POLLIN)], timeout_ns);
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Write, pipe};

    #[test]
    fn what_became_ready_is_reported_once() {
        let epoll = Epoll::new().unwrap();
        let (reader, mut writer) = pipe().unwrap();
        epoll.watch(reader.as_fd(), 7).unwrap();
        assert!(epoll.ready().is_empty());
        writer.write_all(b"x").unwrap();
        epoll.wait(u64::MAX);
        assert_eq!(epoll.ready()[..], [7]);
        assert!(epoll.ready().is_empty());
        epoll.watch(reader.as_fd(), 8).unwrap();
        assert_eq!(epoll.ready()[..], [8], "what is ready when it comes is reported");
        writer.write_all(b"x").unwrap();
        epoll.forget(reader.as_fd());
        assert!(epoll.ready().is_empty());
        epoll.watch(reader.as_fd(), 9).unwrap();
        drop(writer);
        assert_eq!(epoll.ready()[..], [9], "once, though data and the end came");
        drop(reader);
        epoll.wait(1);
        assert!(epoll.ready().is_empty());
    }
}
