//! Control messages and acknowledgements: sending those that are due, and reading the peer's acknowledgements.

use super::Endpoint;
use crate::fabric::Fabric;
use crate::receive::notifies;
use crate::wire::ack::Ack;
use crate::wire::arrival::Arrival;
use crate::wire::control::Control;
use crate::wire::layout::control_page;
use crate::wire::line::Line;

/// Most reads of a line of acknowledgements that is torn, with direct store. The peer writes it within nanoseconds, and what was there before may
/// have told of room that this end has not heard of yet.
const ACK_READS: u32 = 4;

impl<F: Fabric> Endpoint<F> {
    /// Returns true if no CTS, REJECT, CANCEL or CLOSE is due.
    pub(super) const fn owes_nothing(&self) -> bool {
        self.pending_cts.is_none()
            && !self.receiver.owes_reject()
            && self.pending_close.is_none()
            && !self.sender.owes_cancel()
    }

    /// Sends the CTS, REJECT, CANCEL and CLOSE that are due, as far as there is room. Returns their number.
    #[inline]
    pub(super) fn flush_controls(&mut self, fabric: &mut F) -> usize {
        if self.owes_nothing() { 0 } else { self.flush_due(fabric) }
    }

    pub(super) fn flush_due(&mut self, fabric: &mut F) -> usize {
        let mut sent = 0;
        if let Some((transfer, claim)) = self.pending_cts
            && let claim = self.claim_of(transfer, claim)
            && self.post_control(fabric, Control::Cts { transfer, claim })
        {
            self.pending_cts = None;
            if claim.is_some() {
                self.note_granted(transfer);
            }
            sent += 1;
        }
        planted!(CtsForgotten => self.pending_cts = None);
        if let Some((transfer, reason)) = self.receiver.reject_due()
            && self.post_control(fabric, Control::Reject { transfer, reason })
        {
            self.receiver.take_reject();
            sent += 1;
        }
        planted!(RejectForgotten => _ = self.receiver.take_reject());
        if self.sender.emit_cancel(fabric, &mut self.link) {
            self.counters.cancels_sent += 1;
            self.counters.chunks_sent += 1;
            sent += 1;
        }
        planted!(CancelForgotten => self.sender.drop_cancelled());
        // CLOSE names the last chunk, which may be a CANCEL.
        if let Some(reason) = self.pending_close
            && !self.sender.owes_cancel()
            && self.acknowledges_all(fabric)
            && self.post_control(fabric, Control::Close { last: self.sender.last(), reason })
        {
            self.pending_close = None;
            sent += 1;
        }
        if sent > 0 {
            fabric.ring_doorbell(&mut self.link);
        }
        sent
    }

    pub(super) fn post_control(&mut self, fabric: &mut F, control: Control) -> bool {
        if !self.outbox.has_room(control.kind()) {
            self.wants_ack = true;
            return false;
        }
        let (link, to) = (&mut self.link, self.peer_control_page);
        let posted = self.outbox.post(fabric, link, to, &mut self.sender, control);
        if posted {
            self.counters.controls_sent += 1;
            record!(fabric, &self.link, ControlOut(control.kind()));
        } else {
            self.counters.sq_full += 1;
        }
        posted
    }

    /// Polls the peer's acknowledgements. Returns true if blocks became free, and this end may still send: the peer may have broken a rule. With
    /// direct store one of them may be used now: those behind the end of a lap are no use before its first one is acknowledged. With posted
    /// writes completions may be awaited yet.
    #[cold]
    pub(super) fn refill(&mut self, fabric: &mut F) -> bool {
        let free_from = self.sender.free_from();
        if notifies::<F>(self.config.arrival) {
            self.take_notifications(fabric);
        } else {
            self.read_ack(fabric);
        }
        planted!(RefillWithoutRoom => return free_from != self.sender.free_from() && self.may_send());
        let has_room = !F::DIRECT || !self.sender.is_full();
        free_from != self.sender.free_from() && has_room && self.may_send()
    }

    /// Reads the peer's acknowledgements.
    pub(super) fn read_ack(&mut self, fabric: &mut F) {
        let Some(ack) = self.take_ack(fabric) else { return };
        self.sender.handle_timing(fabric, &self.link, ack.timing);
        let blocks = self.sender.handle_ack(ack.blocks);
        let blocks = self.judged(fabric, blocks).unwrap_or(false);
        if blocks {
            record!(fabric, &self.link, AckIn { blocks: ack.blocks });
        }
        let controls = self.outbox.handle_ack(ack.controls);
        let controls = self.judged(fabric, controls).unwrap_or(false);
        let has_keepalive = ack.keepalives != self.peer_keepalives;
        if blocks || controls || has_keepalive {
            self.counters.keepalives_received += u64::from(has_keepalive);
            self.peer_keepalives = ack.keepalives;
            self.activity = self.activity.wrapping_add(1);
        }
        self.wants_ack = false;
    }

    /// Returns the peer's acknowledgements. `None`: it has written none, or the line is torn.
    fn take_ack(&self, fabric: &F) -> Option<Ack> {
        let reads = if F::DIRECT { ACK_READS } else { 1 };
        for _ in 0..reads {
            let line = fabric.take_line(&self.link, self.control_page, control_page::ACK);
            let ack = Ack::parse(fabric, self.config.arrival, &line);
            if ack.is_some() || line == Line::default() {
                return ack;
            }
        }
        None
    }

    /// Returns a count of everything that this end has acknowledged.
    pub(crate) const fn acknowledged(&self) -> u64 {
        self.acked.blocks.wrapping_add(self.acked.controls)
    }

    pub(super) fn owes_ack(&self) -> bool {
        self.acked.blocks != self.released() || self.acked.controls != self.inbox.consumed()
    }

    /// Acknowledges all that was consumed and is not lent. Returns true once nothing is left to acknowledge; the peer may wait for it.
    pub(super) fn acknowledges_all(&mut self, fabric: &mut F) -> bool {
        self.acknowledge(fabric);
        !self.owes_ack()
    }

    /// Writes the acknowledgement. With direct store, writes only the count of blocks if nothing else has changed.
    pub(super) fn write_ack(&mut self, fabric: &mut F) {
        let Ack { blocks, controls, timing, .. } = self.newest_ack();
        if F::DIRECT
            && self.config.arrival == Arrival::Flag
            && self.ack_line_is_there
            && controls == self.acked.controls
        {
            if timing != self.acked.timing {
                fabric.publish(&mut self.link, self.peer_control_page, control_page::ACK + 48, timing.word());
            }
            // As in `word::write_line`, the even word comes last.
            fabric.publish(&mut self.link, self.peer_control_page, control_page::ACK + 8, !blocks);
            fabric.publish(&mut self.link, self.peer_control_page, control_page::ACK, blocks);
            fabric.ring_doorbell(&mut self.link);
            self.wrote_ack(fabric);
        } else {
            self.write_ack_line(fabric);
        }
    }

    /// Writes the whole line of acknowledgements.
    pub(super) fn write_ack_line(&mut self, fabric: &mut F) {
        let line = self.newest_ack().line(fabric, self.config.arrival);
        fabric.write_line(&mut self.link, self.peer_control_page, control_page::ACK, &line);
        let (link, to) = (&mut self.link, self.peer_control_page);
        if !F::DIRECT && self.sender.post_ack(fabric, link, to, control_page::ACK).is_err() {
            self.counters.sq_full += 1;
            self.idle_rounds = Self::IDLE_ROUNDS;
            return;
        }
        fabric.ring_doorbell(&mut self.link);
        self.ack_line_is_there = true;
        self.wrote_ack(fabric);
    }

    #[inline]
    fn newest_ack(&self) -> Ack {
        let mut blocks = self.released();
        planted!(AckBeforeCopy => if self.receiver.open().is_some() { blocks = blocks.wrapping_add(1); });
        let timing = self.receiver.timing();
        Ack { blocks, controls: self.inbox.consumed(), keepalives: self.acked.keepalives, timing }
    }

    #[inline]
    fn wrote_ack(&mut self, fabric: &mut F) {
        self.acked = self.newest_ack();
        self.counters.acks_sent += 1;
        record!(fabric, &self.link, AckOut { blocks: self.acked.blocks });
    }
}
