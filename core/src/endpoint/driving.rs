//! What needs no asking: completions, the peer's control messages, signs of life, and how a connection ends.

use core::mem;

use super::{CONTROLS_PER_ACK, Endpoint, Event};
use crate::ack::Ack;
use crate::control::Control;
use crate::error::{Closed, Failure, ProtocolError, Reason};
use crate::fabric::Fabric;
use crate::layout::seat;
use crate::planted::{Bug, is_planted};
use crate::recorder::Step;
use crate::recording;

impl<F: Fabric> Endpoint<F> {
    /// One bounded round of everything that needs no asking: completions, control messages, posts and
    /// acknowledgements that are due. How much was done; after 0 the caller may wait a little.
    pub fn progress(&mut self, fabric: &mut F) -> usize {
        let mut work = 0;
        if !F::DIRECT {
            work += self.poll_completions(fabric);
            if Self::notifies(&self.config) {
                work += self.take_notices(fabric);
            }
            if self.sender.has_unposted() {
                if self.sender.post(fabric, &mut self.link, &mut self.notices) {
                    work += 1;
                } else {
                    self.counters.sq_full += 1;
                }
            }
        }
        work += self.poll_mailbox(fabric);
        if self.wants_ack && self.refill(fabric) {
            work += 1;
        }
        if self.receiver.is_discarding() {
            work += usize::from(self.drain(fabric));
        }
        work += self.flush_controls(fabric);
        // Whatever else is done in these rounds: who only sends must acknowledge, too.
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
        if !self.said_close && self.receiver.is_left_open() {
            self.fail(fabric, Failure::Protocol(ProtocolError::CloseLeavesOpen));
        }
        work
    }

    /// Whether the peer has written something that no call has looked at yet: the last question before a sleep. A
    /// message that the application leaves there is told of once, so that waiting for something else can sleep. What is torn
    /// has not come, and signs of life are none of it: who waits for those looks by itself.
    #[must_use]
    pub fn has_arrivals(&self, fabric: &F) -> bool {
        let told =
            if Self::notifies(&self.config) { fabric.has_notice(&self.link) } else { self.has_ack(fabric) };
        let next = self.receiver.next_arrival(fabric, &self.link, self.config.arrival);
        let noticed = next.is_some() && self.noticed.replace(next) != next;
        noticed || self.inbox.has_arrivals(fabric, &self.link, self.seat, self.config.arrival) || told
    }

    /// Returns true if the peer's line of acknowledgements, taken now, would give back blocks or places in the mailbox.
    fn has_ack(&self, fabric: &F) -> bool {
        let line = fabric.take_line(&self.link, self.seat, seat::ACK);
        Ack::parse(fabric, self.config.arrival, &line)
            .is_some_and(|ack| self.sender.has_news(ack.blocks) || self.outbox.has_news(ack.controls))
    }

    /// Takes the oldest event out. [`Event::Missed`] comes first, since dropped events are older than those that were kept.
    pub fn poll_event(&mut self) -> Option<Event> {
        match mem::take(&mut self.missed) {
            0 => self.events.pop_front(),
            count => Some(Event::Missed { count }),
        }
    }

    /// Looks at the peer's acknowledgements and signs of life, which not every round looks at. A wait does this each time that it
    /// looks at the clock.
    pub fn look(&mut self, fabric: &mut F) {
        self.refill(fabric);
    }

    /// Writes acknowledgements that are due, and would wait for more rounds: before the caller sleeps.
    pub fn acknowledge(&mut self, fabric: &mut F) {
        if self.owes_ack() {
            self.write_ack(fabric);
        }
    }

    /// Shows the peer that this end lives, and writes the acknowledgements again, which heals one that was
    /// overtaken by an older one. A few times a second.
    pub fn show_life(&mut self, fabric: &mut F) {
        self.acked.life = self.acked.life.wrapping_add(1);
        self.write_ack_line(fabric);
    }

    /// Counts everything that was ever heard of the peer: while it stands still, the peer is silent.
    #[must_use]
    pub const fn heard(&self) -> u64 {
        self.heard.wrapping_add(self.receiver.consumed())
    }

    /// Closes this end. The peer takes out what was sent before, unless the reason is other than
    /// [`Reason::DONE`]: then neither end delivers anything any more. An open transfer is cancelled with the same reason. The
    /// mailbox may be full: call [`progress`](Self::progress) until [`is_told`](Self::is_told).
    pub fn close(&mut self, fabric: &mut F, reason: Reason) {
        if matches!(self.closed, None | Some(Closed::ByPeer(_))) {
            self.sender.abandon(reason);
            if reason != Reason::DONE {
                self.receiver.shut();
            }
            self.say_close(reason);
            if self.closed.is_none() {
                self.closed = Some(Closed::Here(reason));
            }
            self.flush_controls(fabric);
            self.drop_moot();
        }
    }

    /// Returns true if CANCEL and CLOSE are sent, where they are due, and no chunk waits. A CTS or REJECT that is due does not
    /// count, since it may have to wait for the peer.
    #[must_use]
    pub const fn is_told(&self) -> bool {
        self.pending_close.is_none() && !self.sender.owes_cancel() && !self.sender.has_unposted()
    }

    /// Returns true if the peer has consumed every control message, and none is due, nor a CANCEL.
    pub fn controls_delivered(&mut self) -> bool {
        let idle = self.outbox.is_idle();
        self.wants_ack |= !idle;
        idle && self.owes_nothing()
    }

    /// Whether the peer has said that it closes; what it sent before may still be here.
    #[must_use]
    pub const fn peer_closes(&self) -> bool {
        self.receiver.is_closing()
    }

    pub(super) fn poll_completions(&mut self, fabric: &mut F) -> usize {
        let mut work = 0;
        while let Some(completion) = fabric.poll_cq(&mut self.link) {
            work += 1;
            self.sender.handle_completion(completion.wr);
            recording::event(fabric, &self.link, || Step::Complete { sequence: completion.wr.0 });
            if let Err(error) = completion.result {
                self.fail(fabric, Failure::Device(error));
            }
            if work == 16 {
                break;
            }
        }
        work
    }

    #[inline]
    pub(super) fn poll_mailbox(&mut self, fabric: &mut F) -> usize {
        let polled = self.inbox.poll(fabric, &self.link, self.seat, self.config.arrival);
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
        self.heard = self.heard.wrapping_add(1);
        let handled = control.and_then(|control| {
            recording::event(fabric, &self.link, || Step::ControlIn(control.kind()));
            match control {
                Control::Cts { transfer } => self.sender.handle_cts(transfer),
                Control::Reject { transfer, reason } => {
                    self.sender.handle_reject(transfer, reason)?;
                    if self.events.is_full() {
                        self.events.pop_front();
                        self.missed = self.missed.saturating_add(1);
                    }
                    let kept = self.events.push_back(Event::Rejected { transfer, reason });
                    debug_assert!(kept.is_ok(), "there is room");
                    Ok(())
                }
                Control::Close { last, reason } => self.receiver.handle_close(last, reason),
            }
        });
        self.drop_moot();
        self.judged(fabric, handled);
        if self.inbox.consumed().wrapping_sub(self.acked.controls) >= CONTROLS_PER_ACK {
            self.write_ack(fabric);
        }
    }

    /// The result, or nothing and a closed connection.
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

    /// A peer that has closed sends nothing that a CTS or REJECT could change, and is told of none. Once both ends have
    /// closed, neither owes the other more than its CLOSE: a CANCEL may have to wait for what nobody takes out any more
    /// (wire.md 5.3).
    pub(super) fn drop_moot(&mut self) {
        if self.receiver.is_closing() {
            self.forget_dues();
            if self.said_close {
                self.sender.drop_cancelled();
            }
        }
    }

    /// Drops the CTS and REJECT that are due, because the peer is gone or has closed. True if a REJECT was due: what came behind
    /// it can be taken now.
    pub fn forget_dues(&mut self) -> bool {
        self.pending_cts = None;
        self.receiver.told_reject()
    }

    /// CLOSE is said once.
    pub(super) const fn say_close(&mut self, reason: Reason) {
        if !self.said_close {
            self.said_close = true;
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
            if !is_planted(Bug::FailedDelivers) {
                self.receiver.shut();
            }
            recording::event(fabric, &self.link, || Step::Failed(failure));
            self.say_close(Reason::PROTOCOL);
            self.flush_controls(fabric);
        }
    }
}
