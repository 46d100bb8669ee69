//! Two programs that use one connection, with every call of the API in every state.
//!
//! A [`ClientPair`] holds both programs. An oracle for each direction knows which results of each call are right. A blocking call is
//! what the shells of `superpipe` do: attempts, a round, and then the driver's next step, in virtual time.

mod calling;
mod coverage;
mod ending;
mod loans;
mod ops;
mod oracle;
mod probing;
mod receiving;
mod sending;
mod waiting;

use superpipe_core::driver::{Driver, WaitStrategy, WarmUp, WarmUpPlan};
use superpipe_core::{Arrival, Closed, Endpoint, Event, FirstChunk, Loan, Nanos, Reason, State};
use superpipe_testkit::pair::{IDLE_TIMEOUT_NS, Script};
use superpipe_testkit::{PairFabric, Rng};

pub use coverage::{Call, CallCoverage, unreachable_because};
use loans::{Built, HeldLoan};
use ops::{ReceiveOp, SendOp, Waiting, Writing};
use oracle::Flow;

/// Parameters of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Seed of its calls.
    pub seed: u64,
    /// Calls before it ends.
    pub calls: u32,
    /// Bytes of its longest message.
    pub bytes_max: usize,
    /// Policy of its end.
    pub exit_policy: ExitPolicy,
    /// Strategy of its waits.
    pub wait: WaitStrategy,
    /// Both ends warm the connection up first.
    pub warms_up: bool,
    /// Turns of the warm-up after which this end closes with a reason, if it does.
    pub closes_after: Option<u32>,
    /// Behavior besides its calls.
    pub behavior: Behavior,
}

/// Behavior of a program besides its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behavior {
    /// None.
    Plain,
    /// Floods its peer with legal messages in each turn.
    Flood,
    /// Rejects messages in each turn, so that REJECTs wait.
    Reject,
    /// Uses long deadlines.
    LongDeadlines,
    /// Begins messages by the fast path while a REJECT is due, and rejects several in a row in each turn.
    RejectInRow,
}

/// End of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitPolicy {
    /// Receives everything that the other end sends, and then closes.
    WhenReceived,
    /// Closes once it has sent everything, whatever the other end still sends.
    WhenSent,
    /// Closes with a reason at once.
    Abort,
    /// Drops driver and fabric at once, without a close.
    Drop,
}

/// Outcome of an end's turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TurnOutcome {
    /// Nanoseconds that the end may sleep.
    pub(crate) sleep_ns: u64,
    /// Ends that release everything.
    pub(crate) releases: [bool; 2],
}

/// Phase of a program.
#[derive(Debug)]
enum Stage {
    Warming(Box<WarmUp>, Vec<u8>),
    Calling,
    /// It completes its transfers and receives what arrives.
    Ending,
    Closing,
    /// The close is done. This end keeps its memory until its peer has closed, too.
    Over,
}

/// One program at its end of the connection.
pub(crate) struct Client<F: PairFabric> {
    pub(crate) driver: Driver<F>,
    rng: Rng,
    program: Program,
    calls_left: u32,
    stage: Stage,
    waiting: Option<Waiting>,
    sends: [Option<SendOp>; 2],
    receives: [Option<ReceiveOp>; 2],
    writing: Option<Writing>,
    /// Bytes of the last reservation.
    reserved: u32,
    /// Bytes that were last read in place: message, offset, content.
    shown: Option<(Option<usize>, usize, Vec<u8>)>,
    /// Loans that it holds, and the last one that it gave back.
    loans: Vec<HeldLoan>,
    stale_loan: Option<Loan>,
    /// Message that it built last, in place.
    built: Option<Built>,
    /// Reason with which this end has closed.
    closed_with: Option<Reason>,
    /// Begin of the current time without progress while it ends, and the progress before it.
    ends_since: Option<(Nanos, u64)>,
    /// Message at the head that a stream of this end receives.
    reads: Option<usize>,
    /// Calls left in each short state.
    probes_left: [u32; probing::STATES],
    /// Turns spent in the warm-up.
    warm_turns: u32,
    /// It has dropped everything without a close.
    pub(crate) has_dropped: bool,
    /// Time since which it is [`Stage::Over`].
    over_since: Option<Nanos>,
    has_seen_end: bool,
}

/// Two programs, a fabric, and the oracles.
pub(crate) struct ClientPair<F: PairFabric> {
    pub(crate) fabric: F,
    pub(crate) clients: [Client<F>; 2],
    /// Oracles by sender.
    flows: [Flow; 2],
    pub(crate) call_coverage: CallCoverage,
    /// Arrival by notification: each poll takes only some of them.
    is_notified: bool,
    /// Ends that share a CPU.
    pub(crate) ends_per_cpu: u64,
    /// Distances decide what copies take.
    pub(crate) has_distances: bool,
    /// The connection may end at any time.
    may_fail: bool,
}

impl<F: PairFabric> ClientPair<F> {
    pub(crate) fn over(mut fabric: F, script: &Script, programs: [Program; 2]) -> Self {
        fabric.start(script.origin.blocks);
        let clients = core::array::from_fn(|side| {
            let (program, config) = (programs[side], script.configs[side]);
            let end = Endpoint::new(&fabric, fabric.attachment(side), config, script.origin)
                .unwrap_or_else(|error| panic!("{error}"));
            let driver = Driver::new(end, 1 + side as u64, program.wait, IDLE_TIMEOUT_NS, Nanos(0));
            let stage = if program.warms_up {
                // Both ends must compute the same plan.
                let smaller = usize::from(script.configs[0].c0_bytes > script.configs[1].c0_bytes);
                let layout = script.setup.layouts[0];
                let plan = WarmUpPlan::new(layout, &script.configs[smaller], F::DIRECT);
                Stage::Warming(Box::new(WarmUp::new(plan, side == 0)), vec![0x5a; plan.room_bytes()])
            } else {
                Stage::Calling
            };
            Client {
                driver,
                rng: Rng::new(program.seed),
                program,
                calls_left: program.calls,
                stage,
                waiting: None,
                sends: [None, None],
                receives: [None, None],
                writing: None,
                reserved: 0,
                shown: None,
                loans: Vec::new(),
                stale_loan: None,
                built: None,
                closed_with: None,
                ends_since: None,
                reads: None,
                probes_left: [probing::PROBES_MAX; probing::STATES],
                warm_turns: 0,
                has_dropped: false,
                over_since: None,
                has_seen_end: false,
            }
        });
        Self {
            fabric,
            clients,
            flows: script.configs.map(|config| {
                let holds_back = config.first_chunk == FirstChunk::DuringRendezvous;
                Flow::new(holds_back.then_some(config.c0_bytes.into()))
            }),
            call_coverage: CallCoverage::default(),
            is_notified: script.configs[0].arrival == Arrival::Notify,
            ends_per_cpu: 1,
            has_distances: false,
            may_fail: false,
        }
    }

    pub(crate) const fn expect_failure(&mut self) {
        self.may_fail = true;
    }

    pub(crate) fn stop_checking(&mut self) {
        self.flows.iter_mut().for_each(|flow| flow.is_unchecked = true);
    }

    pub(crate) fn transfers(&self) -> u64 {
        self.flows.iter().map(|flow| flow.transfers).sum()
    }

    pub(crate) fn state(&self) -> String {
        let of = |client: &Client<F>| {
            let Client { program, stage, waiting, writing, driver, .. } = client;
            format!("{program:?} {stage:?} {waiting:?} {writing:?} {driver:?}")
        };
        format!("{} and {}", of(&self.clients[0]), of(&self.clients[1]))
    }

    /// Returns true if each end knows of the other's close, or waits no longer.
    pub(crate) fn is_over(&self) -> bool {
        self.clients.iter().all(|client| matches!(client.stage, Stage::Over))
    }

    fn is_unchecked(&self) -> bool {
        self.flows[0].is_unchecked
    }

    fn state_of(&self, side: usize) -> State {
        self.clients[side].driver.endpoint().state()
    }

    /// Counts a call whose result is compared. After a forged line no result is.
    fn count(&mut self, call: Call, state: State, is_accepted: bool) {
        if !self.is_unchecked() {
            self.call_coverage.count(call, state, is_accepted);
        }
    }

    /// Returns true if this end has failed or was closed with a reason, so that it delivers nothing.
    fn is_shut(&self, side: usize) -> bool {
        match self.closed(side) {
            None => false,
            Some(Closed::Failed(_)) => true,
            Some(Closed::Here(reason) | Closed::ByPeer(reason)) => reason != Reason::DONE,
        }
    }

    /// Returns true if this end may deliver nothing from now on. A call may have read that the peer has closed with a reason or broken a
    /// rule before the connection reports it.
    fn may_be_shut(&self, side: usize) -> bool {
        let abandons = |reason: Reason| reason != Reason::DONE;
        self.may_fail || self.is_shut(side) || self.clients[1 - side].closed_with.is_some_and(abandons)
    }

    fn closed(&self, side: usize) -> Option<Closed> {
        self.clients[side].driver.endpoint().closed()
    }

    /// Checks that nothing but a call has closed a connection that works.
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
        assert!(is_right || self.is_unchecked(), "end {side} is {closed:?}");
    }

    fn take_events(&mut self, side: usize) {
        let state = self.state_of(side);
        let event = self.clients[side].driver.poll_event();
        self.count(Call::PollEvent, state, event.is_some());
        let has_closed = self.clients[side].closed_with.is_some();
        match event {
            Some(Event::Rejected { transfer, reason }) => {
                self.flows[side].check_rejected_event(transfer, reason, has_closed);
            }
            Some(Event::Missed { count }) => self.flows[side].missed_events(count, has_closed),
            None => {}
        }
    }
}
