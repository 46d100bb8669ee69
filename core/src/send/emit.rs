//! Construction of chunks in blocks, with their copies and checksums, and of CANCEL. wire.md 3.2, 4.2.

use super::{Cancelled, InFlight, Payload, Sender, Unposted};
use crate::copying::{CopyKernel, Plan};
use crate::fabric::Fabric;
use crate::nanos::Nanos;
use crate::recording;
use crate::slices::Gather;
use crate::wire::arrival::Arrival;
use crate::wire::header::{Header, Length, Rts, RtsFields};
use crate::wire::layout::{Landing, Layout, Piece};
use crate::wire::line::LINE_BYTES;
use crate::wire::marks::Marks;
use crate::wire::notification::Subject;
use crate::wire::sequence::after;

impl<F: Fabric> Sender<F> {
    /// Puts `bytes` bytes of the open transfer into blocks as one chunk, and posts it. [`next_chunk`](Self::next_chunk) has allowed it.
    pub(crate) fn emit(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        mut payload: Payload<'_, '_>,
        bytes: u32,
        end: bool,
    ) {
        let Landing { memory, layout } = self.landing;
        let (arrival, first, sequence) = (self.arrival, self.at, self.sequence);
        let blocks = layout.blocks_for(bytes);
        let Some(open) = &self.open else { return };
        let length = open.length;
        let first_bytes = layout.piece(first, blocks, bytes, left_of(&payload, layout, bytes), 0).bytes;
        let plan = match payload {
            Payload::Gathered(_) => self.plan_copy(length, first_bytes),
            Payload::InPlace | Payload::Prepared(_) => None,
        };
        let marks = Marks { timed: plan.is_some_and(|plan| plan.is_timed), ..self.marks(blocks) };
        let Some(open) = &mut self.open else { return };
        let left = left_of(&payload, layout, bytes);
        open.sent += u64::from(bytes);
        let fin = end || open.length == Length::Exact(open.sent);
        let is_first = !open.rts_sent;
        let rts = is_first.then_some(RtsFields(Rts {
            tag: open.tag,
            length: open.length,
            want_cts: open.want_cts,
        }));
        let transfer = open.id.number;
        let is_split = F::DIRECT && open.split.is_some();
        let (id, remote) = (open.id, is_split || !F::DIRECT && open.remote.is_some());
        let whole = open.copies_whole_chunks && !remote;
        let header = Header::Chunk { transfer, bytes, fin, left, whole, remote, rts };
        if is_first {
            record!(fabric, link, SendBegin { transfer, length: open.length });
            open.rts_sent = true;
            open.was_remote = remote;
            self.transfers = transfer;
        }
        if bytes > 0 {
            open.schedule.advance();
        }
        (open.reserved, open.prepared) = (0, 0);
        self.record_filled(fabric, link, &payload, bytes);
        for j in layout.groups(0, blocks) {
            let piece = layout.piece(first, blocks, bytes, left, j);
            planted!(GroupFlaggedEarly => if j > 0 && piece.bytes > layout.block_bytes {
                fabric.publish(link, memory, layout.flag_at(first + j), sequence);
            });
            let begun = Self::begin_timing(fabric, plan, j);
            let crc = self.fill(fabric, link, &mut payload, piece, (j, Self::kernel_of(plan, j)));
            self.end_timing(fabric, link, begun, piece.bytes);
            if j == 0 {
                let mut line = header.line();
                marks.put_into(&mut line);
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
            if remote && fin {
                self.note_remote_end(id, sequence);
            }
            let kept = self.in_flight.push_back(InFlight { sequence, from });
            debug_assert!(kept.is_ok(), "free() is 0 while it is full");
            let at = if bytes == 0 {
                layout.line_at(first)
            } else {
                layout.piece(first, blocks, bytes, left, 0).at
            };
            let to = layout.line_at(first + blocks - 1) + LINE_BYTES;
            let unposted = Unposted { at, bytes: to - at, sequence, is_remote_end: remote && fin };
            if self.unposted.is_none() {
                self.unposted = Some(unposted);
            } else {
                self.unposted_behind = Some(unposted);
            }
            self.post_chunk(fabric, link);
        }
    }

    /// Copies `from` to `at`, in the group that begins with block `j` of the chunk that is being built.
    #[inline]
    pub(super) fn copy_in(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        at: u32,
        from: &[u8],
        (j, plan): (u32, Option<Plan>),
    ) {
        let begin = recording::begin(fabric, link);
        let timing = Self::begin_timing(fabric, plan, j);
        fabric.copy_in(link, self.landing.memory, at, from, Self::kernel_of(plan, j));
        self.end_timing(fabric, link, timing, u32::try_from(from.len()).unwrap_or(0));
        self.record_copy(fabric, link, begin, j, from.len());
    }

    /// Fills the group that begins with block `j` of the chunk that is being built with its piece of the payload, and returns the CRC for the
    /// group's flag: of the key alone unless flags are checked.
    pub(super) fn fill(
        &self,
        fabric: &mut F,
        link: &mut F::Link,
        payload: &mut Payload<'_, '_>,
        piece: Piece,
        (j, kernel): (u32, CopyKernel),
    ) -> u32 {
        let Landing { memory, layout } = self.landing;
        let is_checked = self.arrival == Arrival::CheckedFlag;
        let begin = recording::begin(fabric, link);
        if F::DIRECT {
            fabric.expect_write(link, memory, layout.line_at(self.at + j), LINE_BYTES, false);
        }
        let mut crc = self.arrival.seed(fabric, self.sequence, piece.bytes);
        match payload {
            Payload::Gathered(gather) => {
                crc = self
                    .copy_piece(fabric, link, gather, piece, kernel, is_checked.then_some(crc))
                    .unwrap_or(crc);
                if piece.bytes > 0 {
                    self.record_copy(fabric, link, begin, j, piece.bytes as usize);
                }
            }
            Payload::InPlace | Payload::Prepared(_) if is_checked => {
                crc = fabric.crc_in(link, memory, piece.at, piece.bytes, crc);
            }
            Payload::InPlace | Payload::Prepared(_) => {}
        }
        crc
    }

    /// Copies a piece of the payload to its place, and returns the CRC of it if `crc` has one to go on from.
    #[inline]
    pub(super) fn copy_piece(
        &self,
        fabric: &mut F,
        link: &mut F::Link,
        gather: &mut Gather<'_>,
        piece: Piece,
        kernel: CopyKernel,
        mut crc: Option<u32>,
    ) -> Option<u32> {
        let (mut at, mut rest) = (piece.at, piece.bytes as usize);
        while rest > 0 {
            let run = gather.take(rest);
            fabric.copy_in(link, self.landing.memory, at, run, kernel);
            crc = crc.map(|crc| fabric.crc(run, crc));
            rest -= run.len();
            at += u32::try_from(run.len()).unwrap_or(0);
            debug_assert!(!run.is_empty(), "the caller has these bytes");
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

    /// Puts the CANCEL that is due into the block that is kept for it. Returns false if none is due, or if it has to wait: for
    /// completions, for a credit, or for the caller who fills what it has reserved, but never for the reader.
    pub(crate) fn emit_cancel(&mut self, fabric: &mut F, link: &mut F::Link) -> bool {
        let Some(Cancelled { transfer, reason, remote }) = self.cancelled else { return false };
        if self.is_full() || self.reserved() > 0 {
            return false;
        }
        let mut line = Header::Cancel { transfer, reason }.line();
        self.marks(1).put_into(&mut line);
        line.0[7] = self.arrival.line_flag(fabric, &line, self.sequence);
        let (to, at) = (self.landing.memory, self.landing.layout.line_at(self.at));
        fabric.write_line(link, to, at, &line);
        let subject = Subject::Chunk(self.sequence);
        let posted = match remote {
            _ if F::DIRECT => Ok(()),
            None => self.post_line(fabric, link, to, at, subject, None),
            Some(_) => self.post_remote_cancel(fabric, link, at),
        };
        if posted.is_err() {
            return false;
        }
        record!(fabric, link, SendEnd { transfer });
        let sequence = self.sequence;
        self.produce(1);
        if let Some(id) = remote {
            self.note_remote_end(id, sequence);
        }
        self.cancelled = None;
        true
    }

    /// Counts a chunk of `blocks` blocks, and goes on behind it.
    #[inline]
    pub(super) fn produce(&mut self, blocks: u32) {
        self.at += blocks;
        self.produced = self.produced.wrapping_add(u64::from(blocks));
        if self.at == self.laps.blocks() {
            self.at = 0;
            self.begin_lap();
            self.laps.begin_next(self.produced, self.free_from);
        }
        self.sequence = after(self.sequence);
        self.chunk_ends = [self.chunk_ends[1], self.produced];
    }
}

/// Returns true if a chunk of `bytes` bytes is filled from the left.
fn left_of(payload: &Payload<'_, '_>, layout: Layout, bytes: u32) -> bool {
    match payload {
        Payload::Gathered(_) => !layout.can_right_align(bytes),
        Payload::InPlace => true,
        Payload::Prepared(is_left) => *is_left,
    }
}
