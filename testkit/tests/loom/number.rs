//! A word that several threads change, over loom's atomic.

use core::sync::atomic::Ordering;

use loom::sync::atomic::{AtomicU64, fence};
use superpipe_core::word::{ExchangeWord, Word};

/// The word.
pub(crate) struct Number(AtomicU64);

impl Number {
    pub(crate) fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }
}

impl Word for Number {
    fn load(&self, ordering: Ordering) -> u64 {
        self.0.load(ordering)
    }
    fn store(&self, value: u64, ordering: Ordering) {
        self.0.store(value, ordering);
    }
    fn fence(ordering: Ordering) {
        fence(ordering);
    }
}

impl ExchangeWord for Number {
    fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.0.compare_exchange(current, new, success, failure)
    }
}
