//! `--rate-limit`: limits a stream to a number of bytes per second.

use core::num::NonZeroU64;
use core::time::Duration;
use std::time::Instant;

/// Pieces per second at the limit: a piece takes 50 ms, so that most waits are short.
const PIECES_PER_S: u64 = 20;
/// Longest delay that a source may catch up. Catching up a longer one would be a burst.
const SLACK: Duration = Duration::from_millis(200);

/// Rate limiter of one stream.
#[derive(Debug)]
pub struct RateLimiter {
    bytes_per_s: NonZeroU64,
    begin: Instant,
    /// bytes sent since then
    bytes: u64,
}

impl RateLimiter {
    /// Creates a limiter that begins now.
    #[must_use]
    pub fn new(bytes_per_s: NonZeroU64) -> Self {
        Self { bytes_per_s, begin: Instant::now(), bytes: 0 }
    }

    /// Returns the most bytes that may be sent at once.
    #[must_use]
    pub fn bytes_at_once(&self) -> usize {
        usize::try_from((self.bytes_per_s.get() / PIECES_PER_S).max(1)).unwrap_or(usize::MAX)
    }

    /// Records that `moved` more bytes were sent, and returns the time to wait before the next piece.
    pub fn after(&mut self, moved: usize) -> Duration {
        self.record(moved, Instant::now())
    }

    /// Implements [`RateLimiter::after`] at the time `now`.
    fn record(&mut self, moved: usize, now: Instant) -> Duration {
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
    fn the_rate_is_kept_and_a_late_source_does_not_catch_up() {
        let mut limiter = RateLimiter::new(NonZeroU64::new(1000).unwrap());
        assert_eq!(limiter.bytes_at_once(), 50);
        let begin = limiter.begin;
        let at = |ms| begin + Duration::from_millis(ms);
        assert_eq!(limiter.record(50, at(0)), Duration::from_millis(50));
        assert_eq!(limiter.record(50, at(60)), Duration::from_millis(40));
        // late, but within the slack
        assert_eq!(limiter.record(50, at(250)), Duration::ZERO);
        assert_eq!(limiter.record(100, at(250)), Duration::ZERO);
        assert_eq!(limiter.record(10, at(250)), Duration::from_millis(10));
        // after a pause of more than a second, the limiter begins again
        assert_eq!(limiter.record(50, at(2000)), Duration::ZERO);
        assert_eq!(limiter.record(50, at(2000)), Duration::from_millis(50));
        for (rate, piece) in [(1, 1), (20, 1), (u64::MAX, usize::MAX / 20)] {
            assert_eq!(RateLimiter::new(NonZeroU64::new(rate).unwrap()).bytes_at_once(), piece);
        }
    }
}
