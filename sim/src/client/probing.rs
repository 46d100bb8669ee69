//! Calls in short states. An end that reaches one makes some calls of every kind, whatever else it does.

use superpipe_core::driver::{DescriptorWait, Ended, Next, WaitFailed};
use superpipe_core::{Closed, Nanos, Phase, Reason, Receiving, Sending, State};
use superpipe_testkit::PairFabric;

use super::ops::up_to;
use super::{Call, ClientPair, Stage};

/// Number of short states.
pub(super) const STATES: usize = 10;

/// Calls of one end in one short state, so that the state ends.
pub(super) const PROBES_MAX: u32 = 200;

/// Base of the reasons with which an end gives transfers up in a short state.
const PROBE_REASON: u32 = 5 << 16;

/// Returns the number of a short state, the shortest first. States with many other calls have none.
const fn short_state(state: State, is_gone: bool, is_begun: bool) -> Option<usize> {
    match state {
        State { phase: Phase::Failed, .. } => Some(0),
        State { phase: Phase::ClosedByPeer, .. } => Some(1),
        State { phase: Phase::ClosedHere, .. } => Some(2),
        State { phase: Phase::PeerCloses, .. } => Some(3),
        State { sending: Sending::Cancelling, .. } => Some(4),
        State { receiving: Receiving::Discarding, .. } => Some(5),
        _ if is_gone => Some(6),
        State { sending: Sending::Nothing, .. } if is_begun => Some(7),
        State { sending: Sending::AwaitingCts, .. } => Some(8),
        State { sending: Sending::Underway, .. } => Some(9),
        _ => None,
    }
}

impl<F: PairFabric> ClientPair<F> {
    /// Makes some calls if this is a short state, up to `PROBES_MAX` in all.
    pub(super) fn probe(&mut self, side: usize, now: Nanos) {
        let client = &self.clients[side];
        if self.is_unchecked() || matches!(client.stage, Stage::Warming(..)) {
            return;
        }
        let is_begun = client.sends.iter().flatten().any(|it| it.op.has_begun());
        let is_gone = client.driver.is_peer_gone();
        let Some(kind) = short_state(self.state_of(side), is_gone, is_begun) else { return };
        let client = &mut self.clients[side];
        let is_first = client.probes_left[kind] == PROBES_MAX;
        // The states before a close are the shortest.
        let most = if matches!(kind, 3..=5) { 20 } else { 5 };
        let calls = client.probes_left[kind].min(up_to(&mut client.rng, most));
        client.probes_left[kind] -= calls;
        if is_first || kind == 7 {
            self.end_begun(side);
        }
        for _ in 0..calls {
            self.probe_once(side, now);
        }
    }

    /// Continues or cancels an operation that has begun, since its result rarely lasts until the next call.
    fn end_begun(&mut self, side: usize) {
        let client = &mut self.clients[side];
        let reason = Reason(PROBE_REASON | up_to(&mut client.rng, 2000));
        let choice = client.rng.below(4);
        let send = client.sends.iter().position(|it| it.as_ref().is_some_and(|it| it.op.has_begun()));
        let receive = client.receives.iter().position(|it| it.as_ref().is_some_and(|it| it.op.has_begun()));
        match (choice, send, receive) {
            (0 | 1, Some(slot), _) => self.cancel_send(side, slot, reason),
            (0 | 2, _, Some(slot)) => self.cancel_recv(side, slot, reason),
            (1 | 3, _, Some(slot)) => {
                let _ = self.drive_recv(side, slot, false);
            }
            _ => self.take_events(side),
        }
    }

    /// Makes one call that does not block.
    fn probe_once(&mut self, side: usize, now: Nanos) {
        let client = &mut self.clients[side];
        let (slot, is_odd) = (client.rng.below(2), client.rng.one_in(4));
        let reason = Reason(PROBE_REASON | up_to(&mut client.rng, 2000));
        // An end that is about to close sends nothing, since its peer may never receive it.
        let sends = matches!(client.stage, Stage::Calling) || self.closed(side).is_some();
        let closes = self.state_of(side).phase == Phase::PeerCloses;
        let client = &mut self.clients[side];
        match client.rng.below(if sends { 48 } else { 30 }) {
            0 => {
                self.delivered(side);
            }
            1 => self.try_recv(side),
            2 => {
                self.try_peek(side);
            }
            3 if is_odd || closes => self.reject(side),
            4 => {
                let _ = self.drive_recv(side, slot, false);
            }
            5 | 6 => {
                if !client.receives[slot].as_ref().is_some_and(|it| it.op.has_begun()) {
                    self.begin_recv(side, slot, is_odd);
                }
                let _ = self.drive_recv(side, slot, false);
            }
            7 => self.cancel_recv(side, slot, reason),
            8 | 9 => {
                let _ = self.readable(side);
            }
            10 | 11 => {
                let _ = self.consume(side);
            }
            12 | 13 => {
                let _ = self.pull(side);
            }
            14 => self.progress(side),
            15 => self.check_time_once(side, now),
            16 => self.round_once(side),
            17 | 18 => self.descriptor_round_once(side, now),
            19 => self.take_events(side),
            20 | 21 if self.closed(side).is_some() => self.close(side, reason),
            20 | 21 => {
                let _ = self.drive_close(side);
            }
            22 => self.clone_receive(side, slot),
            23 => self.drive_receive_of_peer(side, slot),
            24 => self.drive_send_of_peer(side, slot),
            25 => self.begin_cold(side, slot),
            26 | 27 => self.take_loan(side),
            28 | 29 => self.give_back(side),
            30 => self.try_send(side),
            31 => self.begin_send(side, slot),
            32 | 33 => {
                let _ = self.drive_send(side, slot, is_odd);
            }
            34 if is_odd => self.cancel_send(side, slot, reason),
            35 => self.start(side),
            36 | 37 => {
                let _ = self.push(side, 1000);
            }
            38 | 39 => self.reserve(side),
            40 | 41 => self.commit(side),
            42 if is_odd => {
                let _ = self.finish(side);
            }
            43 if is_odd => self.cancel_stream(side, reason),
            44 | 45 => self.reserve_message(side),
            46 | 47 => self.commit_message(side),
            _ => {}
        }
    }

    /// Begins to receive into cold memory, and takes nothing.
    fn begin_cold(&mut self, side: usize, slot: usize) {
        if !self.clients[side].receives[slot].as_ref().is_some_and(|it| it.op.has_begun()) {
            self.begin_recv(side, slot, true);
            let _ = self.drive_recv(side, slot, false);
        }
    }

    /// Makes one round of a wait that has just begun.
    fn round_once(&mut self, side: usize) {
        let state = self.state_of(side);
        let client = &mut self.clients[side];
        let mut wait = client.driver.begin_wait();
        let next = client.driver.round(&mut self.fabric, &mut wait, false);
        self.count(Call::Round, state, !matches!(next, Next::Ended(_)));
        if let Next::Ended(ended) = next {
            self.check_ended(side, ended);
        }
    }

    /// Checks the time in a wait that has just begun.
    fn check_time_once(&mut self, side: usize, now: Nanos) {
        let state = self.state_of(side);
        let client = &mut self.clients[side];
        let mut wait = client.driver.begin_wait();
        let deadline = Nanos(now.0 + client.rng.below(2) as u64 * 1000);
        let checked = client.driver.check_time(&mut self.fabric, &mut wait, now, deadline);
        self.count(Call::CheckTime, state, checked.is_ok());
        let wanted = if deadline > now { Ok(deadline.0 - now.0) } else { Err(WaitFailed::Deadline) };
        assert_eq!(checked, wanted, "a wait that has just begun");
    }

    fn descriptor_round_once(&mut self, side: usize, now: Nanos) {
        let client = &mut self.clients[side];
        let mut descriptor = match client.writing {
            Some(writing) if client.rng.below(4) > 0 => DescriptorWait::source(writing.id),
            _ => DescriptorWait::sink(),
        };
        let ready = if client.rng.one_in(4) { now } else { Nanos(u64::MAX) };
        let _ = self.descriptor_round(side, &mut descriptor, ready, now);
    }

    /// Checks the end of the connection that a wait reported.
    pub(super) fn check_ended(&mut self, side: usize, ended: Ended) {
        match ended {
            // A peer that closed in good order and is gone ends the wait also before everything it sent was received.
            Ended::Closed(Closed::ByPeer(Reason::DONE)) if self.closed(side).is_none() => {
                let driver = &self.clients[side].driver;
                let is_right = driver.is_peer_gone() && driver.endpoint().peer_closes();
                assert!(is_right, "ended by a peer that is there");
            }
            Ended::Closed(closed) => assert_eq!(self.closed(side), Some(closed), "ended"),
            Ended::Lost => assert!(self.may_fail, "lost, and nobody died"),
        }
        self.note_end(side);
    }

    /// Sends legal messages that the peer did not ask for: REJECTs, acknowledgements, keepalives and short messages.
    pub(super) fn flood(&mut self, side: usize) {
        // An end that is about to close does not flood, since its last messages would wait behind the flood forever.
        if self.closed(side).is_some() || !matches!(self.clients[side].stage, Stage::Calling) {
            return;
        }
        self.reject(side);
        let end = self.clients[side].driver.endpoint_mut();
        end.acknowledge(&mut self.fabric);
        end.send_keepalive(&mut self.fabric);
        self.try_send(side);
    }
}
