//! Statistics of slices, and of rounds.

use serde_json::{Value, json};

/// Statistics of a set of samples, in microseconds per message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// the fastest slice
    pub min_us: f64,
    /// the median
    pub p50_us: f64,
    /// the average
    pub avg_us: f64,
    /// 99 of 100 slices are no slower
    pub p99_us: f64,
    /// 999 of 1000 slices are no slower
    pub p999_us: f64,
    /// the slowest slice
    pub max_us: f64,
    /// slices
    pub samples: usize,
    /// messages of each slice
    pub messages_per_sample: u64,
}

impl Summary {
    /// Summarizes slices of `messages` each. `legs` is 2 where the messages of a slice are round trips, of which half
    /// counts.
    ///
    /// # Panics
    /// If there are no slices.
    #[must_use]
    pub fn new(slices_ns: &[u64], messages: u64, legs: u64) -> Self {
        assert!(!slices_ns.is_empty(), "a plan has at least one slice");
        let scale = 1.0 / (1000.0 * messages as f64 * legs as f64);
        let mut us: Vec<f64> = slices_ns.iter().map(|&ns| ns as f64 * scale).collect();
        us.sort_by(f64::total_cmp);
        Self {
            min_us: us[0],
            p50_us: percentile(&us, 500),
            avg_us: us.iter().sum::<f64>() / us.len() as f64,
            p99_us: percentile(&us, 990),
            p999_us: percentile(&us, 999),
            max_us: us[us.len() - 1],
            samples: us.len(),
            messages_per_sample: messages,
        }
    }
}

/// Returns the value that `permille` of 1000 samples don't exceed; `sorted` ascends and is not empty.
fn percentile(sorted: &[f64], permille: usize) -> f64 {
    let rank = (sorted.len() * permille).div_ceil(1000);
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// Returns the median of values in any order; NaN if there are none.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n.is_multiple_of(2) => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
        n => sorted[n / 2],
    }
}

/// The median of the values of some rounds, and the values that all of them lie between.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// the median
    pub median: f64,
    /// the least value
    pub min: f64,
    /// the largest value
    pub max: f64,
}

impl Spread {
    /// Returns the spread of values; of none, NaN between the infinities.
    #[must_use]
    pub fn new(values: &[f64]) -> Self {
        Self {
            median: median(values),
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }

    /// Returns it as a JSON object.
    #[must_use]
    pub fn to_json(self) -> Value {
        json!({ "median": self.median, "min": self.min, "max": self.max })
    }

    /// Returns it as a column of a table.
    #[must_use]
    pub fn to_text(self) -> String {
        format!("{:>6.2} [{:>6.2}, {:>6.2}]", self.median, self.min, self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::{Spread, Summary, median, percentile};

    #[test]
    fn percentiles_are_samples() {
        let sorted: Vec<f64> = (1..=1000).map(f64::from).collect();
        assert_eq!(
            [0, 500, 990, 999, 1000].map(|p| percentile(&sorted, p)),
            [1.0, 500.0, 990.0, 999.0, 1000.0]
        );
        assert_eq!(percentile(&[4.0], 500), 4.0);
    }

    #[test]
    fn the_median_of_an_even_count_lies_between() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_spread_has_the_extremes_of_its_values() {
        let spread = Spread::new(&[3.0, 1.0, 2.0]);
        assert_eq!(spread, Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(spread.to_text(), "  2.00 [  1.00,   3.00]");
        assert_eq!(spread.to_json()["max"], 3.0);
    }

    #[test]
    fn half_a_round_trip_is_half() {
        let summary = Summary::new(&[8_000, 4_000, 6_000], 10, 2);
        assert_eq!((summary.min_us, summary.p50_us, summary.max_us), (0.2, 0.3, 0.4));
    }
}
