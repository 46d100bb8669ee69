//! A work request on its way, and the events that it makes.

use super::{Key, Op, QpName};

/// A work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wr {
    /// What its completion says; without one, none is told.
    pub id: Option<u64>,
    /// What to do.
    pub op: Op,
    /// Our memory.
    pub from: Key,
    /// Where in it.
    pub at: u32,
    /// So many bytes.
    pub bytes: u32,
    /// They are copied now, so that the memory is free at once.
    pub inline: bool,
    /// The packets are held up for so long.
    pub held_ns: u64,
}

/// A part of a write, and when it becomes visible.
pub(super) struct Piece {
    pub(super) offset: u32,
    pub(super) bytes: u32,
    pub(super) at_ns: u64,
}

/// Bytes that are about to be visible.
pub(super) struct Place {
    pub(super) flight: u64,
    pub(super) to: Key,
    pub(super) at: u32,
    pub(super) data: Vec<u8>,
}

pub(super) enum Event {
    /// The NIC reads a packet of the sender's memory; when the last of it has left, and is there.
    Read { flight: u64, pieces: Vec<Piece>, left_ns: u64, there_ns: u64 },
    /// The first packet is there: the receiver's NIC looks whether it is permitted.
    Arrive { flight: u64 },
    /// Bytes become visible.
    Place(Place),
    /// All is visible, and a receive completes.
    Receive { flight: u64 },
    /// The sender knows.
    Done { flight: u64 },
}

/// A WR from its post to its completion.
pub(super) struct Flight {
    pub(super) number: u64,
    pub(super) qp: QpName,
    pub(super) wr: Wr,
    /// Inline: all bytes. A send: what was read so far.
    pub(super) data: Vec<u8>,
    /// Packets that the NIC has not read.
    pub(super) unread: u32,
    pub(super) status: u32,
    /// It fails with this status after all it does.
    pub(super) fails: Option<u32>,
    /// Nobody is told of its completion.
    pub(super) lost: bool,
}
