//! A work request on its way, and its events.

use super::{Key, Op, QpName};

/// A work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wr {
    /// Number of its completion; `None` if unsignaled.
    pub id: Option<u64>,
    /// Operation.
    pub op: Op,
    /// Local memory.
    pub from: Key,
    /// Offset in it.
    pub at: u32,
    /// Length in bytes.
    pub bytes: u32,
    /// Copies the bytes when posting, so that the memory is free at once.
    pub inline: bool,
    /// Delay of the packets.
    pub delay_ns: u64,
}

/// A part of a write, and when it becomes visible.
pub(super) struct Piece {
    pub(super) offset: u32,
    pub(super) bytes: u32,
    pub(super) at_ns: u64,
}

/// Bytes that become visible.
pub(super) struct Placement {
    pub(super) flight: u64,
    pub(super) to: Key,
    pub(super) at: u32,
    pub(super) data: Vec<u8>,
}

pub(super) enum NicEvent {
    /// The NIC reads a packet of the sender's memory. Its last byte leaves and arrives at these times.
    Read { flight: u64, pieces: Vec<Piece>, left_ns: u64, arrives_ns: u64 },
    /// The first packet arrives, and the receiver's NIC checks the permission.
    Arrive { flight: u64 },
    /// Bytes become visible.
    Placement(Placement),
    /// All bytes are visible, and a receive completes.
    Receive { flight: u64 },
    /// The completion reaches the sender.
    Done { flight: u64 },
}

/// A WR from its post to its completion.
pub(super) struct Flight {
    pub(super) number: u64,
    pub(super) qp: QpName,
    pub(super) wr: Wr,
    /// All bytes of an inline WR; of a SEND those read so far.
    pub(super) data: Vec<u8>,
    /// Packets that the NIC has not read.
    pub(super) unread: u32,
    /// Time at which all of it is visible, once it has left.
    pub(super) visible_ns: u64,
    pub(super) status: u32,
    /// Status with which it fails after all its effects.
    pub(super) fails: Option<u32>,
    /// Its completion is lost.
    pub(super) lost: bool,
}
