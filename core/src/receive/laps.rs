//! Laps of the peer's chunks, as the receiving half sees them: where the next chunk begins, and after how many blocks to acknowledge.
//! wire.md 4.6, 4.11.

use super::Receiver;
use crate::fabric::Fabric;

/// Class of a transfer by its size, for the cadence of acknowledgements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// Up to C0.
    Short,
    /// Longer than C0, or a stream.
    Long,
}

/// Acknowledgements in a lap, of transfers of each [`Size`]: with posted writes the fewest that keep the sender busy, and with direct store.
const ACKS_PER_LAP: [[u32; 2]; 2] = [[2, 4], [8, 8]];

/// Length of the last lap, and the blocks of a transfer of each [`Size`] after which an acknowledgement goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Cadence {
    lap_blocks: u32,
    ack_every: [u64; 2],
}

impl Cadence {
    /// Returns the cadence after a lap of this number of blocks.
    pub(super) fn of_lap(lap_blocks: u32, is_direct: bool) -> Self {
        let ack_every = ACKS_PER_LAP[usize::from(is_direct)].map(|acks| u64::from(lap_blocks / acks).max(1));
        Self { lap_blocks, ack_every }
    }
}

impl<F: Fabric> Receiver<F> {
    /// Returns the blocks of a transfer of this size after which an acknowledgement goes out.
    #[inline]
    pub(crate) const fn ack_every(&self, size: Size) -> u64 {
        self.cadence.ack_every[size as usize]
    }

    /// Acknowledges as often as suits the current landing buffer, until a lap ends in it.
    pub(crate) fn fit_cadence(&mut self) {
        self.cadence = Cadence::of_lap(self.landing.layout.block_count, F::DIRECT);
        self.forget_laps();
    }

    /// Consumes a block, which may be the last of a lap.
    #[inline]
    pub(super) fn consume_block_of_lap(&mut self, ends_lap: bool) {
        self.consume_blocks_of_lap(1, ends_lap);
    }

    /// Consumes the blocks of a group, the last of which may be the last of a lap.
    #[inline]
    pub(super) fn consume_blocks_of_lap(&mut self, count: u32, ends_lap: bool) {
        self.consumed = self.consumed.wrapping_add(u64::from(count));
        self.at += count;
        if (self.at == self.landing.layout.block_count) | (F::DIRECT && ends_lap) {
            self.end_lap();
        }
    }

    /// Goes on in block 0.
    #[cold]
    fn end_lap(&mut self) {
        if self.at != self.cadence.lap_blocks {
            self.cadence = Cadence::of_lap(self.at, F::DIRECT);
        }
        self.note_lap(self.at);
        self.at = 0;
    }
}
