//! One contest as it runs: its entrants' standings, and the distance of the cores for which they were tuned.

use superpipe_bench::failure::Failure;
use superpipe_bench::stats::median;

use crate::contests::{Contest, Entrant};
use crate::runner::Runner;

/// How often a step is repeated during which the distance changed.
const ATTEMPTS: usize = 5;
/// Distances that differ by this factor are not the same: noise stays below it, another cache is beyond.
const DISTANCE_FACTOR: f64 = 2.0;

/// An entrant's place in a contest, and each round's median.
pub(crate) struct Standing {
    pub(crate) contest: &'static Contest,
    pub(crate) entrant: &'static Entrant,
    pub(crate) tuned: Vec<String>,
    pub(crate) rounds_us: Vec<f64>,
    /// what 8 bytes took from core to core around each round
    pub(crate) distances_us: Vec<f64>,
}

impl Standing {
    pub(crate) fn median_us(&self) -> f64 {
        median(&self.rounds_us)
    }
}

/// A contest's standings.
pub(crate) struct Group {
    pub(crate) standings: Vec<Standing>,
    tuned_at_us: f64,
}

impl Group {
    /// The contest with its limits tuned, and no round run.
    pub(crate) fn new(contest: &'static Contest, runner: &Runner) -> Result<Self, Failure> {
        let enter = |entrant| Standing {
            contest,
            entrant,
            tuned: Vec::new(),
            rounds_us: Vec::new(),
            distances_us: Vec::new(),
        };
        let standings = contest.entrants.iter().map(enter).collect();
        let mut group = Self { standings, tuned_at_us: f64::NAN };
        group.tune(runner)?;
        Ok(group)
    }

    /// One round: forwards and backwards in turn, since whoever comes first may find the machine otherwise.
    pub(crate) fn run(&mut self, runner: &Runner, round: u64, seconds: f64) -> Result<(), Failure> {
        let mut attempt = 1;
        let (figures_us, distance_us) = loop {
            let mut order: Vec<usize> = (0..self.standings.len()).collect();
            if round.is_multiple_of(2) {
                order.reverse();
            }
            let before_us = runner.distance_us()?;
            if differ(before_us, self.tuned_at_us) && attempt < ATTEMPTS {
                self.tune(runner)?;
            }
            let mut figures_us = vec![0.0; order.len()];
            for index in order {
                let standing = &self.standings[index];
                figures_us[index] = runner.run(standing.entrant, &standing.tuned, seconds)?;
            }
            let after_us = runner.distance_us()?;
            if !differ(after_us, self.tuned_at_us) || attempt == ATTEMPTS {
                break (figures_us, f64::midpoint(before_us, after_us));
            }
            attempt += 1;
        };
        for (standing, figure_us) in self.standings.iter_mut().zip(figures_us) {
            standing.rounds_us.push(figure_us);
            standing.distances_us.push(distance_us);
        }
        Ok(())
    }

    fn tune(&mut self, runner: &Runner) -> Result<(), Failure> {
        for attempt in 1..=ATTEMPTS {
            let before_us = runner.distance_us()?;
            eprintln!("tuning: {}, cores {:.0} ns apart", self.standings[0].contest.name, before_us * 1000.0);
            for standing in &mut self.standings {
                standing.tuned = runner.tune(standing.entrant)?;
            }
            self.tuned_at_us = runner.distance_us()?;
            if !differ(before_us, self.tuned_at_us) || attempt == ATTEMPTS {
                break;
            }
        }
        Ok(())
    }
}

fn differ(a_us: f64, b_us: f64) -> bool {
    (a_us / b_us).max(b_us / a_us) > DISTANCE_FACTOR
}

#[cfg(test)]
mod tests {
    use super::differ;

    #[test]
    fn noise_is_no_other_distance() {
        assert!(!differ(0.030, 0.048) && !differ(0.048, 0.030));
        assert!(differ(0.048, 0.200) && differ(0.200, 0.030));
    }
}
