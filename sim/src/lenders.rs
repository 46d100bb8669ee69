//! Two programs that exchange messages by operations on lent memory, most of them by remote writes. Each sends its messages one after the
//! other, receives those of the peer, and closes. Some cancel what they send, or give up what they receive.
//!
//! Over direct store the programs expose their memory instead, and messages are copied out of it (`exposing`). Some let their peer write memory, so
//! that messages are split (`splitting`).
//!
//! The oracle compares each message, and takes memory back as soon as its operation is over and released. The fabric panics if it is
//! registered then, and if it is deregistered while a NIC may use it.

mod exposing;
mod splitting;

use superpipe_core::driver::{
    Drive, Driver, Next, Received, RecvFailed, RecvOperation, SendFailed, SendOperation, WaitStrategy,
};
use superpipe_core::{Buffer, Closed, Endpoint, Nanos, Reason, RecvMemory, SendMemory};
use superpipe_testkit::pair::{IDLE_TIMEOUT_NS, Script};
use superpipe_testkit::{PairFabric, Rng};

use crate::client::TurnOutcome;
use crate::fabric::SimFabric;
use exposing::{Exposures, InPlace, is_without_buffer};
use splitting::Rooms;

/// Virtual time without progress after which an end gives up. A keepalive may have to repeat an acknowledgement that was overtaken.
const PROGRESS_TIMEOUT_NS: u64 = 1_500_000_000;
/// Time after which an end gives up if a line was forged: a transfer may stand still then, while the ends expose and withdraw memory.
const FORGED_NS: u64 = 1_000_000_000;

/// Time that an end which closes waits for its device, and for its peer.
const LINGER_NS: u64 = 20_000_000;

/// Shortest and longest sleep of an end without work.
const SLEEP_MIN_NS: u64 = 2_000;
const SLEEP_MAX_NS: u64 = 500_000;

/// Room of each receive: more than the longest message.
const ROOM_BYTES: usize = 20_000;

/// Reason with which a sender cancels, and a receiver gives up.
const WHY: Reason = Reason(11 << 16);

/// Plan of one end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LenderPlan {
    /// Seed of its choices.
    pub seed: u64,
    /// Bytes of its messages.
    pub messages: Vec<usize>,
    /// It cancels one message in so many, at any time; 0: none.
    pub cancels_one_in: usize,
    /// It gives up a message that it receives in one turn of so many; 0: never.
    pub gives_up_one_in: usize,
    /// It closes in the middle of its messages, with a reason.
    pub aborts: bool,
    /// It lets its peer write memory, over direct store.
    pub offers: bool,
}

/// A message that is sent, or was, with the memory that is lent for it.
struct Outgoing {
    op: SendOperation,
    payload: Vec<u8>,
    /// Memory that is lent.
    buffer: Option<Buffer>,
    /// Turns until it is cancelled.
    cancel_in: Option<usize>,
}

/// A message that is received.
struct Incoming {
    op: RecvOperation,
    /// Memory as the application sees it if the message comes in blocks.
    place: Vec<u8>,
    buffer: Buffer,
    /// Bytes that had come remotely before.
    remote_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Exchanging,
    Closing(Nanos),
    Over(Nanos),
}

/// One end.
pub(crate) struct Lender<const DIRECT: bool> {
    pub(crate) driver: Driver<SimFabric<DIRECT>>,
    plan: LenderPlan,
    rng: Rng,
    stage: Stage,
    out: Option<Outgoing>,
    place: Option<Incoming>,
    /// Operations that are over, whose memory may be in use.
    loans: (Vec<Outgoing>, Vec<Incoming>),
    /// Memory that is exposed, and a message that is read in place.
    exposures: Exposures,
    reading: Option<InPlace>,
    /// Memory that the peer may write.
    rooms: Option<Rooms>,
    next: usize,
    /// Messages that were sent to their end.
    completed: Option<usize>,
    /// Messages of the peer that came or were passed.
    received: usize,
    /// It has given up a message of the peer, which may have been the last that was sent to its end.
    has_given_up: bool,
    moved: u64,
    moved_at: Nanos,
}

/// Two such programs.
pub(crate) struct LenderPair<const DIRECT: bool> {
    pub(crate) fabric: SimFabric<DIRECT>,
    pub(crate) ends: [Lender<DIRECT>; 2],
    /// A line was forged: nothing is compared.
    is_unchecked: bool,
    /// The connection may end at any time.
    may_fail: bool,
    ends_per_cpu: u64,
}

impl<const DIRECT: bool> LenderPair<DIRECT> {
    pub(crate) fn over(mut fabric: SimFabric<DIRECT>, script: &Script, plans: [LenderPlan; 2]) -> Self {
        fabric.start(script.origin.blocks);
        let may_fail = plans.iter().any(|plan| plan.gives_up_one_in > 0 || plan.aborts);
        let mut plans = plans.into_iter();
        let ends = [0, 1].map(|side| {
            let plan = plans.next().unwrap_or_else(|| unreachable!("two ends"));
            let end = Endpoint::new(&fabric, fabric.attachment(side), script.configs[side], script.origin)
                .unwrap_or_else(|error| panic!("{error}"));
            Lender {
                driver: Driver::new(end, 1 + side as u64, WaitStrategy::Sleep, IDLE_TIMEOUT_NS, Nanos(0)),
                rng: Rng::new(plan.seed),
                rooms: (DIRECT && plan.offers).then(|| Rooms::new(plan.seed)),
                plan,
                stage: Stage::Exchanging,
                out: None,
                place: None,
                loans: (Vec::new(), Vec::new()),
                exposures: Exposures::default(),
                reading: None,
                next: 0,
                completed: None,
                received: 0,
                has_given_up: false,
                moved: 0,
                moved_at: Nanos(0),
            }
        });
        Self { fabric, ends, is_unchecked: false, may_fail, ends_per_cpu: 1 }
    }

    pub(crate) const fn share_cpu(&mut self, ends_per_cpu: u64) {
        self.ends_per_cpu = ends_per_cpu;
    }

    pub(crate) const fn expect_failure(&mut self) {
        self.may_fail = true;
    }

    pub(crate) const fn stop_checking(&mut self) {
        self.is_unchecked = true;
        self.may_fail = true;
    }

    pub(crate) fn transfers(&self) -> u64 {
        self.ends.iter().map(|end| end.next as u64).sum()
    }

    /// Returns the bytes that were written into memory that was offered.
    pub(crate) fn split_bytes(&self) -> u64 {
        self.ends.iter().map(|end| end.driver.counters().split_bytes_received).sum()
    }

    /// Returns the bytes that did not come through the ring: by remote writes, or out of memory that was exposed.
    pub(crate) fn remote_bytes(&self) -> u64 {
        let of = |end: &Lender<DIRECT>| {
            let counters = end.driver.counters();
            counters.remote_bytes_received + counters.exposed_bytes_received
        };
        self.ends.iter().map(of).sum()
    }

    pub(crate) fn state(&self) -> String {
        let of = |end: &Lender<DIRECT>| {
            format!("{:?} {:?} {}/{} {:?}", end.plan, end.stage, end.next, end.received, end.driver)
        };
        format!("{} and {}", of(&self.ends[0]), of(&self.ends[1]))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.ends.iter().all(|end| matches!(end.stage, Stage::Over(_)))
    }

    /// Gives an end its turn.
    pub(crate) fn turn(&mut self, side: usize, now: Nanos) -> TurnOutcome {
        let mut outcome = TurnOutcome::default();
        let moved: u64 = self.ends.iter().map(|end| end.driver.endpoint().moved()).sum();
        let end = &mut self.ends[side];
        if end.moved != moved {
            (end.moved, end.moved_at) = (moved, now);
        }
        end.driver.tick(&mut self.fabric, now);
        self.take_back(side);
        match self.ends[side].stage {
            Stage::Exchanging => {
                outcome.sleep_ns = self.exchange(side, now);
                self.check_open(side);
            }
            Stage::Closing(since) => {
                let end = &mut self.ends[side];
                let driven = end.driver.drive_close(&mut self.fabric);
                let is_late = now.0 > since.0 + self.ends_per_cpu * LINGER_NS;
                if let Drive::Done(result) = driven {
                    let is_quiescent = end.driver.endpoint().is_quiescent();
                    assert!(result.is_err() || is_quiescent, "closed, and the device owns memory");
                }
                if is_late || matches!(driven, Drive::Done(_)) {
                    end.stage = Stage::Over(now);
                }
            }
            Stage::Over(since) => {
                outcome.sleep_ns = SLEEP_MAX_NS;
                let end = &mut self.ends[side];
                end.driver.progress(&mut self.fabric);
                let is_late = now.0 > since.0 + 2 * self.ends_per_cpu * LINGER_NS;
                let is_gone = self.ends[side].driver.is_peer_gone();
                outcome.releases[side] = is_late || is_gone || self.is_over();
            }
        }
        outcome
    }

    /// Sends, receives and makes a round. Returns the time that the end may sleep.
    fn exchange(&mut self, side: usize, now: Nanos) -> u64 {
        if DIRECT {
            self.change_exposures(side);
            self.change_rooms(side);
        }
        self.send(side);
        if !DIRECT || !self.read_in_place(side) {
            self.receive(side);
        }
        self.take_room_back(side);
        let end = &mut self.ends[side];
        let mut wait = end.driver.begin_wait();
        let next = end.driver.round(&mut self.fabric, &mut wait, false);
        end.driver.endpoint_mut().poll_acknowledgements(&mut self.fabric);
        while end.driver.poll_event().is_some() {}
        let is_stuck = now.0 > end.moved_at.0 + self.ends_per_cpu * PROGRESS_TIMEOUT_NS
            || self.is_unchecked && now.0 > self.ends_per_cpu * FORGED_NS;
        assert!(!is_stuck || self.may_fail, "no progress: {}", self.state());
        let end = &mut self.ends[side];
        let aborts = end.plan.aborts && end.rng.one_in(400);
        let has_ended = matches!(next, Next::Ended(_));
        if has_ended || is_stuck || aborts || self.is_exchanged(side) {
            let reason = if aborts { WHY } else { Reason::DONE };
            self.close(side, if is_stuck { Reason::GIVEN_UP } else { reason }, now);
        }
        let idle_ns = now.0 - self.ends[side].moved_at.0;
        if matches!(next, Next::Rest(_)) { (idle_ns / 8).clamp(SLEEP_MIN_NS, SLEEP_MAX_NS) } else { 0 }
    }

    /// Returns true if both ends have sent everything, and this end has received it.
    fn is_exchanged(&self, side: usize) -> bool {
        let has_sent = |end: &Lender<DIRECT>| end.out.is_none() && end.next == end.plan.messages.len();
        let (us, peer) = (&self.ends[side], &self.ends[1 - side]);
        let is_taken = us.has_given_up || peer.completed.is_none_or(|last| us.received > last);
        has_sent(us)
            && has_sent(peer)
            && is_taken
            && us.reading.is_none()
            && us.place.as_ref().is_none_or(|it| it.op.length() == 0)
    }

    fn send(&mut self, side: usize) {
        if self.ends[side].out.is_none() && !self.begin(side) {
            return;
        }
        let Self { fabric, ends, .. } = self;
        let end = &mut ends[side];
        let number = end.next - 1;
        let Some(mut out) = end.out.take() else { return };
        let driven = end.driver.drive_send(fabric, &mut out.op, &[&out.payload]);
        match driven {
            Drive::Done(result) => {
                let is_right = matches!(result, Ok(()) | Err(SendFailed::Rejected(_) | SendFailed::Closed));
                assert!(is_right || self.may_fail, "message {number} of end {side}: {result:?}");
                if result.is_ok() {
                    end.completed = Some(number);
                }
                end.loans.0.push(out);
            }
            Drive::Moved | Drive::Idle => match &mut out.cancel_in {
                Some(0) => {
                    end.driver.cancel_send(fabric, &mut out.op, WHY);
                    end.loans.0.push(out);
                }
                Some(turns) => {
                    *turns -= 1;
                    end.out = Some(out);
                }
                None => end.out = Some(out),
            },
        }
    }

    /// Begins the next message. Returns false if there is none, or if its memory is in use.
    fn begin(&mut self, side: usize) -> bool {
        let end = &mut self.ends[side];
        let number = end.next;
        let Some(bytes) = end.plan.messages.get(number).copied() else { return false };
        if end.rooms.as_mut().is_some_and(Rooms::holds_back) {
            return false;
        }
        let is_exposed = DIRECT && !is_without_buffer(&mut end.rng);
        let begun = if is_exposed { self.begin_exposed(side, number, bytes) } else { None };
        // A program waits for a buffer now and then.
        if is_exposed && begun.is_none() && self.ends[side].rng.below(40) > 0 {
            return false;
        }
        let Self { fabric, ends, .. } = self;
        let end = &mut ends[side];
        let mut out = begun.unwrap_or_else(|| {
            let (payload, op) = (payload(bytes, number), SendOperation::new(number as u64, bytes));
            let buffer = (!DIRECT).then(|| fabric.lend(side, payload.clone()));
            // Some come out of buffers whose registration the fabric would keep.
            let memory = buffer.map(|buffer| match number % 4 {
                0 => SendMemory::Keepable { buffer, is_again: false },
                1 => SendMemory::Keepable { buffer, is_again: true },
                _ => SendMemory::Lent(buffer),
            });
            let op = memory.map_or(op.clone(), |memory| op.with_memory(memory));
            Outgoing { op, payload, buffer, cancel_in: None }
        });
        let cancels = end.plan.cancels_one_in > 0 && end.rng.one_in(end.plan.cancels_one_in);
        out.cancel_in = cancels.then(|| end.rng.below(200));
        end.out = Some(out);
        end.next += 1;
        true
    }

    fn receive(&mut self, side: usize) {
        let Self { fabric, ends, may_fail, is_unchecked, .. } = self;
        let end = &mut ends[side];
        let remote_bytes = end.driver.counters().remote_bytes_received;
        let mut place = end.place.take().unwrap_or_else(|| {
            let buffer = fabric.lend(side, vec![0xa5; ROOM_BYTES]);
            let op = RecvOperation::new();
            let op = if end.rng.one_in(8) { op } else { op.with_memory(RecvMemory::Lent(buffer)) };
            Incoming { op, place: vec![0xa5; ROOM_BYTES], buffer, remote_bytes }
        });
        let gives_up = end.plan.gives_up_one_in > 0 && end.rng.one_in(end.plan.gives_up_one_in);
        if gives_up && place.op.has_begun() {
            end.driver.cancel_recv(fabric, &mut place.op, WHY);
            end.has_given_up = true;
            end.loans.1.push(place);
            return;
        }
        match end.driver.drive_recv(fabric, &mut place.op, &mut [&mut place.place]) {
            Drive::Moved | Drive::Idle => end.place = Some(place),
            Drive::Done(Ok(Received { tag, bytes })) => {
                let is_remote = end.driver.counters().remote_bytes_received > place.remote_bytes;
                let memory = fabric.take_back(side, place.buffer);
                let got = if is_remote { &memory } else { &place.place };
                if *is_unchecked {
                    ends[side].received += 1;
                    return;
                }
                let number = usize::try_from(tag).unwrap_or(usize::MAX);
                assert!(number >= end.received, "message {number} came out of order, or twice");
                let (got, wanted) = (&got[..bytes], payload(ends[1 - side].plan.messages[number], number));
                assert!(
                    got == wanted,
                    "message {number} to end {side}: {bytes} bytes differ, remote: {is_remote}"
                );
                ends[side].received = number + 1;
            }
            Drive::Done(Err(failed)) => {
                let is_right = matches!(failed, RecvFailed::Cancelled(_));
                assert!(is_right || *may_fail, "end {side} receives: {failed:?}");
                end.loans.1.push(place);
            }
        }
    }

    /// Takes memory back that its operation does not use any more.
    fn take_back(&mut self, side: usize) {
        let Self { fabric, ends, .. } = self;
        let Lender { driver, loans: (sent, received), .. } = &mut ends[side];
        sent.retain(|out| {
            let is_over = driver.is_send_released(&out.op);
            if let (true, Some(buffer)) = (is_over, out.buffer) {
                let memory = fabric.take_back(side, buffer);
                assert!(memory == out.payload, "the source has changed");
            }
            !is_over
        });
        received.retain(|place| {
            let is_over = driver.is_recv_released(&place.op);
            if is_over {
                fabric.take_back(side, place.buffer);
            }
            !is_over
        });
    }

    /// Cancels what is under way, and closes.
    fn close(&mut self, side: usize, reason: Reason, now: Nanos) {
        let Self { fabric, ends, .. } = self;
        let end = &mut ends[side];
        if let Some(mut out) = end.out.take() {
            end.driver.cancel_send(fabric, &mut out.op, WHY);
            end.loans.0.push(out);
        }
        end.reading = None;
        // Another thread may close while this one receives.
        let closes_first = end.rng.one_in(2);
        if closes_first {
            end.driver.close(fabric, reason);
        }
        if let Some(mut place) = end.place.take() {
            end.driver.release_recv(fabric, &mut place.op, WHY);
            end.loans.1.push(place);
        }
        if !closes_first {
            end.driver.close(fabric, reason);
        }
        end.stage = Stage::Closing(now);
    }

    /// Checks that nothing but the plan has closed a connection that works.
    fn check_open(&self, side: usize) {
        let closed = self.ends[side].driver.endpoint().closed();
        let is_right =
            matches!(closed, None | Some(Closed::Here(Reason::DONE) | Closed::ByPeer(Reason::DONE)));
        assert!(is_right || self.may_fail, "end {side} is {closed:?}");
    }

    /// Checks at the end that every message that was sent to its end has arrived, if nothing failed.
    pub(crate) fn check_oracle(&self) {
        if self.may_fail {
            return;
        }
        for side in 0..2 {
            let (us, peer) = (&self.ends[side], &self.ends[1 - side]);
            let is_taken = us.completed.is_none_or(|last| peer.received > last);
            assert!(is_taken, "message {:?} of end {side} never came: {}", us.completed, self.state());
            let (sent, received) = &us.loans;
            assert!(sent.is_empty() && received.is_empty(), "memory of end {side} never came back");
        }
    }
}

/// Returns the bytes of a message, which differ from their neighbours and from message to message.
#[expect(clippy::cast_possible_truncation, reason = "cut on purpose")]
fn payload(bytes: usize, number: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + at / 251 + number * 13) as u8 | 1).collect()
}
