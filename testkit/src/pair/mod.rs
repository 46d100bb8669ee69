//! Two endpoints over one fabric, played against a plain oracle: lists of what each end sends, and how each end takes
//! it out.
//!
//! A [`Script`] is plain data, so that a property test can shrink it and a fuzzer can play it. What happens when is
//! decided by its seed.

mod flow;
mod playing;
mod receiving;
mod script;
mod sending;

use superpipe_core::{Closed, Endpoint, Event, Reason};

use crate::{Rng, Stage};
use flow::Flow;

pub use playing::play;
pub use script::{Content, How, Script, Take, Transfer};

/// Two endpoints, a fabric, and what must come out.
pub struct Pair<F: Stage> {
    /// The fabric.
    pub fabric: F,
    /// The endpoints.
    pub ends: [Endpoint<F>; 2],
    script: Script,
    flows: [Flow; 2],
    rng: Rng,
    buffer: Vec<u8>,
}
impl<F: Stage> Pair<F> {
    /// Both ends, connected over a fabric that was made with the script's setup.
    #[must_use]
    pub fn over(mut fabric: F, script: Script) -> Self {
        fabric.start(script.origin.blocks);
        let mut rng = Rng::new(script.setup.seed ^ 0x5eed);
        let ends = core::array::from_fn(|side| {
            Endpoint::new(&fabric, fabric.attachment(side), script.configs[side], script.origin)
                .unwrap_or_else(|error| panic!("{error}"))
        });
        let flows = core::array::from_fn(|side| Flow::new(&script.transfers[side], &script.origin, &mut rng));
        Self { fabric, ends, script, flows, rng, buffer: vec![0; 1 << 16] }
    }

    /// This end does one thing: progress, or the next step of what it sends or receives. When it looks and shows life is
    /// left to the caller, who has a clock.
    pub fn turn(&mut self, side: usize) {
        let kind = 3 + self.rng.below(5);
        self.act(side, kind);
        self.check_open();
    }

    /// Whether everything was sent, taken out and acknowledged.
    pub fn is_exchanged(&mut self) -> bool {
        self.flows.iter().all(Flow::is_done)
            && self.flows.iter().all(|flow| flow.head.is_none())
            && self.ends.iter_mut().all(|end| end.delivered() && end.controls_delivered())
    }

    /// Both ends close, and all that came is compared with the script.
    pub fn close(&mut self) {
        self.check_oracle();
        for side in 0..2 {
            self.ends[side].close(&mut self.fabric, Reason::DONE);
        }
    }

    /// Whether both were told of the close, and nothing is on the way.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let heard = |side: usize| {
            self.ends[side].counters().controls_sent == self.ends[1 - side].counters().controls_received
        };
        heard(0)
            && heard(1)
            && self.ends.iter().all(|end| end.closed() == Some(Closed::Here(Reason::DONE)))
            && self.ends.iter().all(|end| end.is_told() && end.is_quiescent())
            && self.fabric.is_quiescent()
    }

    /// How far it is, for messages.
    #[must_use]
    pub fn state(&self) -> String {
        let open: Vec<_> = self.flows.iter().map(|flow| (flow.next, flow.open, flow.head, flow.at)).collect();
        let counters: Vec<_> = self.ends.iter().map(Endpoint::counters).collect();
        format!("{open:?} {counters:?} {:?}", self.script)
    }

    fn act(&mut self, side: usize, kind: usize) {
        match kind {
            3 | 4 => {
                self.ends[side].progress(&mut self.fabric);
                self.take_events(side);
            }
            5 | 6 => self.send(side),
            _ if self.rng.one_in(self.script.slowness[side]) => self.receive(side),
            _ => {}
        }
    }

    fn now_and_then(&mut self, side: usize) {
        if self.rng.one_in(128) {
            self.ends[side].look(&mut self.fabric);
        }
        if self.rng.one_in(256) {
            self.ends[side].show_life(&mut self.fabric);
        }
        self.check_open();
    }

    /// Nothing but the script closes a connection.
    fn check_open(&self) {
        for end in &self.ends {
            assert!(
                matches!(end.closed(), None | Some(Closed::Here(_))),
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
    /// Everything came exactly once, or was given up.
    fn check_oracle(&mut self) {
        for side in 0..2 {
            self.take_events(side);
            for (index, sent) in self.flows[side].sent.iter().enumerate() {
                let given_up = sent.cancelled.is_some() || sent.rejected.is_some();
                assert!(sent.whole || given_up, "transfer {index} of end {side} never came");
                assert_eq!(
                    sent.rejected.is_some(),
                    sent.told,
                    "transfer {index} of end {side}: told of a reject"
                );
            }
        }
    }
}
