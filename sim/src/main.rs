//! Runs the simulator: one seed, or as many as there is time for.
#![forbid(unsafe_code)]

mod exploring;
mod output;
#[cfg(superpipe_planted)]
mod planted;

use core::time::Duration;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use superpipe_sim::{Case, Failure, Look, Outcome, Scenario, Swarm, Trace, Until, run};

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
    /// Run one seed or scenario, and say how it ended
    Run(RunOptions),
    /// Run one seed after the other until one fails or it is enough, and say what they add up to
    Swarm(SwarmOptions),
    /// Run a seed that failed again, and print what happened
    Replay {
        /// As the failure said it
        seed: u64,
    },
    /// Plant one bug in core after the other, and run the swarm until it is caught
    #[cfg(superpipe_planted)]
    Planted(planted::PlantedOptions),
    /// Explore every interleaving of small cases, and count the states
    Explore(exploring::ExploreOptions),
}

#[derive(Args)]
struct RunOptions {
    /// Decides everything
    #[arg(long, required_unless_present = "scenario")]
    seed: Option<u64>,
    /// One of those written by hand
    #[arg(long, value_name = "NAME", conflicts_with_all = ["seed", "crowd"], value_parser = scenarios())]
    scenario: Option<Scenario>,
    /// Stop after so many turns
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// So many clients and one server, without faults, instead of what the seed stands for otherwise
    #[arg(long, value_name = "CLIENTS", value_parser = clap::value_parser!(u16).range(1..=9999))]
    crowd: Option<u16>,
    /// Write what happened there, one line an event
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Draw what happened there, as SVG
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

fn scenarios() -> impl TypedValueParser<Value = Scenario> {
    let value = |scenario: Scenario| PossibleValue::new(scenario.name).help(scenario.about);
    PossibleValuesParser::new(Scenario::ALL.map(value))
        .try_map(|name| Scenario::by_name(&name).ok_or("is not a scenario"))
}

#[derive(Args)]
struct SwarmOptions {
    /// Until so much time is over, at most an hour
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(1..=3600), required_unless_present = "runs")]
    seconds: Option<u64>,
    /// Until there were so many runs with a fault and several transfers
    #[arg(long, value_name = "N", conflicts_with = "seconds")]
    runs: Option<u64>,
    /// The first seed
    #[arg(long, default_value_t = 0, value_name = "SEED")]
    first: u64,
    /// Threads; one for each core by default
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Fail if a fault never struck in a state in which it can, or a call was rarely accepted or refused in one: for 100,000 runs
    #[arg(long)]
    every_state: bool,
}

fn main() -> ExitCode {
    // A checker's panic is told in one line, by whoever ran the seed.
    std::panic::set_hook(Box::new(|_| {}));
    match Options::parse().command {
        Command::Run(options) => run_one(&options),
        Command::Swarm(options) => swarm(&options),
        Command::Replay { seed } => {
            let ended = run(&Case::from_seed(seed), Look { traced: true, turns_max: None });
            print!("{}", trace(&ended));
            tell(&ended)
        }
        #[cfg(superpipe_planted)]
        Command::Planted(options) => planted::hunt(&options),
        Command::Explore(options) => exploring::explore_all(&options),
    }
}

fn run_one(options: &RunOptions) -> ExitCode {
    let RunOptions { seed, scenario, steps, crowd, trace: lines, picture } = options;
    let seed = seed.unwrap_or_default();
    let title = scenario.map_or_else(|| format!("seed {seed}"), |scenario| scenario.about.to_owned());
    let case = match (scenario, crowd) {
        (Some(scenario), _) => scenario.case(),
        (None, Some(clients)) => Case::crowd(seed, usize::from(*clients)),
        (None, None) => Case::from_seed(seed),
    };
    let traced = lines.is_some() || picture.is_some();
    let ended = run(&case, Look { traced, turns_max: *steps });
    let trace = trace(&ended);
    let lines = lines.as_ref().map(|file| (file, Ok(trace.to_string())));
    let picture = picture.as_ref().map(|file| (file, trace.draw(&title)));
    for (file, text) in lines.into_iter().chain(picture) {
        if let Err(error) = text.and_then(|text| Ok(output::write(file, &text)?)) {
            eprintln!("superpipe-sim: cannot write {}: {error}", file.display());
            return ExitCode::from(EXIT_LOCAL_IO);
        }
    }
    tell(&ended)
}

const fn trace(ended: &Result<Outcome, Failure>) -> &Trace {
    match ended {
        Ok(outcome) => &outcome.trace,
        Err(failure) => &failure.trace,
    }
}

fn tell(ended: &Result<Outcome, Failure>) -> ExitCode {
    match ended {
        Ok(Outcome { time_ns, turns, endings, .. }) => {
            let endings: Vec<_> = endings.iter().map(|(ending, count)| format!("{count} {ending}")).collect();
            eprintln!("ended well after {time_ns} ns and {turns} turns: {}", endings.join("; "));
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::from(EXIT_INTEGRITY)
        }
    }
}

fn swarm(options: &SwarmOptions) -> ExitCode {
    let SwarmOptions { seconds, runs, first, threads, every_state } = *options;
    let until = runs.map_or(Until::Time(Duration::from_secs(seconds.unwrap_or(1))), Until::Runs);
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
    let (missing, wrong) = (swarm.tally.missing(), swarm.calls.wrong());
    if !missing.is_empty() {
        let missing: Vec<_> = missing
            .iter()
            .map(|(fault, column)| format!("{} at an end that {column}", fault.name()))
            .collect();
        eprintln!("never struck, and could have: {}", missing.join("; "));
    }
    for (call, column, is_accepted, wrong) in &wrong {
        let how = if *is_accepted { "accepted" } else { "refused" };
        eprintln!("{} was {how}, where the end's state is '{column}', {wrong}", call.name());
    }
    if missing.is_empty() && wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_INTEGRITY) }
}
