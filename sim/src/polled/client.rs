//! A client of the poller: it sends bursts of messages, and awaits an answer to each.

use superpipe_core::driver::{Drive, Interest};
use superpipe_core::polling::{Arm, Owner, Single};
use superpipe_core::{Nanos, Reason};

use super::case::{ClientPlan, ClientWait, Leaving};
use super::end::End;
use super::net::{CLIENT, Net};
use super::turns::Next;

/// Time of a step, and the longest pause between two tries.
const STEP_NS: u64 = 40;
const PAUSE_MAX_NS: u64 = 200_000;
/// Time between two keepalives' looks during a pause.
const TICK_NS: u64 = 50_000_000;
/// Time that a close may take.
const CLOSE_NS: u64 = 2_000_000;

/// Phase of a client.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// It does something else until this time.
    Pausing(u64),
    /// It awaits the answers of a burst.
    InBurst,
    /// It closes, until this time at most.
    Closing(u64),
    Over,
}

/// The client.
pub(super) struct Client {
    end: End,
    plan: ClientPlan,
    /// Its set, where it waits for one.
    single: Option<Single>,
    stage: Stage,
    bursts_left: u32,
    unsent: u32,
    unanswered: u32,
    pause_ns: u64,
}

impl Client {
    pub(super) const fn new(pair: usize, plan: ClientPlan) -> Self {
        Self {
            end: End { pair, side: CLIENT },
            plan,
            single: None,
            stage: Stage::Pausing(0),
            bursts_left: plan.bursts,
            unsent: 0,
            unanswered: 0,
            pause_ns: STEP_NS,
        }
    }

    /// Makes a step.
    pub(super) fn turn(&mut self, net: &mut Net) -> Next {
        let (name, now_ns) = (self.end.name(), net.now_ns(self.end.name()));
        if matches!(self.stage, Stage::Over) {
            return Next::Over;
        }
        net.check_peer(name);
        if net.with(name, |driver, _| driver.is_peer_gone()) {
            return self.leave(net);
        }
        match self.stage {
            Stage::Pausing(until_ns) if now_ns < until_ns => {
                if !self.plan.keeps_alive {
                    return Next::At(until_ns);
                }
                net.with(name, |driver, fabric| driver.tick(fabric, Nanos(now_ns)));
                Next::At(until_ns.min(now_ns + TICK_NS))
            }
            Stage::Pausing(_) if self.bursts_left == 0 => self.begin_leaving(net, now_ns),
            Stage::Pausing(_) => {
                self.bursts_left -= 1;
                self.unsent = self.plan.burst;
                self.stage = Stage::InBurst;
                net.pairs[self.end.pair].flows[CLIENT].note_blind(now_ns, "the client paused");
                Next::At(now_ns + STEP_NS)
            }
            Stage::InBurst => self.step(net, now_ns),
            Stage::Closing(until_ns) => {
                let driven = net.with(name, |driver, fabric| driver.drive_close(fabric));
                if matches!(driven, Drive::Done(_)) || now_ns >= until_ns {
                    return self.leave(net);
                }
                Next::At(now_ns + PAUSE_MAX_NS / 4)
            }
            Stage::Over => Next::Over,
        }
    }

    /// Sends and receives what it can, or waits.
    fn step(&mut self, net: &mut Net, now_ns: u64) -> Next {
        let name = self.end.name();
        let mut has_moved = false;
        while self.unsent > 0 && net.send(name) {
            (self.unsent, self.unanswered, has_moved) = (self.unsent - 1, self.unanswered + 1, true);
        }
        while self.unanswered > 0 && net.take(name) {
            (self.unanswered, has_moved) = (self.unanswered - 1, true);
        }
        if self.unsent == 0 && self.unanswered == 0 {
            let pause_ns = if self.plan.pause_ns == 0 { 0 } else { net.rng.next() % self.plan.pause_ns };
            self.stage = Stage::Pausing(net.now_ns(name) + pause_ns);
            return Next::At(net.now_ns(name) + STEP_NS);
        }
        if has_moved {
            self.pause_ns = STEP_NS;
            return Next::At(net.now_ns(name) + STEP_NS);
        }
        match self.plan.wait {
            ClientWait::Waits => self.wait(net, now_ns),
            ClientWait::Polls => {
                net.with(name, |driver, fabric| {
                    driver.tick(fabric, Nanos(now_ns));
                    driver.progress(fabric)
                });
                self.pause_ns = (2 * self.pause_ns).min(PAUSE_MAX_NS);
                Next::At(net.now_ns(name) + self.pause_ns)
            }
        }
    }

    /// Waits for its set, as an event loop does.
    fn wait(&mut self, net: &mut Net, now_ns: u64) -> Next {
        let (set, mut end) = (self.end.pair + 1, self.end);
        let was_ready = !net.take_reports(set, now_ns).is_empty();
        let single = match &mut self.single {
            Some(single) => single,
            empty @ None => {
                #[expect(clippy::cast_possible_truncation, reason = "there are few clients")]
                let owner = Owner { set: set as u32, number: 0 };
                let Ok(single) = Single::new(owner, &mut end, net, now_ns);
                empty.insert(single)
            }
        };
        let interest = Interest { readable: true, writable: self.unsent > 0 };
        let arm = single.arm(&mut end, net, (interest, was_ready), (now_ns, u64::MAX));
        if single.member().is_silent(&mut end, net) {
            net.check_found_silent(end.pair);
        }
        match arm {
            Arm::Busy => Next::At(net.now_ns(end.name()) + STEP_NS),
            Arm::Pending { at_ns } | Arm::Armed { at_ns } => Next::Sleep(at_ns),
        }
    }

    fn begin_leaving(&mut self, net: &mut Net, now_ns: u64) -> Next {
        match self.plan.leaving {
            Leaving::IsKilled => self.leave(net),
            Leaving::Closes => {
                net.with(self.end.name(), |driver, fabric| driver.close(fabric, Reason::DONE));
                self.stage = Stage::Closing(now_ns + CLOSE_NS);
                Next::At(now_ns + STEP_NS)
            }
        }
    }

    fn leave(&mut self, net: &mut Net) -> Next {
        net.leave(self.end.name());
        self.stage = Stage::Over;
        Next::Over
    }
}
