//! Sending: transfers piece by piece. wire.md 4.

use super::Endpoint;
use crate::config::Config;
use crate::copying::CopyKernel;
use crate::error::{Reason, RefusedSend};
use crate::fabric::Fabric;
use crate::protocol::Protocol;
use crate::recording;
use crate::send::{LastChunk, NextChunk, Payload, Reservation, TransferId};
use crate::slices::{CALL_BYTES, Cursor, Gather};
use crate::wire::grant::GrowReason;
use crate::wire::header::Length;

impl<F: Fabric> Endpoint<F> {
    /// Starts a transfer: a message of known length, or a stream. Nothing is sent yet.
    ///
    /// # Errors
    /// `Busy` while another transfer is open, or the CANCEL of one is not in the ring yet. `Closed`.
    pub fn start(&mut self, tag: u64, length: Length) -> Result<TransferId, RefusedSend> {
        if !self.may_send() {
            return Err(RefusedSend::Closed);
        }
        let config = self.config;
        self.start_by(&config, tag, length)
    }

    /// [`start`](Self::start) under another policy.
    pub(super) fn start_by(
        &mut self,
        config: &Config,
        tag: u64,
        length: Length,
    ) -> Result<TransferId, RefusedSend> {
        let id = self.sender.start(config, tag, length)?;
        self.want_growth_for(length);
        Ok(id)
    }

    /// Sends the next bytes of a transfer. Returns the bytes taken, which may be fewer than given: a call moves at most one landing
    /// buffer. A message ends with its last byte; a push of no bytes ends an empty message.
    ///
    /// # Errors
    /// `WrongLength` for more bytes than the message has left; `Rejected`, `NotOpen`, `Closed`.
    pub fn push(&mut self, fabric: &mut F, id: TransferId, slices: &[&[u8]]) -> Result<usize, RefusedSend> {
        self.push_from(fabric, id, slices, 0)
    }

    /// [`push`](Self::push) of the slices after their first `skip` bytes.
    ///
    /// # Errors
    /// As `push`.
    pub fn push_from(
        &mut self,
        fabric: &mut F,
        id: TransferId,
        slices: &[&[u8]],
        skip: usize,
    ) -> Result<usize, RefusedSend> {
        let mut gather = Gather::new(slices);
        gather.skip(skip);
        self.push_gathered(fabric, id, &mut gather, slices.len())
    }

    /// [`push`](Self::push) of the slices after `cursor`, which advances. It walks a bounded number of slices.
    ///
    /// # Errors
    /// As `push`; also `WrongLength`, before the last bytes of a message, if the slices have more.
    pub(crate) fn push_at(
        &mut self,
        fabric: &mut F,
        id: TransferId,
        slices: &[&[u8]],
        cursor: &mut Cursor,
    ) -> Result<usize, RefusedSend> {
        if F::DIRECT
            && let Some(rest) = self.sender.split_rest(id)
        {
            return self.push_split(fabric, id, slices, cursor, rest);
        }
        let left = self.sender.remaining(id).ok().flatten().unwrap_or(u64::MAX);
        let bytes_max = usize::try_from(left).unwrap_or(usize::MAX).min(CALL_BYTES as usize);
        let mut gather = Gather::window(slices, *cursor, bytes_max);
        // Otherwise the last bytes would end the message although the slices have more.
        if gather.remaining() as u64 == left && gather.has_more() {
            return Err(RefusedSend::WrongLength);
        }
        let pushed = self.push_gathered(fabric, id, &mut gather, slices.len())?;
        *cursor = gather.cursor(slices.len());
        Ok(pushed)
    }

    /// Pushes what `gather` reads of `count` slices.
    fn push_gathered(
        &mut self,
        fabric: &mut F,
        id: TransferId,
        gather: &mut Gather<'_>,
        count: usize,
    ) -> Result<usize, RefusedSend> {
        let all = gather.remaining();
        self.check(id)?;
        let remaining = self.sender.remaining(id)?;
        if remaining.is_some_and(|left| all as u64 > left) {
            return Err(RefusedSend::WrongLength);
        }
        if all == 0 && remaining != Some(0) {
            return Ok(0);
        }
        if !self.is_permitted(fabric, || gather.elements(count)) {
            return Ok(0);
        }
        let chunks = self.counters.chunks_sent;
        let mut blocks = self.sender.layout().block_count;
        while let Some(bytes) = self.next_chunk(fabric, gather.remaining() as u64, LastChunk::Possible) {
            self.emit(fabric, Payload::Gathered(gather), bytes, false);
            if !F::DIRECT {
                // The device sends this chunk while the next one is copied.
                fabric.ring_doorbell(&mut self.link);
            } else if self.sender.reads_for_timings() {
                // The peer tells its newest timing only. A sender that looks when it needs blocks sees few in a large ring.
                self.read_ack(fabric);
                if !self.may_send() {
                    break;
                }
            }
            let used = self.sender.layout().blocks_for(bytes);
            if gather.remaining() == 0 || used >= blocks {
                break;
            }
            blocks -= used;
        }
        if F::DIRECT && chunks != self.counters.chunks_sent {
            fabric.ring_doorbell(&mut self.link);
        }
        if let Some(bytes) = self.sender.may_prepare(&self.config, gather.remaining() as u64) {
            self.sender.prepare(fabric, &mut self.link, gather, bytes);
        }
        Ok(all - gather.remaining())
    }

    /// Sends the chunk that was copied during the rendezvous, if there is one and its CTS is here.
    pub(super) fn send_prepared(&mut self, fabric: &mut F) -> bool {
        let may_send = self.sender.may_send_prepared();
        if may_send {
            let bytes = self.sender.prepared();
            self.sender.send_prepared(fabric, &mut self.link);
            self.count_chunk(bytes);
            fabric.ring_doorbell(&mut self.link);
        }
        may_send
    }

    /// Reserves free bytes of blocks, at most `max_bytes`, which the caller fills in place with the next bytes of a transfer.
    /// [`commit`](Self::commit) sends them. Until that, or a push, the transfer's end or [`unreserve`](Self::unreserve), this end moves to no
    /// other landing buffer; a call that waits for a larger one, by the provision protocol, ends the reservation before.
    ///
    /// # Errors
    /// `NoCredit`: call again after [`progress`](Self::progress). `Rejected`, `NotOpen`, `Closed`; `WrongLength`
    /// if the message has no bytes left, or `max_bytes` is 0.
    pub fn reserve(
        &mut self,
        fabric: &mut F,
        id: TransferId,
        max_bytes: u32,
    ) -> Result<Reservation<F::Remote>, RefusedSend> {
        self.check(id)?;
        let wanted = self.sender.remaining(id)?.unwrap_or(u64::MAX).min(u64::from(max_bytes));
        if wanted == 0 {
            return Err(RefusedSend::WrongLength);
        }
        // The room that a stream wants is its next element. A message is compared as a whole.
        let room = if self.sender.message_bytes().is_some() { None } else { usize::try_from(wanted).ok() };
        if !self.is_permitted(fabric, || room.into_iter().enumerate()) {
            return Err(RefusedSend::NoCredit);
        }
        loop {
            match self.next_chunk(fabric, wanted, LastChunk::Never) {
                None => {
                    let bytes = self.sender.may_prepare(&self.config, wanted).ok_or(RefusedSend::NoCredit)?;
                    recording::begin_filling(fabric, &self.link);
                    return Ok(self.sender.reserve(bytes, max_bytes));
                }
                Some(0) => {
                    // The protocol begins with an RTS without payload.
                    self.emit(fabric, Payload::InPlace, 0, false);
                    fabric.ring_doorbell(&mut self.link);
                }
                Some(bytes) => {
                    recording::begin_filling(fabric, &self.link);
                    return Ok(self.sender.reserve(bytes, max_bytes));
                }
            }
        }
    }

    /// Sends the first `bytes` bytes of the last reservation.
    ///
    /// # Errors
    /// `WrongLength` for more bytes than were reserved; `Rejected`, `NotOpen`, `Closed`.
    pub fn commit(&mut self, fabric: &mut F, id: TransferId, bytes: u32) -> Result<(), RefusedSend> {
        self.check(id)?;
        if bytes > self.sender.reserved() {
            return Err(RefusedSend::WrongLength);
        }
        if bytes > 0 && !self.sender.prepare_reserved(fabric, &self.link, bytes) {
            self.emit(fabric, Payload::InPlace, bytes, false);
            fabric.ring_doorbell(&mut self.link);
        }
        Ok(())
    }

    /// Ends the last reservation of a transfer, of which nothing is sent. For a caller whose source has nothing to fill it with yet: a
    /// reservation keeps this end from moving to another landing buffer, and so the peer from releasing this one.
    pub fn unreserve(&mut self, id: TransferId) {
        self.sender.end_reservation(id);
    }

    /// Ends a stream.
    ///
    /// # Errors
    /// `NoCredit`: call again after [`progress`](Self::progress). `WrongLength` for a message, which ends by itself.
    /// `Rejected`, `NotOpen`, `Closed`.
    pub fn finish(&mut self, fabric: &mut F, id: TransferId) -> Result<(), RefusedSend> {
        self.check(id)?;
        let remaining = self.sender.remaining(id)?;
        if is_message(remaining) {
            return Err(RefusedSend::WrongLength);
        }
        if self.next_chunk(fabric, 0, LastChunk::Possible).is_none() {
            return Err(RefusedSend::NoCredit);
        }
        self.emit(fabric, Payload::InPlace, 0, true);
        fabric.ring_doorbell(&mut self.link);
        Ok(())
    }

    /// Cancels a transfer. The receiver can still take out what was sent, then sees `reason`. What was only copied during the rendezvous is dropped. Until CANCEL is in the ring,
    /// [`start`](Self::start) and [`try_send`](Self::try_send) are refused with `Busy`.
    ///
    /// # Errors
    /// `NotOpen`.
    pub fn cancel(&mut self, fabric: &mut F, id: TransferId, reason: Reason) -> Result<(), RefusedSend> {
        self.sender.cancel(id, reason)?;
        self.forget_planned(fabric, id);
        self.flush_controls(fabric);
        Ok(())
    }

    /// Returns the bytes that were taken of this transfer, if it is open.
    pub(crate) fn taken(&self, id: TransferId) -> Option<u64> {
        self.sender.taken(id)
    }

    /// Returns true if the peer rejected this transfer. The next call that sends reports it.
    #[must_use]
    pub fn is_rejected(&self, id: TransferId) -> bool {
        self.sender.is_rejected(id)
    }

    /// Sets the protocol of the transfers started from now on.
    pub const fn set_protocol(&mut self, protocol: Protocol) {
        self.config.protocol = protocol;
    }

    /// Sets how much of the peer's landing buffer this end cycles through from its next lap on, and in every landing buffer that it moves to: a number of
    /// bytes, rounded down to whole blocks, at most all, and at least what holds a message of C0 bytes wherever that begins, so that no message
    /// that could be sent at once is too long for it. Chunks of an open transfer are a fold of it at most, too. `None`: it is chosen while
    /// data flow. Without effect with posted writes. wire.md 4.11.
    pub fn set_window(&mut self, bytes: Option<u32>) {
        self.sender.set_window(bytes, &self.config);
    }

    /// Sets the kernels of copies into blocks and out of them, of messages of [`Config::timed_bytes`](crate::Config::timed_bytes) and more. `None`, and
    /// one that the fabric has not: they are chosen while data flow. wire.md 4.12.
    pub fn pin_copies(&mut self, copy_in: Option<CopyKernel>, copy_out: Option<CopyKernel>) {
        self.sender.pin_kernel(copy_in);
        self.receiver.pin_kernel(copy_out);
    }

    /// Returns the bytes of all blocks of the peer's landing buffer.
    #[must_use]
    pub const fn peer_landing_bytes(&self) -> u64 {
        let layout = self.sender.layout();
        layout.block_bytes as u64 * layout.block_count as u64
    }

    /// Returns the bytes of the peer's landing buffer that this end cycles through from its next lap on.
    #[must_use]
    pub const fn window(&self) -> u32 {
        self.sender.window() * self.sender.layout().block_bytes
    }

    /// Returns true if the peer has consumed all that was sent, and the device owns no memory of this end. Otherwise the next rounds of
    /// [`progress`](Self::progress) poll acknowledgements.
    pub fn poll_delivered(&mut self) -> bool {
        let delivered = self.sender.is_delivered();
        self.wants_ack |= !delivered;
        delivered
    }

    /// Returns true if the device owns no memory of this end, so that it can be released.
    #[must_use]
    pub fn is_quiescent(&self) -> bool {
        self.sender.is_quiescent()
            && !self.zero_copy.is_active()
            && !self.growth.as_ref().is_some_and(|growth| growth.requester.awaits_completion())
    }

    #[inline]
    pub(super) const fn may_send(&self) -> bool {
        self.closed.is_none()
    }

    /// Checks that a transfer may go on. A rejection is reported before a close.
    pub(super) fn check(&mut self, id: TransferId) -> Result<(), RefusedSend> {
        match self.sender.check(id) {
            Err(RefusedSend::Rejected(reason)) => Err(RefusedSend::Rejected(reason)),
            // Closing ends the open transfer, too.
            _ if !self.may_send() => Err(RefusedSend::Closed),
            checked => checked,
        }
    }

    /// Returns how large the next chunk may be. Polls acknowledgements or control messages if one is needed first.
    pub(super) fn next_chunk(&mut self, fabric: &mut F, wanted: u64, last: LastChunk) -> Option<u32> {
        if self.sender.prepared() > 0 {
            self.poll_mailbox(fabric);
            if !self.send_prepared(fabric) {
                self.counters.cts_waits += 1;
                record!(fabric, &self.link, NoCts { sequence: self.sender.last() });
                return None;
            }
        }
        match self.sender.next_chunk(&self.config, wanted, last) {
            NextChunk::Bytes(bytes) => return Some(bytes),
            NextChunk::NoCredit => {
                if !self.refill(fabric) {
                    self.counters.credit_waits += 1;
                    self.want_growth(GrowReason::HeldBack);
                    record!(fabric, &self.link, NoCredit { sequence: self.sender.last() });
                    return None;
                }
            }
            NextChunk::NoCts => {
                if self.poll_mailbox(fabric) == 0 {
                    self.counters.cts_waits += 1;
                    record!(fabric, &self.link, NoCts { sequence: self.sender.last() });
                    return None;
                }
            }
        }
        match self.sender.next_chunk(&self.config, wanted, last) {
            NextChunk::Bytes(bytes) => Some(bytes),
            NextChunk::NoCredit | NextChunk::NoCts => None,
        }
    }

    pub(super) fn emit(&mut self, fabric: &mut F, payload: Payload<'_, '_>, bytes: u32, end: bool) {
        self.sender.emit(fabric, &mut self.link, payload, bytes, end);
        self.count_chunk(bytes);
        self.note_planned_end(fabric);
    }

    fn count_chunk(&mut self, bytes: u32) {
        self.counters.chunks_sent += 1;
        self.counters.bytes_sent += u64::from(bytes);
    }
}

/// Returns true if a transfer with `remaining` bytes left is a message, which ends by itself.
fn is_message(remaining: Option<u64>) -> bool {
    planted!(LengthForStream => if remaining == Some(u64::MAX) { return false; });
    remaining.is_some()
}
