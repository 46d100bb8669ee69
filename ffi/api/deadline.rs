//! Deadlines. A wait looks at the clock after 128 rounds of spinning or after a yield, and every 64 rounds with work. A message that is
//! there before that costs no look.

use core::time::Duration;
use std::time::Instant;

use crate::os::clock::{monotonic_ns, until};

/// Time to give up: after a duration without success, or at an instant.
#[derive(Clone, Copy, Debug)]
pub enum Deadline {
    /// This long after the first look at the clock.
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

/// A deadline during one wait.
#[derive(Clone, Copy, Debug)]
pub(super) enum Armed {
    Not(Deadline),
    AtNs(u64),
}

impl Armed {
    /// The deadline in nanoseconds of the monotonic clock, `now_ns` being its time now.
    pub(super) fn at_ns(&mut self, now_ns: u64) -> u64 {
        match *self {
            Self::AtNs(at) => at,
            Self::Not(deadline) => {
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
    /// Returns true if nothing is to be waited for.
    #[inline]
    pub(super) const fn is_poll(self) -> bool {
        matches!(self, Self::After(Duration::ZERO))
    }

    /// In nanoseconds of the monotonic clock, from now on.
    pub(super) fn at_ns(self) -> u64 {
        Armed::Not(self).at_ns(monotonic_ns())
    }

    /// A time of the monotonic clock, in nanoseconds.
    pub(super) fn at_time(at_ns: u64) -> Self {
        Self::After(Duration::from_nanos(until(at_ns)))
    }

    /// For a wait that the peer's silence alone bounds.
    pub const NONE: Self = Self::After(Duration::MAX);
}
