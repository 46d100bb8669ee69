//! What wakes a sleeper of a shared CQ that no poller watches: the channel, or whoever has read the event of the channel.

use crate::os::OsError;
use crate::os::epoll::Epoll;
use crate::os::poll::PollFd;
use crate::os::wakeup::Wakeup;
use std::os::fd::{AsFd, BorrowedFd};

/// One descriptor that is readable while the channel has an event, or after a wake-up by others.
#[derive(Debug)]
pub(super) struct SharedWakeup {
    set: Epoll,
    wakeup: Wakeup,
}

impl SharedWakeup {
    /// Makes one.
    ///
    /// # Errors
    /// Too many files are open.
    pub(super) fn new(channel: BorrowedFd<'_>) -> Result<Self, OsError> {
        let (set, wakeup) = (Epoll::new()?, Wakeup::new()?);
        set.watch_level(wakeup.as_fd())?;
        set.watch_level(channel)?;
        Ok(Self { set, wakeup })
    }

    /// Returns what others wake it by.
    pub(super) fn wakeup(&self) -> Wakeup {
        self.wakeup.clone()
    }

    /// Takes their wake-ups.
    pub(super) fn quiet(&self) {
        self.wakeup.quiet();
    }

    pub(super) fn interest(&self) -> PollFd<'_> {
        PollFd::new(self.set.as_fd(), libc::POLLIN)
    }
}
