//! `swarm`: many seeds.

use core::time::Duration;
use std::process::ExitCode;
use std::thread;

use clap::Args;
use superpipe_sim::{StopCondition, Swarm};

use super::EXIT_INTEGRITY;

#[derive(Args)]
pub(super) struct SwarmArguments {
    /// Run for this many seconds, at most an hour
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(1..=3600), required_unless_present = "runs")]
    seconds: Option<u64>,
    /// Run until this many runs had a fault and several transfers
    #[arg(long, value_name = "N", conflicts_with = "seconds")]
    runs: Option<u64>,
    /// First seed
    #[arg(long, default_value_t = 0, value_name = "SEED")]
    first: u64,
    /// Number of threads; default: one per core
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Fail if a reachable fault or call was never seen in a state; needs 100,000 runs
    #[arg(long)]
    every_state: bool,
}

pub(super) fn swarm(options: &SwarmArguments) -> ExitCode {
    let SwarmArguments { seconds, runs, first, threads, every_state } = *options;
    let until =
        runs.map_or(StopCondition::Time(Duration::from_secs(seconds.unwrap_or(1))), StopCondition::Runs);
    let threads = threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    let swarm = Swarm::run(first, until, threads);
    if let Some(failure) = &swarm.failure {
        eprintln!("after {} runs:\n{failure}", swarm.runs);
        return ExitCode::from(EXIT_INTEGRITY);
    }
    print!("{swarm}");
    if !every_state {
        return ExitCode::SUCCESS;
    }
    let (missing, defects) = (swarm.fault_coverage.missing(), swarm.call_coverage.defects());
    if !missing.is_empty() {
        let missing: Vec<_> = missing
            .iter()
            .map(|(fault, end_state)| format!("{} at an end that {end_state}", fault.name()))
            .collect();
        eprintln!("never struck, but can: {}", missing.join("; "));
    }
    let (missing_steps, missing_cases) =
        (swarm.growth_coverage.missing(), swarm.growth_coverage.missing_cases());
    for (fault, step) in &missing_steps {
        eprintln!("never struck, but can: {} at an end that {}", fault.name(), step.name());
    }
    for case in &missing_cases {
        eprintln!("never met: {}", case.name());
    }
    for (call, end_state, is_accepted, defect) in &defects {
        let how = if *is_accepted { "accepted" } else { "refused" };
        eprintln!("{} was {how} in state '{end_state}', {defect}", call.name());
    }
    let polled = swarm.poll_coverage.defects();
    polled.iter().for_each(|defect| eprintln!("a poller's connection: {defect}"));
    let is_complete =
        polled.is_empty() && missing.is_empty() && missing_steps.is_empty() && missing_cases.is_empty();
    if is_complete && defects.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_INTEGRITY) }
}
