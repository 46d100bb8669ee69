//! Putting chunks into blocks, and posting them. wire.md 3.2, 4.2.

use super::{Cancelled, InFlight, Payload, Reservation, Sender, Unposted};
use crate::arrival::Arrival;
use crate::fabric::{Fabric, WrId};
use crate::header::{Header, Length, Rts, RtsFields};
use crate::layout::Landing;
use crate::line::LINE_BYTES;
use crate::notice::{Notices, Subject};
use crate::recorder::Step;
use crate::recording;
use crate::sequence::after;

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

    /// Puts `bytes` bytes of the open transfer into blocks as one chunk, and posts it. `next` allowed it.
    pub(crate) fn emit(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        notices: &mut Notices,
        mut payload: Payload<'_, '_>,
        bytes: u32,
        end: bool,
    ) {
        let Some(open) = &mut self.open else { return };
        let arrival = notices.arrival();
        let Landing { memory, layout } = self.landing;
        let (first, sequence) = (self.at, self.sequence);
        let blocks = layout.blocks_for(bytes);
        let left = matches!(payload, Payload::InPlace) || !layout.can_right_align(bytes);
        open.sent += u64::from(bytes);
        let fin = end || open.length == Length::Exact(open.sent);
        let rts = (!open.started).then_some(RtsFields(Rts {
            tag: open.tag,
            length: open.length,
            want_cts: open.want_cts,
        }));
        let header = Header::Chunk {
            transfer: open.id.number,
            bytes,
            fin,
            left,
            whole: open.protocol.is_whole(),
            rts,
        };
        if rts.is_some() {
            let step = || Step::SendBegin { transfer: open.id.number, length: open.length };
            recording::event(fabric, link, step);
        }
        if matches!(payload, Payload::InPlace) && bytes > 0 {
            let begin = recording::filling(fabric, link);
            recording::span(fabric, link, begin, || Step::CopyIn { sequence, block: self.produced, bytes });
        }
        for j in 0..blocks {
            let piece = layout.piece(first, blocks, bytes, left, j);
            let begin = recording::begin(fabric, link);
            if F::DIRECT {
                fabric.expect_write(link, memory, layout.line_at(first + j), LINE_BYTES);
            }
            let mut crc = arrival.seed(fabric, sequence, piece.bytes);
            match &mut payload {
                Payload::Gathered(gather) => {
                    let (mut at, mut rest) = (piece.at, piece.bytes as usize);
                    while rest > 0 {
                        let run = gather.take(rest);
                        fabric.copy_in(link, memory, at, run);
                        if arrival == Arrival::CheckedFlag {
                            crc = fabric.crc(run, crc);
                        }
                        rest -= run.len();
                        at += u32::try_from(run.len()).unwrap_or(0);
                        debug_assert!(!run.is_empty(), "the caller has these bytes");
                    }
                }
                Payload::InPlace if arrival == Arrival::CheckedFlag => {
                    crc = fabric.crc_in(link, memory, piece.at, piece.bytes, crc);
                }
                Payload::InPlace => {}
            }
            if matches!(payload, Payload::Gathered(_)) && piece.bytes > 0 {
                let block = self.produced.wrapping_add(u64::from(j));
                recording::span(fabric, link, begin, || Step::CopyIn { sequence, block, bytes: piece.bytes });
            }
            if j == 0 {
                let mut line = header.line();
                if arrival == Arrival::CheckedFlag {
                    crc = Arrival::body_crc(fabric, &line, crc);
                }
                line.0[7] = arrival.flag(sequence, crc);
                fabric.write_line(link, memory, layout.line_at(first), &line);
            } else {
                fabric.publish(link, memory, layout.flag_at(first + j), arrival.flag(sequence, crc));
            }
        }
        if rts.is_some() {
            open.started = true;
            self.transfers = open.id.number;
        }
        open.schedule.advance();
        open.reserved = 0;
        if fin {
            recording::event(fabric, link, || Step::SendEnd { transfer: open.id.number });
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
            self.post(fabric, link, notices);
        }
    }

    /// Puts the CANCEL that is due into the block that is kept for it. False where none is due, or it has to wait: for
    /// completions, for a credit, or for the caller who fills what it has reserved, but never for the reader.
    pub(crate) fn emit_cancel(&mut self, fabric: &mut F, link: &mut F::Link, notices: &mut Notices) -> bool {
        let Some(Cancelled { transfer, reason }) = self.cancelled else { return false };
        if self.is_full() || self.reserved() > 0 {
            return false;
        }
        let mut line = Header::Cancel { transfer, reason }.line();
        line.0[7] = notices.arrival().line_flag(fabric, &line, self.sequence);
        let (to, at) = (self.landing.memory, self.landing.layout.line_at(self.at));
        fabric.write_line(link, to, at, &line);
        let subject = Subject::Chunk(self.sequence);
        if !F::DIRECT && notices.post(fabric, link, to, at, LINE_BYTES, None, subject).is_err() {
            return false;
        }
        recording::event(fabric, link, || Step::SendEnd { transfer });
        self.produce(1);
        self.cancelled = None;
        true
    }

    /// Posts the chunk that waits for the send queue. Work done, or false.
    pub(crate) fn post(&mut self, fabric: &mut F, link: &mut F::Link, notices: &mut Notices) -> bool {
        let Some(Unposted { at, bytes, sequence }) = self.unposted else { return false };
        let (to, wr, subject) = (self.landing.memory, Some(WrId(sequence)), Subject::Chunk(sequence));
        let posted = notices.post(fabric, link, to, at, bytes, wr, subject).is_ok();
        if posted {
            recording::event(fabric, link, || Step::Post { sequence, bytes });
            self.unposted = None;
        }
        posted
    }

    pub(crate) const fn has_unposted(&self) -> bool {
        self.unposted.is_some()
    }

    /// The device has let go of this chunk, and so of all that were posted before it: completions of one queue come in
    /// order, and one that was lost is made up for by the next.
    pub(crate) fn handle_completion(&mut self, wr: WrId) {
        if self.in_flight.iter().any(|chunk| chunk.sequence == wr.0) {
            while self.in_flight.pop_front().is_some_and(|oldest| oldest.sequence != wr.0) {}
        }
    }

    /// Free payload for at most `max_bytes` bytes, `allowed` by [`next`](Self::next).
    pub(crate) fn reserve(&mut self, allowed: u32, max_bytes: u32) -> Reservation<F::Remote> {
        let bytes = allowed.min(max_bytes);
        if let Some(open) = &mut self.open {
            open.reserved = bytes;
        }
        let Landing { memory, layout } = self.landing;
        Reservation { memory, layout, first: self.at, bytes }
    }

    pub(crate) const fn reserved(&self) -> u32 {
        match &self.open {
            Some(open) => open.reserved,
            None => 0,
        }
    }
}
