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
const BLOCK_BYTES: u32 = 16 << 10;
const RING_BYTES: u32 = 512 << 10;

/// A packet in good faith, then patched.
pub(super) fn packet(fabric: Fabric, kind: Kind, patches: &[Patch]) -> [u8; PACKET_BYTES] {
    let mut packet = [0; PACKET_BYTES];
    packet[..8].copy_from_slice(b"SUPRPIPE");
    (packet[8], packet[10]) = (3, kind as u8);
    if fabric == Fabric::Shm && matches!(kind, Kind::Hello | Kind::Welcome) {
        packet[12] = 1;
    }
    if kind == Kind::Welcome {
        let arrival = if fabric == Fabric::Shm { FLAG } else { NOTIFY };
        packet[13..16].copy_from_slice(&[SUPERPIPELINE, arrival, FOLDS]);
        packet[16..20].copy_from_slice(&BLOCK_BYTES.to_le_bytes());
        packet[20..24].copy_from_slice(&RING_BYTES.to_le_bytes());
        match fabric {
            Fabric::Shm => packet[28..32].copy_from_slice(&std::process::id().to_le_bytes()),
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

/// The layout that WELCOME names: bytes of a block, and blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) block_bytes: usize,
    pub(super) blocks: usize,
    fabric: Fabric,
}

impl Layout {
    pub(super) fn of_welcome(packet: &[u8], fabric: Fabric) -> Self {
        let number = |at: usize| u32::from_le_bytes(packet[at..at + 4].try_into().unwrap()) as usize;
        Self { block_bytes: number(16), blocks: number(20) / number(16).max(1), fabric }
    }

    /// Offset of a block in a segment: slot lines are APART on shared memory, and INSIDE over RDMA (wire.md 2.4).
    pub(super) const fn block_at(self, block: usize) -> usize {
        let before = match self.fabric {
            Fabric::Shm => (128 * self.blocks).next_multiple_of(4096),
            Fabric::Rdma => 0,
        };
        LANDING + before + block * self.block_bytes
    }

    /// Offset of the block's slot line.
    pub(super) const fn slot_at(self, block: usize) -> usize {
        match self.fabric {
            Fabric::Shm => LANDING + 128 * block,
            Fabric::Rdma => self.block_at(block + 1) - LINE,
        }
    }

    /// Payload bytes for which a chunk of `blocks` blocks has room.
    pub(super) const fn room(self, blocks: usize) -> usize {
        match self.fabric {
            Fabric::Shm => blocks * self.block_bytes,
            Fabric::Rdma if blocks == 0 => 0,
            Fabric::Rdma => blocks * (self.block_bytes - FLAG_BYTES) - (LINE - FLAG_BYTES),
        }
    }

    /// Count of the blocks of a chunk with `bytes` bytes.
    pub(super) const fn blocks_for(self, bytes: usize) -> usize {
        let missing = self.room(1);
        1 + bytes.saturating_sub(missing).div_ceil(self.room(2) - missing)
    }

    /// A control page and a landing buffer, in whole pages (wire.md 6.4).
    pub(super) const fn segment_bytes(self) -> usize {
        self.block_at(self.blocks).next_multiple_of(4096)
    }
}
