//! `polled`: connections of a poller alone, of the seeds of the swarm that have one, and what idle ones cost.

use std::process::ExitCode;

use clap::Args;
#[cfg(superpipe_planted)]
use superpipe_core::planted::{Bug, choose};
use superpipe_sim::{Case, IdleCosts, PollCoverage, RunOptions, idle_costs, polled_seed, run};

use super::EXIT_INTEGRITY;
#[cfg(superpipe_planted)]
use super::planted::by_name;

/// Most looks that one message may cost: those of rounds while the client prepares the next one. About 7 are measured.
const LOOKS_PER_MESSAGE: u64 = 70;
/// Most looks per second at an idle connection: one with each keepalive, of which there is one in 7.5 s, and as much for those that are sent while it is new.
const IDLE_LOOKS_PER_SECOND: f64 = 0.3;

#[derive(Args)]
pub(super) struct PolledArguments {
    /// Run this many seeds that have a poller, and print what they covered
    #[arg(long, default_value_t = 1000, value_name = "N")]
    runs: u64,
    /// Check what this many idle connections cost beside an active one
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=20_000))]
    idle: u16,
    /// Plant this bug, which a seed must find
    #[cfg(superpipe_planted)]
    #[arg(long, value_name = "NAME", value_parser = by_name)]
    bug: Option<Bug>,
}

pub(super) fn check(options: &PolledArguments) -> ExitCode {
    #[cfg(superpipe_planted)]
    if let Some(bug) = options.bug {
        choose(Some(bug));
        return match first_failure(options.runs) {
            Err(failure) => {
                println!("{bug:?} is found: {failure}");
                ExitCode::SUCCESS
            }
            Ok(_) => {
                eprintln!("superpipe-sim: {} runs do not find {bug:?}", options.runs);
                ExitCode::from(EXIT_INTEGRITY)
            }
        };
    }
    match first_failure(options.runs) {
        Ok(coverage) => print!("{coverage}"),
        Err(failure) => {
            eprintln!("{failure}");
            return ExitCode::from(EXIT_INTEGRITY);
        }
    }
    let [few, many] = [10, usize::from(options.idle)].map(|idle| (idle, idle_costs(idle, 1000)));
    let is_right = [few, many].iter().all(|(idle, costs)| {
        let IdleCosts { looks, messages, idle_looks, idle_ns } = *costs;
        let per_second = idle_looks as f64 / (idle_ns as f64 / 1e9) / *idle as f64;
        println!(
            "{idle:>6} idle beside one: {looks} looks for {messages} messages, then {per_second:.3} looks per second and connection"
        );
        looks <= LOOKS_PER_MESSAGE * messages && per_second <= IDLE_LOOKS_PER_SECOND
    });
    // Sums of times differ by the number of connections that were made before, and so do moments at which the clock is looked at.
    let is_same = many.1.looks.abs_diff(few.1.looks) <= few.1.looks / 100;
    if is_right && is_same {
        return ExitCode::SUCCESS;
    }
    eprintln!("superpipe-sim: idle connections cost a poller too much");
    ExitCode::from(EXIT_INTEGRITY)
}

/// Runs cases until one fails.
fn first_failure(runs: u64) -> Result<PollCoverage, String> {
    let mut coverage = PollCoverage::default();
    for number in 0..runs {
        let ended = run(&Case::from_seed(polled_seed(number)), RunOptions::default());
        coverage.add(&ended.map_err(|failure| failure.to_string())?.poll_coverage);
    }
    Ok(coverage)
}
