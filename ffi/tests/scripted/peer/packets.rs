//! The packets of wire.md 6.1.

use super::script::{Kind, Patch};

pub(super) const PACKET_BYTES: usize = 192;

/// Settled where neither end wishes for anything (wire.md 6.2).
const SUPERPIPELINE: u8 = 4;
const FLAG: u8 = 1;
const FOLDS: u8 = 3;
const BLOCK_BYTES: u32 = 16 << 10;
const RING_BYTES: u32 = 512 << 10;

/// A packet in good faith, then patched.
pub(super) fn packet(kind: Kind, patches: &[Patch]) -> [u8; PACKET_BYTES] {
    let mut packet = [0; PACKET_BYTES];
    packet[..8].copy_from_slice(b"SUPRPIPE");
    (packet[8], packet[10]) = (2, kind as u8);
    if matches!(kind, Kind::Hello | Kind::Welcome) {
        packet[12] = 1;
    }
    if kind == Kind::Welcome {
        packet[13..16].copy_from_slice(&[SUPERPIPELINE, FLAG, FOLDS]);
        packet[16..20].copy_from_slice(&BLOCK_BYTES.to_le_bytes());
        packet[20..24].copy_from_slice(&RING_BYTES.to_le_bytes());
        packet[28..32].copy_from_slice(&std::process::id().to_le_bytes());
    }
    for (at, bytes) in patches {
        packet[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    packet
}

/// The layout that WELCOME names: bytes of a block, and blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) block_bytes: usize,
    pub(super) blocks: usize,
}

impl Layout {
    pub(super) fn of_welcome(packet: &[u8]) -> Self {
        let number = |at: usize| u32::from_le_bytes(packet[at..at + 4].try_into().unwrap()) as usize;
        Self { block_bytes: number(16), blocks: number(20) / number(16).max(1) }
    }

    /// Slot lines lie APART (wire.md 2.4): the offset of the first block in the landing buffer.
    pub(super) const fn blocks_at(self) -> usize {
        (128 * self.blocks).next_multiple_of(4096)
    }

    /// A seat and a landing buffer, in whole pages (wire.md 6.4).
    pub(super) const fn segment_bytes(self) -> usize {
        (4096 + self.blocks_at() + self.blocks * self.block_bytes).next_multiple_of(4096)
    }
}
