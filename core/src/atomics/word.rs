//! Memory orderings of flags and lines in shared memory, in one place, so that the loom models check the ones that are shipped.
//!
//! A fabric whose memory both ends share stores flags with [`publish`] and reads them with [`observe`]. It stores the words
//! before a flag with [`write()`] and reads them with [`read()`]. These may race with a misbehaving peer and must therefore be
//! atomic, but carry no order of their own.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::wire::line::Line;

/// A 64-bit word in shared memory.
pub trait Word {
    /// Loads the word with the given ordering.
    fn load(&self, ordering: Ordering) -> u64;
    /// Stores the word with the given ordering.
    fn store(&self, value: u64, ordering: Ordering);
    /// Orders the accesses of this thread to words, as [`core::sync::atomic::fence`] does.
    #[inline]
    fn fence(ordering: Ordering)
    where
        Self: Sized,
    {
        core::sync::atomic::fence(ordering);
    }
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

/// A word that several threads change. [`AtomicU64`], or that of a model.
pub trait ExchangeWord: Word {
    /// Replaces the value if it is `current`.
    ///
    /// # Errors
    /// It is another one.
    fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64>;
}

impl ExchangeWord for AtomicU64 {
    fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        Self::compare_exchange(self, current, new, success, failure)
    }
}

/// Writes a flag. All earlier writes of this thread are visible to a thread that [`observe`]s `value`.
#[inline]
pub fn publish(word: &impl Word, value: u64) {
    word.store(value, Ordering::Release); // pairs with the Acquire in `observe`
}

/// Reads a flag. All that its writer wrote before publishing it is visible afterwards.
#[inline]
pub fn observe(word: &impl Word) -> u64 {
    word.load(Ordering::Acquire) // pairs with the Release in `publish`
}

/// Writes a line, its flag last. Also publishes the words 0, 2 and 4. These hold the counts of an acknowledgement, which has no flag:
/// a reader that sees a new count may overwrite the blocks that it returns, so all reads of these blocks must come before it.
#[inline]
pub fn write_line(words: [&impl Word; 8], line: &Line) {
    let ([w0, w1, w2, w3, w4, w5, w6, flag], [v0, v1, v2, v3, v4, v5, v6, value]) = (words, line.0);
    for (word, value) in [(w1, v1), (w3, v3), (w5, v5), (w6, v6)] {
        write(word, value);
    }
    for (word, value) in [(w0, v0), (w2, v2), (w4, v4), (flag, value)] {
        publish(word, value); // pairs with the `observe` in `take_line`, or of the flag
    }
}

/// Reads a line once. A reader that sees the new value of word 0, 2 or 4 also sees all that the writer did before.
#[inline]
#[must_use]
pub fn take_line(words: [&impl Word; 8]) -> Line {
    let [w0, w1, w2, w3, w4, w5, w6, flag] = words;
    let (v0, v2, v4) = (observe(w0), observe(w2), observe(w4)); // pair with the `publish` in `write_line`
    Line([v0, read(w1), v2, read(w3), v4, read(w5), read(w6), read(flag)])
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
