//! Driving: completions, the peer's control messages, keepalives, and the end of a connection.

use core::mem;

use super::{CONTROLS_PER_ACK, Endpoint, Event};
use crate::error::{Closed, Failure, ProtocolError, Reason};
use crate::fabric::Fabric;
use crate::memory::RETIRED_WR;
use crate::receive::notifies;
use crate::wire::ack::Ack;
use crate::wire::control::Control;
use crate::wire::layout::control_page;

/// Most completions that one round takes, which bounds its time. The next round takes the others: a completion that waits delays only the
/// reuse of its chunk's blocks.
const COMPLETIONS_PER_ROUND: usize = 16;

impl<F: Fabric> Endpoint<F> {
    /// Makes one bounded round of progress: completions, control messages, posts and acknowledgements that are due. Returns the count
    /// of work done; after 0 the caller may wait a little.
    pub fn progress(&mut self, fabric: &mut F) -> usize {
        let mut work = 0;
        if !F::DIRECT {
            work += self.poll_completions(fabric);
            if notifies::<F>(self.config.arrival) {
                work += self.take_notifications(fabric);
            }
            if self.sender.has_unposted() {
                if self.sender.post_chunk(fabric, &mut self.link) {
                    work += 1;
                } else {
                    self.counters.sq_full += 1;
                }
            }
        }
        work += self.poll_mailbox(fabric);
        if self.sender.prepared() > 0 {
            work += usize::from(self.send_prepared(fabric));
        }
        if !F::DIRECT && (self.zero_copy.is_active() || self.receiver.awaits_end()) {
            work += self.drive_zero_copy(fabric);
        }
        if self.growth.is_some() {
            work += self.drive_growth(fabric);
        }
        if F::DIRECT && self.exposing.is_active {
            work += self.drive_exposing(fabric);
        }
        if self.wants_ack && self.refill(fabric) {
            work += 1;
        }
        self.look_at_planned(fabric);
        if self.receiver.is_discarding() {
            let consumed = self.receiver.consumed();
            self.drain(fabric);
            work += usize::from(consumed != self.receiver.consumed());
        }
        work += self.flush_controls(fabric);
        // Also in rounds with other work: an end that only sends must acknowledge, too.
        if self.idle_rounds < Self::IDLE_ROUNDS {
            self.idle_rounds += 1;
        } else {
            self.acknowledge(fabric);
        }
        if !F::DIRECT {
            fabric.ring_doorbell(&mut self.link);
        }
        if self.closed.is_none()
            && let Some(reason) = self.receiver.closed()
        {
            self.closed = Some(Closed::ByPeer(reason));
        }
        if !self.has_sent_close && self.receiver.is_left_open() {
            self.fail(fabric, Failure::Protocol(ProtocolError::CloseLeavesOpen));
        }
        work
    }

    /// Returns true if the peer has written something that no call has read yet. Callers ask before they sleep. A message that the
    /// application leaves at the head is reported once, so that a wait for something else can sleep. Torn lines and keepalives
    /// do not count.
    #[must_use]
    pub fn has_arrivals(&self, fabric: &F) -> bool {
        let has_acks = if notifies::<F>(self.config.arrival) {
            fabric.has_notification(&self.link)
        } else {
            self.has_ack(fabric) || self.receiver.awaits_end() && fabric.has_notification(&self.link)
        };
        let has_job = !F::DIRECT && self.zero_copy.awaits_job();
        let next = self.receiver.next_arrival(fabric, &self.link, self.config.arrival);
        let reported = next.is_some() && self.reported.replace(next) != next;
        reported
            || self.inbox.has_arrivals(fabric, &self.link, self.control_page, self.config.arrival)
            || has_acks
            || has_job
    }

    /// Returns true if the peer's acknowledgements would free blocks or places in the mailbox.
    fn has_ack(&self, fabric: &F) -> bool {
        let line = fabric.take_line(&self.link, self.control_page, control_page::ACK);
        Ack::parse(fabric, self.config.arrival, &line)
            .is_some_and(|ack| self.sender.has_news(ack.blocks) || self.outbox.has_news(ack.controls))
    }

    /// Takes the oldest event. [`Event::Missed`] comes first, since dropped events are older than the kept ones.
    pub fn poll_event(&mut self) -> Option<Event> {
        match mem::take(&mut self.missed) {
            0 => self.events.pop_front(),
            count => Some(Event::Missed { count }),
        }
    }

    /// Polls the peer's acknowledgements and keepalives, which `progress` does not poll in each round. A wait calls it whenever it reads
    /// the clock.
    pub fn poll_acknowledgements(&mut self, fabric: &mut F) {
        self.refill(fabric);
    }

    /// Writes acknowledgements that are due, and would otherwise wait for more rounds. For a caller that is about to sleep.
    pub fn acknowledge(&mut self, fabric: &mut F) {
        if self.owes_ack() {
            self.write_ack(fabric);
        }
    }

    /// Sends a keepalive. It repeats the acknowledgements, which repairs one that an older one has overtaken. To be called a few
    /// times per second.
    pub fn send_keepalive(&mut self, fabric: &mut F) {
        self.acked.keepalives = self.acked.keepalives.wrapping_add(1);
        self.counters.keepalives_sent += 1;
        self.write_ack_line(fabric);
    }

    /// Returns a count of the peer's activity. The peer is silent while it does not change.
    #[must_use]
    pub const fn activity(&self) -> u64 {
        self.activity.wrapping_add(self.receiver.consumed())
    }

    /// Closes this end. With [`Reason::DONE`] the peer can still take out what was sent before; with any other reason neither end
    /// delivers anything any more. An open transfer is cancelled with the same reason. The mailbox may be full, so call
    /// [`progress`](Self::progress) until [`is_flushed`](Self::is_flushed).
    pub fn close(&mut self, fabric: &mut F, reason: Reason) {
        if matches!(self.closed, None | Some(Closed::ByPeer(_))) {
            self.sender.abandon(reason);
            if reason != Reason::DONE {
                self.receiver.shut();
            }
            self.make_close_due(reason);
            if self.closed.is_none() {
                self.closed = Some(Closed::Here(reason));
            }
            self.flush_controls(fabric);
            self.drop_needless();
        }
    }

    /// Returns true if neither CANCEL nor CLOSE is due, and no chunk waits to be posted. A CTS or REJECT that is due does not count,
    /// since it may have to wait for the peer.
    #[must_use]
    pub const fn is_flushed(&self) -> bool {
        self.pending_close.is_none() && !self.sender.owes_cancel() && !self.sender.has_unposted()
    }

    /// Returns true if the peer has consumed every control message, and neither a control message nor a CANCEL is due. Otherwise the
    /// next rounds of [`progress`](Self::progress) poll acknowledgements.
    pub fn poll_controls_delivered(&mut self) -> bool {
        let idle = self.outbox.is_idle();
        self.wants_ack |= !idle;
        idle && self.owes_nothing()
    }

    /// Returns true if the peer's CLOSE has arrived. Transfers that it sent before may still wait to be taken.
    #[must_use]
    pub const fn peer_closes(&self) -> bool {
        self.receiver.is_closing()
    }

    pub(super) fn poll_completions(&mut self, fabric: &mut F) -> usize {
        let mut work = 0;
        while let Some(completion) = fabric.poll_cq(&mut self.link) {
            work += 1;
            if completion.wr == RETIRED_WR {
                self.handle_retired_written();
            }
            self.sender.handle_completion(completion.wr);
            record!(fabric, &self.link, Complete { sequence: completion.wr.0 });
            if let Err(error) = completion.result {
                self.fail(fabric, Failure::Device(error));
            }
            if work == COMPLETIONS_PER_ROUND {
                break;
            }
        }
        work
    }

    #[inline]
    pub(super) fn poll_mailbox(&mut self, fabric: &mut F) -> usize {
        let polled = self.inbox.poll(fabric, &self.link, self.control_page, self.config.arrival);
        match polled {
            None => 0,
            Some(control) => {
                self.handle_control(fabric, control);
                1
            }
        }
    }

    #[cold]
    pub(super) fn handle_control(&mut self, fabric: &mut F, control: Result<Control, ProtocolError>) {
        self.counters.controls_received += 1;
        self.activity = self.activity.wrapping_add(1);
        let handled = control.and_then(|control| {
            record!(fabric, &self.link, ControlIn(control.kind()));
            match control {
                Control::Cts { transfer, claim } => self.sender.handle_cts(transfer, claim),
                Control::Reject { transfer, reason } => {
                    self.sender.handle_reject(transfer, reason)?;
                    self.counters.rejects_received += 1;
                    self.forget_rejected(fabric, transfer);
                    if self.events.is_full() {
                        self.events.pop_front();
                        self.missed = self.missed.saturating_add(1);
                    }
                    let kept = self.events.push_back(Event::Rejected { transfer, reason });
                    debug_assert!(kept.is_ok(), "there is room");
                    Ok(())
                }
                Control::Close { last, reason } => self.receiver.handle_close(last, reason),
                Control::Expose { .. }
                | Control::Mapped { .. }
                | Control::Withdrawn { .. }
                | Control::Offer { .. } => self.handle_exposing(control),
                control => self.handle_growth(control),
            }
        });
        self.drop_needless();
        self.judged(fabric, handled);
        if self.inbox.consumed().wrapping_sub(self.acked.controls) >= CONTROLS_PER_ACK {
            self.write_ack(fabric);
        }
    }

    /// Returns the value of a check of what the peer wrote. Closes the connection if the peer broke a rule.
    #[inline]
    pub(super) fn judged<T>(&mut self, fabric: &mut F, result: Result<T, ProtocolError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.fail(fabric, Failure::Protocol(error));
                None
            }
        }
    }

    /// Drops messages that a peer which has closed does not need: CTS and REJECT, since it sends no more data. Once both ends have
    /// closed, drops CANCEL as well, since it may have to wait for blocks that no end consumes any more (wire.md 5.3).
    pub(super) fn drop_needless(&mut self) {
        if self.receiver.is_closing() {
            self.drop_replies();
            if self.has_sent_close {
                self.sender.drop_cancelled();
            }
        }
    }

    /// Drops the CTS and REJECT that are due, because the peer is gone or has closed. Returns true if a REJECT was due: transfers
    /// behind the rejected one can be taken now.
    pub fn drop_replies(&mut self) -> bool {
        self.pending_cts = None;
        self.receiver.take_reject()
    }

    /// Makes CLOSE due, once.
    pub(super) const fn make_close_due(&mut self, reason: Reason) {
        if !self.has_sent_close {
            self.has_sent_close = true;
            self.pending_close = Some(reason);
        }
    }

    #[cold]
    pub(super) fn fail(&mut self, fabric: &mut F, failure: Failure) {
        if !matches!(self.closed, Some(Closed::Failed(_))) {
            self.closed = Some(Closed::Failed(failure));
            self.pending_cts = None;
            // A CLOSE that still waits gets this reason, so that the peer does not wait for chunks that never come.
            self.pending_close = self.pending_close.map(|_| Reason::PROTOCOL);
            self.sender.stop();
            self.receiver.shut_after_failure();
            record!(fabric, &self.link, Failed(failure));
            self.make_close_due(Reason::PROTOCOL);
            self.flush_controls(fabric);
        }
    }
}
