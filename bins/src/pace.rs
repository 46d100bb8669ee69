//! `--rate-limit`: a stream that is held back to a number of bytes a second.

use core::num::NonZeroU64;
use core::time::Duration;
use std::time::Instant;

/// A piece is what may go in this time, so that most waits are short.
const PIECES_PER_S: u64 = 20;
/// A source that was late by more than this does not catch up: that would be a burst.
const SLACK: Duration = Duration::from_millis(200);

/// The rate of one stream.
#[derive(Debug)]
pub struct Pace {
    bytes_per_s: NonZeroU64,
    begin: Instant,
    /// since then
    bytes: u64,
}

impl Pace {
    /// Begins now.
    #[must_use]
    pub fn new(bytes_per_s: NonZeroU64) -> Self {
        Self { bytes_per_s, begin: Instant::now(), bytes: 0 }
    }

    /// The most bytes that may go at once.
    #[must_use]
    pub fn piece(&self) -> usize {
        usize::try_from((self.bytes_per_s.get() / PIECES_PER_S).max(1)).unwrap_or(usize::MAX)
    }

    /// Returns the time to wait until the next piece may go, now that so many bytes more have gone.
    pub fn after(&mut self, moved: usize) -> Duration {
        self.note(moved, Instant::now())
    }

    /// The time to wait at `now`.
    fn note(&mut self, moved: usize, now: Instant) -> Duration {
        self.bytes += moved as u64;
        let ns = u128::from(self.bytes) * 1_000_000_000 / u128::from(self.bytes_per_s.get());
        let due = self.begin + Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX));
        if now.saturating_duration_since(due) > SLACK {
            (self.begin, self.bytes) = (now, 0);
        }
        due.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_has_its_time_and_what_is_late_does_not_catch_up() {
        let mut pace = Pace::new(NonZeroU64::new(1000).unwrap());
        assert_eq!(pace.piece(), 50);
        let begin = pace.begin;
        let at = |ms| begin + Duration::from_millis(ms);
        assert_eq!(pace.note(50, at(0)), Duration::from_millis(50));
        assert_eq!(pace.note(50, at(60)), Duration::from_millis(40));
        // late, and less so than counts
        assert_eq!(pace.note(50, at(250)), Duration::ZERO);
        assert_eq!(pace.note(100, at(250)), Duration::ZERO);
        assert_eq!(pace.note(10, at(250)), Duration::from_millis(10));
        // a pause of a second: the next piece takes its time again
        assert_eq!(pace.note(50, at(2000)), Duration::ZERO);
        assert_eq!(pace.note(50, at(2000)), Duration::from_millis(50));
        for (rate, piece) in [(1, 1), (20, 1), (u64::MAX, usize::MAX / 20)] {
            assert_eq!(Pace::new(NonZeroU64::new(rate).unwrap()).piece(), piece);
        }
    }
}
