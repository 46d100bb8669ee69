//! The fast path: messages in a slot line or in a single chunk. No transfer is opened for them, unless some of their blocks are
//! late. wire.md 3.2, 4.2.

use super::{Chunk, Head, Receiver, TryRecv};
use crate::copying::{CopyKernel, SizeClass};
use crate::fabric::{Fabric, times_copies};
use crate::recording;
use crate::wire::arrival::Arrival;
use crate::wire::header::{Header, INLINE_BYTES_MAX, Length};
use crate::wire::inline::{unpack_first, unpack_message};
use crate::wire::layout::{FlagPlace, Landing};
use crate::wire::line::Line;
use crate::wire::marks::Marks;
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
    pub(crate) fn await_line(&mut self, fabric: &F, link: &F::Link, polls: u32) -> Option<Line> {
        let Landing { memory, layout } = self.landing;
        let (at, sequence) = (layout.line_at(self.at), self.sequence);
        let line = fabric.take_line_if(link, memory, at, sequence);
        if line.is_some() {
            self.awaited.arrived();
            return line;
        }
        self.awaited.polled_in_vain();
        for _ in 1..polls {
            hint::spin_loop();
            let line = fabric.take_line_if(link, memory, at, sequence);
            if line.is_some() {
                self.awaited.arrived();
                return line;
            }
        }
        None
    }

    /// Takes a message that is in a line.
    #[inline]
    pub(crate) fn take_inline(&mut self, line: &Line, to: &mut [&mut [u8]]) -> Option<(u64, usize)> {
        let (tag, bytes, payload) = Header::plain_inline(line, F::DIRECT)?;
        if !unpack_message(&payload, bytes, to) {
            return None;
        }
        self.transfers = self.transfers.wrapping_add(1);
        self.sequence = after(self.sequence);
        self.inlines += 1;
        self.consume_block_of_lap(Marks::of(line).ends_lap);
        Some((tag, bytes))
    }

    /// Returns true if a message of more than [`INLINE_BYTES_MAX`] bytes can be in two lines, where flags are plain. wire.md 3.2.
    #[inline]
    pub(super) fn has_second_lines(&self) -> bool {
        F::DIRECT && self.landing.layout.flags != FlagPlace::Inside
    }

    /// Takes a message that is in both lines of a slot and fits one slice. Flags are plain.
    #[inline]
    pub(crate) fn take_two_lines(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        line: &Line,
        to: &mut [&mut [u8]],
    ) -> Option<(u64, usize)> {
        let (tag, bytes, payload) = Header::plain_two_lines(line)?;
        let [to] = to else { return None };
        let (first, rest) = to.get_mut(..bytes)?.split_first_chunk_mut::<INLINE_BYTES_MAX>()?;
        if !self.has_second_lines() {
            return None;
        }
        unpack_first(&payload, first);
        let Landing { memory, layout } = self.landing;
        fabric.copy_out(link, memory, layout.second_line_at(self.at), rest, CopyKernel::Plain);
        self.transfers = self.transfers.wrapping_add(1);
        self.sequence = after(self.sequence);
        self.inlines += 1;
        self.consume_block_of_lap(Marks::of(line).ends_lap);
        Some((tag, bytes))
    }

    /// Takes a message that is a single chunk and fits one slice. Polls each later group `polls` times. Begins one of which `blocks_max` blocks were taken,
    /// and leaves the rest.
    #[inline]
    pub(crate) fn take_single_chunk(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        line: &Line,
        to: &mut [&mut [u8]],
        (polls, blocks_max): (u32, u32),
    ) -> TryRecv {
        let message = Header::plain_message(line, self.transfers.wrapping_add(1), F::DIRECT);
        let Some((tag, bytes, left)) = message else { return TryRecv::Other };
        let [to] = to else { return TryRecv::Other };
        let Some(to) = to.get_mut(..bytes as usize) else { return TryRecv::Other };
        let layout = self.landing.layout;
        if bytes <= layout.first_capacity() && (left || layout.flags == FlagPlace::Inside) {
            self.take_block(fabric, link, to, Marks::of(line), left);
            TryRecv::Taken { tag, bytes: to.len() }
        } else {
            self.take_blocks(fabric, link, (tag, Marks::of(line), left), to, (polls, blocks_max))
        }
    }

    /// Returns true if `line` begins a message in two lines, or a single chunk, all groups of which have arrived.
    pub(crate) fn is_message_here(&self, fabric: &F, link: &F::Link, line: &Line) -> bool {
        if Header::plain_two_lines(line).is_some() {
            return true;
        }
        let message = Header::plain_message(line, self.transfers.wrapping_add(1), F::DIRECT);
        let Some((_, bytes, left)) = message else { return false };
        let layout = self.landing.layout;
        let blocks = layout.blocks_for(bytes);
        let mut others = layout.groups(layout.group_blocks(), blocks);
        self.shape(bytes, left).is_ok() && others.all(|j| self.await_flag(fabric, link, self.at + j, 1))
    }

    /// Takes a message that is in one block.
    #[inline]
    fn take_block(&mut self, fabric: &mut F, link: &mut F::Link, to: &mut [u8], marks: Marks, left: bool) {
        let bytes = length_of(to);
        let piece = self.landing.layout.only_piece(self.at, bytes, left);
        self.record_begin(fabric, link, bytes);
        self.expect_read(fabric, link, bytes);
        let is_timed = marks.timed;
        self.copy_block(fabric, link, piece.at, to, (bytes, is_timed));
        self.consume_block_of_lap(marks.ends_lap);
        self.end_single_chunk();
    }

    /// Hints the next block to the fabric, of which a message as long as the current one, `bytes` bytes, is assumed. Gives no hint where this end has waited for
    /// the current one: no next one is there, and the look at its flag would delay the answer.
    #[inline]
    fn expect_read(&self, fabric: &mut F, link: &mut F::Link, bytes: u32) {
        let Landing { memory, layout } = self.landing;
        let next = self.at + 1;
        if !self.awaited.waited_for_last() && next < layout.block_count && layout.flags != FlagPlace::Inside {
            let (flag_at, flag) = (layout.flag_at(next), after(self.sequence));
            let piece = layout.only_piece(next, bytes, true);
            fabric.expect_read(link, memory, flag_at, flag, piece.at, piece.bytes);
        }
    }

    /// Takes a message that is in several blocks.
    #[inline(never)]
    fn take_blocks(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        (tag, marks, left): (u64, Marks, bool),
        to: &mut [u8],
        (polls, blocks_max): (u32, u32),
    ) -> TryRecv {
        let (layout, bytes) = (self.landing.layout, length_of(to));
        if self.shape(bytes, left).is_err() {
            return TryRecv::Other;
        }
        let (first, blocks) = (self.at, layout.blocks_for(bytes));
        self.record_begin(fabric, link, bytes);
        let mut rest = to;
        for j in layout.groups(0, blocks) {
            if j > 0 && (j >= blocks_max || !self.await_flag(fabric, link, first + j, polls)) {
                let taken = bytes as usize - rest.len();
                let (whole, fin, offset, arrived) = (false, true, 0, j);
                let timed = marks.timed;
                let mut chunk = Chunk { first, bytes, blocks, left, whole, fin, timed, j, offset, arrived };
                planted!(BegunTooFar => chunk.arrived = chunk.group_end(layout, j));
                self.begin(tag, Length::Exact(u64::from(bytes)), u64::from(bytes), false);
                self.head = Head::Chunk(chunk);
                self.ends_lap = marks.ends_lap;
                return TryRecv::Begun { tag, bytes: taken };
            }
            let piece = layout.piece(first, blocks, bytes, left, j);
            let Some((run, after)) = rest.split_at_mut_checked(piece.bytes as usize) else {
                return TryRecv::Other;
            };
            let is_timed = marks.timed && j == 0;
            self.copy_block(fabric, link, piece.at, run, (bytes, is_timed));
            rest = after;
            let count = layout.group_blocks().min(blocks - j);
            self.consume_blocks_of_lap(count, marks.ends_lap && j + count == blocks);
        }
        self.end_single_chunk();
        TryRecv::Taken { tag, bytes: bytes as usize }
    }

    /// Copies the payload of the next group of a message of `all` bytes out.
    #[inline]
    fn copy_block(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        at: u32,
        to: &mut [u8],
        (all, is_timed): (u32, bool),
    ) {
        let begin = recording::begin(fabric, link);
        if times_copies::<F>() && is_timed {
            self.copy_out_timed(fabric, link, SizeClass::of(u64::from(all)), at, to);
        } else {
            fabric.copy_out(link, self.landing.memory, at, to, self.kernel_for(u64::from(all)));
        }
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
