//! Two ends of a connection over one fabric, which carry out a script under an oracle.
//!
//! A [`Script`] is plain data, so that a property test can shrink it and a fuzzer can run it. Its seed decides what happens when.

mod flow;
mod playing;
mod receiving;
mod script;
mod sending;
mod unchecked;

use superpipe_core::driver::{Drive, Driver, Next, Wait, WaitFailed, WaitStrategy};
use superpipe_core::{Closed, Endpoint, Event, FirstChunk, Nanos, Reason};

use crate::{PairFabric, Rng};
use flow::{Flow, Sent};

pub use flow::reason;
pub use playing::play;
pub use script::{Content, ReceiveMethod, Script, SendMethod, Transfer};

/// Idle timeout: five keepalives.
pub const IDLE_TIMEOUT_NS: u64 = 1_000_000_000;

/// Two ends, a fabric, and the oracles.
pub struct Pair<F: PairFabric> {
    /// Fabric of the connection.
    pub fabric: F,
    /// Drivers of the ends.
    pub ends: [Driver<F>; 2],
    waits: [Wait; 2],
    /// Result of each end's last round, until it is taken.
    next: [Option<Next>; 2],
    /// Progress of each end at that time.
    moved: [u64; 2],
    script: Script,
    flows: [Flow; 2],
    rng: Rng,
    buffer: Vec<u8>,
    peer: PeerAssumption,
    /// Ends that receive nothing any more.
    no_longer_receives: [bool; 2],
}

/// Guarantees on which the oracle relies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PeerAssumption {
    /// Both ends follow the protocol and no fatal fault strikes: only the script closes the connection.
    Correct,
    /// A fatal fault may end the connection at any time. Bytes that arrive before are compared.
    MayFail,
    /// An end forges lines. Nothing is compared.
    Hostile,
}

impl<F: PairFabric> Pair<F> {
    /// Connects both ends over a fabric that was made with the script's setup.
    #[must_use]
    pub fn over(mut fabric: F, script: Script) -> Self {
        fabric.start(script.origin.blocks);
        let mut rng = Rng::new(script.setup.seed ^ 0x5eed);
        let ends: [_; 2] = core::array::from_fn(|side| {
            let end = Endpoint::new(&fabric, fabric.attachment(side), script.configs[side], script.origin)
                .unwrap_or_else(|error| panic!("{error}"));
            Driver::new(end, 1 + side as u64, WaitStrategy::Yield, IDLE_TIMEOUT_NS, Nanos(0))
        });
        let flows = core::array::from_fn(|side| {
            let holds_back = script.configs[side].first_chunk == FirstChunk::DuringRendezvous;
            Flow::new(&script.transfers[side], &script.origin, holds_back, &mut rng)
        });
        let waits = ends.each_ref().map(Driver::begin_wait);
        Self {
            fabric,
            ends,
            waits,
            next: [None; 2],
            moved: [0; 2],
            script,
            flows,
            rng,
            buffer: vec![0; 1 << 16],
            peer: PeerAssumption::Correct,
            no_longer_receives: [false; 2],
        }
    }

    /// Gives this end a turn: a round, or the next step of sending or receiving. The caller, who has a clock, acts on
    /// [`next`](Self::next).
    pub fn turn(&mut self, side: usize) {
        if self.peer == PeerAssumption::Hostile {
            return self.turn_unchecked(side);
        }
        let kind = 3 + self.rng.below(5);
        self.act(side, kind);
        self.check_open();
    }

    /// Takes the result of this end's last round.
    pub const fn next(&mut self, side: usize) -> Option<Next> {
        self.next[side].take()
    }

    /// Checks the time in a wait of this end until `deadline`: see [`Driver::check_time`].
    ///
    /// # Errors
    /// Those of [`Driver::check_time`].
    pub fn check_time(&mut self, side: usize, now: Nanos, deadline: Nanos) -> Result<u64, WaitFailed> {
        self.ends[side].check_time(&mut self.fabric, &mut self.waits[side], now, deadline)
    }

    /// Drives the close of this end: see [`Driver::drive_close`].
    pub fn drive_close(&mut self, side: usize) -> Next {
        let driven = self.ends[side].drive_close(&mut self.fabric);
        self.ends[side].close_round(&mut self.waits[side], driven == Drive::Moved)
    }

    /// Permits the connection to end at any time. What arrives before must still be right.
    pub fn expect_failure(&mut self) {
        if self.peer == PeerAssumption::Correct {
            self.peer = PeerAssumption::MayFail;
        }
    }

    /// Ends all comparisons, because an end forges lines.
    pub const fn stop_checking(&mut self) {
        self.peer = PeerAssumption::Hostile;
    }

    /// Closes this end with a reason, also after the peer's close. Cancels an open transfer.
    pub fn close_with(&mut self, side: usize, reason: Reason) {
        let flow = &mut self.flows[side];
        if !matches!(self.ends[side].endpoint().closed(), Some(Closed::Here(_) | Closed::Failed(_)))
            && let Some(open) = flow.open.take()
        {
            flow.sent[open.index].cancelled = Some(reason);
        }
        self.ends[side].close(&mut self.fabric, reason);
    }

    /// Returns true if everything was sent, received and acknowledged.
    pub fn is_exchanged(&mut self) -> bool {
        self.peer != PeerAssumption::Hostile
            && self.flows.iter().all(Flow::is_done)
            && self.flows.iter().all(|flow| flow.head.is_none())
            && self
                .ends
                .iter_mut()
                .map(Driver::endpoint_mut)
                .all(|end| end.poll_delivered() && end.poll_controls_delivered())
    }

    /// Returns true if this end has sent everything, so that it may close. The other end may still have to receive.
    #[must_use]
    pub fn has_sent_all(&self, side: usize) -> bool {
        self.peer != PeerAssumption::Hostile && self.flows[side].is_done()
    }

    /// Returns true if this end has received everything that the other end sends.
    #[must_use]
    pub fn has_received_all(&self, side: usize) -> bool {
        let theirs = &self.flows[1 - side];
        let is_over = |sent: &Sent| sent.complete || sent.cancelled.is_some() || sent.rejected.is_some();
        theirs.is_done() && theirs.head.is_none() && theirs.sent.iter().all(is_over)
    }

    /// Closes this end with [`Reason::DONE`] without receiving the rest. What the other end still sends is lost.
    pub fn close_unreceived(&mut self, side: usize) {
        self.no_longer_receives[side] = true;
        self.close_with(side, Reason::DONE);
    }

    /// Closes both ends, and checks everything that arrived.
    pub fn close(&mut self) {
        self.check_oracle();
        for side in 0..2 {
            self.ends[side].close(&mut self.fabric, Reason::DONE);
        }
    }

    /// Returns true if both ends are closed in good order, know of each other's close, and nothing is on its way.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let in_order = |end: &Driver<F>| {
            matches!(end.endpoint().closed(), Some(Closed::Here(Reason::DONE) | Closed::ByPeer(Reason::DONE)))
        };
        let is_known = |side: usize| {
            self.ends[side].counters().controls_sent == self.ends[1 - side].counters().controls_received
        };
        // Counters are copied as a whole, so they come after what is cheap.
        self.ends.iter().all(in_order)
            && is_known(0)
            && is_known(1)
            && self.ends.iter().map(Driver::endpoint).all(|end| end.is_flushed() && end.is_quiescent())
            && self.fabric.is_quiescent()
    }

    /// Describes the progress, for messages.
    #[must_use]
    pub fn state(&self) -> String {
        let open: Vec<_> = self.flows.iter().map(|flow| (flow.next, flow.open, flow.head, flow.at)).collect();
        let counters: Vec<_> = self.ends.iter().map(Driver::counters).collect();
        format!("{open:?} {counters:?} {:?}", self.script)
    }

    fn act(&mut self, side: usize, kind: usize) {
        match kind {
            3 | 4 => {
                self.end_round(side);
                self.take_events(side);
            }
            5 | 6 => self.send(side),
            _ if self.no_longer_receives[side] => {}
            _ if self.rng.one_in(self.script.slowness[side]) => self.receive(side),
            _ => {}
        }
    }

    fn end_round(&mut self, side: usize) {
        let moved = self.ends[side].endpoint().moved();
        let has_moved = moved != self.moved[side];
        self.moved[side] = moved;
        let (end, wait) = (&mut self.ends[side], &mut self.waits[side]);
        self.next[side] = Some(end.round(&mut self.fabric, wait, has_moved));
    }

    fn make_rare_calls(&mut self, side: usize) {
        if self.rng.one_in(128) {
            self.ends[side].endpoint_mut().poll_acknowledgements(&mut self.fabric);
        }
        if self.rng.one_in(256) {
            self.ends[side].endpoint_mut().send_keepalive(&mut self.fabric);
        }
        self.check_open();
    }

    /// Checks that nothing but the script has closed a connection that works.
    fn check_open(&self) {
        for end in self.ends.iter().map(Driver::endpoint) {
            assert!(
                self.peer != PeerAssumption::Correct
                    || matches!(end.closed(), None | Some(Closed::Here(_) | Closed::ByPeer(Reason::DONE))),
                "{:?} {:?}",
                end.closed(),
                self.script
            );
        }
    }

    fn take_events(&mut self, side: usize) {
        while let Some(Event::Rejected { transfer, reason }) = self.ends[side].poll_event() {
            let sent = self.flows[side].sent.iter_mut().rfind(|sent| sent.number == Some(transfer));
            let sent = sent.unwrap_or_else(|| panic!("{transfer} was rejected, and never sent"));
            assert_eq!(sent.rejected, Some(reason));
            assert!(!core::mem::replace(&mut sent.rejection_reported, true), "reported twice");
        }
    }

    /// Checks that everything arrived exactly once or was given up, unless an end forges lines.
    pub fn check_oracle(&mut self) {
        if self.peer == PeerAssumption::Hostile {
            return;
        }
        for side in 0..2 {
            if self.no_longer_receives[1 - side] && !self.has_received_all(1 - side) {
                continue;
            }
            self.take_events(side);
            for (index, sent) in self.flows[side].sent.iter().enumerate() {
                let given_up = sent.cancelled.is_some() || sent.rejected.is_some();
                assert!(sent.complete || given_up, "transfer {index} of end {side} never came");
                // Two ends that have closed need not report a REJECT.
                let is_moot = self.no_longer_receives.contains(&true);
                let is_reported = sent.rejection_reported || sent.rejected.is_some() && is_moot;
                assert_eq!(
                    is_reported,
                    sent.rejected.is_some(),
                    "transfer {index} of end {side}: rejection reported"
                );
            }
        }
    }
}
