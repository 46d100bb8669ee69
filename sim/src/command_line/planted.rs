//! `planted`: bugs planted in core, and the number of runs after which the swarm finds each of them.

use core::sync::atomic::{AtomicU64, Ordering};
use std::panic::resume_unwind;
use std::process::ExitCode;
use std::thread;

use clap::Args;
use superpipe_core::planted::{Bug, choose};
use superpipe_sim::{Case, RunFailure, RunOptions, run};

use super::EXIT_INTEGRITY;

/// Runs that must succeed without a planted bug, so that a failure proves the bug.
const SOUND_RUNS: u64 = 3000;

/// Bugs that the explorer finds, and the check of distances, and one of the planner, which no endpoint asks yet.
const FOUND_ELSEWHERE: [Bug; 7] = [
    Bug::EpochUnzeroed,
    Bug::OutlierTrusted,
    Bug::NeverTriesAgain,
    Bug::ChoiceFlaps,
    Bug::WindowNeverTriesAgain,
    Bug::WindowFlaps,
    Bug::PlannerTakesWorst,
];

/// Most characters of a failure's description. The seed repeats the rest.
const CHARS_MAX: usize = 110;

#[derive(Args)]
pub(super) struct PlantedArguments {
    /// Most runs per bug
    #[arg(long, default_value_t = 200_000, value_name = "N")]
    runs_max: u64,
    /// Only this bug, by its name in the table
    #[arg(long, value_name = "NAME", value_parser = by_name)]
    bug: Option<Bug>,
}

pub(super) fn by_name(name: &str) -> Result<Bug, String> {
    let found = Bug::ALL.into_iter().find(|bug| format!("{bug:?}") == name);
    found.ok_or_else(|| format!("not one of {:?}", Bug::ALL))
}

/// Runs seeds from 0 on for each bug until one fails. Exits with 6 if a bug is not found.
pub(super) fn run_planted(options: &PlantedArguments) -> ExitCode {
    choose(None);
    if let Some(failure) = first_failure(SOUND_RUNS) {
        eprintln!("without any planted bug:\n{failure}");
        return ExitCode::from(EXIT_INTEGRITY);
    }
    println!("{SOUND_RUNS} runs without a planted bug succeeded\n");
    println!("{:<20} {:>6}  failure of the last run", "bug", "runs");
    let mut missed = 0;
    let all = || Bug::ALL.into_iter().filter(|bug| !FOUND_ELSEWHERE.contains(bug)).collect();
    for bug in options.bug.map_or_else(all, |bug| vec![bug]) {
        choose(Some(bug));
        let (runs, what) = match first_failure(options.runs_max) {
            Some(failure) => (failure.seed + 1, failure.description),
            None => {
                missed += 1;
                (options.runs_max, "NOT FOUND".to_owned())
            }
        };
        let what: String = what.lines().next().unwrap_or_default().chars().take(CHARS_MAX).collect();
        println!("{:<20} {runs:>6}  {what}", format!("{bug:?}"));
    }
    if missed == 0 {
        return ExitCode::SUCCESS;
    }
    eprintln!("superpipe-sim: {missed} planted bugs were not found");
    ExitCode::from(EXIT_INTEGRITY)
}

/// Returns the failure with the smallest seed below `runs_max`. The result does not depend on the number of threads.
fn first_failure(runs_max: u64) -> Option<RunFailure> {
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let smallest = AtomicU64::new(runs_max);
    let search = |worker: usize| {
        for seed in (worker as u64..runs_max).step_by(workers) {
            if seed >= smallest.load(Ordering::Relaxed) {
                return None;
            }
            if let Err(failure) = run(&Case::from_seed(seed), RunOptions::default()) {
                smallest.fetch_min(seed, Ordering::Relaxed);
                return Some(failure);
            }
        }
        None
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|worker| scope.spawn(move || search(worker))).collect();
        let results =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
        results.flatten().min_by_key(|failure| failure.seed)
    })
}
