//! How a reader knows that what it polls has arrived, and what a writer must therefore put in the flag word.
//! wire.md 3.1.

use crate::fabric::Fabric;
use crate::line::Line;
use crate::planted::{Bug, is_planted};

/// The arrival mode of one direction's reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Arrival {
    /// The flag is the sequence. Needs order inside a write.
    #[default]
    Flag,
    /// The flag is the low half of the sequence, and a CRC32C of what it stands for, seeded with the full sequence
    /// and the length. A wrong block passes with probability 2^-32 a poll.
    CheckedFlag,
    /// The flag is the sequence, and is looked at only once a notification has told of it, which proves the whole write.
    /// Needs receives that are posted ahead ([`Caps::notices`](crate::Caps::notices)), and no order.
    Notify,
}

impl Arrival {
    /// The CRC that a flag's CRC continues from.
    #[inline]
    pub(crate) fn seed<F: Fabric>(self, fabric: &F, sequence: u64, bytes: u32) -> u32 {
        match self {
            Self::Flag | Self::Notify => 0,
            Self::CheckedFlag => {
                let mut key = [0; 12];
                key[..8].copy_from_slice(&sequence.to_le_bytes());
                key[8..].copy_from_slice(&bytes.to_le_bytes());
                fabric.crc(&key, !0)
            }
        }
    }

    /// The flag word of a sequence whose contents have this CRC.
    #[inline]
    pub(crate) const fn flag(self, sequence: u64, crc: u32) -> u64 {
        match self {
            Self::Flag | Self::Notify => sequence,
            Self::CheckedFlag => sequence << 32 | crc as u64,
        }
    }

    /// Whether a flag word can belong to `sequence`; a checked one needs its contents looked at too.
    #[inline]
    pub(crate) fn may_be(self, flag: u64, sequence: u64) -> bool {
        match self {
            Self::Flag | Self::Notify => {
                flag == sequence || flag != 0 && is_planted(Bug::FlagWithoutSequence)
            }
            Self::CheckedFlag => flag >> 32 == sequence & 0xffff_ffff,
        }
    }

    /// Continues a CRC over the seven words before a line's flag.
    pub(crate) fn body_crc<F: Fabric>(fabric: &F, line: &Line, seed: u32) -> u32 {
        fabric.crc(&line.body_bytes(), seed)
    }

    /// The flag of a line that stands for itself alone: a control line, or a message inside its slot line.
    #[inline]
    pub(crate) fn line_flag<F: Fabric>(self, fabric: &F, line: &Line, sequence: u64) -> u64 {
        match self {
            Self::Flag | Self::Notify => sequence,
            Self::CheckedFlag => checked_line_flag(fabric, line.0, sequence),
        }
    }
}

/// Away from the path of plain flags; by value, so that the words of a plain line can stay in registers.
#[cold]
#[inline(never)]
fn checked_line_flag<F: Fabric>(fabric: &F, words: [u64; 8], sequence: u64) -> u64 {
    let arrival = Arrival::CheckedFlag;
    let crc = Arrival::body_crc(fabric, &Line(words), arrival.seed(fabric, sequence, 0));
    arrival.flag(sequence, crc)
}
