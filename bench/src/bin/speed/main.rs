//! superpipe beside the raw limits, in interleaved rounds of the programs that lie beside this one.
//!
//! First every limit sweeps once for its best configuration. Then each round runs every entrant of every
//! contest once, as a fresh process, and what is told of an entrant is the median of its rounds' medians, with
//! the lowest and the highest. Its ratio to the limit is formed in each round, and the median of these is told:
//! a virtual machine's cores can be neighbours in one minute (8 B in 30 ns) and far apart in the next (200 ns),
//! so figures of different rounds don't compare. Nothing is asserted: a figure depends on the machine and on
//! what else runs.

mod contests;
mod runner;
mod table;

use std::fs;
use std::process::ExitCode;

use clap::Parser;
use serde_json::json;
use superpipe_bench::failure::Failure;
use superpipe_bench::pin::Cores;
use superpipe_bench::stats::median;

use contests::{CONTESTS, Contest, Entrant};
use runner::{Figure, Runner};

/// Measures superpipe against the raw limits of this machine, in interleaved rounds
#[derive(Parser)]
#[command(name = "speed", version)]
struct Options {
    /// The two cores
    #[arg(long, default_value = "0,1", value_name = "A,B")]
    cores: Cores,
    /// Interleaved rounds
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Seconds that an entrant is timed in a round
    #[arg(long, default_value_t = 0.2, value_name = "SECONDS")]
    seconds_per_run: f64,
    /// Print one JSON object an entrant to stdout, and the table to stderr
    #[arg(long)]
    json: bool,
}

/// An entrant's place in a contest and what its rounds gave.
struct Standing {
    contest: &'static Contest,
    entrant: &'static Entrant,
    tuned: Vec<String>,
    rounds: Vec<Figure>,
}

impl Standing {
    fn medians_us(&self) -> Vec<f64> {
        self.rounds.iter().map(|figure| figure.p50_us).collect()
    }

    fn median_us(&self) -> f64 {
        median(&self.medians_us())
    }
}

fn main() -> ExitCode {
    Failure::report(measure(&Options::parse()))
}

fn measure(options: &Options) -> Result<(), Failure> {
    warn_of_load();
    let runner = Runner::beside_this_program(options.cores)?;
    let mut standings = Vec::new();
    for contest in CONTESTS {
        for entrant in contest.entrants {
            eprintln!("{}: {}: tuning", contest.name, entrant.name);
            let tuned = runner.tune(entrant)?;
            standings.push(Standing { contest, entrant, tuned, rounds: Vec::new() });
        }
    }
    for round in 1..=options.rounds {
        eprintln!("round {round} of {}", options.rounds);
        // Forwards and backwards in turn: whoever comes first after a pause is not always the same.
        let mut order: Vec<&mut Standing> = standings.iter_mut().collect();
        if round.is_multiple_of(2) {
            order.reverse();
        }
        for standing in order {
            standing.rounds.push(runner.run(standing.entrant, &standing.tuned, options.seconds_per_run)?);
        }
    }
    let table = table::render(&standings);
    if options.json {
        standings.iter().for_each(|standing| println!("{}", to_json(standing, &standings)));
        eprint!("{table}");
    } else {
        print!("{table}");
    }
    Ok(())
}

fn to_json(standing: &Standing, all: &[Standing]) -> serde_json::Value {
    let rounds_us = standing.medians_us();
    let (min_us, max_us) = range(&rounds_us);
    json!({
        "event": "speed", "contest": standing.contest.name, "entrant": standing.entrant.name,
        "bytes": standing.contest.bytes, "median_us": standing.median_us(),
        "min_us": min_us, "max_us": max_us,
        "times_limit": median(&times_limit(standing, all)), "aim_times_limit": standing.contest.aim_times_limit,
        "tuned": standing.tuned.join(" "), "rounds_us": rounds_us,
    })
}

/// How many times as long as the contest's first entrant, the limit, this one takes: round by round.
fn times_limit(standing: &Standing, all: &[Standing]) -> Vec<f64> {
    let limit = all.iter().find(|other| other.contest.name == standing.contest.name).unwrap_or(standing);
    standing.rounds.iter().zip(&limit.rounds).map(|(own, limit)| own.p50_us / limit.p50_us).collect()
}

/// The lowest and the highest.
fn range(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, 0.0), |(low, high), &value| (low.min(value), high.max(value)))
}

fn warn_of_load() {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = load.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0.0);
    if load > 0.3 {
        eprintln!("warning: the machine is not idle (load {load}): the figures will be too high");
    }
}
