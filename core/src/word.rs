//! The two orderings that every flag-polled fabric rests on, in one place, so that a model checker drives the
//! very ones that are shipped.
//!
//! A fabric whose memory both ends share stores flags with [`publish`] and reads them with [`observe`]; the
//! words in between a writer and its flag are stored with [`write`] and read with [`read`]. Those may race with a
//! misbehaving peer and must therefore be atomic, but carry no order of their own.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::line::Line;

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

/// Writes a line, its flag last. Its first word is published as well: acknowledgements have no flag, and whoever finds
/// a new count in the first word must know that what it gives back was read before.
#[inline]
pub fn write_line(words: [&impl Word; 8], line: &Line) {
    let [first, body @ .., flag] = words;
    for (word, value) in body.into_iter().zip(line.0.into_iter().skip(1)) {
        write(word, value);
    }
    publish(first, line.0[0]); // pairs with the `observe` in `take_line`
    publish(flag, line.flag());
}

/// Reads a line once; after its first word everything that was done before the line was written is visible.
#[inline]
#[must_use]
pub fn take_line(words: [&impl Word; 8]) -> Line {
    let mut line = Line(words.map(|_| 0));
    let [first, rest @ ..] = words;
    let [place, places @ ..] = &mut line.0;
    *place = observe(first); // pairs with the `publish` in `write_line`
    for (place, word) in places.iter_mut().zip(rest) {
        *place = read(word);
    }
    line
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
