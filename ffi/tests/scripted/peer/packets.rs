//! The packets of wire.md 6.1, and of 10.2 over RDMA.

use super::script::{Kind, Patch};

/// Fabric of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fabric {
    Shm,
    Rdma,
}

pub(super) const PACKET_BYTES: usize = 192;

/// Settled where neither end wishes for anything (wire.md 6.2).
const SUPERPIPELINE: u8 = 4;
const FLAG: u8 = 1;
const NOTIFY: u8 = 3;
/// Reason for notify mode: no order (wire.md 10.2).
const UNORDERED: u8 = 5;
const FOLDS: u8 = 3;
const BLOCK_BYTES: [u32; 2] = [4 << 10, 16 << 10];
const GROUP_BLOCKS: u8 = 4;
const RING_BYTES: u32 = 512 << 10;

/// A packet in good faith, then patched.
pub(super) fn packet(fabric: Fabric, kind: Kind, patches: &[Patch]) -> [u8; PACKET_BYTES] {
    let mut packet = [0; PACKET_BYTES];
    packet[..8].copy_from_slice(b"SUPRPIPE");
    (packet[8], packet[10]) = (6, kind as u8);
    if fabric == Fabric::Shm && matches!(kind, Kind::Hello | Kind::Welcome) {
        packet[12] = 1;
    }
    if kind == Kind::Welcome {
        let arrival = if fabric == Fabric::Shm { FLAG } else { NOTIFY };
        packet[13..16].copy_from_slice(&[SUPERPIPELINE, arrival, FOLDS]);
        let [shm, rdma] = BLOCK_BYTES;
        let block_bytes = if fabric == Fabric::Shm { shm } else { rdma };
        packet[16..20].copy_from_slice(&block_bytes.to_le_bytes());
        packet[20..24].copy_from_slice(&RING_BYTES.to_le_bytes());
        match fabric {
            Fabric::Shm => {
                packet[28..32].copy_from_slice(&std::process::id().to_le_bytes());
                packet[GROUP_AT] = GROUP_BLOCKS;
            }
            Fabric::Rdma => packet[30] = UNORDERED,
        }
    }
    for (at, bytes) in patches {
        packet[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    packet
}

/// Bytes of a control page, behind which the landing buffer lies.
const LANDING: usize = 4096;
/// Bytes of a line, and of its flag.
pub(super) const LINE: usize = 64;
const FLAG_BYTES: usize = 8;
/// Offset of the landing mode in a packet, and the value for landing on demand (wire.md 6.1).
const PROTOCOL_AT: usize = 13;
const PROVISION: u8 = 5;
const SMALL_BUFFER_AT: usize = 46;
/// Offset of the blocks of a group.
const GROUP_AT: usize = 50;
/// The region of the small buffer, over RDMA.
pub(super) const SMALL_REGION_AT: usize = 52;
/// Offset of the small buffer in a segment, and in what this peer registers: in the page behind the control page.
pub(super) const SMALL: usize = 4096;
const SMALL_BLOCK_BYTES: usize = 128;
const LANDING_AT: usize = 44;
const ON_DEMAND: u8 = 2;

/// The layout of the first landing buffers, by what WELCOME names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) block_bytes: usize,
    pub(super) blocks: usize,
    /// Blocks of a group: of a chunk, one block in so many has a flag.
    pub(super) group: usize,
    place: Place,
    segment_bytes: usize,
}

/// Place of a landing buffer and of its slot lines (wire.md 2.1, 2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Behind the control page, slot lines APART: shared memory.
    Apart,
    /// Behind the control page, slot lines INSIDE: RDMA.
    Inside,
    /// The base in the control page, slot lines INSIDE.
    Base,
    /// The small buffer, slot lines INSIDE.
    Small,
}

impl Layout {
    pub(super) fn of_welcome(packet: &[u8], fabric: Fabric) -> Self {
        let number = |at: usize| u32::from_le_bytes(packet[at..at + 4].try_into().unwrap()) as usize;
        let block_bytes = number(16);
        let place = if fabric == Fabric::Rdma { Place::Inside } else { Place::Apart };
        let group = if place == Place::Apart { usize::from(packet[GROUP_AT]).max(1) } else { 1 };
        let blocks = number(20) / block_bytes.max(1);
        let whole = Self { block_bytes, blocks, group, place, segment_bytes: 0 };
        let landing_bytes = (whole.block_at(whole.blocks) - LANDING).next_multiple_of(4096);
        if packet[PROTOCOL_AT] == PROVISION {
            // Between the control page and room for two of the largest (wire.md 4.7, 6.4). 0: the default.
            let bytes = usize::from(u16::from_le_bytes(packet[SMALL_BUFFER_AT..][..2].try_into().unwrap()));
            let blocks = if bytes == 0 { 8 } else { (bytes / SMALL_BLOCK_BYTES).max(2) };
            let segment_bytes = SMALL + 4096 + 2 * landing_bytes;
            return Self {
                block_bytes: SMALL_BLOCK_BYTES,
                blocks,
                group: 1,
                place: Place::Small,
                segment_bytes,
            };
        }
        if packet[LANDING_AT] == ON_DEMAND {
            // Room for two of the largest (wire.md 6.4).
            let segment_bytes = LANDING + 2 * landing_bytes;
            return Self { block_bytes: 256, blocks: 11, group: 1, place: Place::Base, segment_bytes };
        }
        Self { segment_bytes: LANDING + landing_bytes, ..whole }
    }

    /// Returns true if larger landing buffers come on demand.
    pub(super) fn is_on_demand(self) -> bool {
        matches!(self.place, Place::Base | Place::Small)
    }

    /// Returns true if the landing buffers are small buffers.
    pub(super) fn is_small(self) -> bool {
        self.place == Place::Small
    }

    /// Offset of a block in a segment.
    pub(super) const fn block_at(self, block: usize) -> usize {
        let before = match self.place {
            Place::Apart => LANDING + (128 * self.blocks).next_multiple_of(4096),
            Place::Inside => LANDING,
            Place::Base => 1280,
            Place::Small => SMALL,
        };
        before + block * self.block_bytes
    }

    /// Offset of the block's slot line.
    pub(super) const fn slot_at(self, block: usize) -> usize {
        match self.place {
            Place::Apart => LANDING + 128 * block,
            Place::Inside | Place::Base | Place::Small => self.block_at(block + 1) - LINE,
        }
    }

    /// Payload bytes for which a chunk of `blocks` blocks has room.
    pub(super) const fn room(self, blocks: usize) -> usize {
        match self.place {
            Place::Apart => blocks * self.block_bytes,
            Place::Inside | Place::Base | Place::Small if blocks == 0 => 0,
            Place::Inside | Place::Base | Place::Small => {
                blocks * (self.block_bytes - FLAG_BYTES) - (LINE - FLAG_BYTES)
            }
        }
    }

    /// Count of the blocks of a chunk with `bytes` bytes.
    pub(super) const fn blocks_for(self, bytes: usize) -> usize {
        let missing = self.room(1);
        1 + bytes.saturating_sub(missing).div_ceil(self.room(2) - missing)
    }

    /// All bytes of a segment, in whole pages (wire.md 6.4).
    pub(super) const fn segment_bytes(self) -> usize {
        self.segment_bytes
    }
}
