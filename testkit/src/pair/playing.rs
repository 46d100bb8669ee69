//! Runs a script on a fabric without a clock. The seed draws each step, from the first transfer to the last close.

use super::{Pair, Script};
use crate::TestFabric;

/// Rounds without any change after which a connection counts as stuck.
const IDLE_ROUNDS_MAX: u32 = 20_000;

/// Runs a script to its end, and panics at the first violation.
pub fn play<F: TestFabric>(script: &Script) {
    Pair::<F>::new(script.clone()).play();
}

impl<F: TestFabric> Pair<F> {
    /// Connects both ends.
    #[must_use]
    pub fn new(script: Script) -> Self {
        Self::over(F::new(&script.setup), script)
    }

    /// Runs everything from the first transfer to the last close.
    pub fn play(&mut self) {
        self.until("everything is sent and taken out", Self::is_exchanged);
        self.settle();
        self.close();
        self.until("both have received CLOSE, and nothing is on its way", |pair| pair.is_over());
    }

    /// Waits until no growth is under way. Then both ends shrink, and nothing but the first landing buffers must be left.
    fn settle(&mut self) {
        if self.fabric.setup().growth.is_none() {
            return;
        }
        let is_steady = |pair: &Self| pair.ends.iter().all(|end| end.endpoint().is_growth_steady());
        self.until("growth is over", |pair| is_steady(pair));
        for end in &mut self.ends {
            end.endpoint_mut().shrink();
        }
        self.until("both have shrunk", |pair| is_steady(pair));
        for (side, end) in self.ends.iter().enumerate() {
            assert!(!end.endpoint().has_grown(), "end {side} has shrunk");
        }
        assert_eq!(self.fabric.grown_bytes(), 0, "all that was grown is released");
    }

    fn until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        let (mut idle, mut before) = (0, 0);
        while idle < IDLE_ROUNDS_MAX {
            for _ in 0..16 {
                self.round();
            }
            if done(self) {
                return;
            }
            let marks = self.flows.iter().map(|flow| flow.at + flow.next + usize::from(flow.head.is_some()));
            let marks = marks.fold(0, |all: usize, one| (all << 32) + one);
            idle = if marks == before { idle + 16 } else { 0 };
            before = marks;
        }
        panic!("stuck before {what}: {}", self.state());
    }

    /// Takes one step of an end or of the fabric.
    fn round(&mut self) {
        let side = self.rng.below(2);
        match self.rng.below(8) {
            0..=2 => {
                for _ in 0..=self.rng.below(4) {
                    self.fabric.step();
                }
            }
            kind => self.act(side, kind),
        }
        self.make_rare_calls(side);
        if self.fabric.setup().growth.is_some() && self.rng.one_in(256) {
            self.ends[side].endpoint_mut().shrink();
        }
    }
}
