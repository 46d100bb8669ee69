//! The fast path: messages that are sent complete, in a slot line or, by direct store, in a single chunk. No transfer is opened
//! for them, since it would end within the same call. wire.md 3.2, 4.2.

use super::{Sender, TransferId};
use crate::copying::{CopyKernel, Plan};
use crate::fabric::{Fabric, SqFull};
use crate::wire::arrival::Arrival;
use crate::wire::header::{Header, INLINE_BYTES_MAX, Length, Rts, RtsFields};
use crate::wire::inline::{pack, pack_first};
use crate::wire::layout::{FlagPlace, Landing};
use crate::wire::line::{LINE_BYTES, Line};
use crate::wire::marks::Marks;
use crate::wire::notification::Subject;

impl<F: Fabric> Sender<F> {
    /// Sends a message of at most 40 bytes in a slot line.
    #[inline]
    pub(crate) fn emit_inline(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        tag: u64,
        slices: &[&[u8]],
        bytes: usize,
    ) -> Result<TransferId, SqFull> {
        debug_assert!(bytes <= INLINE_BYTES_MAX, "the caller has checked it");
        let header = Header::Inline { tag, bytes: bytes.to_le_bytes()[0], payload: pack(slices) };
        let mut line = header.line();
        self.marks(1).put_into(&mut line);
        line.0[7] = self.arrival.line_flag(fabric, &line, self.sequence);
        let at = self.landing.layout.line_at(self.at);
        fabric.write_line(link, self.landing.memory, at, &line);
        if !F::DIRECT {
            let (to, subject) = (self.landing.memory, Subject::Chunk(self.sequence));
            self.post_line(fabric, link, to, at, subject, None)?;
        }
        Ok(self.count_message(1))
    }

    /// Returns true if messages of more than [`INLINE_BYTES_MAX`] bytes can be sent in two lines: the flag proves both, and the line behind a slot
    /// line is no part of a block.
    #[inline]
    pub(crate) fn has_second_lines(&self) -> bool {
        F::DIRECT && self.arrival == Arrival::Flag && self.landing.layout.flags != FlagPlace::Inside
    }

    /// Sends a message of more than [`INLINE_BYTES_MAX`] bytes, and at most [`TWO_LINES_BYTES_MAX`](crate::TWO_LINES_BYTES_MAX), in both lines of a slot.
    /// A block is free. Sends nothing if it is shorter.
    #[inline]
    pub(crate) fn emit_two_lines(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        tag: u64,
        message: &[u8],
    ) -> Option<TransferId> {
        let (first, rest) = message.split_first_chunk::<INLINE_BYTES_MAX>()?;
        let header =
            Header::Inline { tag, bytes: message.len().to_le_bytes()[0], payload: pack_first(first) };
        let mut line = header.line();
        self.marks(1).put_into(&mut line);
        line.0[7] = self.sequence;
        let Landing { memory, layout } = self.landing;
        planted!(SecondLineLate => {
            fabric.write_line(link, memory, layout.line_at(self.at), &line);
            fabric.copy_in(link, memory, layout.second_line_at(self.at), rest, CopyKernel::Plain);
            return Some(self.count_message(1));
        });
        fabric.copy_in(link, memory, layout.second_line_at(self.at), rest, CopyKernel::Plain);
        fabric.write_line(link, memory, layout.line_at(self.at), &line);
        let id = self.count_message(1);
        let next = layout.second_line_at(self.at);
        fabric.expect_write(link, memory, next, LINE_BYTES, false);
        Some(id)
    }

    /// Sends a message as a single chunk, if there is room for it up to the end of the lap. For direct store and plain flags
    /// only.
    #[inline]
    pub(crate) fn emit_single_chunk(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        whole: bool,
        tag: u64,
        message: &[u8],
    ) -> Option<TransferId> {
        let bytes = u32::try_from(message.len()).ok()?;
        if bytes <= self.landing.layout.first_capacity() {
            self.emit_block(fabric, link, whole, tag, message, bytes)
        } else {
            self.emit_blocks(fabric, link, whole, tag, message, bytes)
        }
    }

    /// Sends a message that fits a block.
    #[inline]
    fn emit_block(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        whole: bool,
        tag: u64,
        message: &[u8],
        bytes: u32,
    ) -> Option<TransferId> {
        if self.is_full() {
            return None;
        }
        let Landing { memory, layout } = self.landing;
        let left = layout.flags != FlagPlace::Inside;
        let plan = self.plan_copy(Length::Exact(u64::from(bytes)), bytes);
        let line = self.single_chunk_line(whole, tag, bytes, (1, left), plan);
        let (at, piece) = (layout.line_at(self.at), layout.only_piece(self.at, bytes, left));
        self.record_begin(fabric, link, bytes);
        fabric.expect_write(link, memory, at, LINE_BYTES, false);
        self.copy_in(fabric, link, piece.at, message, (0, plan));
        fabric.write_line(link, memory, at, &line);
        Some(self.end_single_chunk(fabric, link, 1))
    }

    /// Sends a message that takes several blocks.
    #[inline(never)]
    fn emit_blocks(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        whole: bool,
        tag: u64,
        message: &[u8],
        bytes: u32,
    ) -> Option<TransferId> {
        let Landing { memory, layout } = self.landing;
        let (first, blocks, sequence) = (self.at, layout.blocks_for(bytes), self.sequence);
        if blocks > self.free().min(self.to_end()) {
            return None;
        }
        let left = !layout.can_right_align(bytes);
        let first_bytes = layout.piece(first, blocks, bytes, left, 0).bytes;
        let plan = self.plan_copy(Length::Exact(u64::from(bytes)), first_bytes);
        let line = self.single_chunk_line(whole, tag, bytes, (blocks, left), plan);
        self.record_begin(fabric, link, bytes);
        let mut rest = message;
        for j in layout.groups(0, blocks) {
            let piece = layout.piece(first, blocks, bytes, left, j);
            let (run, after) = rest.split_at_checked(piece.bytes as usize)?;
            fabric.expect_write(link, memory, layout.line_at(first + j), LINE_BYTES, false);
            planted!(GroupFlaggedEarly => if j > 0 && piece.bytes > layout.block_bytes {
                fabric.publish(link, memory, layout.flag_at(first + j), sequence);
            });
            self.copy_in(fabric, link, piece.at, run, (j, plan));
            if j == 0 {
                fabric.write_line(link, memory, layout.line_at(first), &line);
            } else {
                fabric.publish(link, memory, layout.flag_at(first + j), sequence);
            }
            rest = after;
        }
        Some(self.end_single_chunk(fabric, link, blocks))
    }

    /// Sends a message that is in memory which the peer has mapped. A block is free. For direct store only. wire.md 4.9.
    pub(crate) fn emit_exposed(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        tag: u64,
        bytes: u64,
        memory: (u8, u32),
    ) -> TransferId {
        let (transfer, (place, offset)) = (self.next_transfer(), memory);
        let (place, offset) = (u64::from(place), u64::from(offset));
        let mut line = Header::Exposed { transfer, tag, bytes, place, offset }.line();
        self.marks(1).put_into(&mut line);
        line.0[7] = self.arrival.line_flag(fabric, &line, self.sequence);
        let at = self.landing.layout.line_at(self.at);
        record!(fabric, link, SendBegin { transfer, length: Length::Exact(bytes) });
        fabric.write_line(link, self.landing.memory, at, &line);
        self.end_single_chunk(fabric, link, 1)
    }

    /// Returns the slot line of a single chunk.
    #[inline]
    fn single_chunk_line(
        &self,
        whole: bool,
        tag: u64,
        bytes: u32,
        (blocks, left): (u32, bool),
        plan: Option<Plan>,
    ) -> Line {
        let header = Header::Chunk {
            transfer: self.next_transfer(),
            bytes,
            fin: true,
            left,
            whole,
            remote: false,
            rts: Some(RtsFields(Rts { tag, length: Length::Exact(u64::from(bytes)), want_cts: false })),
        };
        let mut line = header.line();
        let timed = plan.is_some_and(|plan| plan.is_timed);
        Marks { timed, ..self.marks(blocks) }.put_into(&mut line);
        line.0[7] = self.sequence;
        line
    }

    #[inline]
    fn record_begin(&self, fabric: &mut F, link: &F::Link, bytes: u32) {
        let (transfer, length) = (self.next_transfer(), Length::Exact(u64::from(bytes)));
        record!(fabric, link, SendBegin { transfer, length });
    }

    #[inline]
    fn end_single_chunk(&mut self, fabric: &mut F, link: &F::Link, blocks: u32) -> TransferId {
        let id = self.count_message(blocks);
        record!(fabric, link, SendEnd { transfer: id.number });
        id
    }

    /// Hints the next block to the fabric. The next message is assumed to be as long as the last one, and to follow an answer if that did.
    #[inline]
    pub(crate) fn expect_write(
        &self,
        fabric: &mut F,
        link: &mut F::Link,
        bytes: usize,
        follows_answer: bool,
    ) {
        let Landing { memory, layout } = self.landing;
        let all = u32::try_from(bytes).unwrap_or(u32::MAX);
        let bytes = all.min(layout.first_capacity());
        let piece = layout.only_piece(self.at, bytes, !layout.can_right_align(bytes));
        fabric.expect_write(link, memory, piece.at, piece.bytes, follows_answer && bytes == all);
    }

    /// Counts a message that takes `blocks` blocks.
    #[inline]
    fn count_message(&mut self, blocks: u32) -> TransferId {
        self.produce(blocks);
        self.transfers = self.transfers.wrapping_add(1);
        let generation = self.generation;
        self.generation = generation.wrapping_add(1);
        TransferId { number: self.transfers, generation }
    }
}
