//! Classes of messages by their length, each of which has a choice of its own.

use crate::wire::header::Length;

/// Number of classes.
pub const SIZE_CLASSES: usize = 5;

/// Fewest bytes of a message of each class.
const LEAST_BYTES: [u64; SIZE_CLASSES] = [4 << 10, 16 << 10, 256 << 10, 4 << 20, 32 << 20];

/// Returns the fewest bytes of a message of each class. Shorter ones than those of the first, down to
/// [`Config::timed_bytes`](crate::Config::timed_bytes), belong to it as well.
#[must_use]
pub const fn size_class_bytes() -> [u64; SIZE_CLASSES] {
    LEAST_BYTES
}

/// A class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SizeClass(u8);

impl SizeClass {
    /// Returns the class of a message of `bytes` bytes.
    #[inline]
    pub(crate) fn of(bytes: u64) -> Self {
        let above = LEAST_BYTES[1..].iter().filter(|&&least| bytes >= least).count();
        Self(u8::try_from(above).unwrap_or(0))
    }

    /// Returns the class of a transfer. A stream is taken for a message of a few megabytes.
    #[inline]
    pub(crate) fn of_length(length: Length) -> Self {
        match length {
            Length::Exact(bytes) => Self::of(bytes),
            Length::Stream => Self::of(4 << 20),
        }
    }

    /// Returns its index, below [`SIZE_CLASSES`].
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the fewest bytes of its messages.
    pub(crate) const fn least_bytes(self) -> u64 {
        LEAST_BYTES[self.index()]
    }

    /// Returns every class with its fewest bytes.
    pub(super) fn all() -> impl Iterator<Item = (Self, u64)> {
        LEAST_BYTES.into_iter().map(|least| (Self::of(least), least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_begins_with_its_fewest_bytes() {
        for (index, (class, least)) in SizeClass::all().enumerate() {
            assert_eq!(class.index(), index);
            assert_eq!(SizeClass::of(least).index(), index);
            assert_eq!(SizeClass::of(least - 1).index(), index.saturating_sub(1));
        }
        assert_eq!(SizeClass::of(u64::MAX).index(), SIZE_CLASSES - 1);
    }
}
