//! The fast path: messages in a slot line or in a single chunk. No transfer is opened for them, unless some of their blocks are
//! late. wire.md 3.2, 4.2.

use super::{Chunk, Head, Receiver, TryRecv};
use crate::fabric::{CopyHint, Fabric};
use crate::recording;
use crate::wire::arrival::Arrival;
use crate::wire::header::{Header, Length};
use crate::wire::inline::unpack_message;
use crate::wire::layout::{FlagPlace, Landing};
use crate::wire::line::Line;
use crate::wire::sequence::after;
use core::hint;

impl<F: Fabric> Receiver<F> {
    /// Returns true if the state of this end allows the fast path for the next message.
    #[inline]
    pub(crate) fn is_plain(&self, arrival: Arrival) -> bool {
        let is_plain =
            self.open.is_none() && self.close.is_none() && self.next.is_none() && arrival == Arrival::Flag;
        planted!(FastPathUngated => return is_plain && !self.shut);
        is_plain && self.may_begin()
    }

    /// Returns the next slot line, if it arrives within `polls` polls.
    #[inline]
    pub(crate) fn await_line(&self, fabric: &F, link: &F::Link, polls: u32) -> Option<Line> {
        let Landing { memory, layout } = self.landing;
        let (at, sequence) = (layout.line_at(self.at), self.sequence);
        for _ in 1..polls {
            let line = fabric.take_line_if(link, memory, at, sequence);
            if line.is_some() {
                return line;
            }
            hint::spin_loop();
        }
        fabric.take_line_if(link, memory, at, sequence)
    }

    /// Takes a message that is in a line.
    #[inline]
    pub(crate) fn take_inline(&mut self, line: &Line, to: &mut [&mut [u8]]) -> Option<(u64, usize)> {
        let (tag, bytes, payload) = Header::plain_inline(line)?;
        if !unpack_message(&payload, bytes, to) {
            return None;
        }
        self.transfers = self.transfers.wrapping_add(1);
        self.sequence = after(self.sequence);
        self.inlines += 1;
        self.consume_block();
        Some((tag, bytes))
    }

    /// Takes a message that is a single chunk and fits one slice. Polls each later block `polls` times.
    #[inline]
    pub(crate) fn take_single_chunk(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        line: &Line,
        to: &mut [&mut [u8]],
        polls: u32,
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
            self.take_blocks(fabric, link, tag, to, left, polls)
        }
    }

    /// Returns true if `line` begins a single chunk, all blocks of which have arrived.
    pub(crate) fn is_single_chunk_here(&self, fabric: &F, link: &F::Link, line: &Line) -> bool {
        let message = Header::plain_message(line, self.transfers.wrapping_add(1));
        let Some((_, bytes, left)) = message else { return false };
        let blocks = self.landing.layout.blocks_for(bytes);
        self.shape(bytes, left).is_ok() && (1..blocks).all(|j| self.await_flag(fabric, link, self.at + j, 1))
    }

    /// Takes a message that is in one block.
    #[inline]
    fn take_block(&mut self, fabric: &mut F, link: &mut F::Link, to: &mut [u8], left: bool) {
        let bytes = length_of(to);
        let piece = self.landing.layout.piece(self.at, 1, bytes, left, 0);
        self.record_begin(fabric, link, bytes);
        self.copy_block(fabric, link, piece.at, to);
        self.consume_block();
        self.end_single_chunk();
    }

    /// Takes a message that is in several blocks.
    #[inline(never)]
    fn take_blocks(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        tag: u64,
        to: &mut [u8],
        left: bool,
        polls: u32,
    ) -> TryRecv {
        let (layout, bytes) = (self.landing.layout, length_of(to));
        if self.shape(bytes, left).is_err() {
            return TryRecv::Other;
        }
        let (first, blocks) = (self.at, layout.blocks_for(bytes));
        self.record_begin(fabric, link, bytes);
        let mut rest = to;
        for j in 0..blocks {
            if j > 0 && !self.await_flag(fabric, link, first + j, polls) {
                let taken = bytes as usize - rest.len();
                let (whole, fin, offset, arrived) = (false, true, 0, j);
                let mut chunk = Chunk { first, bytes, blocks, left, whole, fin, j, offset, arrived };
                planted!(BegunTooFar => chunk.arrived += 1);
                self.begin(tag, Length::Exact(u64::from(bytes)), u64::from(bytes), false);
                self.head = Head::Chunk(chunk);
                return TryRecv::Begun { tag, bytes: taken };
            }
            let piece = layout.piece(first, blocks, bytes, left, j);
            let Some((run, after)) = rest.split_at_mut_checked(piece.bytes as usize) else {
                return TryRecv::Other;
            };
            self.copy_block(fabric, link, piece.at, run);
            rest = after;
            self.consume_block();
        }
        self.end_single_chunk();
        TryRecv::Taken { tag, bytes: bytes as usize }
    }

    /// Copies the next block's payload out.
    #[inline]
    fn copy_block(&self, fabric: &mut F, link: &mut F::Link, at: u32, to: &mut [u8]) {
        let begin = recording::begin(fabric, link);
        fabric.copy_out(link, self.landing.memory, at, to, CopyHint::Cached);
        let (sequence, block, bytes) = (self.sequence, self.consumed, length_of(to));
        record!(fabric, link, since begin, CopyOut { sequence, block, bytes });
    }

    #[inline]
    fn end_single_chunk(&mut self) {
        self.transfers = self.transfers.wrapping_add(1);
        self.sequence = after(self.sequence);
        self.chunks += 1;
    }

    #[inline]
    fn record_begin(&self, fabric: &mut F, link: &F::Link, bytes: u32) {
        let (transfer, length) = (self.transfers.wrapping_add(1), Length::Exact(u64::from(bytes)));
        record!(fabric, link, ReceiveBegin { transfer, length });
    }

    /// Returns true if the block at `index` arrives within `polls` polls.
    #[inline]
    fn await_flag(&self, fabric: &F, link: &F::Link, index: u32, polls: u32) -> bool {
        let Landing { memory, layout } = self.landing;
        for _ in 0..polls {
            if fabric.flag(link, memory, layout.flag_at(index)) == self.sequence {
                return true;
            }
            hint::spin_loop();
        }
        false
    }
}

/// Length of a slice that was cut to a chunk's length.
#[inline]
fn length_of(to: &[u8]) -> u32 {
    u32::try_from(to.len()).unwrap_or(u32::MAX)
}
