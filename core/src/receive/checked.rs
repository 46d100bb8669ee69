//! Checked flags: the CRC of what has arrived is compared with that in the flag. wire.md 3.1.

use super::{Chunk, Receiver};
use crate::fabric::Fabric;
use crate::wire::arrival::Arrival;
use crate::wire::header::{Header, INLINE_BYTES_MAX};
use crate::wire::layout::Landing;
use crate::wire::line::Line;

impl<F: Fabric> Receiver<F> {
    /// Returns true if a slot line and the payload of its group match the CRC in the flag.
    pub(super) fn is_line_intact(&self, fabric: &F, link: &F::Link, line: &Line) -> bool {
        let arrival = Arrival::CheckedFlag;
        let Landing { memory, layout } = self.landing;
        match Header::parse(line) {
            Ok(Header::Inline { bytes, .. }) if usize::from(bytes) > INLINE_BYTES_MAX => false,
            Ok(
                Header::Inline { .. } | Header::Cancel { .. } | Header::Exposed { .. } | Header::Split { .. },
            ) => arrival.line_flag(fabric, line, self.sequence) == line.flag(),
            Ok(Header::Chunk { bytes, left, .. }) if self.shape(bytes, left).is_ok() => {
                let piece = layout.piece(self.at, layout.blocks_for(bytes), bytes, left, 0);
                let seed = arrival.seed(fabric, self.sequence, piece.bytes);
                let crc = fabric.crc_out(link, memory, piece.at, piece.bytes, seed);
                arrival.flag(self.sequence, Arrival::body_crc(fabric, line, crc)) == line.flag()
            }
            // The line is incomplete, or invalid. A later poll finds it complete, or never takes it.
            Ok(Header::Chunk { .. }) | Err(_) => false,
        }
    }

    /// Returns the checked flag that the chunk's next group, other than its first, has once it is complete.
    pub(super) fn block_flag(&self, fabric: &F, link: &F::Link, chunk: &Chunk) -> u64 {
        let arrival = Arrival::CheckedFlag;
        let piece = chunk.piece(self.landing.layout, chunk.arrived);
        let seed = arrival.seed(fabric, self.sequence, piece.bytes);
        let crc = fabric.crc_out(link, self.landing.memory, piece.at, piece.bytes, seed);
        arrival.flag(self.sequence, crc)
    }

    /// Returns true if the chunk's next group, other than its first, matches its checked flag.
    pub(super) fn is_intact(&self, fabric: &F, link: &F::Link, chunk: &Chunk, flag: u64) -> bool {
        let is_intact = self.block_flag(fabric, link, chunk) == flag;
        planted!(CheckNotCompared => return true);
        is_intact
    }
}
