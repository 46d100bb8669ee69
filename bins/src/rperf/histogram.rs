//! Histogram of times: of runs by time, whose samples are not counted beforehand.

use hdrhistogram::Histogram as Hdr;

/// Longest time that has a bucket of its own, in nanoseconds: 73 minutes. Longer ones are counted with it.
const LONGEST_NS: u64 = 1 << 42;
/// Significant digits of a percentile.
const DIGITS: u8 = 3;

/// Counts of times, in nanoseconds, with three significant digits. Its memory is some 250 KiB, whatever it counts. Minimum, maximum and sum are exact.
#[derive(Debug, Clone)]
pub struct Histogram {
    times: Hdr<u64>,
    min: u64,
    max: u64,
    sum: u128,
}

impl Default for Histogram {
    #[expect(clippy::expect_used, reason = "the bounds are constants, which a test tries")]
    fn default() -> Self {
        let times = Hdr::new_with_bounds(1, LONGEST_NS, DIGITS).expect("the bounds are right");
        Self { times, min: u64::MAX, max: 0, sum: 0 }
    }
}

impl Histogram {
    /// Adds a time.
    #[inline]
    pub fn push(&mut self, ns: u64) {
        self.times.saturating_record(ns);
        self.sum += u128::from(ns);
        (self.min, self.max) = (self.min.min(ns), self.max.max(ns));
    }

    /// Returns the number of times.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.times.len()
    }

    /// Returns the smallest time; 0 if there is none.
    #[must_use]
    pub fn min(&self) -> u64 {
        if self.times.is_empty() { 0 } else { self.min }
    }

    /// Returns the sum of all times.
    #[must_use]
    pub const fn sum(&self) -> u128 {
        self.sum
    }

    /// Returns the time that `permille` of 1000 do not exceed, within 0.1 %; 0 if there is none.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "at most 1000")]
    pub fn percentile(&self, permille: u64) -> u64 {
        match (self.times.is_empty(), permille) {
            (true, _) => 0,
            (false, 1000..) => self.max,
            (false, _) => self.times.value_at_quantile(permille as f64 / 1000.0).clamp(self.min, self.max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_near_and_the_ends_exact() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.min(), histogram.percentile(500), histogram.count()), (0, 0, 0));
        for ns in (1..=1000).rev() {
            histogram.push(ns * 1001);
        }
        assert_eq!((histogram.count(), histogram.sum()), (1000, 1001 * 500_500));
        assert_eq!((histogram.min(), histogram.percentile(1000)), (1001, 1_001_000));
        for permille in [1, 500, 990, 999] {
            let is = permille * 1001;
            assert!(histogram.percentile(permille).abs_diff(is) <= is / 1000, "{permille}");
        }
        histogram.push(u64::MAX);
        assert_eq!((histogram.count(), histogram.percentile(1000)), (1001, u64::MAX));
    }
}
