//! Messages that came whole: the shortest way. No transfer is opened for them, but where their later blocks are late.
//! wire.md 3.2, 4.2.

use super::{Chunk, Head, Receiver, TryRecv};
use crate::arrival::Arrival;
use crate::fabric::{CopyHint, Fabric};
use crate::header::{Header, Length};
use crate::inline::unpack_whole;
use crate::layout::{FlagPlace, Landing};
use crate::line::Line;
use crate::planted::{Bug, is_planted};
use crate::recorder::Step;
use crate::recording;
use crate::sequence::after;
use core::hint;

impl<F: Fabric> Receiver<F> {
    /// Whether what comes next can go the short way, as far as this end knows.
    #[inline]
    pub(crate) fn is_plain(&self, arrival: Arrival) -> bool {
        let may_begin = self.may_begin() || is_planted(Bug::ShortWayUngated) && !self.shut;
        self.open.is_none() && may_begin && self.close.is_none() && arrival == Arrival::Flag
    }

    /// The next slot line, if it comes within so many looks.
    #[inline]
    pub(crate) fn await_line(&self, fabric: &F, link: &F::Link, looks: u32) -> Option<Line> {
        let Landing { memory, layout } = self.landing;
        let (at, sequence) = (layout.line_at(self.at), self.sequence);
        for _ in 1..looks {
            let line = fabric.take_line_if(link, memory, at, sequence);
            if line.is_some() {
                return line;
            }
            hint::spin_loop();
        }
        fabric.take_line_if(link, memory, at, sequence)
    }

    /// Takes a message that came in a line.
    #[inline]
    pub(crate) fn take_inline(&mut self, line: &Line, to: &mut [&mut [u8]]) -> Option<(u64, usize)> {
        let (tag, bytes, payload) = Header::plain_inline(line)?;
        if !unpack_whole(&payload, bytes, to) {
            return None;
        }
        self.transfers = self.transfers.wrapping_add(1);
        self.sequence = after(self.sequence);
        self.inlines += 1;
        self.consume_block();
        Some((tag, bytes))
    }

    /// Takes a message that came as one chunk, if there is nothing unusual about it and it goes into one slice. Each
    /// later block is looked for so often.
    #[inline]
    pub(crate) fn take_whole(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        line: &Line,
        to: &mut [&mut [u8]],
        looks: u32,
    ) -> TryRecv {
        let message = Header::plain_message(line, self.transfers.wrapping_add(1));
        let Some((tag, bytes, left)) = message else { return TryRecv::Other };
        let [to] = to else { return TryRecv::Other };
        let Some(to) = to.get_mut(..bytes as usize) else { return TryRecv::Other };
        let layout = self.landing.layout;
        if bytes <= layout.first_capacity() && (left || layout.flags == FlagPlace::Inside) {
            self.take_block(fabric, link, to, left);
            TryRecv::Taken { tag, bytes: to.len() }
        } else {
            self.take_blocks(fabric, link, tag, to, left, looks)
        }
    }

    /// Returns true if `line` begins a message that came as one chunk, all blocks of which are here.
    pub(crate) fn is_whole_here(&self, fabric: &F, link: &F::Link, line: &Line) -> bool {
        let message = Header::plain_message(line, self.transfers.wrapping_add(1));
        let Some((_, bytes, left)) = message else { return false };
        let blocks = self.landing.layout.blocks_for(bytes);
        self.shape(bytes, left).is_ok() && (1..blocks).all(|j| self.await_flag(fabric, link, self.at + j, 1))
    }

    /// One that is in a block.
    #[inline]
    fn take_block(&mut self, fabric: &mut F, link: &mut F::Link, to: &mut [u8], left: bool) {
        let Landing { memory, layout } = self.landing;
        let bytes = length_of(to);
        let piece = layout.piece(self.at, 1, bytes, left, 0);
        self.record_begin(fabric, link, bytes);
        let (begin, block, sequence) = (recording::begin(fabric, link), self.consumed, self.sequence);
        fabric.copy_out(link, memory, piece.at, to, CopyHint::Cached);
        recording::span(fabric, link, begin, || Step::CopyOut { sequence, block, bytes });
        self.consume_block();
        self.took_whole();
    }

    /// One that is in several.
    #[inline(never)]
    fn take_blocks(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        tag: u64,
        to: &mut [u8],
        left: bool,
        looks: u32,
    ) -> TryRecv {
        let (Landing { memory, layout }, bytes) = (self.landing, length_of(to));
        if self.shape(bytes, left).is_err() {
            return TryRecv::Other;
        }
        let (first, blocks, sequence) = (self.at, layout.blocks_for(bytes), self.sequence);
        self.record_begin(fabric, link, bytes);
        let mut rest = to;
        for j in 0..blocks {
            if j > 0 && !self.await_flag(fabric, link, first + j, looks) {
                let taken = bytes as usize - rest.len();
                let arrived = j + u32::from(is_planted(Bug::BegunTooFar));
                let chunk =
                    Chunk { first, bytes, blocks, left, whole: false, fin: true, j, offset: 0, arrived };
                self.begin(tag, Length::Exact(u64::from(bytes)), u64::from(bytes), false);
                self.head = Head::Chunk(chunk);
                return TryRecv::Begun { tag, bytes: taken };
            }
            let piece = layout.piece(first, blocks, bytes, left, j);
            let Some((run, after)) = rest.split_at_mut_checked(piece.bytes as usize) else {
                return TryRecv::Other;
            };
            let (begin, block) = (recording::begin(fabric, link), self.consumed);
            fabric.copy_out(link, memory, piece.at, run, CopyHint::Cached);
            recording::span(fabric, link, begin, || Step::CopyOut { sequence, block, bytes: piece.bytes });
            rest = after;
            self.consume_block();
        }
        self.took_whole();
        TryRecv::Taken { tag, bytes: bytes as usize }
    }

    #[inline]
    fn took_whole(&mut self) {
        self.transfers = self.transfers.wrapping_add(1);
        self.sequence = after(self.sequence);
        self.chunks += 1;
    }

    #[inline]
    fn record_begin(&self, fabric: &mut F, link: &F::Link, bytes: u32) {
        let (transfer, length) = (self.transfers.wrapping_add(1), Length::Exact(u64::from(bytes)));
        recording::event(fabric, link, || Step::ReceiveBegin { transfer, length });
    }

    /// Whether the block at `index` of the chunk at the head comes within so many looks.
    #[inline]
    fn await_flag(&self, fabric: &F, link: &F::Link, index: u32, looks: u32) -> bool {
        let Landing { memory, layout } = self.landing;
        for _ in 0..looks {
            if fabric.flag(link, memory, layout.flag_at(index)) == self.sequence {
                return true;
            }
            hint::spin_loop();
        }
        false
    }
}

/// Of a slice that was cut to a chunk's length.
#[inline]
fn length_of(to: &[u8]) -> u32 {
    u32::try_from(to.len()).unwrap_or(u32::MAX)
}
