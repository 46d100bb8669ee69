//! Next call of a client. Every call may come in every state.

use superpipe_core::driver::{DescriptorWait, Drive};
use superpipe_core::{Nanos, Reason, Sending};
use superpipe_testkit::PairFabric;

use super::ops::{Wanted, up_to};
use super::{Behavior, Call, ClientPair, Stage, TurnOutcome};

/// Longest warm-up. Keepalives, five per second, may have to repeat acknowledgements that were overtaken.
const WARM_UP_NS: u64 = 20_000_000_000;

/// Longest of the long deadlines: more than the interval of keepalives, so that waits send them.
const LONG_DEADLINE_NS: usize = 300_000_000;

/// Reason of a close in the middle.
const ABORTED: Reason = Reason(3 << 16);

/// Base of the reasons with which a client cancels streams.
const CANCEL_REASON: u32 = 1 << 16;

impl<F: PairFabric> ClientPair<F> {
    /// Wishes, in few turns, that the peer leaves the landing buffer that was grown.
    fn shrink_now_and_then(&mut self, side: usize) {
        if self.fabric.setup().growth.is_some() && self.clients[side].rng.one_in(256) {
            self.clients[side].driver.endpoint_mut().shrink();
        }
    }

    /// Gives an end its turn. It continues to wait, or makes its next call.
    pub(crate) fn turn(&mut self, side: usize, now: Nanos) -> TurnOutcome {
        self.probe(side, now);
        self.shrink_now_and_then(side);
        match self.clients[side].program.behavior {
            Behavior::Flood => self.flood(side),
            Behavior::Reject => self.reject_each(side),
            Behavior::RejectInRow => self.reject_in_row(side),
            Behavior::Plain | Behavior::LongDeadlines => {}
        }
        self.close_in_warm_up(side);
        let sleep_ns = if let Some(waiting) = self.clients[side].waiting.take() {
            self.continue_call(side, waiting, now)
        } else {
            match self.clients[side].stage {
                Stage::Warming(..) => {
                    self.wait_for(side, Wanted::WarmUp, Nanos(now.0 + WARM_UP_NS));
                }
                Stage::Calling if self.clients[side].calls_left > 0 => {
                    self.clients[side].calls_left -= 1;
                    self.call(side, now);
                    if self.closed(side).is_some() {
                        self.note_end(side);
                    }
                }
                _ => return self.end(side, now),
            }
            0
        };
        if !self.is_unchecked() {
            self.check_open(side);
        }
        TurnOutcome { sleep_ns, releases: [false; 2] }
    }

    fn is_warming(&self, side: usize) -> bool {
        matches!(self.clients[side].stage, Stage::Warming(..))
    }

    /// Closes during the warm-up, if this program does so, and then drives the warm-up once more.
    fn close_in_warm_up(&mut self, side: usize) {
        if !self.is_warming(side) {
            return;
        }
        let client = &mut self.clients[side];
        client.warm_turns += 1;
        if client.program.closes_after == Some(client.warm_turns) {
            self.close(side, ABORTED);
            // A program that has cancelled a message of the warm-up does not drive it again.
            if self.state_of(side).sending != Sending::Cancelling {
                let _ = self.warm_up(side);
            }
            self.clients[side].waiting = None;
            self.fail_warm_up(side);
        }
    }

    /// Drives the warm-up.
    pub(super) fn warm_up(&mut self, side: usize) -> Drive<()> {
        let state = self.state_of(side);
        let client = &mut self.clients[side];
        let Stage::Warming(warm_up, room) = &mut client.stage else { return Drive::Done(()) };
        let driven = client.driver.drive_warm_up(&mut self.fabric, warm_up, room);
        self.count(Call::WarmUp, state, matches!(driven, Drive::Moved | Drive::Done(Ok(()))));
        driven.map(|result| {
            let peer_has_closed = self.clients.iter().any(|client| client.closed_with.is_some());
            assert!(result.is_ok() || self.may_fail || peer_has_closed, "not warm: {result:?}");
            match result {
                Ok(()) => self.clients[side].stage = Stage::Calling,
                Err(_) => self.fail_warm_up(side),
            }
        })
    }

    /// Closes a connection whose warm-up has failed.
    pub(super) fn fail_warm_up(&mut self, side: usize) {
        self.close(side, Reason::GIVEN_UP);
        self.clients[side].stage = Stage::Ending;
    }

    /// Draws a deadline: now, soon, later, or late.
    fn deadline(&mut self, side: usize, now: Nanos) -> Nanos {
        let client = &mut self.clients[side];
        let has_long_deadlines = client.program.behavior == Behavior::LongDeadlines;
        let rng = &mut client.rng;
        let ns = match rng.below(6) {
            4 | 5 if has_long_deadlines => rng.below(LONG_DEADLINE_NS),
            0 => 0,
            1 => rng.below(1000),
            2 => rng.below(20_000),
            3 => rng.below(200_000),
            4 => rng.below(1_000_000),
            _ => rng.below(5_000_000),
        };
        Nanos(now.0 + ns as u64)
    }

    /// Makes one call, or begins one that blocks.
    fn call(&mut self, side: usize, now: Nanos) {
        self.end_in_place_now_and_then(side);
        let slot = self.clients[side].rng.below(2);
        let rng = &mut self.clients[side].rng;
        let (kind, is_odd, some) = (rng.below(76), rng.one_in(8), rng.below(2000));
        let reason = Reason(CANCEL_REASON | up_to(rng, 2000));
        match kind {
            0..=4 => self.try_send(side),
            5..=9 => {
                if self.send_or_begin(side, slot) {
                    let deadline = self.deadline(side, now);
                    self.wait_for(side, Wanted::Send(slot), deadline);
                }
            }
            10 => self.begin_send(side, slot),
            11 | 12 => {
                let _ = self.drive_send(side, slot, is_odd);
            }
            13 => self.cancel_send(side, slot, reason),
            14..=17 => self.try_recv(side),
            18 | 19 => {
                self.try_peek(side);
            }
            20 => self.reject(side),
            21..=28 => {
                self.begin_recv(side, slot, is_odd);
                let deadline = self.deadline(side, now);
                self.wait_for(side, Wanted::Receive(slot), deadline);
            }
            29 => self.begin_recv(side, slot, is_odd),
            30 | 31 => {
                let _ = self.drive_recv(side, slot, is_odd && some % 4 == 0);
            }
            32 => self.cancel_recv(side, slot, reason),
            33..=35 => self.start(side),
            36 | 37 => {
                let _ = self.push(side, some);
            }
            38 | 39 => self.reserve(side),
            40 | 41 => self.commit(side),
            42 => {
                if self.clients[side].writing.is_some() {
                    let _ = self.finish(side);
                }
            }
            43 => self.cancel_stream(side, reason),
            44 | 45 => {
                let deadline = self.deadline(side, now);
                self.wait_for(side, Wanted::Write, deadline);
            }
            46 | 47 => {
                let deadline = self.deadline(side, now);
                self.wait_for(side, Wanted::Read, deadline);
            }
            48 | 49 => {
                let _ = self.readable(side);
            }
            50 | 51 => {
                let _ = self.consume(side);
            }
            52 | 53 => {
                let _ = self.pull(side);
            }
            54 => {
                self.delivered(side);
            }
            55 => {
                let deadline = self.deadline(side, now);
                self.wait_for(side, Wanted::Flush, deadline);
            }
            56 => {
                let client = &mut self.clients[side];
                client.driver.tick(&mut self.fabric, now);
                if client.driver.count_empty() {
                    client.driver.tick(&mut self.fabric, now);
                }
            }
            57 | 58 => self.progress(side),
            59 => self.take_events(side),
            60 => {
                let descriptor = match self.clients[side].writing {
                    Some(writing) if is_odd || some % 2 == 0 => DescriptorWait::source(writing.id),
                    _ => DescriptorWait::sink(),
                };
                let ready = self.deadline(side, now);
                self.wait_for(side, Wanted::Descriptor(descriptor, ready), Nanos(ready.0 + 10_000_000));
            }
            61 => {
                let _ = self.drive_close(side);
            }
            64..=67 => self.take_loan(side),
            68..=70 => self.give_back(side),
            71 | 72 => self.reserve_message(side),
            73..=75 => self.commit_message(side),
            62 if some % 16 == 0 => self.close(side, if some % 3 > 0 { Reason::DONE } else { ABORTED }),
            _ if some % 2 == 0 => {
                let window = (some % 8 > 0).then(|| u32::try_from(some << 8).unwrap_or(0));
                self.clients[side].driver.set_window(window);
            }
            _ => {
                let all = superpipe_core::Protocol::ALL;
                self.clients[side].driver.set_protocol(all[some % all.len()]);
            }
        }
    }

    pub(super) fn progress(&mut self, side: usize) {
        let state = self.state_of(side);
        let moved = self.clients[side].driver.progress(&mut self.fabric);
        self.count(Call::Progress, state, moved);
    }
}
