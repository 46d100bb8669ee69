//! `explore`: every interleaving of small cases.

use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::panic::resume_unwind;
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use clap::Args;
#[cfg(superpipe_planted)]
use superpipe_core::planted::{Bug, choose};
use superpipe_sim::explore::{Case, Explored, Violation, cases, explore};

use super::EXIT_INTEGRITY;
#[cfg(superpipe_planted)]
use super::planted::by_name;

#[derive(Args)]
pub(super) struct ExploreArguments {
    /// Only cases whose names contain this
    #[arg(default_value = "")]
    part: String,
    /// Plant each bug in core in turn, and print which case finds it first
    #[cfg(superpipe_planted)]
    #[arg(long)]
    planted: bool,
    /// Only this bug, by its name
    #[cfg(superpipe_planted)]
    #[arg(long, value_name = "NAME", value_parser = by_name, requires = "planted")]
    bug: Option<Bug>,
}

/// Table row of a case, or the header.
struct Row<'a>(&'a str, Option<Explored>);

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(name, explored) = self;
        let Some(Explored { states, transitions, depth, ends }) = explored else {
            return write!(
                f,
                "{name:<60} {:>9} {:>12} {:>6} {:>6}",
                "states", "transitions", "depth", "ends"
            );
        };
        write!(f, "{name:<60} {states:>9} {transitions:>12} {depth:>6} {ends:>6}")
    }
}

/// Explores the chosen cases, and prints one line per case. Exits with 6 at the first violation.
pub(super) fn explore_all(options: &ExploreArguments) -> ExitCode {
    let asked: Vec<Case> = cases().into_iter().filter(|case| case.name.contains(&options.part)).collect();
    #[cfg(superpipe_planted)]
    if options.planted {
        return run_planted(&asked, options.bug);
    }
    let begin = Instant::now();
    match print_all(&asked) {
        Ok(()) => {
            eprintln!("explored completely in {:.1} s", begin.elapsed().as_secs_f64());
            ExitCode::SUCCESS
        }
        Err(violation) => {
            eprint!("{violation}");
            ExitCode::from(EXIT_INTEGRITY)
        }
    }
}

/// Explores the cases on all cores, and prints them in their order.
fn print_all(cases: &[Case]) -> Result<(), Violation> {
    let mut all = Explored::default();
    println!("{}", Row("case", None));
    let next = AtomicUsize::new(0);
    let explore_next = || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        cases.get(number).map(|case| (number, explore(case)))
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let mut results = thread::scope(|scope| {
        let explore_all = || core::iter::from_fn(explore_next).collect::<Vec<_>>();
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(explore_all)).collect();
        // A panic outside of a step must not count as a case without violation.
        let joined =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
        joined.flatten().collect::<Vec<_>>()
    });
    results.sort_unstable_by_key(|(number, _)| *number);
    for (number, explored) in results {
        let (case, explored) = (&cases[number], explored?);
        println!("{}", Row(case.name, Some(explored)));
        all.states += explored.states;
        all.transitions += explored.transitions;
        all.depth = all.depth.max(explored.depth);
        all.ends += explored.ends;
    }
    println!("{}", Row("sum", Some(all)));
    Ok(())
}

/// Bugs that no small case shows: they need costs of copies, slices that change, more than the mailbox's 16 control messages, time, a
/// second connection, longer rings, or a device that reads an image after a later WR has completed.
#[cfg(superpipe_planted)]
const NOT_IN_SMALL_CASES: [Bug; 12] = [
    Bug::OutlierTrusted,
    Bug::NeverTriesAgain,
    Bug::ChoiceFlaps,
    Bug::WindowNeverTriesAgain,
    Bug::WindowFlaps,
    Bug::PlannerTakesWorst,
    Bug::LongSlicesCut,
    Bug::MailboxOverwritten,
    Bug::DeadlineWhenIdle,
    Bug::OperationOfAnother,
    Bug::AckOfAnotherEpoch,
    Bug::RetiredUnwritten,
];

/// Prints for each bug which case finds it first, and the number of steps. Exits with 6 if one is not found.
#[cfg(superpipe_planted)]
fn run_planted(cases: &[Case], only: Option<Bug>) -> ExitCode {
    let mut missed = 0;
    println!("{:<20} {:>5}  {:<56} description", "bug", "steps", "case");
    let is_asked = |bug: &Bug| only.map_or(!NOT_IN_SMALL_CASES.contains(bug), |only| only == *bug);
    for bug in Bug::ALL.into_iter().filter(is_asked) {
        choose(Some(bug));
        match cases.iter().find_map(|case| explore(case).err()) {
            Some(Violation { case, description, steps }) => {
                println!("{:<20} {:>5}  {case:<56} {description}", format!("{bug:?}"), steps.len());
            }
            None => {
                missed += 1;
                println!("{:<20}        NOT FOUND", format!("{bug:?}"));
            }
        }
    }
    if missed == 0 {
        return ExitCode::SUCCESS;
    }
    eprintln!("superpipe-sim: {missed} planted bugs were not found");
    ExitCode::from(EXIT_INTEGRITY)
}
