//! Receiving: the transfer at the head, copied out or read in place. wire.md 4.

use core::mem;

use super::{Endpoint, Incoming};
use crate::error::Reason;
use crate::fabric::Fabric;
use crate::receive::{Destination, End, Open, Pulled, Readable, Size, TryRecv};
use crate::recording;
use crate::slices::{Cursor, Scatter};
use crate::wire::header::Length;
use crate::wire::line::Line;
use crate::wire::sequence::after;

impl<F: Fabric> Endpoint<F> {
    /// Takes the next message if it arrives within `polls` polls (at least one) and fits: the fast path for messages in a line, and for
    /// those in two and single chunks into one slice. Anything else is left for [`incoming`](Self::incoming).
    #[inline]
    pub fn try_recv(&mut self, fabric: &mut F, slices: &mut [&mut [u8]], polls: u32) -> TryRecv {
        if !self.receiver.is_plain(self.config.arrival) {
            return TryRecv::Other;
        }
        let Some(line) = self.receiver.await_line(fabric, &self.link, polls) else { return TryRecv::Nothing };
        match self.receiver.take_inline(&line, slices) {
            Some((tag, bytes)) => {
                record!(fabric, &self.link, LineIn { sequence: self.receiver.last(), bytes });
                self.took(fabric, 0, Size::Short, false);
                TryRecv::Taken { tag, bytes }
            }
            None => {
                let blocks_max = self.receiver.call_blocks();
                self.try_recv_chunk(fabric, slices, &line, (polls, blocks_max))
            }
        }
    }

    /// Takes the next message if it is complete and fits. Anything else is left for [`incoming`](Self::incoming): a part of a message
    /// is never taken.
    #[inline]
    pub fn try_recv_complete(&mut self, fabric: &mut F, slices: &mut [&mut [u8]]) -> TryRecv {
        if !self.receiver.is_plain(self.config.arrival) {
            return TryRecv::Other;
        }
        let Some(line) = self.receiver.await_line(fabric, &self.link, 1) else { return TryRecv::Nothing };
        match self.receiver.take_inline(&line, slices) {
            Some((tag, bytes)) => {
                record!(fabric, &self.link, LineIn { sequence: self.receiver.last(), bytes });
                self.took(fabric, 0, Size::Short, false);
                TryRecv::Taken { tag, bytes }
            }
            None if self.receiver.is_message_here(fabric, &self.link, &line) => {
                self.try_recv_chunk(fabric, slices, &line, (1, u32::MAX))
            }
            None => TryRecv::Other,
        }
    }

    /// Returns the number of blocks that were consumed: of messages that were taken, and of those that were discarded.
    #[must_use]
    pub const fn consumed(&self) -> u64 {
        self.receiver.consumed()
    }

    /// Returns true if the message that [`incoming`](Self::incoming) showed is complete, and nothing of it was taken.
    pub(crate) fn is_complete(&mut self, fabric: &mut F) -> bool {
        planted!(TryTakesPart => return true);
        let is_complete = self.receiver.is_head_complete(fabric, &self.link, self.config.arrival);
        self.judged(fabric, is_complete) == Some(true)
    }

    /// Returns true if the end of the transfer at the head is here.
    pub(crate) fn has_end_of_head(&self, fabric: &F) -> bool {
        self.receiver.has_end_of_head(fabric, &self.link, self.config.arrival)
    }

    /// Returns true if the peer has closed, and all that it sent before is here, or was taken out.
    pub(crate) fn has_all_before_close(&self, fabric: &F) -> bool {
        self.receiver.has_all_before_close(fabric, &self.link, self.config.arrival)
    }

    /// Returns number and bytes of the transfer at the head, if there is one that is not rejected. A stream has `u64::MAX` bytes.
    #[must_use]
    pub fn head(&self) -> Option<(u64, u64)> {
        let open = self.receiver.open().filter(|open| !open.discarding)?;
        Some((
            open.transfer,
            match open.length {
                Length::Exact(bytes) => bytes,
                Length::Stream => u64::MAX,
            },
        ))
    }

    /// Returns true if the connection is closed, or will be with the next progress, since the peer's CLOSE was seen.
    pub(crate) fn is_ending(&self) -> bool {
        self.closed.is_some() || self.receiver.closed().is_some()
    }

    #[inline(never)]
    fn try_recv_chunk(
        &mut self,
        fabric: &mut F,
        slices: &mut [&mut [u8]],
        line: &Line,
        (polls, blocks_max): (u32, u32),
    ) -> TryRecv {
        if let Some((tag, bytes)) = self.receiver.take_two_lines(fabric, &mut self.link, line, slices) {
            record!(fabric, &self.link, LineIn { sequence: self.receiver.last(), bytes });
            self.took(fabric, 0, Size::Short, false);
            return TryRecv::Taken { tag, bytes };
        }
        let found =
            self.receiver.take_single_chunk(fabric, &mut self.link, line, slices, (polls, blocks_max));
        match found {
            TryRecv::Taken { bytes, .. } => self.took(fabric, bytes, Size::Short, true),
            TryRecv::Begun { bytes, .. } => {
                if let Some(open) = self.receiver.open_mut() {
                    open.shown = true;
                }
                self.took(fabric, bytes, self.open_size(), false);
            }
            TryRecv::Nothing | TryRecv::Other => {}
        }
        found
    }

    /// Returns the transfer at the head, once its header has arrived. It stays at the head until [`pull`](Self::pull) or
    /// [`readable`](Self::readable) reports its end, or until it is [`reject`](Self::reject)ed.
    #[inline]
    pub fn incoming(&mut self, fabric: &mut F) -> Option<Incoming> {
        // The next transfer waits until the REJECT that is due was sent.
        self.flush_controls(fabric);
        if self.receiver.is_discarding() && !self.drain(fabric) {
            return None;
        }
        self.take_awaited_notifications(fabric);
        let polled = self.receiver.poll(fabric, &self.link, self.config.arrival);
        self.judged(fabric, polled).filter(|arrived| *arrived || self.receiver.open().is_some())?;
        let open = self.receiver.open_mut().filter(|open| !open.discarding)?;
        show(fabric, &self.link, open);
        Some(Incoming { transfer: open.transfer, tag: open.tag, length: open.length })
    }

    /// Copies out the next bytes of the head transfer, as many as have arrived and fit. Answers its RTS with a CTS.
    #[inline]
    pub fn pull(&mut self, fabric: &mut F, slices: &mut [&mut [u8]]) -> Pulled {
        self.pull_from(fabric, slices, 0)
    }

    /// [`pull`](Self::pull) into the slices after their first `skip` bytes.
    #[inline]
    pub fn pull_from(&mut self, fabric: &mut F, slices: &mut [&mut [u8]], skip: usize) -> Pulled {
        let mut scatter = Scatter::new(slices);
        scatter.skip(skip);
        self.pull_with(fabric, &mut scatter, Destination::Any)
    }

    /// [`pull`](Self::pull) into the slices after `cursor`, which advances.
    pub(crate) fn pull_at(
        &mut self,
        fabric: &mut F,
        slices: &mut [&mut [u8]],
        cursor: &mut Cursor,
    ) -> Pulled {
        let mut scatter = Scatter::at(slices, *cursor);
        let pulled = self.pull_with(fabric, &mut scatter, Destination::Any);
        *cursor = scatter.cursor();
        pulled
    }

    /// [`pull`](Self::pull) without streaming stores, for memory that was never written: its pages are in the caches, since the kernel
    /// has just cleared them there.
    #[inline]
    pub fn pull_cached(&mut self, fabric: &mut F, slices: &mut [&mut [u8]]) -> Pulled {
        self.pull_with(fabric, &mut Scatter::new(slices), Destination::Fresh)
    }

    fn pull_with(
        &mut self,
        fabric: &mut F,
        scatter: &mut Scatter<'_, '_>,
        destination: Destination,
    ) -> Pulled {
        if self.receiver.is_discarding() && !self.drain(fabric) {
            return Pulled::NOTHING;
        }
        let arrival = self.config.arrival;
        self.take_awaited_notifications(fabric);
        // The CTS goes out before the first bytes are copied: the sender's round trip is hidden behind that.
        let polled = self.receiver.poll(fabric, &self.link, arrival);
        if self.judged(fabric, polled) != Some(true) && self.receiver.open().is_none() {
            return Pulled::NOTHING;
        }
        self.answer_rts(fabric);
        if self.receiver.withholds_blocks() {
            self.drive_zero_copy(fabric);
        }
        let size = self.open_size();
        // The sender needs blocks back before it runs out of them, and cannot wait until all that have arrived are copied.
        let call_blocks = u64::from(self.receiver.call_blocks());
        let blocks_max = self.receiver.ack_every(size).min(call_blocks);
        // A peer that is as fast as this end must not keep it in this call.
        let begin = self.receiver.consumed();
        let mut bytes = 0;
        loop {
            let consumed = self.receiver.consumed();
            let in_line = self.receiver.line_bytes().is_some();
            let link = &mut self.link;
            let pulled = self.receiver.pull(fabric, link, arrival, scatter, destination, blocks_max);
            let mut pulled = self.judged(fabric, pulled).unwrap_or(Pulled::NOTHING);
            if !F::DIRECT && pulled.end == End::Fin {
                pulled.bytes += self.took_remote();
            }
            let blocks = self.receiver.consumed().wrapping_sub(consumed);
            if pulled.bytes > 0 || pulled.end != End::No || blocks > 0 {
                // A block without payload takes nothing of what was shown.
                if pulled.bytes > 0 || pulled.end != End::No {
                    self.receiver.hide();
                }
                let has_ended = pulled.end != End::No;
                if in_line && has_ended {
                    self.record_end(fabric);
                }
                let chunk_bytes = if in_line { 0 } else { pulled.bytes };
                self.took(fabric, chunk_bytes, size, has_ended && !in_line);
            }
            bytes += pulled.bytes;
            let taken = self.receiver.consumed().wrapping_sub(begin);
            if pulled.end != End::No || blocks < blocks_max || taken >= call_blocks {
                return Pulled { bytes, end: pulled.end };
            }
            self.take_awaited_notifications(fabric);
        }
    }

    /// Returns payload of the head transfer to be read in place, at most `max_bytes` bytes. Answers its RTS with a CTS.
    pub fn readable(&mut self, fabric: &mut F, max_bytes: u32) -> Readable<F::Region> {
        if self.receiver.is_discarding() && !self.drain(fabric) {
            return Readable::Nothing;
        }
        self.take_awaited_notifications(fabric);
        let (consumed, inlines) = (self.receiver.consumed(), self.receiver.inlines);
        let size = self.open_size();
        let readable = self.receiver.readable(fabric, &self.link, self.config.arrival, max_bytes);
        let readable = self.judged(fabric, readable).unwrap_or(Readable::Nothing);
        if !F::DIRECT && matches!(readable, Readable::Ended(_)) {
            self.counters.bytes_received += self.took_remote() as u64;
        }
        self.answer_rts(fabric);
        if consumed != self.receiver.consumed() {
            let in_line = inlines != self.receiver.inlines;
            if in_line {
                self.record_line(fabric, 0);
            }
            self.took(fabric, 0, size, matches!(readable, Readable::Ended(_)) && !in_line);
        }
        if matches!(readable, Readable::Run(_)) {
            recording::begin_reading(fabric, &self.link);
        }
        readable
    }

    /// Consumes the first `bytes` bytes that [`readable`](Self::readable) showed last, so that their blocks can be used
    /// again. Ignores a call with 0 bytes, with more bytes than were shown, or for bytes that were rejected or taken by another call
    /// since.
    pub fn consume(&mut self, fabric: &mut F, bytes: u32) -> End {
        let (sequence, block) = (after(self.receiver.last()), self.receiver.consumed());
        let size = self.open_size();
        let in_line = self.receiver.line_bytes();
        let Some(end) = self.receiver.consume(bytes) else { return End::No };
        let begin = recording::reading(fabric, &self.link);
        let Some(line_bytes) = in_line else {
            if bytes > 0 {
                record!(fabric, &self.link, since begin, CopyOut { sequence, block, bytes });
            }
            if bytes > 0 || end != End::No {
                self.took(fabric, bytes as usize, size, end != End::No);
            }
            return end;
        };
        if end != End::No {
            self.record_line(fabric, line_bytes);
        }
        self.took(fabric, 0, size, false);
        end
    }

    /// Rejects the head transfer: [`progress`](Self::progress) discards its payload. Returns false if there is none. At most one
    /// REJECT is on the way: until the peer has consumed the one before, no other transfer is shown. If the peer may write into memory
    /// that was lent to the transfer, closes the connection instead, and returns false.
    pub fn reject(&mut self, fabric: &mut F, reason: Reason) -> bool {
        let Some(Incoming { transfer, .. }) = self.incoming(fabric) else { return false };
        if !F::DIRECT && self.holds_destination(transfer) {
            self.withdraw(fabric, transfer);
        }
        let rejected = self.receiver.reject(reason);
        self.counters.rejects_sent += u64::from(rejected);
        self.flush_controls(fabric);
        self.drop_needless();
        rejected
    }

    /// Answers the RTS of the head transfer, once.
    #[inline]
    pub(super) fn answer_rts(&mut self, fabric: &mut F) {
        let Some(open) = self.receiver.open_mut() else { return };
        show(fabric, &self.link, open);
        if open.want_cts && self.pending_cts.is_none() {
            let transfer = open.transfer;
            if !F::DIRECT && self.holds_cts(transfer) {
                return;
            }
            if let Some(open) = self.receiver.open_mut() {
                open.want_cts = false;
            }
            self.pending_cts = Some((transfer, None));
            self.flush_controls(fabric);
        }
    }

    /// Returns the size class of the open transfer. A message in a line is short.
    #[inline]
    pub(super) fn open_size(&self) -> Size {
        let is_long = |open: &Open| match open.length {
            Length::Exact(bytes) => bytes > u64::from(self.config.c0_bytes),
            Length::Stream => true,
        };
        if self.receiver.open().is_some_and(is_long) { Size::Long } else { Size::Short }
    }

    /// Counts payload that was taken out of chunks. Acknowledges if enough blocks were consumed, or if a transfer in chunks ended, since its
    /// receiver may not call again soon. Acknowledgements of messages in lines wait for each other, and for the next progress. So
    /// do those of all short messages with posted writes, since the next message would wait behind the acknowledgement.
    #[inline]
    pub(super) fn took(&mut self, fabric: &mut F, bytes: usize, size: Size, has_ended: bool) {
        self.counters.bytes_received += bytes as u64;
        self.idle_rounds = 0;
        if has_ended {
            self.record_end(fabric);
        }
        self.acknowledge_due(fabric, size, has_ended);
    }

    /// Acknowledges if enough blocks may be, or if a transfer in chunks has ended.
    #[inline]
    pub(super) fn acknowledge_due(&mut self, fabric: &mut F, size: Size, has_ended: bool) {
        let due = self.released().wrapping_sub(self.acked.blocks);
        let is_awaited = has_ended && (F::DIRECT || size == Size::Long);
        if due >= self.receiver.ack_every(size) || is_awaited && due > 0 {
            self.write_ack(fabric);
        }
    }

    /// Takes the bytes of a message that came by remote writes, and has ended.
    fn took_remote(&mut self) -> usize {
        let bytes = self.receiver.take_remote_bytes();
        self.counters.remote_bytes_received += bytes as u64;
        bytes
    }

    /// Records a message in a line that was read in place.
    pub(super) fn record_line(&self, fabric: &mut F, bytes: usize) {
        let sequence = self.receiver.last();
        record!(fabric, &self.link, LineIn { sequence, bytes });
        self.record_end(fabric);
    }

    #[inline]
    fn record_end(&self, fabric: &mut F) {
        record!(fabric, &self.link, ReceiveEnd { transfer: self.receiver.transfers() });
    }

    /// Returns true if a rejected transfer is being discarded.
    pub(crate) fn is_discarding(&self) -> bool {
        self.receiver.is_discarding()
    }

    /// Discards the payload of a rejected transfer. Returns true if the transfer has ended.
    pub(super) fn drain(&mut self, fabric: &mut F) -> bool {
        self.take_awaited_notifications(fabric);
        let consumed = self.receiver.consumed();
        let drained = self.receiver.drain(fabric, &self.link, self.config.arrival);
        self.judged(fabric, drained);
        if consumed != self.receiver.consumed() {
            self.took(fabric, 0, Size::Long, false);
        }
        !self.receiver.is_discarding()
    }
}

/// Records that the application sees a transfer for the first time.
#[inline]
fn show<F: Fabric>(fabric: &mut F, link: &F::Link, open: &mut Open) {
    if !mem::replace(&mut open.shown, true) {
        record!(fabric, link, ReceiveBegin { transfer: open.transfer, length: open.length });
    }
}
