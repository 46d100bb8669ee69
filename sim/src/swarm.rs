//! One seed after the other, on all cores, and what they add up to.

use core::fmt;
use core::ops::ControlFlow;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use crate::calls::Calls;
use crate::case::Case;
use crate::run::{Failure, Look, Outcome, run};
use crate::tally::Tally;
use crate::torn::Torn;

/// When a swarm is over, if none fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// So many runs with a fault and several transfers are done.
    Runs(u64),
    /// So much time is over.
    Time(Duration),
}

/// What many runs add up to.
#[derive(Clone, Debug, Default)]
pub struct Swarm {
    /// Runs.
    pub runs: u64,
    /// Those of them in which something went wrong that can go wrong, and several transfers were made.
    pub hard_runs: u64,
    /// Transfers.
    pub transfers: u64,
    /// Turns of all ends.
    pub turns: u64,
    /// Virtual time of the longest run.
    pub longest_ns: u64,
    /// Where a CRC has less than 32 bits: what it let pass.
    pub torn: Torn,
    /// Which fault struck in which state.
    pub tally: Tally,
    /// Which call was made in which state.
    pub calls: Calls,
    /// How ends ended.
    pub endings: BTreeMap<String, u64>,
    /// The failed run with the smallest seed of those that were run.
    pub failure: Option<Failure>,
}

impl Swarm {
    /// Runs seeds from `first` on, on so many threads, until one fails or it is over.
    #[must_use]
    pub fn run(first: u64, until: Until, threads: usize) -> Self {
        let (next, stop, all) = (AtomicU64::new(first), AtomicBool::new(false), Mutex::new(Self::default()));
        let begin = Instant::now();
        thread::scope(|scope| {
            for _ in 0..threads.max(1) {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        let ended = run(&Case::from_seed(seed), Look::default());
                        let mut all = all.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                        let is_over = all.take(ended).is_break()
                            || match until {
                                Until::Runs(runs) => all.hard_runs >= runs,
                                Until::Time(time) => begin.elapsed() >= time,
                            };
                        if is_over {
                            stop.store(true, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        all.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn take(&mut self, ended: Result<Outcome, Failure>) -> ControlFlow<()> {
        self.runs += 1;
        match ended {
            Err(failure) => {
                if self.failure.as_ref().is_none_or(|known| failure.seed < known.seed) {
                    self.failure = Some(failure);
                }
                ControlFlow::Break(())
            }
            Ok(outcome) => {
                let Outcome { time_ns, turns, transfers, torn, tally, calls, endings, .. } = outcome;
                self.hard_runs += u64::from(transfers > 1 && !tally.is_empty());
                self.transfers += transfers;
                self.turns += turns;
                self.longest_ns = self.longest_ns.max(time_ns);
                self.torn += torn;
                self.tally.add(&tally);
                self.calls.add(&calls);
                for (ending, count) in endings {
                    *self.endings.entry(ending).or_default() += count;
                }
                ControlFlow::Continue(())
            }
        }
    }
}

impl fmt::Display for Swarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, hard_runs, transfers, turns, longest_ns, .. } = self;
        writeln!(f, "{runs} runs, {hard_runs} of them with a fault and several transfers")?;
        writeln!(f, "{transfers} transfers, {turns} turns, the longest run {} us", longest_ns / 1000)?;
        writeln!(f, "\nWhich fault struck an end in which state, how often:\n{}", self.tally)?;
        writeln!(f, "\nWhich call was made in which state, how often accepted/refused:\n{}", self.calls)?;
        writeln!(f, "\nHow ends ended:")?;
        for (ending, count) in &self.endings {
            writeln!(f, "{count:>9}  {ending}")?;
        }
        Ok(())
    }
}
