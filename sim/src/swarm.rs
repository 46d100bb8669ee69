//! Runs of many seeds on all cores, and their sums.

use core::fmt;
use core::ops::ControlFlow;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use crate::case::Case;
use crate::client::CallCoverage;
use crate::fabric::PartialBlocks;
use crate::faults::{FaultCoverage, GrowthCoverage};
use crate::polled::PollCoverage;
use crate::run::{Outcome, RunFailure, RunOptions, run};

/// Limit of a swarm without failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopCondition {
    /// Number of runs with a fault and several transfers.
    Runs(u64),
    /// Time.
    Time(Duration),
}

/// Sums of many runs.
#[derive(Clone, Debug, Default)]
pub struct Swarm {
    /// Number of runs.
    pub runs: u64,
    /// Runs in which a fault struck and several transfers were made.
    pub hard_runs: u64,
    /// Number of transfers.
    pub transfers: u64,
    /// Turns of all ends.
    pub turns: u64,
    /// Virtual time of the longest run.
    pub longest_ns: u64,
    /// Incomplete blocks that a CRC with fewer than 32 bits accepted.
    pub partial_blocks: PartialBlocks,
    /// Counts of faults by state.
    pub fault_coverage: FaultCoverage,
    /// Counts of faults by step of growth, and of the cases of growth.
    pub growth_coverage: GrowthCoverage,
    /// Counts of calls by state.
    pub call_coverage: CallCoverage,
    /// Counts of what happened to connections of a poller, by their state.
    pub poll_coverage: PollCoverage,
    /// Counts of how ends ended.
    pub endings: BTreeMap<String, u64>,
    /// Failure with the smallest seed among those that ran.
    pub failure: Option<RunFailure>,
}

impl Swarm {
    /// Runs seeds from `first` on until one fails or the limit is reached.
    #[must_use]
    pub fn run(first: u64, until: StopCondition, threads: usize) -> Self {
        let (next, stop, all) = (AtomicU64::new(first), AtomicBool::new(false), Mutex::new(Self::default()));
        let begin = Instant::now();
        thread::scope(|scope| {
            for _ in 0..threads.max(1) {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        let ended = run(&Case::from_seed(seed), RunOptions::default());
                        let mut all = all.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                        let is_over = all.take(ended).is_break()
                            || match until {
                                StopCondition::Runs(runs) => all.hard_runs >= runs,
                                StopCondition::Time(time) => begin.elapsed() >= time,
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

    fn take(&mut self, ended: Result<Outcome, RunFailure>) -> ControlFlow<()> {
        self.runs += 1;
        match ended {
            Err(failure) => {
                if self.failure.as_ref().is_none_or(|known| failure.seed < known.seed) {
                    self.failure = Some(failure);
                }
                ControlFlow::Break(())
            }
            Ok(outcome) => {
                let Outcome {
                    time_ns,
                    turns,
                    transfers,
                    partial_blocks,
                    fault_coverage,
                    growth_coverage,
                    call_coverage,
                    poll_coverage,
                    endings,
                    ..
                } = outcome;
                self.hard_runs += u64::from(transfers > 1 && !fault_coverage.is_empty());
                self.transfers += transfers;
                self.turns += turns;
                self.longest_ns = self.longest_ns.max(time_ns);
                self.partial_blocks += partial_blocks;
                self.fault_coverage.add(&fault_coverage);
                self.growth_coverage.add(&growth_coverage);
                self.call_coverage.add(&call_coverage);
                self.poll_coverage.add(&poll_coverage);
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
        writeln!(f, "\nWhich fault struck an end in which state, how often:\n{}", self.fault_coverage)?;
        writeln!(
            f,
            "\nWhich fault struck an end in which step of growth, how often:\n{}",
            self.growth_coverage
        )?;
        writeln!(
            f,
            "\nWhich call was made in which state, how often accepted/refused:\n{}",
            self.call_coverage
        )?;
        writeln!(f, "\nWhat happened to a poller's connection in which state:\n{}", self.poll_coverage)?;
        writeln!(f, "\nHow ends ended:")?;
        for (ending, count) in &self.endings {
            writeln!(f, "{count:>9}  {ending}")?;
        }
        Ok(())
    }
}
