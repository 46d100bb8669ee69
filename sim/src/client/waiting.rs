//! Blocking calls: attempts, a round, and then the driver's next step, until a deadline in virtual time.

use superpipe_core::driver::{
    BUSY_ROUNDS_PER_CHECK, DescriptorWait, DescriptorWaitNext, Drive, Ended, Next, Rest, SLEEP_MAX_NS,
    WaitFailed,
};
use superpipe_core::{Closed, Nanos, Reason};
use superpipe_testkit::PairFabric;

use super::ops::{Waiting, Wanted, up_to};
use super::{Call, ClientPair, Stage};

/// Longest time for which a yield gives the CPU to another thread.
const YIELD_NS: u64 = 2_000_000;

/// Most virtual time by which a blocking call may miss its deadline on its own CPU: a bounded number of turns, each of which copies a
/// landing buffer or is stalled.
const OVERSHOOT_NS: u64 = 3_000_000;

/// As many times as much where distances decide what copies take: outliers take twenty times as long.
const OVERSHOOT_TIMES_FAR: u64 = 4;

impl<F: PairFabric> ClientPair<F> {
    /// Begins a blocking call.
    pub(super) fn wait_for(&mut self, side: usize, wanted: Wanted, deadline: Nanos) {
        let wait = self.clients[side].driver.begin_wait();
        self.clients[side].waiting = Some(Waiting { wanted, wait, deadline, busy_rounds: 0 });
    }

    /// Makes one attempt.
    fn attempt(&mut self, side: usize, wanted: &mut Wanted, now: Nanos) -> Drive<()> {
        match wanted {
            Wanted::Send(slot) => self.drive_send(side, *slot, false),
            Wanted::Receive(slot) => self.drive_recv(side, *slot, false),
            Wanted::Write => match self.push(side, usize::MAX) {
                Drive::Done(()) => Drive::Done(()),
                _ if self.is_all_pushed(side) => self.finish(side),
                driven => driven,
            },
            Wanted::Read => {
                if self.clients[side].rng.one_in(2) {
                    return self.pull(side);
                }
                match self.readable(side) {
                    Drive::Moved => self.consume(side),
                    driven => driven,
                }
            }
            Wanted::Flush if self.delivered(side) => Drive::Done(()),
            Wanted::Flush => Drive::Idle,
            Wanted::WarmUp => self.warm_up(side),
            Wanted::Close => self.drive_close(side),
            Wanted::Descriptor(descriptor, ready) => self.descriptor_round(side, descriptor, *ready, now),
        }
    }

    fn is_all_pushed(&self, side: usize) -> bool {
        self.clients[side].writing.is_none_or(|writing| {
            let message = &self.flows[side].messages[writing.index];
            message.bytes == message.payload.len()
        })
    }

    /// Continues a blocking call. Returns the time that it may sleep.
    pub(super) fn continue_call(&mut self, side: usize, mut waiting: Waiting, now: Nanos) -> u64 {
        let before = self.clients[side].driver.endpoint().consumed();
        let driven = match self.attempt(side, &mut waiting.wanted, now) {
            // As `Driver::attempt` has it.
            Drive::Idle if self.clients[side].driver.endpoint().consumed() != before => Drive::Moved,
            driven => driven,
        };
        if let Drive::Done(()) = driven {
            return 0;
        }
        let has_moved = driven == Drive::Moved;
        let state = self.state_of(side);
        let client = &mut self.clients[side];
        let next = match waiting.wanted {
            Wanted::Close => client.driver.close_round(&mut waiting.wait, has_moved),
            // A wait for a descriptor has its own round.
            Wanted::Descriptor(..) => Next::Rest(Rest::CheckTime),
            _ => {
                let next = client.driver.round(&mut self.fabric, &mut waiting.wait, has_moved);
                self.count(Call::Round, state, !matches!(next, Next::Ended(_)));
                next
            }
        };
        // Data of a peer that is gone are received first. They are bounded, and need no check of the time.
        if next == Next::Again && !self.clients[side].driver.is_peer_gone() {
            waiting.busy_rounds += 1;
            assert!(
                waiting.busy_rounds < BUSY_ROUNDS_PER_CHECK || self.is_unchecked(),
                "the time is not checked in a busy wait"
            );
        }
        match next {
            Next::Again | Next::Rest(Rest::Spin) => {}
            Next::Rest(Rest::Yield { is_first }) => {
                let client = &mut self.clients[side];
                if is_first {
                    client.driver.note_yield(&waiting.wait, true, client.rng.below(100_000) as u64);
                }
                return self.check_time(side, waiting, now, false);
            }
            Next::CheckTime | Next::Rest(Rest::CheckTime) => {
                return self.check_time(side, waiting, now, false);
            }
            Next::Rest(Rest::Sleep) => return self.check_time(side, waiting, now, true),
            Next::Ended(ended) => {
                self.check_ended(side, ended);
                self.give_up(side, &waiting.wanted, Reason::GIVEN_UP);
                return 0;
            }
        }
        self.clients[side].waiting = Some(waiting);
        0
    }

    /// Checks the time, and continues or ends the wait.
    fn check_time(&mut self, side: usize, mut waiting: Waiting, now: Nanos, sleeps: bool) -> u64 {
        let state = self.state_of(side);
        let client = &mut self.clients[side];
        waiting.busy_rounds = 0;
        let checked = client.driver.check_time(&mut self.fabric, &mut waiting.wait, now, waiting.deadline);
        let is_interrupted =
            client.rng.one_in(256) && !matches!(waiting.wanted, Wanted::Close | Wanted::WarmUp);
        self.count(Call::CheckTime, state, checked.is_ok());
        let deadline = waiting.deadline;
        match checked {
            Ok(ns) => {
                assert!(ns > 0 && ns <= SLEEP_MAX_NS && now.0 + ns <= deadline.0, "{ns} ns from {now:?} on");
                if !is_interrupted {
                    self.clients[side].waiting = Some(waiting);
                    return if sleeps { ns } else { ns.min(YIELD_NS) };
                }
                self.give_up(side, &waiting.wanted, Reason::GIVEN_UP);
            }
            Err(WaitFailed::Deadline) => {
                let late_ns = now.0 - deadline.0;
                let times = if self.has_distances { OVERSHOOT_TIMES_FAR } else { 1 };
                let most_ns = times * self.ends_per_cpu * OVERSHOOT_NS;
                assert!(late_ns <= most_ns, "{late_ns} ns late, in {:?}", waiting.wanted);
                self.give_up(side, &waiting.wanted, Reason::GIVEN_UP);
            }
            Err(WaitFailed::Silent(_)) => {
                assert!(self.may_fail || self.closed(1 - side).is_some(), "silent, and nobody died");
                self.give_up(side, &waiting.wanted, Reason::GIVEN_UP);
                self.close(side, Reason::GIVEN_UP);
                self.clients[side].calls_left = 0;
            }
        }
        0
    }

    /// Does what a blocking call does when it fails, as its docs say: it cancels a message that is being sent, rejects the rest of one that is
    /// being received, and leaves everything else as it is.
    fn give_up(&mut self, side: usize, wanted: &Wanted, reason: Reason) {
        match wanted {
            Wanted::Send(slot) => self.cancel_send(side, *slot, reason),
            Wanted::Receive(slot) => self.cancel_recv(side, *slot, reason),
            Wanted::WarmUp => {
                let peer_has_closed = self.clients[1 - side].closed_with.is_some();
                assert!(self.may_fail || peer_has_closed, "not warm");
                // One more drive reports the end of the connection, or waits.
                let _ = self.warm_up(side);
                self.fail_warm_up(side);
            }
            Wanted::Close => self.clients[side].stage = Stage::Over,
            Wanted::Write | Wanted::Read | Wanted::Flush | Wanted::Descriptor(..) => {}
        }
    }

    /// Notes that the connection is over. The program makes a few more calls, which receive nothing, and closes.
    pub(super) fn note_end(&mut self, side: usize) {
        let client = &mut self.clients[side];
        if !core::mem::replace(&mut client.has_seen_end, true) {
            client.calls_left = client.calls_left.min(up_to(&mut client.rng, 60));
        }
    }

    /// Drives a close once, in any state.
    pub(super) fn drive_close(&mut self, side: usize) -> Drive<()> {
        let state = self.state_of(side);
        let client = &mut self.clients[side];
        let is_gone = client.driver.is_peer_gone();
        let driven = client.driver.drive_close(&mut self.fabric);
        self.count(Call::DriveClose, state, matches!(driven, Drive::Moved | Drive::Done(Ok(()))));
        driven.map(|result| {
            assert!(result.is_ok() || is_gone, "lost, and nobody died");
            let end = self.clients[side].driver.endpoint();
            assert!(
                result.is_err() || end.is_flushed() && end.is_quiescent(),
                "the close is done before CLOSE is delivered"
            );
            if matches!(self.clients[side].stage, Stage::Closing) {
                self.clients[side].stage = Stage::Over;
            }
        })
    }

    pub(super) fn descriptor_round(
        &mut self,
        side: usize,
        descriptor: &mut DescriptorWait,
        ready: Nanos,
        now: Nanos,
    ) -> Drive<()> {
        let state = self.state_of(side);
        let is_ready = now >= ready;
        let client = &mut self.clients[side];
        let next = client.driver.descriptor_round(&mut self.fabric, descriptor, is_ready, now);
        self.count(Call::DescriptorRound, state, !matches!(next, DescriptorWaitNext::Ended(_)));
        match next {
            DescriptorWaitNext::Wait => Drive::Idle,
            DescriptorWaitNext::Poll => Drive::Moved,
            DescriptorWaitNext::Ready => {
                let index = self.clients[side].writing.map(|writing| writing.index);
                let rejected = index.is_some_and(|it| self.flows[side].messages[it].rejected.is_some());
                assert!(is_ready || rejected || self.is_unchecked(), "ready, and it is not");
                Drive::Done(())
            }
            DescriptorWaitNext::Ended(ended) => {
                let is_right = match ended {
                    Ended::Closed(Closed::ByPeer(_)) => {
                        self.clients[1 - side].closed_with.is_some() || self.may_fail
                    }
                    Ended::Closed(_) => self.closed(side).is_some(),
                    Ended::Lost => self.may_fail,
                };
                assert!(is_right || self.is_unchecked(), "ended: {ended}");
                self.note_end(side);
                Drive::Done(())
            }
        }
    }
}
