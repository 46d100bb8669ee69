//! Doorbells: they wake sleepers of a shared CQ that no poller watches. Another one may read the channel, and then rings.

use crate::os::OsError;
use crate::os::epoll::Epoll;
use crate::os::poll::PollFd;
use crate::os::wakeup::Wakeup;
use std::os::fd::{AsFd, BorrowedFd};

/// One descriptor that is readable while the channel has an event, or after a ring.
#[derive(Debug)]
pub(super) struct Doorbell {
    set: Epoll,
    bell: Wakeup,
}

impl Doorbell {
    /// Makes one.
    ///
    /// # Errors
    /// Too many files are open.
    pub(super) fn new(channel: BorrowedFd<'_>) -> Result<Self, OsError> {
        let (set, bell) = (Epoll::new()?, Wakeup::new()?);
        set.watch_level(bell.as_fd())?;
        set.watch_level(channel)?;
        Ok(Self { set, bell })
    }

    /// Returns what others ring.
    pub(super) fn bell(&self) -> Wakeup {
        self.bell.clone()
    }

    /// Takes the rings.
    pub(super) fn quiet(&self) {
        self.bell.quiet();
    }

    pub(super) fn interest(&self) -> PollFd<'_> {
        PollFd::new(self.set.as_fd(), libc::POLLIN)
    }
}
