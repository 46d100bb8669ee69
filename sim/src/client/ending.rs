//! End of a program: it ends its transfers, receives what arrives, and closes the connection.

use superpipe_core::{Closed, Length, Nanos, Reason, Sending};
use superpipe_testkit::PairFabric;

use super::ops::{ReceiveOp, Wanted};
use super::{ClientPair, ExitPolicy, Stage, TurnOutcome};

/// Deadline of each wait of an end that is ending.
const STEP_NS: u64 = 5_000_000;

/// Time without progress after which an end gives up. A keepalive may have to repeat an acknowledgement that was overtaken.
const PROGRESS_TIMEOUT_NS: u64 = 1_500_000_000;

/// Deadline of the wait for a close.
const LINGER_NS: u64 = 20_000_000;

/// Longest sleep of an end that has closed and waits for its peer's close.
const SLEEP_MAX_NS: u64 = 500_000;

impl<F: PairFabric> ClientPair<F> {
    /// Takes the next step to the end.
    pub(super) fn end(&mut self, side: usize, now: Nanos) -> TurnOutcome {
        let mut outcome = TurnOutcome::default();
        let client = &mut self.clients[side];
        if client.program.exit_policy == ExitPolicy::Drop && client.closed_with.is_none() {
            client.has_dropped = true;
            outcome.releases[side] = true;
            return outcome;
        }
        match self.clients[side].stage {
            Stage::Closing => {
                let deadline = Nanos(now.0 + LINGER_NS);
                self.wait_for(side, Wanted::Close, deadline);
            }
            Stage::Over => {
                outcome.sleep_ns = SLEEP_MAX_NS;
                outcome.releases[side] = self.may_release(side, now);
            }
            _ => {
                self.clients[side].stage = Stage::Ending;
                self.finish_transfers(side, now);
            }
        }
        outcome
    }

    fn finish_transfers(&mut self, side: usize, now: Nanos) {
        self.end_in_place(side);
        let moved: u64 = self.clients.iter().map(|client| client.driver.endpoint().moved()).sum();
        let other_calls = matches!(self.clients[1 - side].stage, Stage::Warming(..) | Stage::Calling);
        // A peer that has vanished makes no more calls.
        if other_calls && !self.may_fail
            || self.clients[side].ends_since.is_none_or(|(_, before)| before != moved)
        {
            self.clients[side].ends_since = Some((now, moved));
        }
        let since = self.clients[side].ends_since.map_or(now, |(since, _)| since);
        let step = Nanos(now.0 + self.ends_per_cpu * STEP_NS);
        let closed = self.closed(side);
        let ending = self.clients[side].program.exit_policy;
        let is_gone = self.clients[side].driver.is_peer_gone();
        let is_lost = is_gone && (self.clients[side].has_seen_end || now.0 > since.0 + 2 * STEP_NS);
        if closed.is_some() || is_lost || ending == ExitPolicy::Abort || self.is_unchecked() {
            let reason = match (closed, ending) {
                (Some(Closed::ByPeer(reason)), _) => reason,
                (_, ExitPolicy::Abort) => Reason(4 << 16),
                _ if self.is_unchecked() || is_lost => Reason::GIVEN_UP,
                _ => Reason::DONE,
            };
            return self.begin_close(side, reason);
        }
        if let Some(index) = self.flows[side].open {
            return self.end_open(side, index, step);
        }
        // A CANCEL that is due may wait until the peer receives, which may wait until this end receives.
        let owes_cancel = self.state_of(side).sending != Sending::Nothing;
        let peer_sends = self.flows[1 - side].open.is_some() || other_calls;
        let is_taken = !peer_sends && self.flows[1 - side].is_taken();
        if owes_cancel || ending == ExitPolicy::WhenReceived && !is_taken {
            // A peer that may be gone need not send anything.
            let timeout_ns =
                if self.may_fail { PROGRESS_TIMEOUT_NS / 5 } else { self.ends_per_cpu * PROGRESS_TIMEOUT_NS };
            let is_stuck = now.0 > since.0 + timeout_ns;
            let peer_has_closed = self.clients[1 - side].closed_with.is_some();
            assert!(!is_stuck || self.may_fail || peer_has_closed, "no progress");
            if is_stuck {
                return self.begin_close(side, Reason::GIVEN_UP);
            }
            return self.receive_all(side, step);
        }
        if ending == ExitPolicy::WhenReceived && !self.delivered(side) && now.0 < since.0 + 4 * STEP_NS {
            return self.wait_for(side, Wanted::Flush, step);
        }
        self.begin_close(side, Reason::DONE);
    }

    /// Completes the open transfer, or cancels it.
    fn end_open(&mut self, side: usize, index: usize, step: Nanos) {
        let slot =
            self.clients[side].sends.iter().position(|it| it.as_ref().is_some_and(|it| it.index == index));
        let gives_up = self.clients[side].rng.one_in(4);
        match slot {
            Some(slot) if gives_up => self.cancel_send(side, slot, Reason::GIVEN_UP),
            Some(slot) => self.wait_for(side, Wanted::Send(slot), step),
            None if gives_up => self.cancel_stream(side, Reason::GIVEN_UP),
            None => self.wait_for(side, Wanted::Write, step),
        }
    }

    /// Receives what arrives.
    fn receive_all(&mut self, side: usize, step: Nanos) {
        let head = self.flows[1 - side].head;
        let mut begun = self.clients[side].receives.iter();
        let takes = |it: &ReceiveOp| it.op.has_begun() && it.index == head;
        if let Some(slot) = begun.position(|it| it.as_ref().is_some_and(takes)) {
            return self.wait_for(side, Wanted::Receive(slot), step);
        }
        let Some(incoming) = self.try_peek(side) else {
            self.begin_recv(side, 0, false);
            return self.wait_for(side, Wanted::Receive(0), step);
        };
        if incoming.length == Length::Stream
            || self.flows[1 - side].at > 0
            || self.clients[side].reads == self.flows[1 - side].head
            || self.clients[side].rng.one_in(4)
        {
            self.wait_for(side, Wanted::Read, step);
        } else {
            self.begin_recv(side, 0, false);
            self.wait_for(side, Wanted::Receive(0), step);
        }
    }

    fn begin_close(&mut self, side: usize, reason: Reason) {
        self.close(side, reason);
        self.clients[side].stage = Stage::Closing;
    }

    /// Returns true if this end may release everything: the other end is over, or has had enough time.
    fn may_release(&mut self, side: usize, now: Nanos) -> bool {
        let since = *self.clients[side].over_since.get_or_insert(now);
        self.progress(side);
        self.clients[side].driver.tick(&mut self.fabric, now);
        let other = &self.clients[1 - side];
        let is_mutual = matches!(other.stage, Stage::Over);
        if is_mutual || self.clients[side].driver.is_peer_gone() {
            return true;
        }
        now.0 > since.0 + 2 * self.ends_per_cpu * LINGER_NS
    }

    /// Checks at the end that everything sent has arrived, if both ends wanted it and nothing failed.
    pub(crate) fn check_oracle(&self) {
        let wants_all = |side: usize| self.clients[side].program.exit_policy == ExitPolicy::WhenReceived;
        let in_order = |side: usize| {
            let reason = self.clients[side].closed_with;
            reason == Some(Reason::DONE)
        };
        if self.may_fail || self.is_unchecked() || !(in_order(0) && in_order(1)) {
            return;
        }
        for side in 0..2 {
            let aborted = !wants_all(1 - side);
            let is_taken = self.flows[side].lacks_nothing();
            assert!(is_taken || aborted || self.clients[1 - side].has_seen_end, "something never came");
        }
    }
}
