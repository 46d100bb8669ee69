//! Arrival modes: the proof that a write has arrived, and the flag word that the writer stores for it. wire.md 3.1.

use crate::wire::Crc32c;
use crate::wire::line::Line;

/// Arrival mode of a connection: both ends read flags of this kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Arrival {
    /// The flag is the sequence. Needs order inside a write.
    #[default]
    Flag,
    /// The flag is the low half of the sequence, and a CRC32C of the block, seeded with the full sequence and the length. An
    /// incomplete block passes with probability 2^-32 per poll.
    CheckedFlag,
    /// The flag is the sequence. It is read only after a notification, which proves the write. Needs receives that are posted ahead
    /// ([`Caps::notifications_max`](crate::Caps::notifications_max)), and no order.
    Notify,
}

impl Arrival {
    /// Returns the seed of a flag's CRC.
    #[inline]
    pub(crate) fn seed<C: Crc32c>(self, checksum: &C, sequence: u64, bytes: u32) -> u32 {
        match self {
            Self::Flag | Self::Notify => 0,
            Self::CheckedFlag => {
                let mut key = [0; 12];
                key[..8].copy_from_slice(&sequence.to_le_bytes());
                key[8..].copy_from_slice(&bytes.to_le_bytes());
                checksum.crc32c(&key, !0)
            }
        }
    }

    /// Returns the flag of a block with this sequence and CRC.
    #[inline]
    pub(crate) const fn flag(self, sequence: u64, crc: u32) -> u64 {
        match self {
            Self::Flag | Self::Notify => sequence,
            Self::CheckedFlag => sequence << 32 | crc as u64,
        }
    }

    /// Returns the flag of a chunk's header line, whose payload has the CRC `crc`.
    #[inline]
    pub(crate) fn header_flag<C: Crc32c>(self, checksum: &C, line: &Line, sequence: u64, crc: u32) -> u64 {
        match self {
            Self::Flag | Self::Notify => sequence,
            Self::CheckedFlag => self.flag(sequence, Self::body_crc(checksum, line, crc)),
        }
    }

    /// Returns true if a flag word can belong to `sequence`. The CRC of a checked flag has to be compared as well.
    #[inline]
    pub(crate) fn may_be(self, flag: u64, sequence: u64) -> bool {
        planted!(FlagWithoutSequence => if self != Self::CheckedFlag { return flag != 0; });
        match self {
            Self::Flag | Self::Notify => flag == sequence,
            Self::CheckedFlag => flag >> 32 == sequence & 0xffff_ffff,
        }
    }

    /// Continues a CRC over the seven words before a line's flag.
    pub(crate) fn body_crc<C: Crc32c>(checksum: &C, line: &Line, seed: u32) -> u32 {
        checksum.crc32c(&line.body_bytes(), seed)
    }

    /// Returns the flag of a line without further blocks: a control line, or a message inside its slot line.
    #[inline]
    pub(crate) fn line_flag<C: Crc32c>(self, checksum: &C, line: &Line, sequence: u64) -> u64 {
        match self {
            Self::Flag | Self::Notify => sequence,
            Self::CheckedFlag => checked_line_flag(checksum, line.0, sequence),
        }
    }
}

/// Kept out of line, away from plain flags. Takes the words by value, so that those of a plain line can stay in registers.
#[cold]
#[inline(never)]
fn checked_line_flag<C: Crc32c>(checksum: &C, words: [u64; 8], sequence: u64) -> u64 {
    let arrival = Arrival::CheckedFlag;
    let crc = Arrival::body_crc(checksum, &Line(words), arrival.seed(checksum, sequence, 0));
    arrival.flag(sequence, crc)
}
