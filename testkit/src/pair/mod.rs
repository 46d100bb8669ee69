//! Two ends of a connection over one fabric, played against a plain oracle: lists of what each end sends, and how each end takes
//! it out.
//!
//! A [`Script`] is plain data, so that a property test can shrink it and a fuzzer can play it. What happens when is
//! decided by its seed.

mod flow;
mod playing;
mod receiving;
mod script;
mod sending;
mod unchecked;

use superpipe_core::driver::{Drive, Driver, LookFailed, Next, Wait, WaitStrategy};
use superpipe_core::{Closed, Endpoint, Event, Nanos, Reason};

use crate::{Rng, Stage};
use flow::{Flow, Sent};

pub use playing::play;
pub use script::{Content, How, Script, Take, Transfer};

/// The silence of a peer that is borne: five signs of life.
pub const IDLE_TIMEOUT_NS: u64 = 1_000_000_000;

/// Two ends as their users have them, a fabric, and what must come out.
pub struct Pair<F: Stage> {
    /// The fabric.
    pub fabric: F,
    /// The ends.
    pub ends: [Driver<F>; 2],
    waits: [Wait; 2],
    /// What each end's last round came to, unless it was asked for since.
    next: [Option<Next>; 2],
    /// What each end had moved by then.
    moved: [u64; 2],
    script: Script,
    flows: [Flow; 2],
    rng: Rng,
    buffer: Vec<u8>,
    belief: Belief,
    /// Which end takes nothing out any more.
    deaf: [bool; 2],
}

/// What is known of the other end, and of the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Belief {
    /// Nothing but the script ends the connection.
    Works,
    /// It may end at any time; what comes before is right.
    MayFail,
    /// An end lies: nothing that comes proves anything.
    Lies,
}

impl<F: Stage> Pair<F> {
    /// Both ends, connected over a fabric that was made with the script's setup.
    #[must_use]
    pub fn over(mut fabric: F, script: Script) -> Self {
        fabric.start(script.origin.blocks);
        let mut rng = Rng::new(script.setup.seed ^ 0x5eed);
        let ends: [_; 2] = core::array::from_fn(|side| {
            let end = Endpoint::new(&fabric, fabric.attachment(side), script.configs[side], script.origin)
                .unwrap_or_else(|error| panic!("{error}"));
            Driver::new(end, 1 + side as u64, WaitStrategy::Yield, IDLE_TIMEOUT_NS, Nanos(0))
        });
        let flows = core::array::from_fn(|side| Flow::new(&script.transfers[side], &script.origin, &mut rng));
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
            belief: Belief::Works,
            deaf: [false; 2],
        }
    }

    /// This end does one thing: a round, or the next step of what it sends or receives. What comes after a round
    /// ([`next`](Self::next)) is left to the caller, who has a clock.
    pub fn turn(&mut self, side: usize) {
        if self.belief == Belief::Lies {
            return self.turn_unchecked(side);
        }
        let kind = 3 + self.rng.below(5);
        self.act(side, kind);
        self.check_open();
    }

    /// What comes after the last round of this end: told once.
    pub const fn next(&mut self, side: usize) -> Option<Next> {
        self.next[side].take()
    }

    /// This end looks at the time, in a wait until `deadline`: see [`Driver::look`].
    ///
    /// # Errors
    /// As that has them.
    pub fn look(&mut self, side: usize, now: Nanos, deadline: Nanos) -> Result<u64, LookFailed> {
        self.ends[side].look(&mut self.fabric, &mut self.waits[side], now, deadline)
    }

    /// This end, which has closed, goes on telling so: see [`Driver::drive_close`].
    pub fn drive_close(&mut self, side: usize) -> Next {
        let driven = self.ends[side].drive_close(&mut self.fabric);
        self.ends[side].close_round(&mut self.waits[side], driven == Drive::Moved)
    }

    /// From now on the connection may end at any time. What comes before must still be right.
    pub fn expect_failure(&mut self) {
        if self.belief == Belief::Works {
            self.belief = Belief::MayFail;
        }
    }

    /// From now on an end lies: nothing that comes is compared with anything.
    pub const fn distrust(&mut self) {
        self.belief = Belief::Lies;
    }

    /// Counts everything that this end has sent and received: while it stands still at both ends, nothing moves.
    #[must_use]
    pub fn moved(&self, side: usize) -> u64 {
        let counters = self.ends[side].counters();
        let sent = counters.inline_sent + counters.chunks_sent + counters.controls_sent;
        let received = counters.inline_received + counters.chunks_received + counters.controls_received;
        sent + received + counters.bytes_received
    }

    /// This end gives up, or answers a close: an open transfer is cancelled with the reason.
    pub fn give_up(&mut self, side: usize, reason: Reason) {
        let flow = &mut self.flows[side];
        if !matches!(self.ends[side].endpoint().closed(), Some(Closed::Here(_) | Closed::Failed(_)))
            && let Some(open) = flow.open.take()
        {
            flow.sent[open.index].cancelled = Some(reason);
        }
        self.ends[side].close(&mut self.fabric, reason);
    }

    /// Whether everything was sent, taken out and acknowledged.
    pub fn is_exchanged(&mut self) -> bool {
        self.belief != Belief::Lies
            && self.flows.iter().all(Flow::is_done)
            && self.flows.iter().all(|flow| flow.head.is_none())
            && self
                .ends
                .iter_mut()
                .map(Driver::endpoint_mut)
                .all(|end| end.delivered() && end.controls_delivered())
    }

    /// Whether this end has sent all: it may close, though the other one may still have to take it out.
    #[must_use]
    pub fn has_sent(&self, side: usize) -> bool {
        self.belief != Belief::Lies && self.flows[side].is_done()
    }

    /// Whether this end has taken out all that the other one sends.
    #[must_use]
    pub fn has_taken(&self, side: usize) -> bool {
        let theirs = &self.flows[1 - side];
        let settled = |sent: &Sent| sent.whole || sent.cancelled.is_some() || sent.rejected.is_some();
        theirs.is_done() && theirs.head.is_none() && theirs.sent.iter().all(settled)
    }

    /// This end closes in good order, and takes nothing out any more: what the other one still sends is lost, and it knows.
    pub fn leave(&mut self, side: usize) {
        self.deaf[side] = true;
        self.give_up(side, Reason::DONE);
    }

    /// Both ends close, and all that came is compared with the script.
    pub fn close(&mut self) {
        self.check_oracle();
        for side in 0..2 {
            self.ends[side].close(&mut self.fabric, Reason::DONE);
        }
    }

    /// Whether both are closed in good order and were told so, and nothing is on the way.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let in_order = |end: &Driver<F>| {
            matches!(end.endpoint().closed(), Some(Closed::Here(Reason::DONE) | Closed::ByPeer(Reason::DONE)))
        };
        let heard = |side: usize| {
            self.ends[side].counters().controls_sent == self.ends[1 - side].counters().controls_received
        };
        heard(0)
            && heard(1)
            && self.ends.iter().all(in_order)
            && self.ends.iter().map(Driver::endpoint).all(|end| end.is_told() && end.is_quiescent())
            && self.fabric.is_quiescent()
    }

    /// How far it is, for messages.
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
            _ if self.deaf[side] => {}
            _ if self.rng.one_in(self.script.slowness[side]) => self.receive(side),
            _ => {}
        }
    }

    fn end_round(&mut self, side: usize) {
        let moved = self.moved(side);
        let has_moved = moved != self.moved[side];
        self.moved[side] = moved;
        let (end, wait) = (&mut self.ends[side], &mut self.waits[side]);
        self.next[side] = Some(end.round(&mut self.fabric, wait, has_moved));
    }

    fn now_and_then(&mut self, side: usize) {
        if self.rng.one_in(128) {
            self.ends[side].endpoint_mut().look(&mut self.fabric);
        }
        if self.rng.one_in(256) {
            self.ends[side].endpoint_mut().show_life(&mut self.fabric);
        }
        self.check_open();
    }

    /// Nothing but the script closes a connection that works.
    fn check_open(&self) {
        for end in self.ends.iter().map(Driver::endpoint) {
            assert!(
                self.belief != Belief::Works
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
            assert!(!core::mem::replace(&mut sent.told, true), "told twice");
        }
    }

    /// Everything came exactly once, or was given up; unless an end lies.
    pub fn check_oracle(&mut self) {
        if self.belief == Belief::Lies {
            return;
        }
        for side in 0..2 {
            if self.deaf[1 - side] && !self.has_taken(1 - side) {
                continue;
            }
            self.take_events(side);
            for (index, sent) in self.flows[side].sent.iter().enumerate() {
                let given_up = sent.cancelled.is_some() || sent.rejected.is_some();
                assert!(sent.whole || given_up, "transfer {index} of end {side} never came");
                // Between two that have closed, a REJECT need not be told any more.
                let is_moot = self.deaf.contains(&true);
                let told = sent.told || sent.rejected.is_some() && is_moot;
                assert_eq!(told, sent.rejected.is_some(), "transfer {index} of end {side}: told of a reject");
            }
        }
    }
}
