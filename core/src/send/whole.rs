//! Messages that go whole, by direct store: the shortest way. No transfer is opened for them, since nobody could find
//! it open. wire.md 3.2, 4.2.

use super::{Sender, TransferId};
use crate::config::Protocol;
use crate::fabric::{Fabric, SqFull};
use crate::header::{Header, INLINE_BYTES_MAX, Length, Rts, RtsFields};
use crate::inline::pack;
use crate::layout::{FlagPlace, Landing};
use crate::line::{LINE_BYTES, Line};
use crate::notice::{Notices, Subject};
use crate::recorder::Step;
use crate::recording;

impl<F: Fabric> Sender<F> {
    /// Sends a whole message of at most 40 bytes in a slot line.
    #[inline]
    pub(crate) fn emit_inline(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        notices: &mut Notices,
        tag: u64,
        slices: &[&[u8]],
        bytes: usize,
    ) -> Result<TransferId, SqFull> {
        debug_assert!(bytes <= INLINE_BYTES_MAX, "the caller looked");
        let header = Header::Inline { tag, bytes: bytes.to_le_bytes()[0], payload: pack(slices) };
        let mut line = header.line();
        line.0[7] = notices.arrival().line_flag(fabric, &line, self.sequence);
        let at = self.landing.layout.line_at(self.at);
        fabric.write_line(link, self.landing.memory, at, &line);
        if !F::DIRECT {
            let (to, subject) = (self.landing.memory, Subject::Chunk(self.sequence));
            notices.post(fabric, link, to, at, LINE_BYTES, None, subject)?;
        }
        Ok(self.sent_whole(1))
    }

    /// Sends a whole message as one chunk, if there is room for it up to the end of the ring. Direct store and plain
    /// flags only.
    #[inline]
    pub(crate) fn emit_whole(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        protocol: Protocol,
        tag: u64,
        message: &[u8],
    ) -> Option<TransferId> {
        let bytes = u32::try_from(message.len()).ok()?;
        if bytes <= self.landing.layout.first_capacity() {
            self.emit_block(fabric, link, protocol, tag, message, bytes)
        } else {
            self.emit_blocks(fabric, link, protocol, tag, message, bytes)
        }
    }

    /// One that fits a block.
    #[inline]
    fn emit_block(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        protocol: Protocol,
        tag: u64,
        message: &[u8],
        bytes: u32,
    ) -> Option<TransferId> {
        if self.is_full() {
            return None;
        }
        let Landing { memory, layout } = self.landing;
        let left = layout.flags == FlagPlace::Apart;
        let line = self.whole_line(protocol, tag, bytes, left);
        let (at, piece) = (layout.line_at(self.at), layout.piece(self.at, 1, bytes, left, 0));
        self.record_begin(fabric, link, bytes);
        fabric.expect_write(link, memory, at, LINE_BYTES);
        let begin = recording::begin(fabric, link);
        fabric.copy_in(link, memory, piece.at, message);
        let (sequence, block) = (self.sequence, self.produced);
        recording::span(fabric, link, begin, || Step::CopyIn { sequence, block, bytes });
        fabric.write_line(link, memory, at, &line);
        Some(self.emitted_whole(fabric, link, 1))
    }

    /// One that takes several.
    #[inline(never)]
    fn emit_blocks(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        protocol: Protocol,
        tag: u64,
        message: &[u8],
        bytes: u32,
    ) -> Option<TransferId> {
        let Landing { memory, layout } = self.landing;
        let (first, blocks, sequence) = (self.at, layout.blocks_for(bytes), self.sequence);
        if blocks > self.free().min(layout.block_count - first) {
            return None;
        }
        let left = !layout.can_right_align(bytes);
        let line = self.whole_line(protocol, tag, bytes, left);
        self.record_begin(fabric, link, bytes);
        let mut rest = message;
        for j in 0..blocks {
            let piece = layout.piece(first, blocks, bytes, left, j);
            let (run, after) = rest.split_at_checked(piece.bytes as usize)?;
            fabric.expect_write(link, memory, layout.line_at(first + j), LINE_BYTES);
            let begin = recording::begin(fabric, link);
            fabric.copy_in(link, memory, piece.at, run);
            let block = self.produced.wrapping_add(u64::from(j));
            recording::span(fabric, link, begin, || Step::CopyIn { sequence, block, bytes: piece.bytes });
            if j == 0 {
                fabric.write_line(link, memory, layout.line_at(first), &line);
            } else {
                fabric.publish(link, memory, layout.flag_at(first + j), sequence);
            }
            rest = after;
        }
        Some(self.emitted_whole(fabric, link, blocks))
    }

    /// The slot line of a whole message.
    #[inline]
    fn whole_line(&self, protocol: Protocol, tag: u64, bytes: u32, left: bool) -> Line {
        let header = Header::Chunk {
            transfer: self.transfers.wrapping_add(1),
            bytes,
            fin: true,
            left,
            whole: protocol.is_whole(),
            rts: Some(RtsFields(Rts { tag, length: Length::Exact(u64::from(bytes)), want_cts: false })),
        };
        let mut line = header.line();
        line.0[7] = self.sequence;
        line
    }

    #[inline]
    fn record_begin(&self, fabric: &mut F, link: &F::Link, bytes: u32) {
        let (transfer, length) = (self.transfers.wrapping_add(1), Length::Exact(u64::from(bytes)));
        recording::event(fabric, link, || Step::SendBegin { transfer, length });
    }

    #[inline]
    fn emitted_whole(&mut self, fabric: &mut F, link: &F::Link, blocks: u32) -> TransferId {
        let id = self.sent_whole(blocks);
        recording::event(fabric, link, || Step::SendEnd { transfer: id.number });
        id
    }

    /// The next message is likely to be as long as the last.
    #[inline]
    pub(crate) fn expect_write(&self, fabric: &mut F, link: &mut F::Link, bytes: usize) {
        let Landing { memory, layout } = self.landing;
        let bytes = u32::try_from(bytes).unwrap_or(0).min(layout.first_capacity());
        let piece = layout.piece(self.at, 1, bytes, !layout.can_right_align(bytes), 0);
        fabric.expect_write(link, memory, piece.at, piece.bytes);
    }

    /// A whole message is in `blocks` blocks.
    #[inline]
    fn sent_whole(&mut self, blocks: u32) -> TransferId {
        self.produce(blocks);
        self.transfers = self.transfers.wrapping_add(1);
        let generation = self.generation;
        self.generation = generation.wrapping_add(1);
        TransferId { number: self.transfers, generation }
    }
}
