//! Rests of a loop beside something that goes on without waking anybody.

/// Quarter of the first nap that is not 0. Each is twice as long as the one before.
const NAP_NS: u64 = 10_000;
/// Longest nap.
pub const NAP_MAX_NS: u64 = 1_000_000;
/// Nap while a job goes on, which may need this end for its next step.
const JOB_NAP_NS: u64 = 20_000;

/// Naps in a row: each is twice as long as the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Naps(u32);

impl Naps {
    /// Notes that there was work, or that everything can be woken.
    pub const fn reset(&mut self) {
        self.0 = 0;
    }

    /// Returns the length of the next nap, in nanoseconds. The first one is 0: something may just have come.
    #[must_use]
    pub fn next_ns(&mut self) -> u64 {
        self.0 = self.0.saturating_add(1);
        if self.0 == 1 { 0 } else { (NAP_NS << self.0.min(8)).min(NAP_MAX_NS) }
    }

    /// Returns the length of the next nap while jobs go on.
    #[must_use]
    pub const fn next_beside_jobs_ns(&mut self) -> u64 {
        self.0 = self.0.saturating_add(1);
        JOB_NAP_NS
    }
}
