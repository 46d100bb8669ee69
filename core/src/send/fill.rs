//! Copies of payload into blocks, and their checksums. Each copy is recorded.

use super::{Payload, Sender};
use crate::fabric::Fabric;
use crate::nanos::Nanos;
use crate::recording;
use crate::wire::arrival::Arrival;
use crate::wire::layout::{Landing, Piece};
use crate::wire::line::LINE_BYTES;

impl<F: Fabric> Sender<F> {
    /// Copies `from` to `at`, in block `j` of the chunk that is being built.
    #[inline]
    pub(super) fn copy_in(&self, fabric: &mut F, link: &mut F::Link, at: u32, from: &[u8], j: u32) {
        let begin = recording::begin(fabric, link);
        fabric.copy_in(link, self.landing.memory, at, from);
        self.record_copy(fabric, link, begin, j, from.len());
    }

    /// Fills block `j` of the chunk that is being built with its piece of the payload, and returns the CRC for the block's flag: of
    /// the key alone unless flags are checked.
    pub(super) fn fill(
        &self,
        fabric: &mut F,
        link: &mut F::Link,
        payload: &mut Payload<'_, '_>,
        piece: Piece,
        j: u32,
    ) -> u32 {
        let Landing { memory, layout } = self.landing;
        let is_checked = self.arrival == Arrival::CheckedFlag;
        let begin = recording::begin(fabric, link);
        if F::DIRECT {
            fabric.expect_write(link, memory, layout.line_at(self.at + j), LINE_BYTES);
        }
        let mut crc = self.arrival.seed(fabric, self.sequence, piece.bytes);
        match payload {
            Payload::Gathered(gather) => {
                let (mut at, mut rest) = (piece.at, piece.bytes as usize);
                while rest > 0 {
                    let run = gather.take(rest);
                    fabric.copy_in(link, memory, at, run);
                    if is_checked {
                        crc = fabric.crc(run, crc);
                    }
                    rest -= run.len();
                    at += u32::try_from(run.len()).unwrap_or(0);
                    debug_assert!(!run.is_empty(), "the caller has these bytes");
                }
                if piece.bytes > 0 {
                    self.record_copy(fabric, link, begin, j, piece.bytes as usize);
                }
            }
            Payload::InPlace if is_checked => crc = fabric.crc_in(link, memory, piece.at, piece.bytes, crc),
            Payload::InPlace => {}
        }
        crc
    }

    /// Records that the application has filled the blocks of a chunk in place, since they were reserved.
    pub(super) fn record_filled(
        &self,
        fabric: &mut F,
        link: &F::Link,
        payload: &Payload<'_, '_>,
        bytes: u32,
    ) {
        if matches!(payload, Payload::InPlace) && bytes > 0 {
            let begin = recording::filling(fabric, link);
            self.record_copy(fabric, link, begin, 0, bytes as usize);
        }
    }

    #[inline]
    fn record_copy(&self, fabric: &mut F, link: &F::Link, begin: Option<Nanos>, j: u32, bytes: usize) {
        let (sequence, block) = (self.sequence, self.produced.wrapping_add(u64::from(j)));
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        record!(fabric, link, since begin, CopyIn { sequence, block, bytes });
    }
}
