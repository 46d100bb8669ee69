//! Blocking calls: attempts, a round, and what the driver says comes next, until a deadline in virtual time.

use superpipe_core::driver::{
    BUSY_LOOK_ROUNDS, Drive, Ended, LookFailed, NAP_NS, Next, Outside, OutsideNext, Rest,
};
use superpipe_core::{Closed, Nanos, Reason};
use superpipe_testkit::Stage;

use super::ops::{Waiting, Wanted, up_to};
use super::{Course, Talk};
use crate::calls::Call;

/// How long another thread has the CPU at most that an end gives away.
const YIELD_NS: u64 = 2_000_000;

/// By how much a blocking call may overshoot its deadline, on a CPU of its own: a bounded number of turns, each of which copies
/// a landing buffer or is stalled.
const OVERSHOOT_NS: u64 = 3_000_000;

impl<F: Stage> Talk<F> {
    /// Begins to block.
    pub(super) fn wait_for(&mut self, side: usize, wanted: Wanted, deadline: Nanos) {
        let wait = self.clients[side].driver.begin_wait();
        self.clients[side].waiting = Some(Waiting { wanted, wait, deadline, busy_rounds: 0 });
    }

    /// One attempt.
    fn attempt(&mut self, side: usize, wanted: &mut Wanted, now: Nanos) -> Drive<()> {
        match wanted {
            Wanted::Send(slot) => self.drive_send(side, *slot, false),
            Wanted::Receive(slot) => self.drive_receive(side, *slot, false),
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
            Wanted::Outside(outside, ready) => self.outside(side, outside, *ready, now),
        }
    }

    fn is_all_pushed(&self, side: usize) -> bool {
        self.clients[side].writing.is_none_or(|writing| {
            let message = &self.flows[side].messages[writing.index];
            message.bytes == message.payload.len()
        })
    }

    /// Goes on with what this end waits for. Returns how long it may sleep.
    pub(super) fn go_on(&mut self, side: usize, mut waiting: Waiting, now: Nanos) -> u64 {
        let driven = self.attempt(side, &mut waiting.wanted, now);
        if let Drive::Done(()) = driven {
            return 0;
        }
        let has_moved = driven == Drive::Moved;
        let state = self.state_of(side);
        let client = &mut self.clients[side];
        let next = match waiting.wanted {
            Wanted::Close => client.driver.close_round(&mut waiting.wait, has_moved),
            // It has a round of its own.
            Wanted::Outside(..) => Next::Rest(Rest::Look),
            _ => {
                let next = client.driver.round(&mut self.fabric, &mut waiting.wait, has_moved);
                self.count(Call::Round, state, !matches!(next, Next::Ended(_)));
                next
            }
        };
        // Data of a peer that is gone are taken out first. They are bounded, and need no look.
        if next == Next::Again && !self.clients[side].driver.is_peer_gone() {
            waiting.busy_rounds += 1;
            assert!(waiting.busy_rounds < BUSY_LOOK_ROUNDS || self.is_off(), "no look in a busy wait");
        }
        match next {
            Next::Again | Next::Rest(Rest::Spin) => {}
            Next::Rest(Rest::Yield { is_first }) => {
                let client = &mut self.clients[side];
                if is_first {
                    client.driver.note_yield(&waiting.wait, true, client.rng.below(100_000) as u64);
                }
                return self.look(side, waiting, now, false);
            }
            Next::Look | Next::Rest(Rest::Look) => return self.look(side, waiting, now, false),
            Next::Rest(Rest::Sleep) => return self.look(side, waiting, now, true),
            Next::Ended(ended) => {
                self.check_ended(side, ended);
                self.give_up(side, &waiting.wanted, Reason::GIVEN_UP);
                return 0;
            }
        }
        self.clients[side].waiting = Some(waiting);
        0
    }

    /// Looks at the time, and goes on waiting, or does not.
    fn look(&mut self, side: usize, mut waiting: Waiting, now: Nanos, sleeps: bool) -> u64 {
        let state = self.state_of(side);
        let client = &mut self.clients[side];
        waiting.busy_rounds = 0;
        let looked = client.driver.look(&mut self.fabric, &mut waiting.wait, now, waiting.deadline);
        let is_interrupted =
            client.rng.one_in(256) && !matches!(waiting.wanted, Wanted::Close | Wanted::WarmUp);
        self.count(Call::Look, state, looked.is_ok());
        let deadline = waiting.deadline;
        match looked {
            Ok(ns) => {
                assert!(ns > 0 && ns <= NAP_NS && now.0 + ns <= deadline.0, "{ns} ns from {now:?} on");
                if !is_interrupted {
                    self.clients[side].waiting = Some(waiting);
                    return if sleeps { ns } else { ns.min(YIELD_NS) };
                }
                self.give_up(side, &waiting.wanted, Reason::GIVEN_UP);
            }
            Err(LookFailed::Deadline) => {
                let late_ns = now.0 - deadline.0;
                let most_ns = self.crowd * OVERSHOOT_NS;
                assert!(late_ns <= most_ns, "{late_ns} ns late, in {:?}", waiting.wanted);
                self.give_up(side, &waiting.wanted, Reason::GIVEN_UP);
            }
            Err(LookFailed::Silent(_)) => {
                assert!(self.may_fail || self.closed(1 - side).is_some(), "silent, and nobody died");
                self.give_up(side, &waiting.wanted, Reason::GIVEN_UP);
                self.close(side, Reason::GIVEN_UP);
                self.clients[side].calls_left = 0;
            }
        }
        0
    }

    /// What a blocking call does that has not got what it waits for, as its docs say: a message that is sent is given up, of one
    /// that is received the rest is rejected, and all else stays as it is.
    fn give_up(&mut self, side: usize, wanted: &Wanted, reason: Reason) {
        match wanted {
            Wanted::Send(slot) => self.cancel_send(side, *slot, reason),
            Wanted::Receive(slot) => self.cancel_receive(side, *slot, reason),
            Wanted::WarmUp => {
                let is_left = self.clients[1 - side].closed_with.is_some();
                assert!(self.may_fail || is_left, "not warm");
                // One more drive: it reports the end of the connection, or waits.
                let _ = self.warm_up(side);
                self.end_cold(side);
            }
            Wanted::Close => self.clients[side].course = Course::Over,
            Wanted::Write | Wanted::Read | Wanted::Flush | Wanted::Outside(..) => {}
        }
    }

    /// This end has seen that the connection is over: some calls more, which receive nothing, and it closes.
    pub(super) fn see_end(&mut self, side: usize) {
        let client = &mut self.clients[side];
        if !core::mem::replace(&mut client.has_seen_end, true) {
            client.calls_left = client.calls_left.min(up_to(&mut client.rng, 60));
        }
    }

    fn drive_close(&mut self, side: usize) -> Drive<()> {
        let state = self.state_of(side);
        let client = &mut self.clients[side];
        let is_gone = client.driver.is_peer_gone();
        let driven = client.driver.drive_close(&mut self.fabric);
        self.count(Call::DriveClose, state, matches!(driven, Drive::Moved | Drive::Done(Ok(()))));
        driven.map(|result| {
            assert!(result.is_ok() || is_gone, "lost, and nobody died");
            let end = self.clients[side].driver.endpoint();
            assert!(result.is_err() || end.is_told() && end.is_quiescent(), "closed, and not told");
            if matches!(self.clients[side].course, Course::Closing) {
                self.clients[side].course = Course::Over;
            }
        })
    }

    /// A single look at a close, while the connection is open or not.
    pub(super) fn try_drive_close(&mut self, side: usize) {
        let _ = self.drive_close(side);
    }

    pub(super) fn outside(
        &mut self,
        side: usize,
        outside: &mut Outside,
        ready: Nanos,
        now: Nanos,
    ) -> Drive<()> {
        let state = self.state_of(side);
        let is_ready = now >= ready;
        let client = &mut self.clients[side];
        let next = client.driver.outside_round(&mut self.fabric, outside, is_ready, now);
        self.count(Call::Outside, state, !matches!(next, OutsideNext::Ended(_)));
        match next {
            OutsideNext::Wait => Drive::Idle,
            OutsideNext::Look => Drive::Moved,
            OutsideNext::Ready => {
                let index = self.clients[side].writing.map(|writing| writing.index);
                let rejected = index.is_some_and(|it| self.flows[side].messages[it].rejected.is_some());
                assert!(is_ready || rejected || self.is_off(), "ready, and it is not");
                Drive::Done(())
            }
            OutsideNext::Ended(ended) => {
                let is_right = match ended {
                    Ended::Closed(Closed::ByPeer(_)) => {
                        self.clients[1 - side].closed_with.is_some() || self.may_fail
                    }
                    Ended::Closed(_) => self.closed(side).is_some(),
                    Ended::Lost => self.may_fail,
                };
                assert!(is_right || self.is_off(), "ended: {ended}");
                self.see_end(side);
                Drive::Done(())
            }
        }
    }
}
