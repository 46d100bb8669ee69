//! A line: one cache line of 64 bytes with a flag in its last word, as a value. wire.md 2.
//!
//! [`Fabric::write_line`](crate::Fabric::write_line) writes it so that a reader who sees the flag sees the rest.
//! [`Fabric::take_line`](crate::Fabric::take_line) copies it out once, before core checks it.

/// Bytes of a line, flag included.
pub const LINE_BYTES: u32 = 64;

/// Words of a line before its flag.
pub(crate) const BODY_WORDS: usize = 7;

/// A line as eight little-endian words; the last is the flag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line(pub [u64; 8]);

const _: () = assert!(size_of::<Line>() == LINE_BYTES as usize);

impl Line {
    /// Returns the flag: the last word.
    #[must_use]
    #[inline]
    pub const fn flag(&self) -> u64 {
        self.0[BODY_WORDS]
    }

    /// Returns the 56 bytes before the flag, as they lie in memory.
    #[must_use]
    pub fn body_bytes(&self) -> [u8; BODY_WORDS * 8] {
        let mut bytes = [0; BODY_WORDS * 8];
        for (word, place) in self.0.iter().zip(bytes.as_chunks_mut::<8>().0) {
            *place = word.to_le_bytes();
        }
        bytes
    }
}
