//! The end of a case: everything is settled, or told although nobody reads.

use superpipe_core::Reason;
use superpipe_testkit::TestFabric;

use crate::model::{Flow, Model, PLACE_BYTES};

impl<F: TestFabric> Model<F> {
    /// Ends what is open, and takes everything out.
    pub(crate) fn settle(&mut self) {
        let mut place = [0; PLACE_BYTES];
        let way = self.below(3);
        for round in 0..20_000 {
            for side in 0..2 {
                self.live(side, round, 3);
                match self.open(side) {
                    None => {}
                    Some((_, left, true)) if left > 0 => self.finish(side),
                    Some((_, left, _)) if left > 1 << 20 => self.cancel(side),
                    Some(_) => self.push(side),
                }
                self.sync(side);
                match way {
                    0 => {
                        let pulled = self.ends[side].pull(&mut self.fabric, &mut [&mut place]);
                        self.flows[1 - side].in_place = 0;
                        self.took(side, &place[..pulled.bytes], pulled.end);
                    }
                    1 => {
                        self.readable(side);
                        self.consume(side);
                    }
                    _ => self.receive(side),
                }
            }
            if self.is_settled() {
                return;
            }
        }
        panic!("stuck: {:?}", self.told_of());
    }

    /// Steps of the fabric and a round of progress; now and then polled acknowledgements and a keepalive.
    pub(crate) fn live(&mut self, side: usize, round: usize, steps: usize) {
        for _ in 0..steps {
            self.fabric.step();
        }
        if round % 64 == 63 {
            self.ends[side].poll_acknowledgements(&mut self.fabric);
            self.ends[side].send_keepalive(&mut self.fabric);
        }
        self.ends[side].progress(&mut self.fabric);
        self.check();
    }

    /// Nobody reads: what is cancelled is told all the same, and so is a close.
    pub(crate) fn tell(&mut self, closes: bool) {
        let side = self.below(2);
        if self.ends[side].closed().is_none() {
            self.cancel(side);
        }
        if closes {
            let reason = if self.rng.one_in(2) { Reason::DONE } else { self.reason() };
            self.close(side, reason);
        }
        for round in 0..3000 {
            for side in 0..2 {
                self.live(side, round, 1);
            }
            let known = !closes || self.ends[1 - side].peer_closes();
            if known && self.ends[side].is_flushed() {
                return;
            }
        }
        panic!("not told: {:?}", self.told_of());
    }

    pub(crate) fn is_settled(&mut self) -> bool {
        if self.closed.iter().any(Option::is_some) {
            // Transfers to an end that has closed need not come out.
            let told = (0..2).all(|side| self.closed[side].is_none() || self.ends[side].is_flushed());
            let known = (0..2).all(|side| self.closed[side].is_none() || self.ends[1 - side].peer_closes());
            let only_one = self.closed.iter().flatten().count() == 1;
            let done = !self.may_be_shut();
            let closed = (0..2).all(|side| self.ends[side].closed().is_some());
            return told && known && (closed || !(only_one && done));
        }
        let settled = |flow: &Flow| {
            let events = flow.sent.iter().all(|sent| sent.rejected.is_some() == sent.told);
            flow.open.is_none() && flow.head == flow.sent.len() && events
        };
        self.flows.iter().all(settled)
            && self.ends.iter_mut().all(|end| end.poll_delivered() && end.poll_controls_delivered())
    }

    pub(crate) fn told_of(&self) -> String {
        let states: Vec<_> =
            self.ends.iter().map(|end| (end.state(), end.closed(), end.counters())).collect();
        let flows: Vec<_> = self
            .flows
            .iter()
            .map(|flow| {
                let last = flow.sent.last().map(|s| (s.length, s.bytes.len(), s.end, s.rejected, s.told));
                (
                    flow.sent.len(),
                    flow.head,
                    flow.shown,
                    flow.at,
                    last,
                    flow.open.as_ref().map(|open| open.length),
                )
            })
            .collect();
        format!("{states:?} {flows:?} closed {:?} {:?}", self.closed, self.ends[0].config())
    }
}
