//! What sends: whole messages at once, and transfers piece by piece. wire.md 4.

use super::{CALL_BYTES, Endpoint};
use crate::arrival::Arrival;
use crate::config::Protocol;
use crate::error::{Reason, RefusedSend, RefusedStart};
use crate::fabric::Fabric;
use crate::header::{INLINE_BYTES_MAX, Length};
use crate::planted::{Bug, is_planted};
use crate::recorder::Step;
use crate::recording;
use crate::send::{Last, Next, Payload, Reservation, TransferId};
use crate::slices::{Cursor, Gather, bytes_of};

impl<F: Fabric> Endpoint<F> {
    /// Sends a whole message if it fits at once: in a line up to 40 bytes, else eagerly up to C0.
    ///
    /// # Errors
    /// `NoCredit`: call again after [`progress`](Self::progress). `TooLong`: [`start`](Self::start) it. `Busy`,
    /// `Closed`.
    #[inline]
    pub fn try_send(
        &mut self,
        fabric: &mut F,
        tag: u64,
        slices: &[&[u8]],
    ) -> Result<TransferId, RefusedSend> {
        self.try_send_counted(fabric, tag, slices, bytes_of(slices))
    }

    /// [`try_send`](Self::try_send) of slices whose bytes were counted before: an attempt that is refused does not walk them. Other
    /// bytes than that are `WrongLength`.
    #[inline]
    pub(crate) fn try_send_counted(
        &mut self,
        fabric: &mut F,
        tag: u64,
        slices: &[&[u8]],
        bytes: usize,
    ) -> Result<TransferId, RefusedSend> {
        if !self.sender.can_start() || !self.may_send() {
            return Err(self.why_not());
        }
        if bytes > INLINE_BYTES_MAX {
            return self.try_send_eager(fabric, tag, slices, bytes);
        }
        if self.sender.is_full() && (!self.refill(fabric) || !F::DIRECT && self.sender.is_full()) {
            recording::event(fabric, &self.link, || Step::NoCredit { sequence: self.sender.last() });
            return Err(self.no_credit());
        }
        if !has_bytes(slices, bytes) {
            return Err(RefusedSend::WrongLength);
        }
        let (sender, link, notices) = (&mut self.sender, &mut self.link, &mut self.notices);
        match sender.emit_inline(fabric, link, notices, tag, slices, bytes) {
            Ok(id) => {
                self.counters.inline_sent += 1;
                recording::event(fabric, &self.link, || Step::LineOut {
                    sequence: self.sender.last(),
                    bytes,
                });
                fabric.ring_doorbell(&mut self.link);
                Ok(id)
            }
            Err(_) => {
                self.counters.sq_full += 1;
                Err(RefusedSend::NoCredit)
            }
        }
    }

    #[inline(never)]
    pub(super) fn try_send_eager(
        &mut self,
        fabric: &mut F,
        tag: u64,
        slices: &[&[u8]],
        bytes: usize,
    ) -> Result<TransferId, RefusedSend> {
        let bytes = u32::try_from(bytes).map_err(|_| RefusedSend::TooLong)?;
        if bytes > self.config.c0_bytes {
            return Err(RefusedSend::TooLong);
        }
        if F::DIRECT
            && self.config.arrival == Arrival::Flag
            && !self.config.triple_buffer
            && let [message] = slices
            && message.len() == bytes as usize
        {
            if let Some(id) = self.try_send_whole(fabric, tag, message) {
                return Ok(id);
            }
            if self.refill(fabric)
                && let Some(id) = self.try_send_whole(fabric, tag, message)
            {
                return Ok(id);
            }
            if !self.may_send() {
                return Err(RefusedSend::Closed);
            }
        }
        self.try_send_gathered(fabric, tag, slices, bytes)
    }

    /// A message that goes at once but not the short way.
    #[inline(never)]
    fn try_send_gathered(
        &mut self,
        fabric: &mut F,
        tag: u64,
        slices: &[&[u8]],
        bytes: u32,
    ) -> Result<TransferId, RefusedSend> {
        let split = match self.sender.split(bytes) {
            Err(RefusedSend::NoCredit) if self.refill(fabric) => self.sender.split(bytes),
            split => split,
        };
        if split == Err(RefusedSend::NoCredit) {
            recording::event(fabric, &self.link, || Step::NoCredit { sequence: self.sender.last() });
            return Err(self.no_credit());
        }
        let (first, rest) = split?;
        let mut gather = Gather::new(slices);
        if gather.remaining() != bytes as usize {
            return Err(RefusedSend::WrongLength);
        }
        let id = self.sender.start(&self.config, tag, Length::Exact(u64::from(bytes)))?;
        self.emit(fabric, Payload::Gathered(&mut gather), first, false);
        if rest > 0 {
            self.emit(fabric, Payload::Gathered(&mut gather), rest, false);
        }
        fabric.ring_doorbell(&mut self.link);
        Ok(id)
    }

    #[inline]
    fn try_send_whole(&mut self, fabric: &mut F, tag: u64, message: &[u8]) -> Option<TransferId> {
        let id = self.sender.emit_whole(fabric, &mut self.link, self.config.protocol, tag, message)?;
        self.counters.chunks_sent += 1;
        self.counters.bytes_sent += message.len() as u64;
        fabric.ring_doorbell(&mut self.link);
        self.sender.expect_write(fabric, &mut self.link, message.len());
        Some(id)
    }

    /// Starts a transfer: a message of known length, or a stream. Nothing is sent yet.
    ///
    /// # Errors
    /// `Busy` while another transfer is open, or the CANCEL of one is not in the ring yet. `Closed`.
    pub fn start(&mut self, tag: u64, length: Length) -> Result<TransferId, RefusedStart> {
        if !self.may_send() {
            return Err(RefusedSend::Closed);
        }
        self.sender.start(&self.config, tag, length)
    }

    /// Sends the next bytes of a transfer, as many as there is room for, a landing buffer's worth at most; how many
    /// they were. A message ends with its last byte: one of no bytes with a push of none.
    ///
    /// # Errors
    /// `WrongLength` for more bytes than the message has left; `Rejected`, `NotOpen`, `Closed`.
    pub fn push(&mut self, fabric: &mut F, id: TransferId, slices: &[&[u8]]) -> Result<usize, RefusedSend> {
        self.push_from(fabric, id, slices, 0)
    }

    /// [`push`](Self::push) of what comes after the first `skip` bytes of the slices.
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
        self.push_gathered(fabric, id, &mut gather)
    }

    /// [`push`](Self::push) of what comes after `cursor`, which moves on: a part of it, where the slices are many.
    ///
    /// # Errors
    /// As `push`, and `WrongLength` before the last bytes of a message where the slices have more.
    pub(crate) fn push_at(
        &mut self,
        fabric: &mut F,
        id: TransferId,
        slices: &[&[u8]],
        cursor: &mut Cursor,
    ) -> Result<usize, RefusedSend> {
        let left = self.sender.remaining(id).ok().flatten().unwrap_or(u64::MAX);
        let bytes_max = usize::try_from(left).unwrap_or(usize::MAX).min(CALL_BYTES as usize);
        let mut gather = Gather::window(slices, *cursor, bytes_max);
        // With more bytes in the slices than the message has left, sending its last bytes would make the message seem whole.
        if gather.remaining() as u64 == left && gather.has_more() {
            return Err(RefusedSend::WrongLength);
        }
        let pushed = self.push_gathered(fabric, id, &mut gather)?;
        *cursor = gather.cursor(slices.len());
        Ok(pushed)
    }

    fn push_gathered(
        &mut self,
        fabric: &mut F,
        id: TransferId,
        gather: &mut Gather<'_>,
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
        let chunks = self.counters.chunks_sent;
        let mut blocks = self.sender.layout().block_count;
        while let Some(bytes) = self.next_chunk(fabric, gather.remaining() as u64, Last::Possible) {
            self.emit(fabric, Payload::Gathered(gather), bytes, false);
            if !F::DIRECT {
                // It is on the wire while the next one is copied.
                fabric.ring_doorbell(&mut self.link);
            }
            let used = self.sender.layout().blocks_for(bytes);
            if gather.remaining() == 0 || used >= blocks {
                break;
            }
            blocks -= used;
        }
        let pushed = all - gather.remaining();
        if F::DIRECT && chunks != self.counters.chunks_sent {
            fabric.ring_doorbell(&mut self.link);
        }
        Ok(pushed)
    }

    /// Free bytes of blocks for the next bytes of a transfer, for reading into them directly, at most `max_bytes`.
    /// They count once they are [`commit`](Self::commit)ted.
    ///
    /// # Errors
    /// `NoCredit`: call again after [`progress`](Self::progress). `Rejected`, `NotOpen`, `Closed`; `WrongLength`
    /// where the message has no bytes left, or none are asked for.
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
        loop {
            match self.next_chunk(fabric, wanted, Last::Never) {
                None => return Err(RefusedSend::NoCredit),
                Some(0) => {
                    // The protocol begins with an RTS of its own.
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

    /// Sends the first `bytes` bytes of what was reserved last.
    ///
    /// # Errors
    /// `WrongLength` for more than were reserved; `Rejected`, `NotOpen`, `Closed`.
    pub fn commit(&mut self, fabric: &mut F, id: TransferId, bytes: u32) -> Result<(), RefusedSend> {
        self.check(id)?;
        if bytes > self.sender.reserved() {
            return Err(RefusedSend::WrongLength);
        }
        if bytes > 0 {
            self.emit(fabric, Payload::InPlace, bytes, false);
            fabric.ring_doorbell(&mut self.link);
        }
        Ok(())
    }

    /// Ends a stream.
    ///
    /// # Errors
    /// `NoCredit`: call again after [`progress`](Self::progress). `WrongLength` for a message of any length, which ends by
    /// itself.
    /// `Rejected`, `NotOpen`, `Closed`.
    pub fn finish(&mut self, fabric: &mut F, id: TransferId) -> Result<(), RefusedSend> {
        self.check(id)?;
        let remaining = self.sender.remaining(id)?;
        if remaining.is_some() && !(is_planted(Bug::LengthForStream) && remaining == Some(u64::MAX)) {
            return Err(RefusedSend::WrongLength);
        }
        if self.next_chunk(fabric, 0, Last::Possible).is_none() {
            return Err(RefusedSend::NoCredit);
        }
        self.emit(fabric, Payload::InPlace, 0, true);
        fabric.ring_doorbell(&mut self.link);
        Ok(())
    }

    /// Ends a transfer incomplete. The receiver still takes out what was sent, then sees `reason`. Until CANCEL is in the ring,
    /// [`start`](Self::start) and [`try_send`](Self::try_send) are refused with `Busy`.
    ///
    /// # Errors
    /// `NotOpen`.
    pub fn cancel(&mut self, fabric: &mut F, id: TransferId, reason: Reason) -> Result<(), RefusedSend> {
        self.sender.cancel(id, reason)?;
        self.flush_controls(fabric);
        Ok(())
    }

    /// Bytes of this transfer that were sent, if it is open.
    pub(crate) fn sent(&self, id: TransferId) -> Option<u64> {
        self.sender.sent(id)
    }

    /// Whether the peer does not want this transfer: the next call that sends says so.
    #[must_use]
    pub fn is_rejected(&self, id: TransferId) -> bool {
        self.sender.is_rejected(id)
    }

    /// Sets the protocol of the transfers started from now on.
    pub const fn set_protocol(&mut self, protocol: Protocol) {
        self.config.protocol = protocol;
    }

    /// Whether all that was sent was taken out by the peer, and nothing is owned by the device. Asks for
    /// acknowledgements to be looked at.
    pub fn delivered(&mut self) -> bool {
        let delivered = self.sender.is_delivered();
        self.wants_ack |= !delivered;
        delivered
    }

    /// Whether the device owns nothing of ours, so that memory can be released.
    #[must_use]
    pub fn is_quiescent(&self) -> bool {
        self.sender.is_quiescent()
    }

    #[inline]
    pub(super) const fn may_send(&self) -> bool {
        self.closed.is_none()
    }

    /// Whether a transfer may go on: a rejection is told before a close.
    pub(super) fn check(&mut self, id: TransferId) -> Result<(), RefusedSend> {
        match self.sender.check(id) {
            Err(RefusedSend::Rejected(reason)) => Err(RefusedSend::Rejected(reason)),
            // Closing ends the open transfer, too.
            _ if !self.may_send() => Err(RefusedSend::Closed),
            checked => checked,
        }
    }

    /// Why there is none: the peer's acknowledgement may have ended the connection.
    const fn no_credit(&self) -> RefusedSend {
        if self.may_send() { RefusedSend::NoCredit } else { RefusedSend::Closed }
    }

    #[cold]
    pub(super) const fn why_not(&self) -> RefusedSend {
        if self.may_send() { RefusedSend::Busy } else { RefusedSend::Closed }
    }

    /// How large the next chunk may be, after looking for acknowledgements if it takes that.
    pub(super) fn next_chunk(&mut self, fabric: &mut F, wanted: u64, last: Last) -> Option<u32> {
        match self.sender.next(&self.config, wanted, last) {
            Next::Chunk(bytes) => return Some(bytes),
            Next::NoCredit => {
                if !self.refill(fabric) {
                    self.counters.credit_waits += 1;
                    recording::event(fabric, &self.link, || Step::NoCredit { sequence: self.sender.last() });
                    return None;
                }
            }
            Next::NoCts => {
                if self.poll_mailbox(fabric) == 0 {
                    self.counters.cts_waits += 1;
                    recording::event(fabric, &self.link, || Step::NoCts { sequence: self.sender.last() });
                    return None;
                }
            }
        }
        match self.sender.next(&self.config, wanted, last) {
            Next::Chunk(bytes) => Some(bytes),
            Next::NoCredit | Next::NoCts => None,
        }
    }

    pub(super) fn emit(&mut self, fabric: &mut F, payload: Payload<'_, '_>, bytes: u32, end: bool) {
        let (link, notices) = (&mut self.link, &mut self.notices);
        self.sender.emit(fabric, link, notices, payload, bytes, end);
        self.counters.chunks_sent += 1;
        self.counters.bytes_sent += u64::from(bytes);
    }
}

/// Returns true if the slices have so many bytes together.
#[inline]
fn has_bytes(slices: &[&[u8]], bytes: usize) -> bool {
    match slices {
        [one] => one.len() == bytes,
        several => bytes_of(several) == bytes,
    }
}
