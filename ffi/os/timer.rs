//! A timer with a descriptor (timerfd_create(2)), for a set of descriptors that somebody waits for.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use super::OsError;

const NS_PER_S: u64 = 1_000_000_000;

/// A timer whose descriptor becomes ready at a time of the monotonic clock.
#[derive(Debug)]
pub struct Timer {
    fd: OwnedFd,
    /// Time that it is set to, or was; `u64::MAX`: none.
    at_ns: u64,
}

impl Timer {
    /// Makes one that is not set.
    ///
    /// # Errors
    /// Too many files are open.
    pub fn new() -> Result<Self, OsError> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)
            .map_err(|errno| OsError::of(errno, "cannot make a timer (timerfd)"))?;
        Ok(Self { fd, at_ns: u64::MAX })
    }

    /// Notes that its time has come, and that somebody has seen that.
    pub const fn note_expired(&mut self) {
        self.at_ns = u64::MAX;
    }

    /// Sets it to a time of the monotonic clock; `u64::MAX`: to none. Makes no system call if it is set to that time, which has not come.
    pub fn set(&mut self, at_ns: u64, now_ns: u64) {
        if at_ns == self.at_ns && (at_ns > now_ns || at_ns == u64::MAX) {
            return;
        }
        // A time of zero would unset it.
        let it_value = if at_ns == u64::MAX { Timespec::default() } else { timespec(at_ns.max(1)) };
        let time = Itimerspec { it_interval: Timespec::default(), it_value };
        // Only a bad descriptor or time can fail.
        let _ = timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &time);
        self.at_ns = at_ns;
    }
}

fn timespec(ns: u64) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(ns / NS_PER_S).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(ns % NS_PER_S).unwrap_or_default(),
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::epoll::Epoll;
    use crate::os::monotonic_ns;

    #[test]
    fn a_timer_ends_a_wait_at_its_time_and_once() {
        let (epoll, mut timer) = (Epoll::new().unwrap(), Timer::new().unwrap());
        epoll.watch(timer.as_fd(), 3).unwrap();
        let now_ns = monotonic_ns();
        for at_ns in [now_ns + 5_000_000, now_ns, 0] {
            timer.set(at_ns, now_ns);
            epoll.wait(60_000_000_000);
            assert!(monotonic_ns() >= at_ns);
            assert_eq!(epoll.ready()[..], [3]);
            assert!(epoll.ready().is_empty());
        }
        // The same time again: it has come, so it comes at once.
        timer.set(0, monotonic_ns());
        assert_eq!(epoll.ready()[..], [3]);
        timer.set(monotonic_ns() + 1_000_000, 0);
        timer.set(u64::MAX, 0);
        epoll.wait(3_000_000);
        assert!(epoll.ready().is_empty(), "it was taken back");
    }
}
