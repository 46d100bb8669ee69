//! `run` and `replay`: one seed or scenario.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use superpipe_sim::{Case, Outcome, RunFailure, RunOptions, Scenario, Trace, run};

use super::{EXIT_INTEGRITY, EXIT_LOCAL_IO, output};

#[derive(Args)]
pub(super) struct RunArguments {
    /// Seed that decides everything
    #[arg(long, required_unless_present = "scenario")]
    seed: Option<u64>,
    /// Scenario written by hand
    #[arg(long, value_name = "NAME", conflicts_with_all = ["seed", "crowd"], value_parser = scenarios())]
    scenario: Option<Scenario>,
    /// Stop after this many turns
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// Run this many clients of one server, without faults, instead of the seed's case
    #[arg(long, value_name = "CLIENTS", value_parser = clap::value_parser!(u16).range(1..=9999))]
    crowd: Option<u16>,
    /// Write a trace to FILE, one line per event
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Draw a Gantt chart to FILE, as SVG
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

fn scenarios() -> impl TypedValueParser<Value = Scenario> {
    let value = |scenario: Scenario| PossibleValue::new(scenario.name).help(scenario.about);
    PossibleValuesParser::new(Scenario::ALL.map(value))
        .try_map(|name| Scenario::by_name(&name).ok_or("is not a scenario"))
}

/// Runs a seed again, and prints its trace.
pub(super) fn replay(seed: u64) -> ExitCode {
    let ended = run(&Case::from_seed(seed), RunOptions { traced: true, turns_max: None });
    print!("{}", trace(&ended));
    report(&ended)
}

pub(super) fn run_one(options: &RunArguments) -> ExitCode {
    let RunArguments { seed, scenario, steps, crowd, trace: lines, picture } = options;
    let seed = seed.unwrap_or_default();
    let title = scenario.map_or_else(|| format!("seed {seed}"), |scenario| scenario.about.to_owned());
    let case = match (scenario, crowd) {
        (Some(scenario), _) => scenario.case(),
        (None, Some(clients)) => Case::crowd(seed, usize::from(*clients)),
        (None, None) => Case::from_seed(seed),
    };
    let traced = lines.is_some() || picture.is_some();
    let ended = run(&case, RunOptions { traced, turns_max: *steps });
    let trace = trace(&ended);
    let lines = lines.as_ref().map(|file| (file, Ok(trace.to_string())));
    let picture = picture.as_ref().map(|file| (file, trace.draw(&title)));
    for (file, text) in lines.into_iter().chain(picture) {
        if let Err(error) = text.and_then(|text| Ok(output::write(file, &text)?)) {
            eprintln!("superpipe-sim: cannot write {}: {error}", file.display());
            return ExitCode::from(EXIT_LOCAL_IO);
        }
    }
    report(&ended)
}

const fn trace(ended: &Result<Outcome, RunFailure>) -> &Trace {
    match ended {
        Ok(outcome) => &outcome.trace,
        Err(failure) => &failure.trace,
    }
}

fn report(ended: &Result<Outcome, RunFailure>) -> ExitCode {
    match ended {
        Ok(Outcome { time_ns, turns, endings, .. }) => {
            let endings: Vec<_> = endings.iter().map(|(ending, count)| format!("{count} {ending}")).collect();
            eprintln!("succeeded after {time_ns} ns and {turns} turns: {}", endings.join("; "));
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::from(EXIT_INTEGRITY)
        }
    }
}
