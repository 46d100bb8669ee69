//! Words that one thread writes and others read at any time, without waiting for each other: a sequence is odd while they are written. A reader that finds
//! the same even sequence before and after it has copied the words has all of one write.
//!
//! ```text
//! writer                                  reader
//!   begin_write: odd                        sequence
//!   words                                   order_reads, words
//!   end_write: even                         order_reads, sequence: is_whole
//! ```
//!
//! The orderings are here, so that the loom models check the ones that are shipped.

use core::sync::atomic::Ordering;

use super::word::Word;

/// Begins to write the words, of which the caller is the only writer. Returns what [`end_write`] wants.
#[inline]
pub fn begin_write<W: Word>(sequence: &W) -> u64 {
    let before = sequence.load(Ordering::Relaxed);
    sequence.store(before.wrapping_add(1), Ordering::Relaxed);
    // A reader that sees a word of this write sees that the sequence is odd, or a later one: pairs with the fence of `order_reads` behind the words.
    W::fence(Ordering::Release);
    before
}

/// Ends the write that [`begin_write`] began.
#[inline]
pub fn end_write(sequence: &impl Word, before: u64) {
    // A reader that sees it before it copies the words sees all of them: pairs with the fence of `order_reads` before the words.
    sequence.store(before.wrapping_add(2), Ordering::Release);
}

/// Keeps the reader's copies of sequence, words and sequence in this order.
#[inline]
pub fn order_reads<W: Word>() {
    W::fence(Ordering::Acquire);
}

/// Returns true if the words between two looks at the sequence are of one write.
#[inline]
#[must_use]
pub const fn is_whole(before: u64, after: u64) -> bool {
    before & 1 == 0 && before == after
}
