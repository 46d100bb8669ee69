//! The two orderings that every flag-polled fabric rests on, in one place, so that a model checker drives the
//! very ones that are shipped.
//!
//! A fabric whose memory both ends share stores flags with [`publish`] and reads them with [`observe`]; the
//! words in between a writer and its flag are stored with [`write`] and read with [`read`]. Those may race with a
//! misbehaving peer and must therefore be atomic, but carry no order of their own.

use core::sync::atomic::{AtomicU64, Ordering};

/// A 64-bit word in shared memory.
pub trait Word {
    /// Loads the word with the given ordering.
    fn load(&self, ordering: Ordering) -> u64;
    /// Stores the word with the given ordering.
    fn store(&self, value: u64, ordering: Ordering);
}

impl Word for AtomicU64 {
    #[inline]
    fn load(&self, ordering: Ordering) -> u64 {
        Self::load(self, ordering)
    }
    #[inline]
    fn store(&self, value: u64, ordering: Ordering) {
        Self::store(self, value, ordering);
    }
}

/// Makes all earlier writes of this thread visible to whoever [`observe`]s `value`.
#[inline]
pub fn publish(word: &impl Word, value: u64) {
    word.store(value, Ordering::Release); // pairs with the Acquire in `observe`
}

/// Reads a flag; what its writer wrote before publishing it is visible afterwards.
#[inline]
pub fn observe(word: &impl Word) -> u64 {
    word.load(Ordering::Acquire) // pairs with the Release in `publish`
}

/// Writes a word that a later [`publish`] will make visible.
#[inline]
pub fn write(word: &impl Word, value: u64) {
    word.store(value, Ordering::Relaxed);
}

/// Reads a word that an earlier [`observe`] made visible.
#[inline]
pub fn read(word: &impl Word) -> u64 {
    word.load(Ordering::Relaxed)
}
