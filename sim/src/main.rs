//! Runs the simulator: one seed, or as many as there is time for.
#![forbid(unsafe_code)]

#[cfg(superpipe_planted)]
mod planted;

use core::time::Duration;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, Subcommand};
use superpipe_sim::{Case, Failure, Outcome, run};

/// As the tools have it: what came is not what was sent.
const EXIT_INTEGRITY: u8 = 6;

/// As the tools have it: a file could not be written.
const EXIT_LOCAL_IO: u8 = 8;

/// superpipe's core in virtual time, with faults, decided by seeds
#[derive(Parser)]
#[command(name = "superpipe-sim", version)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run one seed, and say how it ended
    Run {
        /// Decides everything
        #[arg(long)]
        seed: u64,
        /// Write what happened there, one line an event
        #[arg(long, value_name = "FILE")]
        trace: Option<PathBuf>,
    },
    /// Run one seed after the other until one fails or the time is over
    Swarm {
        /// How long, at most an hour
        #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(1..=3600))]
        seconds: u64,
        /// The first seed
        #[arg(long, default_value_t = 0, value_name = "SEED")]
        first: u64,
    },
    /// Run a seed that failed again, and print what happened
    Replay {
        /// As the failure said it
        seed: u64,
    },
    /// Plant one bug in core after the other, and run the swarm until it is caught
    #[cfg(superpipe_planted)]
    Planted(planted::PlantedOptions),
}

fn main() -> ExitCode {
    // A checker's panic is told in one line, by whoever ran the seed.
    std::panic::set_hook(Box::new(|_| {}));
    match Options::parse().command {
        Command::Run { seed, trace: None } => tell(&run(&Case::from_seed(seed), false)),
        Command::Run { seed, trace: Some(file) } => {
            let ended = run(&Case::from_seed(seed), true);
            if let Err(error) = fs::write(&file, trace(&ended)) {
                eprintln!("superpipe-sim: cannot write {}: {error}", file.display());
                return ExitCode::from(EXIT_LOCAL_IO);
            }
            tell(&ended)
        }
        Command::Swarm { seconds, first } => swarm(first, Duration::from_secs(seconds)),
        Command::Replay { seed } => {
            let ended = run(&Case::from_seed(seed), true);
            print!("{}", trace(&ended));
            tell(&ended)
        }
        #[cfg(superpipe_planted)]
        Command::Planted(options) => planted::hunt(&options),
    }
}

fn trace(ended: &Result<Outcome, Failure>) -> &str {
    match ended {
        Ok(outcome) => &outcome.trace,
        Err(failure) => &failure.trace,
    }
}

fn tell(ended: &Result<Outcome, Failure>) -> ExitCode {
    match ended {
        Ok(outcome) => {
            eprintln!("ended well after {} ns and {} turns", outcome.time_ns, outcome.turns);
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::from(EXIT_INTEGRITY)
        }
    }
}

fn swarm(first: u64, time: Duration) -> ExitCode {
    let begin = Instant::now();
    let mut seed = first;
    while begin.elapsed() < time {
        let ended = run(&Case::from_seed(seed), false);
        seed = seed.wrapping_add(1);
        if ended.is_err() {
            eprintln!("run {} failed:", seed.wrapping_sub(first));
            return tell(&ended);
        }
    }
    eprintln!("{} runs, seeds from {first} on, all ended well", seed.wrapping_sub(first));
    ExitCode::SUCCESS
}
