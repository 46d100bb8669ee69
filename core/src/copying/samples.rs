//! The newest costs of a kernel, and their median, which no single outlier moves.

/// Costs of which the median is taken.
const COUNT: u8 = 5;

/// The newest costs of one kernel: nanoseconds for 64 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Samples {
    costs: [u32; COUNT as usize],
    /// Number of costs so far, at most [`COUNT`], and the place of the next one.
    count: u8,
    next: u8,
}

impl Samples {
    pub(super) const NONE: Self = Self { costs: [0; COUNT as usize], count: 0, next: 0 };

    /// Adds a cost in place of the oldest.
    pub(super) fn add(&mut self, cost: u32) {
        self.costs[usize::from(self.next % COUNT)] = cost;
        self.next = (self.next + 1) % COUNT;
        self.count = (self.count + 1).min(COUNT);
    }

    /// Returns the number of costs.
    pub(super) const fn count(&self) -> u8 {
        self.count
    }

    /// Returns the median, once there are enough costs for one.
    pub(super) fn median(&self) -> Option<u32> {
        let mut costs = self.costs;
        costs.sort_unstable();
        (self.count == COUNT).then_some(costs[usize::from(COUNT / 2)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_needs_all_costs_and_no_outlier_moves_it() {
        let mut samples = Samples::NONE;
        for cost in [100, 101, 99, 102] {
            samples.add(cost);
            assert_eq!(samples.median(), None);
        }
        samples.add(u32::MAX);
        assert_eq!(samples.median(), Some(101));
        samples.add(0);
        assert_eq!(samples.median(), Some(101));
        for _ in 0..3 {
            samples.add(500);
        }
        assert_eq!(samples.median(), Some(500), "three of five have changed");
    }
}
