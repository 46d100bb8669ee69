//! The descriptors of one end, with a timer.

use std::os::fd::{AsFd, BorrowedFd};

use crate::os::OsError;
use crate::os::epoll::Epoll;
use crate::os::timer::Timer;

/// Number of the end's own descriptors, and of the timer.
pub(super) const END: u64 = 0;
const TIMER: u64 = u64::MAX;

/// A set of descriptors, which is ready when one of them became ready or a time has come.
#[derive(Debug)]
pub(super) struct TimedSet {
    pub(super) epoll: Epoll,
    timer: Timer,
}

impl TimedSet {
    /// Makes one that holds only its timer.
    ///
    /// # Errors
    /// Too many files are open.
    pub(super) fn new() -> Result<Self, OsError> {
        let (epoll, timer) = (Epoll::new()?, Timer::new()?);
        epoll.watch(timer.as_fd(), TIMER)?;
        Ok(Self { epoll, timer })
    }

    /// Takes what became ready. Returns true if that was more than the timer. To be called before the clock is read: the timer is to be set anew if its time came in between.
    pub(super) fn drain(&mut self) -> bool {
        let mut is_ready = false;
        for number in self.epoll.ready() {
            match number {
                TIMER => self.timer.note_expired(),
                _ => is_ready = true,
            }
        }
        is_ready
    }

    /// Makes the set ready at a time of the monotonic clock; `u64::MAX`: at none.
    pub(super) fn set_timer(&mut self, at_ns: u64, now_ns: u64) {
        self.timer.set(at_ns, now_ns);
    }
}

impl AsFd for TimedSet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::os::monotonic_ns;

    /// As if the clock were read before the drain, and the timer set by it.
    #[test]
    fn a_time_that_comes_before_the_drain_is_not_lost() {
        let mut set = TimedSet::new().unwrap();
        let now_ns = monotonic_ns();
        let at_ns = now_ns + 1_000_000;
        set.set_timer(at_ns, now_ns);
        // Here the thread is preempted.
        std::thread::sleep(Duration::from_millis(5));
        assert!(!set.drain(), "only the timer");
        set.set_timer(at_ns, now_ns);
        set.epoll.wait(200_000_000);
        assert!(!set.epoll.ready().is_empty(), "nothing wakes whoever waits for the set");
    }
}
