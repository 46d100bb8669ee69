//! Time of the receiver's copy out of a group, in the line of acknowledgements. wire.md 2.2, 4.12.

/// Word 6 of the line: the time of the newest copy that was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Timing {
    /// Lower half of the sequence of the chunk whose first group was copied.
    sequence_low: u32,
    /// Nanoseconds; 0: nothing was measured.
    ns: u32,
}

impl Timing {
    pub(crate) const NONE: Self = Self { sequence_low: 0, ns: 0 };

    /// Makes the timing of a copy out of the first group of a chunk.
    pub(crate) fn new(sequence: u64, ns: u64) -> Self {
        Self { sequence_low: low(sequence), ns: u32::try_from(ns).unwrap_or(u32::MAX) }
    }

    /// Returns the word.
    pub(crate) const fn word(self) -> u64 {
        self.sequence_low as u64 | (self.ns as u64) << 32
    }

    /// Reads a word, which may be anything.
    pub(crate) const fn of(word: u64) -> Self {
        Self { sequence_low: low(word), ns: low(word >> 32) }
    }

    /// Returns the nanoseconds, if the timing is that of this chunk.
    pub(crate) fn of_chunk(self, sequence: u64) -> Option<u64> {
        (self.ns > 0 && self.sequence_low == low(sequence)).then_some(u64::from(self.ns))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half")]
const fn low(word: u64) -> u32 {
    word as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timing_is_of_its_chunk_alone() {
        let sequence = 0x1234_5678_9abc_def0;
        let timing = Timing::of(Timing::new(sequence, 750).word());
        assert_eq!(timing.of_chunk(sequence), Some(750));
        assert_eq!(timing.of_chunk(sequence + 1), None);
        assert_eq!(Timing::new(1, u64::MAX).of_chunk(1), Some(u64::from(u32::MAX)));
        assert_eq!(Timing::NONE.of_chunk(0), None);
        assert_eq!(Timing::NONE.word(), 0);
    }
}
