//! Plants one bug of core's after the other, and says after how many runs the swarm has caught it.

use core::sync::atomic::{AtomicU64, Ordering};
use std::process::ExitCode;
use std::thread;

use clap::Args;
use superpipe_core::planted::{Bug, choose};
use superpipe_sim::{Case, Failure, Look, run};

use crate::EXIT_INTEGRITY;

/// Runs that must end well where no bug is planted, so that one which fails with a bug means something.
const SOUND_RUNS: u64 = 3000;

/// Of what a failure says: the rest is the case, and the seed tells that, too.
const CHARS_MAX: usize = 110;

#[derive(Args)]
pub(crate) struct PlantedOptions {
    /// Runs for each bug, at most
    #[arg(long, default_value_t = 200_000, value_name = "N")]
    runs_max: u64,
    /// This bug only, by the name that the table gives it
    #[arg(long, value_name = "NAME", value_parser = by_name)]
    bug: Option<Bug>,
}

fn by_name(name: &str) -> Result<Bug, String> {
    let found = Bug::ALL.into_iter().find(|bug| format!("{bug:?}") == name);
    found.ok_or_else(|| format!("not one of {:?}", Bug::ALL))
}

/// Runs seeds from 0 on for each bug until one fails; 6 if none does for one of them.
pub(crate) fn hunt(options: &PlantedOptions) -> ExitCode {
    choose(None);
    if let Some(failure) = first_failure(SOUND_RUNS) {
        eprintln!("without any planted bug:\n{failure}");
        return ExitCode::from(EXIT_INTEGRITY);
    }
    println!("{SOUND_RUNS} runs without a planted bug ended well\n");
    println!("{:<20} {:>6}  what the last one says", "bug", "runs");
    let mut missed = 0;
    for bug in options.bug.map_or(Bug::ALL.to_vec(), |bug| vec![bug]) {
        choose(Some(bug));
        let (runs, what) = match first_failure(options.runs_max) {
            Some(failure) => (failure.seed + 1, failure.what),
            None => {
                missed += 1;
                (options.runs_max, "NOT CAUGHT".to_owned())
            }
        };
        let what: String = what.lines().next().unwrap_or_default().chars().take(CHARS_MAX).collect();
        println!("{:<20} {runs:>6}  {what}", format!("{bug:?}"));
    }
    if missed == 0 {
        return ExitCode::SUCCESS;
    }
    eprintln!("superpipe-sim: {missed} planted bugs were not caught");
    ExitCode::from(EXIT_INTEGRITY)
}

/// The failure with the smallest seed below `runs_max`. As many threads look for it as there are cores, and what they find
/// does not depend on that.
fn first_failure(runs_max: u64) -> Option<Failure> {
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let smallest = AtomicU64::new(runs_max);
    let search = |worker: usize| {
        for seed in (worker as u64..runs_max).step_by(workers) {
            if seed >= smallest.load(Ordering::Relaxed) {
                return None;
            }
            if let Err(failure) = run(&Case::from_seed(seed), Look::default()) {
                smallest.fetch_min(seed, Ordering::Relaxed);
                return Some(failure);
            }
        }
        None
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|worker| scope.spawn(move || search(worker))).collect();
        let found = workers.into_iter().filter_map(|worker| worker.join().ok().flatten());
        found.min_by_key(|failure| failure.seed)
    })
}
