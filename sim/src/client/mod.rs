//! Two programs that talk over one connection, and use every call of the API in every state that they come to.
//!
//! A [`Talk`] is both of them, with what each knows of the other: an oracle for each direction decides for every call which
//! results are right. A blocking call is what the shells of `superpipe` make of it: attempts, a round, and what the driver says
//! comes after that, in virtual time.

mod calling;
mod ending;
mod ops;
mod oracle;
mod poking;
mod receiving;
mod sending;
mod waiting;

use superpipe_core::driver::{Driver, WaitStrategy, WarmUp, WarmUpPlan};
use superpipe_core::{Arrival, Closed, Endpoint, Event, Nanos, Reason, State};
use superpipe_testkit::pair::{IDLE_TIMEOUT_NS, Script};
use superpipe_testkit::{Rng, Stage};

use crate::calls::{Call, Calls};
use ops::{ReceiveOp, SendOp, Waiting, Writing};
use oracle::Flow;

/// What both programs do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Decides each call.
    pub seed: u64,
    /// Calls, before it comes to its end.
    pub calls: u32,
    /// The longest message.
    pub bytes_max: usize,
    /// How it ends.
    pub ending: Ending,
    /// How it waits.
    pub wait: WaitStrategy,
    /// Both ends warm the connection up first.
    pub warms_up: bool,
    /// This end closes with a reason in the middle of that, after so many turns.
    pub quits_after: Option<u32>,
    /// Behaviour beside its calls.
    pub manner: Manner,
}

/// Behaviour of a program beside its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// It does nothing else.
    Plain,
    /// It floods its peer with legal messages, in each turn.
    Floods,
    /// Its deadlines are long.
    Patient,
}

/// How a program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It takes all that the other one sends, and closes.
    WhenTaken,
    /// It closes once it has sent all: what the other one sends is for nobody.
    WhenSent,
    /// It closes with a reason, whatever is under way.
    Abort,
    /// It lets go of driver and fabric, whatever is under way, and closes nothing.
    Drop,
}

/// Where a program is.
#[derive(Debug)]
enum Course {
    Warming(WarmUp, Vec<u8>),
    Calling,
    /// It ends what it has begun, and takes what comes.
    Ending,
    Closing,
    /// The peer was told; this end is still there for it.
    Over,
}

/// One program, at its end.
pub(crate) struct Client<F: Stage> {
    pub(crate) driver: Driver<F>,
    rng: Rng,
    program: Program,
    calls_left: u32,
    course: Course,
    waiting: Option<Waiting>,
    sends: [Option<SendOp>; 2],
    receives: [Option<ReceiveOp>; 2],
    writing: Option<Writing>,
    /// Bytes that were reserved last.
    reserved: u32,
    /// Bytes that were read in place last: of which message, from where on.
    shown: Option<(Option<usize>, usize, Vec<u8>)>,
    /// The reason that this end has closed with.
    closed_with: Option<Reason>,
    /// Since when it ends without that anything moves, and what had moved by then.
    ends_since: Option<(Nanos, u64)>,
    /// The message at the head that a stream of this end takes.
    reads: Option<usize>,
    /// Calls that are left in each kind of state that is over in a moment.
    pokes_left: [u32; poking::STATES],
    /// Turns in which it was warming up.
    warm_turns: u32,
    /// It has let go of everything without closing.
    pub(crate) has_dropped: bool,
    /// Since when it is there for its peer only.
    over_since: Option<Nanos>,
    has_seen_end: bool,
}

/// Two programs, a fabric, and what must come out.
pub(crate) struct Talk<F: Stage> {
    pub(crate) fabric: F,
    pub(crate) clients: [Client<F>; 2],
    /// By sender.
    flows: [Flow; 2],
    pub(crate) calls: Calls,
    /// Notices tell what is here: each look takes some of them.
    is_notified: bool,
    /// Ends that share a CPU.
    pub(crate) crowd: u64,
    /// The connection may end at any time.
    may_fail: bool,
    /// What could not be at once is repeated by signs of life only.
    pub(crate) needs_life: bool,
}

impl<F: Stage> Client<F> {
    /// Returns true if this end has failed, or was closed with a reason: it delivers nothing.
    fn is_shut(&self) -> bool {
        match self.driver.endpoint().closed() {
            None => false,
            Some(Closed::Failed(_)) => true,
            Some(Closed::Here(reason) | Closed::ByPeer(reason)) => reason != Reason::DONE,
        }
    }
}

impl<F: Stage> Talk<F> {
    pub(crate) fn over(mut fabric: F, script: &Script, programs: [Program; 2]) -> Self {
        fabric.start(script.origin.blocks);
        let clients = core::array::from_fn(|side| {
            let (program, config) = (programs[side], script.configs[side]);
            let end = Endpoint::new(&fabric, fabric.attachment(side), config, script.origin)
                .unwrap_or_else(|error| panic!("{error}"));
            let driver = Driver::new(end, 1 + side as u64, program.wait, IDLE_TIMEOUT_NS, Nanos(0));
            let course = if program.warms_up {
                // Both must come to the same plan.
                let smaller = usize::from(script.configs[0].c0_bytes > script.configs[1].c0_bytes);
                let layout = script.setup.layouts[0];
                let plan = WarmUpPlan::new(layout, &script.configs[smaller], F::DIRECT);
                Course::Warming(WarmUp::new(plan, side == 0), vec![0x5a; plan.room_bytes()])
            } else {
                Course::Calling
            };
            Client {
                driver,
                rng: Rng::new(program.seed),
                program,
                calls_left: program.calls,
                course,
                waiting: None,
                sends: [None, None],
                receives: [None, None],
                writing: None,
                reserved: 0,
                shown: None,
                closed_with: None,
                ends_since: None,
                reads: None,
                pokes_left: [poking::POKES; poking::STATES],
                warm_turns: 0,
                has_dropped: false,
                over_since: None,
                has_seen_end: false,
            }
        });
        Self {
            fabric,
            clients,
            flows: Default::default(),
            calls: Calls::default(),
            is_notified: script.configs[0].arrival == Arrival::Notify,
            crowd: 1,
            may_fail: false,
            needs_life: false,
        }
    }

    pub(crate) const fn expect_failure(&mut self) {
        self.may_fail = true;
    }

    pub(crate) fn distrust(&mut self) {
        self.flows.iter_mut().for_each(|flow| flow.is_off = true);
    }

    pub(crate) fn transfers(&self) -> u64 {
        self.flows.iter().map(|flow| flow.transfers).sum()
    }

    /// Counts everything that both ends have sent and received.
    pub(crate) fn moved(&self, side: usize) -> u64 {
        let counters = self.clients[side].driver.counters();
        let sent = counters.inline_sent + counters.chunks_sent + counters.controls_sent;
        let received = counters.inline_received + counters.chunks_received + counters.controls_received;
        sent + received + counters.bytes_received
    }

    pub(crate) fn state(&self) -> String {
        let of = |client: &Client<F>| {
            let Client { program, course, waiting, writing, driver, .. } = client;
            format!("{program:?} {course:?} {waiting:?} {writing:?} {driver:?}")
        };
        format!("{} and {}", of(&self.clients[0]), of(&self.clients[1]))
    }

    /// Returns true if both ends were told of each other's close, or wait no longer for that.
    pub(crate) fn is_over(&self) -> bool {
        self.clients.iter().all(|client| matches!(client.course, Course::Over))
    }

    fn is_off(&self) -> bool {
        self.flows[0].is_off
    }

    fn state_of(&self, side: usize) -> State {
        self.clients[side].driver.endpoint().state()
    }

    /// Counts a call whose result is compared: none is once somebody has lied.
    fn count(&mut self, call: Call, state: State, is_accepted: bool) {
        if !self.is_off() {
            self.calls.count(call, state, is_accepted);
        }
    }

    fn is_shut(&self, side: usize) -> bool {
        self.clients[side].is_shut()
    }

    /// Returns true if this end may deliver nothing from now on: a call may have read that its peer has closed with a reason, or
    /// broken a rule, before the connection says so.
    fn may_be_shut(&self, side: usize) -> bool {
        let abandons = |reason: Reason| reason != Reason::DONE;
        self.may_fail || self.is_shut(side) || self.clients[1 - side].closed_with.is_some_and(abandons)
    }

    fn closed(&self, side: usize) -> Option<Closed> {
        self.clients[side].driver.endpoint().closed()
    }

    /// Nothing but a call closes a connection that works.
    fn check_open(&self, side: usize) {
        let closed = self.closed(side);
        let is_right = match closed {
            None => true,
            Some(Closed::Here(reason)) => self.clients[side].closed_with == Some(reason),
            Some(Closed::ByPeer(reason)) => {
                self.may_fail || self.clients[1 - side].closed_with == Some(reason)
            }
            Some(Closed::Failed(_)) => self.may_fail,
        };
        assert!(is_right || self.is_off(), "end {side} is {closed:?}");
    }

    fn take_events(&mut self, side: usize) {
        let state = self.state_of(side);
        let event = self.clients[side].driver.poll_event();
        self.count(Call::PollEvent, state, event.is_some());
        let has_closed = self.clients[side].closed_with.is_some();
        match event {
            Some(Event::Rejected { transfer, reason }) => {
                self.flows[side].told_event(transfer, reason, has_closed);
            }
            Some(Event::Missed { count }) => self.flows[side].missed_events(count, has_closed),
            None => {}
        }
    }
}
