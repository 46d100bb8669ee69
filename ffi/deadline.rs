//! Deadlines of calls that wait.

use core::time::Duration;
use std::time::Instant;

use crate::os::clock::{monotonic_ns, until};

/// Time at which a call gives up: after a duration, or at an instant.
///
/// A wait reads the clock after 128 rounds of spinning, after each yield, and every 64 rounds with work, so a message that arrives sooner
/// costs no clock read.
#[derive(Clone, Copy, Debug)]
pub enum Deadline {
    /// This long after the call first reads the clock.
    After(Duration),
    /// At this time.
    At(Instant),
}

impl From<Duration> for Deadline {
    fn from(duration: Duration) -> Self {
        Self::After(duration)
    }
}

impl From<Instant> for Deadline {
    fn from(at: Instant) -> Self {
        Self::At(at)
    }
}

/// A deadline during a call: the clock is read when it is first asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ArmedDeadline {
    Unarmed(Deadline),
    AtNs(u64),
}

impl ArmedDeadline {
    /// Returns the deadline in nanoseconds of the monotonic clock, whose time is `now_ns`.
    pub(crate) fn at_ns(&mut self, now_ns: u64) -> u64 {
        match *self {
            Self::AtNs(at) => at,
            Self::Unarmed(deadline) => {
                let left = match deadline {
                    Deadline::After(duration) => duration,
                    Deadline::At(at) => at.saturating_duration_since(Instant::now()),
                };
                let at = now_ns.saturating_add(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
                *self = Self::AtNs(at);
                at
            }
        }
    }
}

impl Deadline {
    /// Returns true if the call must not wait.
    #[inline]
    pub(crate) const fn is_poll(self) -> bool {
        matches!(self, Self::After(Duration::ZERO))
    }

    /// Returns the deadline in nanoseconds of the monotonic clock, counted from now.
    pub(crate) fn at_ns(self) -> u64 {
        ArmedDeadline::Unarmed(self).at_ns(monotonic_ns())
    }

    /// Makes a deadline of a time of the monotonic clock, in nanoseconds.
    pub(crate) fn at_time(at_ns: u64) -> Self {
        Self::After(Duration::from_nanos(until(at_ns)))
    }

    /// No deadline: only the peer's silence ([`Options::idle_timeout`](crate::Options::idle_timeout)) ends the wait.
    pub const NONE: Self = Self::After(Duration::MAX);
}
