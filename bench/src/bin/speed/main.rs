//! superpipe beside the raw limits, in interleaved rounds of the programs that lie beside this one.
//!
//! Every limit sweeps for its best configuration first. Then each round runs every entrant of every contest as
//! a fresh process. What is told of an entrant is the median of its rounds' medians, with the lowest and the
//! highest; its ratio to the limit is formed in each round, and the median of these is told. Nothing is
//! asserted: a figure depends on the machine and on what else runs.
//!
//! A virtual machine's cores can be neighbours in one minute (8 B in 30 ns) and far apart in the next (200 ns).
//! So the distance is probed around whatever is run: what straddled a change is run again, and limits that were
//! tuned at another distance are tuned anew.

mod contests;
mod group;
mod runner;
mod table;

use std::fs;
use std::process::ExitCode;

use clap::Parser;
use serde_json::json;
use superpipe_bench::failure::Failure;
use superpipe_bench::pin::Cores;
use superpipe_bench::stats::median;

use contests::{CONTESTS, Contest};
use group::{Group, Standing};
use runner::Runner;

/// Measures superpipe against the raw limits of this machine, in interleaved rounds
#[derive(Parser)]
#[command(name = "speed", version)]
struct Options {
    /// The two cores
    #[arg(long, default_value = "0,1", value_name = "A,B")]
    cores: Cores,
    /// Only the contests whose names begin so, such as "8 B"
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
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

fn main() -> ExitCode {
    Failure::report(measure(&Options::parse()))
}

fn measure(options: &Options) -> Result<(), Failure> {
    warn_of_load();
    let runner = Runner::beside_this_program(options.cores)?;
    let mut groups = chosen(&options.only)?
        .into_iter()
        .map(|contest| Group::new(contest, &runner))
        .collect::<Result<Vec<_>, _>>()?;
    for round in 1..=options.rounds {
        eprintln!("round {round} of {}", options.rounds);
        for group in &mut groups {
            group.run(&runner, round, options.seconds_per_run)?;
        }
    }
    let standings = groups.into_iter().flat_map(|group| group.standings).collect::<Vec<_>>();
    let table = table::render(&standings);
    if options.json {
        standings.iter().for_each(|standing| println!("{}", to_json(standing, &standings)));
        eprint!("{table}");
    } else {
        print!("{table}");
    }
    Ok(())
}

fn chosen(only: &[String]) -> Result<Vec<&'static Contest>, Failure> {
    let is_chosen = |contest: &&Contest| {
        only.is_empty() || only.iter().any(|start| contest.name.starts_with(start.as_str()))
    };
    let chosen: Vec<_> = CONTESTS.iter().filter(is_chosen).collect();
    if chosen.is_empty() {
        let names: Vec<_> = CONTESTS.iter().map(|contest| contest.name).collect();
        return Err(Failure::Usage(format!("no contest begins so; there are: {}", names.join("; "))));
    }
    Ok(chosen)
}

fn to_json(standing: &Standing, all: &[Standing]) -> serde_json::Value {
    let (min_us, max_us) = range(&standing.rounds_us);
    json!({
        "event": "speed", "contest": standing.contest.name, "entrant": standing.entrant.name,
        "bytes": standing.contest.bytes, "median_us": standing.median_us(),
        "min_us": min_us, "max_us": max_us,
        "times_limit": median(&times_limit(standing, all)), "aim_times_limit": standing.contest.aim_times_limit,
        "tuned": standing.tuned.join(" "), "rounds_us": standing.rounds_us, "distances_us": standing.distances_us,
    })
}

/// How many times as long as the contest's first entrant, the limit, this one takes: round by round.
fn times_limit(standing: &Standing, all: &[Standing]) -> Vec<f64> {
    let limit = all.iter().find(|other| other.contest.name == standing.contest.name).unwrap_or(standing);
    standing.rounds_us.iter().zip(&limit.rounds_us).map(|(own, limit)| own / limit).collect()
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
