//! The wait until a buffer that could not be exposed is exposed again: some wishes for places, and twice as many each time.

/// Wishes until a refused buffer is exposed again, after its first refusal.
const WISHES_AFTER_REFUSAL: u64 = 64;
/// Refusals up to which the number of wishes doubles.
const REFUSALS_COUNTED: u32 = 16;

/// Refusals of a buffer.
#[derive(Default)]
pub(super) struct Refusals {
    count: u32,
    /// Count of wishes at which it is exposed again.
    retry_at: Option<u64>,
}

impl Refusals {
    /// Notes that the buffer is found refused, and returns true if it is due to be exposed again. `wishes` counts the wishes for places of the table.
    pub(super) fn is_retry_due(&mut self, wishes: u64) -> bool {
        let Some(at) = self.retry_at else {
            self.retry_at = Some(wishes + (WISHES_AFTER_REFUSAL << self.count));
            self.count = (self.count + 1).min(REFUSALS_COUNTED);
            return false;
        };
        let is_due = wishes >= at;
        if is_due {
            self.retry_at = None;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::Refusals;

    #[test]
    fn a_retry_comes_after_twice_as_many_wishes_each_time() {
        let mut refusals = Refusals::default();
        let mut retries = Vec::new();
        for wishes in 0..1000 {
            if refusals.is_retry_due(wishes) {
                retries.push(wishes);
            }
        }
        // Each refusal is found at the wish after the retry.
        assert_eq!(retries, [64, 64 + 1 + 128, 64 + 1 + 128 + 1 + 256, 64 + 1 + 128 + 1 + 256 + 1 + 512]);
    }
}
