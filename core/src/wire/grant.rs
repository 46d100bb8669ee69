//! Terms of an epoch of a landing buffer. wire.md 2.5, 5.4.

use crate::error::ProtocolError;
use crate::wire::layout::Layout;

/// Claim of a peer to memory of its own, as the fabric of both ends encodes it: an offset in a segment, or address and key of a memory
/// region. It is a claim until the fabric has checked it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RemoteClaim {
    /// Address or offset.
    pub address: u64,
    /// Key of the memory region; 0 where there is none.
    pub key: u32,
}

/// Claim of a receiver to memory of its application, into which a message may be written. wire.md 5.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DestinationClaim {
    /// Place of the memory.
    pub memory: RemoteClaim,
    /// Bytes of the memory; more than 0.
    pub bytes: u64,
}

impl DestinationClaim {
    /// Returns true if it is for a message of `bytes` bytes, and its addresses do not wrap.
    pub(crate) const fn is_for(&self, bytes: u64) -> bool {
        self.bytes == bytes && self.memory.address.checked_add(bytes).is_some()
    }
}

/// Reason why a sender asks for a larger landing buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum GrowReason {
    /// A message is larger than the threshold.
    Message,
    /// This element of the message's I/O vector is larger than the threshold.
    Element(u32),
    /// A transfer waits for blocks.
    HeldBack,
}

impl GrowReason {
    /// Word 3 of GROW (wire.md 5.4).
    pub(crate) const fn word(self) -> u64 {
        match self {
            Self::HeldBack => 0,
            Self::Message => 1,
            Self::Element(index) => 2 | (index as u64) << 32,
        }
    }

    /// Reads the word. One that no reason gives is that of another reason.
    pub(crate) const fn of_word(word: u64) -> Self {
        let [_, _, _, _, a, b, c, d] = word.to_le_bytes();
        match word & 3 {
            0 => Self::HeldBack,
            1 => Self::Message,
            _ => Self::Element(u32::from_le_bytes([a, b, c, d])),
        }
    }
}

/// Cause of a refusal to grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum GrowCause {
    /// The budget of the owner's process has no room.
    Budget = 1,
    /// The owner's machine or device refused.
    Machine = 2,
    /// The landing buffer is as large as both ends agreed, or as was asked for.
    LargeEnough = 3,
}

impl GrowCause {
    /// Reads word 3 of GROW-REFUSED (wire.md 5.4).
    pub(crate) const fn of_word(word: u64) -> Option<Self> {
        match word {
            1 => Some(Self::Budget),
            2 => Some(Self::Machine),
            3 => Some(Self::LargeEnough),
            _ => None,
        }
    }
}

/// Cause of a refusal to map memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum MapCause {
    /// The budget of the receiver's process has no room.
    Budget = 1,
    /// The receiver's machine refused.
    Machine = 2,
    /// The memory is not what EXPOSE says, or may change its size.
    Wrong = 3,
}

impl MapCause {
    /// Reads word 3 of MAPPED (wire.md 5.6): no cause if it is 0.
    pub(crate) const fn of_word(word: u64) -> Result<Option<Self>, ProtocolError> {
        match word {
            0 => Ok(None),
            1 => Ok(Some(Self::Budget)),
            2 => Ok(Some(Self::Machine)),
            3 => Ok(Some(Self::Wrong)),
            _ => Err(ProtocolError::ReservedNotZero),
        }
    }
}

/// Access of a peer to memory of the application that it maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PeerAccess {
    /// The peer reads the memory, which messages are copied out of.
    Read = 0,
    /// The peer writes the memory, which messages are received into. It may write as long as it maps the memory, whatever it was told.
    Write = 1,
}

/// An epoch that its owner grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Grant {
    /// Number of the epoch.
    pub(crate) epoch: u32,
    pub(crate) layout: Layout,
    pub(crate) claim: RemoteClaim,
}
