//! Marks of a chunk, in word 0 of its header, whatever kind of chunk it is. Direct store only. wire.md 3.2, 4.11, 4.12.

use crate::wire::line::Line;

/// The next chunk starts in block 0.
pub(super) const ENDS_LAP: u64 = 1 << 17;

/// The sender wishes to know what copying the first group of the chunk out takes.
pub(super) const TIMED: u64 = 1 << 18;

/// Bits of word 0 that are marks.
pub(super) const MARKS: u64 = ENDS_LAP | TIMED;

/// Marks of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marks {
    /// The chunk is the last of its lap.
    pub(crate) ends_lap: bool,
    /// The sender wishes to know what copying the first group of the chunk out takes.
    pub(crate) timed: bool,
}

impl Marks {
    pub(crate) const NONE: Self = Self { ends_lap: false, timed: false };

    /// Returns the marks of a slot line.
    #[inline]
    pub(crate) const fn of(line: &Line) -> Self {
        let word = line.0[0];
        Self { ends_lap: word & ENDS_LAP != 0, timed: word & TIMED != 0 }
    }

    /// Puts the marks into a slot line that has none.
    #[inline]
    pub(crate) const fn put_into(self, line: &mut Line) {
        line.0[0] |= (self.ends_lap as u64 * ENDS_LAP) | (self.timed as u64 * TIMED);
    }
}
