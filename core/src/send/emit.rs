//! Construction of chunks in blocks, and of CANCEL. wire.md 3.2, 4.2.

use super::{Cancelled, InFlight, Payload, Sender, Unposted};
use crate::fabric::Fabric;
use crate::wire::header::{Header, Length, Rts, RtsFields};
use crate::wire::layout::Landing;
use crate::wire::line::LINE_BYTES;
use crate::wire::notification::Subject;
use crate::wire::sequence::after;

impl<F: Fabric> Sender<F> {
    #[inline]
    pub(super) fn produce(&mut self, blocks: u32) {
        self.at += blocks;
        if self.at == self.landing.layout.block_count {
            self.at = 0;
        }
        self.produced = self.produced.wrapping_add(u64::from(blocks));
        self.sequence = after(self.sequence);
        self.chunk_ends = [self.chunk_ends[1], self.produced];
    }

    /// Puts `bytes` bytes of the open transfer into blocks as one chunk, and posts it. [`next`](Self::next) has allowed it.
    pub(crate) fn emit(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        mut payload: Payload<'_, '_>,
        bytes: u32,
        end: bool,
    ) {
        let Some(open) = &mut self.open else { return };
        let Landing { memory, layout } = self.landing;
        let (arrival, first, sequence) = (self.arrival, self.at, self.sequence);
        let blocks = layout.blocks_for(bytes);
        let left = matches!(payload, Payload::InPlace) || !layout.can_right_align(bytes);
        open.sent += u64::from(bytes);
        let fin = end || open.length == Length::Exact(open.sent);
        let is_first = !open.started;
        let rts = is_first.then_some(RtsFields(Rts {
            tag: open.tag,
            length: open.length,
            want_cts: open.want_cts,
        }));
        let transfer = open.id.number;
        let header =
            Header::Chunk { transfer, bytes, fin, left, whole: open.protocol.copies_whole_chunks(), rts };
        if is_first {
            record!(fabric, link, SendBegin { transfer, length: open.length });
            open.started = true;
            self.transfers = transfer;
        }
        open.schedule.advance();
        open.reserved = 0;
        self.record_filled(fabric, link, &payload, bytes);
        for j in 0..blocks {
            let piece = layout.piece(first, blocks, bytes, left, j);
            let crc = self.fill(fabric, link, &mut payload, piece, j);
            if j == 0 {
                let mut line = header.line();
                line.0[7] = arrival.header_flag(fabric, &line, sequence, crc);
                fabric.write_line(link, memory, layout.line_at(first), &line);
            } else {
                fabric.publish(link, memory, layout.flag_at(first + j), arrival.flag(sequence, crc));
            }
        }
        if fin {
            record!(fabric, link, SendEnd { transfer });
            self.open = None;
        }
        let from = self.produced;
        self.produce(blocks);
        if !F::DIRECT {
            let kept = self.in_flight.push_back(InFlight { sequence, from });
            debug_assert!(kept.is_ok(), "free() is 0 while it is full");
            let at = if bytes == 0 {
                layout.line_at(first)
            } else {
                layout.piece(first, blocks, bytes, left, 0).at
            };
            let to = layout.line_at(first + blocks - 1) + LINE_BYTES;
            self.unposted = Some(Unposted { at, bytes: to - at, sequence });
            self.post_chunk(fabric, link);
        }
    }

    /// Puts the CANCEL that is due into the block that is kept for it. Returns false if none is due, or if it has to wait: for
    /// completions, for a credit, or for the caller who fills what it has reserved, but never for the reader.
    pub(crate) fn emit_cancel(&mut self, fabric: &mut F, link: &mut F::Link) -> bool {
        let Some(Cancelled { transfer, reason }) = self.cancelled else { return false };
        if self.is_full() || self.reserved() > 0 {
            return false;
        }
        let mut line = Header::Cancel { transfer, reason }.line();
        line.0[7] = self.arrival.line_flag(fabric, &line, self.sequence);
        let (to, at) = (self.landing.memory, self.landing.layout.line_at(self.at));
        fabric.write_line(link, to, at, &line);
        let subject = Subject::Chunk(self.sequence);
        if !F::DIRECT && self.post_line(fabric, link, to, at, subject).is_err() {
            return false;
        }
        record!(fabric, link, SendEnd { transfer });
        self.produce(1);
        self.cancelled = None;
        true
    }
}
