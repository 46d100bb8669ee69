//! What the peer is told beside data: control messages that are due, and acknowledgements; and what it acknowledged.

use super::Endpoint;
use crate::ack::Ack;
use crate::arrival::Arrival;
use crate::control::Control;
use crate::fabric::Fabric;
use crate::layout::seat;
use crate::line::LINE_BYTES;
use crate::notice::Subject;
use crate::planted::{Bug, is_planted};
use crate::recorder::Step;
use crate::recording;

impl<F: Fabric> Endpoint<F> {
    /// Returns true if no CTS, REJECT, CANCEL or CLOSE is due.
    pub(super) const fn owes_nothing(&self) -> bool {
        self.pending_cts.is_none()
            && !self.receiver.owes_reject()
            && self.pending_close.is_none()
            && !self.sender.owes_cancel()
    }

    /// Sends the CTS, REJECT, CANCEL and CLOSE that are due, as far as there is room. How many.
    #[inline]
    pub(super) fn flush_controls(&mut self, fabric: &mut F) -> usize {
        if self.owes_nothing() { 0 } else { self.flush_due(fabric) }
    }

    pub(super) fn flush_due(&mut self, fabric: &mut F) -> usize {
        let mut sent = 0;
        if let Some(transfer) = self.pending_cts
            && (self.post_control(fabric, Control::Cts { transfer }) || is_planted(Bug::CtsForgotten))
        {
            self.pending_cts = None;
            sent += 1;
        }
        if let Some((transfer, reason)) = self.receiver.reject_due()
            && (self.post_control(fabric, Control::Reject { transfer, reason })
                || is_planted(Bug::RejectForgotten))
        {
            self.receiver.told_reject();
            sent += 1;
        }
        if self.sender.owes_cancel() {
            let (link, notices) = (&mut self.link, &mut self.notices);
            if self.sender.emit_cancel(fabric, link, notices) {
                self.counters.chunks_sent += 1;
                sent += 1;
            } else if is_planted(Bug::CancelForgotten) {
                self.sender.drop_cancelled();
            }
        }
        // CLOSE names the last chunk, which may be a CANCEL.
        if let Some(reason) = self.pending_close
            && !self.sender.owes_cancel()
            && self.settles_acks(fabric)
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
        let (link, notices) = (&mut self.link, &mut self.notices);
        let posted = self.outbox.post(fabric, link, self.peer_seat, notices, control);
        if posted {
            self.counters.controls_sent += 1;
            recording::event(fabric, &self.link, || Step::ControlOut(control.kind()));
        } else {
            self.counters.sq_full += 1;
        }
        posted
    }

    /// Looks for the peer's acknowledgements. Whether blocks became free, for an end that may still send: what is read here
    /// may break a rule.
    #[cold]
    pub(super) fn refill(&mut self, fabric: &mut F) -> bool {
        let acked = self.sender.acked();
        if Self::notifies(&self.config) {
            self.take_notices(fabric);
        } else {
            self.read_ack(fabric);
        }
        acked != self.sender.acked() && self.may_send()
    }

    /// Reads the peer's acknowledgements.
    pub(super) fn read_ack(&mut self, fabric: &mut F) {
        let line = fabric.take_line(&self.link, self.seat, seat::ACK);
        let Some(ack) = Ack::parse(fabric, self.config.arrival, &line) else { return };
        let blocks = self.sender.handle_ack(ack.blocks);
        let blocks = self.judged(fabric, blocks).unwrap_or(false);
        if blocks {
            recording::event(fabric, &self.link, || Step::AckIn { blocks: ack.blocks });
        }
        let controls = self.outbox.handle_ack(ack.controls);
        let controls = self.judged(fabric, controls).unwrap_or(false);
        if blocks || controls || ack.life != self.peer_life {
            self.peer_life = ack.life;
            self.heard = self.heard.wrapping_add(1);
        }
        self.wants_ack = false;
    }

    pub(super) fn owes_ack(&self) -> bool {
        self.acked.blocks != self.receiver.consumed() || self.acked.controls != self.inbox.consumed()
    }

    /// Whether the peer was told of all that was consumed: it may wait for that.
    pub(super) fn settles_acks(&mut self, fabric: &mut F) -> bool {
        self.acknowledge(fabric);
        !self.owes_ack()
    }

    /// Writes the acknowledgement: where only the count of blocks changes, and stores go direct, only that.
    pub(super) fn write_ack(&mut self, fabric: &mut F) {
        let Ack { blocks, controls, .. } = self.newest_ack();
        if F::DIRECT
            && self.config.arrival == Arrival::Flag
            && self.ack_line_is_there
            && controls == self.acked.controls
        {
            // As in `word::write_line`, the even word comes last.
            fabric.publish(&mut self.link, self.peer_seat, seat::ACK + 8, !blocks);
            fabric.publish(&mut self.link, self.peer_seat, seat::ACK, blocks);
            fabric.ring_doorbell(&mut self.link);
            self.wrote_ack(fabric);
        } else {
            self.write_ack_line(fabric);
        }
    }

    /// Writes the whole line of acknowledgements.
    pub(super) fn write_ack_line(&mut self, fabric: &mut F) {
        let line = self.newest_ack().line(fabric, self.config.arrival);
        fabric.write_line(&mut self.link, self.peer_seat, seat::ACK, &line);
        let (link, to, notices) = (&mut self.link, self.peer_seat, &mut self.notices);
        if !F::DIRECT && notices.post(fabric, link, to, seat::ACK, LINE_BYTES, None, Subject::Ack).is_err() {
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
        let early = u64::from(is_planted(Bug::AckBeforeCopy) && self.receiver.open().is_some());
        let blocks = self.receiver.consumed().wrapping_add(early);
        Ack { blocks, controls: self.inbox.consumed(), life: self.acked.life }
    }

    #[inline]
    fn wrote_ack(&mut self, fabric: &mut F) {
        self.acked = self.newest_ack();
        self.counters.acks_sent += 1;
        recording::event(fabric, &self.link, || Step::AckOut { blocks: self.acked.blocks });
    }
}
