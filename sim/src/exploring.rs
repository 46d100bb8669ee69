//! Explores the small cases, one after the other, and prints what there was of each.

use core::fmt;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
#[cfg(superpipe_planted)]
use superpipe_core::planted::{Bug, choose};
use superpipe_sim::explore::{Case, Explored, Wrong, cases, explore};

use crate::EXIT_INTEGRITY;

#[derive(Args)]
pub(crate) struct ExploreOptions {
    /// Only cases whose names contain this
    #[arg(default_value = "")]
    part: String,
    /// Plant one bug in core after the other, and say which case shows it first
    #[cfg(superpipe_planted)]
    #[arg(long)]
    planted: bool,
}

/// The line of a case, and above the first the names of the columns.
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

/// Explores every case that is asked for, and prints a line of each; 6 at the first that is wrong.
pub(crate) fn explore_all(options: &ExploreOptions) -> ExitCode {
    let asked: Vec<Case> = cases().into_iter().filter(|case| case.name.contains(&options.part)).collect();
    #[cfg(superpipe_planted)]
    if options.planted {
        return hunt(&asked);
    }
    let begin = Instant::now();
    match print_all(&asked) {
        Ok(()) => {
            eprintln!("explored to the end in {:.1} s", begin.elapsed().as_secs_f64());
            ExitCode::SUCCESS
        }
        Err(wrong) => {
            eprint!("{wrong}");
            ExitCode::from(EXIT_INTEGRITY)
        }
    }
}

fn print_all(cases: &[Case]) -> Result<(), Wrong> {
    let mut all = Explored::default();
    println!("{}", Row("case", None));
    for case in cases {
        let explored = explore(case)?;
        println!("{}", Row(case.name, Some(explored)));
        all.states += explored.states;
        all.transitions += explored.transitions;
        all.depth = all.depth.max(explored.depth);
        all.ends += explored.ends;
    }
    println!("{}", Row("together", Some(all)));
    Ok(())
}

/// Bugs that no small case can show: they need more than the mailbox's 16 control messages, time, or a second connection.
#[cfg(superpipe_planted)]
const BEYOND: [Bug; 3] = [Bug::MailboxOverwritten, Bug::DeadlineWhenIdle, Bug::OperationOfAnother];

/// Says of each bug which case shows it first, and after how many steps; 6 if none does for one of them.
#[cfg(superpipe_planted)]
fn hunt(cases: &[Case]) -> ExitCode {
    let mut missed = 0;
    println!("{:<20} {:>5}  {:<56} what is wrong", "bug", "steps", "case");
    for bug in Bug::ALL.into_iter().filter(|bug| !BEYOND.contains(bug)) {
        choose(Some(bug));
        match cases.iter().find_map(|case| explore(case).err()) {
            Some(Wrong { case, what, steps }) => {
                println!("{:<20} {:>5}  {case:<56} {what}", format!("{bug:?}"), steps.len());
            }
            None => {
                missed += 1;
                println!("{:<20}        NOT CAUGHT", format!("{bug:?}"));
            }
        }
    }
    if missed == 0 {
        return ExitCode::SUCCESS;
    }
    eprintln!("superpipe-sim: {missed} planted bugs were not caught");
    ExitCode::from(EXIT_INTEGRITY)
}
