//! Split messages: each end copies a half. wire.md 4.10, 5.7.

use super::{Endpoint, ExposedSend};
use crate::copying::CopyKernel;
use crate::error::{ProtocolError, RefusedSend};
use crate::fabric::Fabric;
use crate::job::Exposed;
use crate::receive::Offered;
use crate::recording;
use crate::send::{Payload, SplitOut, SplitRest, TransferId, head_of};
use crate::slices::{CALL_BYTES, Cursor, Gather};
use crate::wire::control::{Control, Kind};
use crate::wire::layout::control_page;

impl<F: Fabric> Endpoint<F> {
    /// Offers memory that the peer may [write](Self::expose_writable) to the next transfer, from `offset` on: if that is a long message out
    /// of memory that this end has mapped, the peer writes the second half to where it belongs, while this end copies the first. The
    /// application does not use the memory from the offset on as long as it [is offered](Self::is_offered), and may receive the transfer
    /// into other memory.
    ///
    /// Returns false if the memory is not [`Ready`](crate::ExposedState::Ready), has no bytes from the offset on, or is memory that the peer
    /// reads; if a transfer has arrived or is being taken out; if other memory is offered; or if the mailbox has no room, which
    /// [`progress`](Self::progress) makes. Nothing waits for an offer: a transfer without one is received as always.
    pub fn offer(&mut self, fabric: &mut F, exposed: Exposed, offset: u32) -> bool {
        if !F::DIRECT || self.has_stopped_exposing() || self.receiver.offered().is_some() {
            return false;
        }
        let Some(transfer) = self.receiver.next_unseen() else { return false };
        let Some((memory, all)) = self.exposing.exposer.writable(exposed) else { return false };
        let Some(bytes) = all.checked_sub(offset).filter(|bytes| *bytes > 0) else { return false };
        let arrival = self.config.arrival;
        if self.receiver.next_arrival(fabric, &self.link, arrival).is_some()
            || !self.post_control(fabric, Control::Offer { transfer, place: exposed.place, offset })
        {
            return false;
        }
        self.receiver.note_offered(Offered { exposed, transfer, memory, offset, bytes, is_written: false });
        fabric.ring_doorbell(&mut self.link);
        true
    }

    /// Returns false if the mailbox has no room for an offer, which [`progress`](Self::progress) makes.
    pub fn has_room_for_offer(&mut self) -> bool {
        let has_room = self.outbox.has_room(Kind::Offer);
        self.wants_ack |= !has_room;
        has_room
    }

    /// Returns true while the peer may write into this memory: it is offered to a transfer of which nothing was seen, or that transfer is
    /// split and was not taken out, or discarded, to its end. It stays true after the end of the connection. It is also true of memory that
    /// was withdrawn meanwhile.
    #[must_use]
    pub fn is_offered(&self, exposed: Exposed) -> bool {
        self.receiver.offered().is_some_and(|offered| offered.exposed == exposed)
    }

    /// Handles OFFER.
    pub(super) fn handle_offer(
        &mut self,
        transfer: u64,
        place: u8,
        offset: u32,
    ) -> Result<(), ProtocolError> {
        let (next, is_stale) = (self.sender.next_transfer(), self.sender.has_begun(transfer));
        let offer = (transfer, place, offset);
        self.exposing.offers.handle(offer, next, is_stale, self.receiver.sources())
    }

    /// Returns true if this end may write into memory of the peer at this place.
    pub(super) fn is_written(&self, place: u8) -> bool {
        let offered = self.exposing.offers.place(self.sender.next_transfer());
        [offered, self.sender.split_place()].contains(&Some(place))
    }

    /// Begins to send a message split. Returns `None` if it is sent otherwise: no memory is offered for it, or too little.
    pub(super) fn send_split(
        &mut self,
        fabric: &mut F,
        (tag, bytes): (u64, u64),
        exposed: Exposed,
        offset: u32,
    ) -> Option<Result<ExposedSend, RefusedSend>> {
        let head = head_of(bytes)?;
        if !self.receiver.sources().has_destinations() {
            return None;
        }
        // The offer may be the newest control message.
        for _ in 0..control_page::MAILBOX_SLOTS {
            if self.poll_mailbox(fabric) == 0 {
                break;
            }
        }
        if !self.may_send() {
            return Some(Err(RefusedSend::Closed));
        }
        let room = self.exposing.offers.room(self.sender.next_transfer(), self.receiver.sources())?;
        if u64::from(room.bytes) < bytes {
            return None;
        }
        if !self.may_emit_split(fabric, false) {
            return Some(Err(RefusedSend::NoCredit));
        }
        let to = SplitOut { place: room.place, offset: room.offset };
        let (link, config, source) = (&mut self.link, &self.config, (exposed.place, offset));
        let id = self.sender.emit_split(fabric, link, config, (tag, bytes, head), source, to);
        let [produced, _] = self.sender.blocks();
        self.exposing.exposer.note_named(exposed, self.sender.last(), produced);
        self.counters.chunks_sent += 1;
        self.counters.bytes_sent += head;
        self.counters.exposed_bytes_sent += head;
        fabric.ring_doorbell(&mut self.link);
        Some(Ok(ExposedSend::Split { id, head: usize::try_from(head).unwrap_or(usize::MAX) }))
    }

    /// Writes the next part of a split message into the peer's memory, from the slices after `cursor`, which advances. The last chunk goes
    /// out with the last byte. Returns the bytes that were written.
    ///
    /// # Errors
    /// As [`push_at`](Self::push_at).
    pub(super) fn push_split(
        &mut self,
        fabric: &mut F,
        id: TransferId,
        slices: &[&[u8]],
        cursor: &mut Cursor,
        rest: SplitRest,
    ) -> Result<usize, RefusedSend> {
        self.check(id)?;
        let SplitRest { place, at, left } = rest;
        let Some((memory, _)) = self.receiver.sources().destination(place) else { return Ok(0) };
        let bytes_max = usize::try_from(left).unwrap_or(usize::MAX).min(CALL_BYTES as usize);
        let mut gather = Gather::window(slices, *cursor, bytes_max);
        let bytes = gather.remaining();
        let is_last = bytes as u64 == left;
        if is_last && gather.has_more() {
            return Err(RefusedSend::WrongLength);
        }
        if is_last && !self.may_emit_split(fabric, true) {
            return Ok(0);
        }
        planted!(FinBeforeTail => if is_last {
            self.sender.count_written(bytes as u64);
            self.emit(fabric, Payload::InPlace, 0, false);
        });
        let begin = recording::begin(fabric, &self.link);
        let mut at = u32::try_from(at).unwrap_or(u32::MAX);
        while gather.remaining() > 0 {
            let run = gather.take(gather.remaining());
            fabric.copy_in(&mut self.link, memory, at, run, CopyKernel::Plain);
            at = at.saturating_add(u32::try_from(run.len()).unwrap_or(u32::MAX));
        }
        if bytes > 0 {
            let ((sequence, block), bytes) =
                (self.sender.next_block(), u32::try_from(bytes).unwrap_or(u32::MAX));
            record!(fabric, &self.link, since begin, CopyIn { sequence, block, bytes });
        }
        *cursor = gather.cursor(slices.len());
        self.sender.count_written(bytes as u64);
        self.counters.bytes_sent += bytes as u64;
        self.counters.split_bytes_sent += bytes as u64;
        if is_last {
            self.emit(fabric, Payload::InPlace, 0, false);
            fabric.ring_doorbell(&mut self.link);
        }
        Ok(bytes)
    }

    /// Returns true if the first or the last chunk of a split message may be sent now.
    fn may_emit_split(&mut self, fabric: &mut F, is_last: bool) -> bool {
        let mut may_emit = self.sender.may_emit_split(&self.config, is_last);
        if !may_emit && self.refill(fabric) {
            may_emit = self.sender.may_emit_split(&self.config, is_last);
        }
        if !may_emit {
            self.counters.credit_waits += 1;
            self.wants_ack = true;
            record!(fabric, &self.link, NoCredit { sequence: self.sender.last() });
        }
        may_emit
    }
}
