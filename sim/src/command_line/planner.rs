//! `planner`: planned messages beside the best protocol, on machines that the planner does not know.

use std::process::ExitCode;

use clap::Args;
#[cfg(superpipe_planted)]
use superpipe_core::planted::{Bug, choose};
use superpipe_sim::{ChangedPhase, PlannedCell, check_changes, check_planner};

use super::EXIT_INTEGRITY;
#[cfg(superpipe_planted)]
use super::planted::by_name;

/// Most percent by which planned messages may take longer than by the best protocol.
const LOSS_PERCENT_MAX: f64 = 10.0;

#[derive(Args)]
pub(super) struct PlannerArguments {
    /// Number of machines
    #[arg(long, value_name = "N", default_value_t = 12)]
    machines: u64,
    /// Print every cell, and not only those that lose most
    #[arg(long)]
    all: bool,
    /// Plant this bug in core: a cell must lose too much
    #[cfg(superpipe_planted)]
    #[arg(long, value_name = "NAME", value_parser = by_name)]
    bug: Option<Bug>,
}

/// Most percent that predictions of messages after a change may be off.
const OFF_PERCENT_MAX: f64 = 25.0;

/// Makes the check, and prints the cells that lose most. Exits with 6 if one loses too much, or with a bug if none does.
pub(super) fn check(options: &PlannerArguments) -> ExitCode {
    #[cfg(superpipe_planted)]
    choose(options.bug);
    #[cfg(superpipe_planted)]
    let is_planted = options.bug.is_some();
    #[cfg(not(superpipe_planted))]
    let is_planted = false;
    let mut cells = match check_planner(options.machines) {
        Ok(cells) => cells,
        Err(text) => {
            eprintln!("superpipe-sim: {text}");
            return ExitCode::from(EXIT_INTEGRITY);
        }
    };
    cells.sort_by(|one, other| other.loss_percent().total_cmp(&one.loss_percent()));
    println!(
        "{:>7} {:>8}  {:<8} {:<16} {:<16} {:>10} {:>10} {:>7}",
        "machine", "bytes", "memory", "agreed", "best", "ns", "planned", "loss"
    );
    let shown = if options.all { cells.len() } else { 10 };
    for cell in cells.iter().take(shown) {
        let PlannedCell { seed, bytes, memory, agreed, best: (protocol, ns), planned_ns } = cell;
        let loss = cell.loss_percent();
        println!(
            "{seed:>7} {bytes:>8}  {memory:<8} {:<16} {:<16} {ns:>10} {planned_ns:>10} {loss:>5.1} %",
            agreed.name(),
            protocol.name()
        );
    }
    let missed = cells.iter().filter(|cell| cell.loss_percent() > LOSS_PERCENT_MAX).count();
    println!("{missed} of {} cells lose more than {LOSS_PERCENT_MAX} %", cells.len());
    let changes = match check_changes(options.machines) {
        Ok(changes) => changes,
        Err(text) => {
            eprintln!("superpipe-sim: {text}");
            return ExitCode::from(EXIT_INTEGRITY);
        }
    };
    let missed = missed + print_changes(changes);
    if (missed > 0) == is_planted { ExitCode::SUCCESS } else { ExitCode::from(EXIT_INTEGRITY) }
}

/// Prints the phases of changing workloads that lose most. Returns the number of those that lose too much, or whose predictions are off.
fn print_changes(mut phases: Vec<ChangedPhase>) -> usize {
    phases.sort_by(|one, other| other.loss_percent().total_cmp(&one.loss_percent()));
    println!(
        "\n{:>7} {:>8} {:>8}  {:<8} {:<16} {:>10} {:>10} {:>7} {:>10}",
        "machine", "workload", "bytes", "memory", "last", "best ns", "planned", "loss", "predicted"
    );
    for phase in phases.iter().take(6) {
        let ChangedPhase {
            seed,
            place: [workload, index],
            bytes,
            memory,
            best_ns,
            planned_ns,
            way,
            predicted,
        } = phase;
        let (loss, way) = (phase.loss_percent(), way.name());
        println!(
            "{seed:>7} {:>8} {bytes:>8}  {memory:<8} {way:<16} {best_ns:>10} {planned_ns:>10} {loss:>5.1} % {predicted:>10.2}",
            format!("{workload}.{index}")
        );
    }
    let is_missed = |phase: &&ChangedPhase| {
        phase.loss_percent() > LOSS_PERCENT_MAX || (phase.predicted - 1.0).abs() * 100.0 > OFF_PERCENT_MAX
    };
    let missed = phases.iter().filter(is_missed).count();
    println!(
        "{missed} of {} phases of changing workloads lose more than {LOSS_PERCENT_MAX} %, or predictions are off by more than {OFF_PERCENT_MAX} %",
        phases.len()
    );
    missed
}
