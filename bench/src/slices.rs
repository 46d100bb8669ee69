//! Slices: short runs of messages that are timed together, since reading the clock takes as long as a message.

use crate::channel::RESULTS_MAX;
use crate::failure::Failure;
use superpipe::os::monotonic_ns;

/// Time of a slice: far more than a clock read (22 ns), far less than a scheduler's tick (4 ms).
const SLICE_NS: f64 = 50_000.0;
/// Time of a warm-up, by which the speed is estimated.
const WARM_UP_NS: f64 = 1_000_000.0;
/// The fewest slices of which a median means something.
const SLICES_MIN: f64 = 5.0;

/// Messages per slice, and slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlicePlan {
    /// messages of one slice
    pub messages: u64,
    /// slices that are timed
    pub slices: u64,
}

impl SlicePlan {
    /// Plans messages of `message_ns` each for about `budget_ns`.
    #[must_use]
    pub fn new(message_ns: f64, budget_ns: u64) -> Self {
        let messages = (SLICE_NS / message_ns).ceil().clamp(1.0, 1e6);
        let slices =
            (budget_ns as f64 / (messages * message_ns)).floor().clamp(SLICES_MIN, RESULTS_MAX as f64);
        Self { messages: truncated(messages), slices: truncated(slices) }
    }

    /// Plans a warm-up that shows how fast messages of `bytes` are.
    #[must_use]
    pub fn warm_up(bytes: usize) -> Self {
        let guess_ns = 100.0 + bytes as f64 / 20.0;
        let messages = (WARM_UP_NS / guess_ns / 3.0).ceil().clamp(1.0, 1e5);
        Self { messages: truncated(messages), slices: 3 }
    }

    /// All messages of the plan, with the first slice, which is not timed.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.messages * (self.slices + 1)
    }

    /// Runs the plan and returns every slice's nanoseconds.
    ///
    /// # Errors
    /// Those of `message`.
    pub fn time(self, mut message: impl FnMut() -> Result<(), Failure>) -> Result<Vec<u64>, Failure> {
        // Allocated before the time is measured.
        let mut slices_ns = Vec::with_capacity(usize::try_from(self.slices).unwrap_or(0));
        for _ in 0..self.messages {
            message()?;
        }
        let mut start_ns = monotonic_ns();
        for _ in 0..self.slices {
            for _ in 0..self.messages {
                message()?;
            }
            let end_ns = monotonic_ns();
            slices_ns.push(end_ns - start_ns);
            start_ns = end_ns;
        }
        Ok(slices_ns)
    }

    /// Runs the plan with messages of which only a part is timed: `message` returns this part's nanoseconds, and a slice has their
    /// sum. Each message then includes one read of the clock.
    ///
    /// # Errors
    /// Those of `message`.
    pub fn sum(self, mut message: impl FnMut() -> Result<u64, Failure>) -> Result<Vec<u64>, Failure> {
        let mut slices_ns = Vec::with_capacity(usize::try_from(self.slices).unwrap_or(0));
        for slice in 0..=self.slices {
            let mut slice_ns = 0;
            for _ in 0..self.messages {
                slice_ns += message()?;
            }
            if slice > 0 {
                slices_ns.push(slice_ns);
            }
        }
        Ok(slices_ns)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 1..=1e6 by every caller"
)]
const fn truncated(count: f64) -> u64 {
    count as u64
}

#[cfg(test)]
mod tests {
    use super::SlicePlan;

    #[test]
    fn a_plan_fits_its_budget() {
        assert_eq!(SlicePlan::new(50.0, 5_000_000), SlicePlan { messages: 1000, slices: 100 });
        assert_eq!(SlicePlan::new(1e7, 5_000_000), SlicePlan { messages: 1, slices: 5 });
        assert_eq!(SlicePlan::new(0.001, 5_000_000_000).messages, 1_000_000);
    }

    #[test]
    fn one_slice_ahead_is_not_timed() {
        let plan = SlicePlan { messages: 3, slices: 4 };
        let mut count = 0;
        let slices_ns = plan.time(|| {
            count += 1;
            Ok(())
        });
        assert_eq!((count, slices_ns.map(|s| s.len()).ok()), (plan.total(), Some(4)));
    }

    #[test]
    fn a_slice_is_the_sum_of_its_messages() {
        let plan = SlicePlan { messages: 2, slices: 3 };
        let mut count = 0;
        let slices_ns = plan.sum(|| {
            count += 1;
            Ok(count)
        });
        assert_eq!((count, slices_ns.ok()), (plan.total(), Some(vec![3 + 4, 5 + 6, 7 + 8])));
    }
}
