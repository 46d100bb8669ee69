//! The wait strategies, measured by a program of their own.

use superpipe_bench::failure::Failure;

use super::environment::{self, Environment};
use super::{Options, launch};
use crate::class::Class;
use crate::figures::{Figures, Round, Series};
use crate::plan::LATENCY;

/// Figures of one measurement: the suffix of the test, and their name in the program's output.
const FIGURES: [(&str, &str); 4] = [
    ("", "p50_us"),
    (" p99", "p99_us"),
    (" client", "client_cpu_percent"),
    (" server", "server_cpu_percent"),
];

/// Runs the program once per round.
pub(crate) fn run(environment: &Environment, options: &Options) -> Result<Figures, Failure> {
    let mut figures = Figures::default();
    let (rounds, seconds) = if options.quick { (1, "0.001") } else { (options.rounds, "0.05") };
    for round in 0..rounds {
        eprintln!("waiting: round {}", round + 1);
        let load = environment::load();
        let before = environment.probe()?;
        let mut command = environment.program("waiting")?;
        command.args([
            "--cores",
            &environment.cores(),
            "--rounds",
            "1",
            "--json",
            "--seconds-per-config",
            seconds,
        ]);
        if options.quick {
            command.args(["--sizes", "8", "--pauses-us", "100"]);
        }
        for object in &launch::objects(&mut command)? {
            let fail = || Failure::Usage(format!("waiting printed {object}"));
            let text = |name: &str| object[name].as_str().ok_or_else(fail);
            let (test, who, place) = (text("test")?, text("wait")?, text("placement")?);
            let size = if test == LATENCY { &object["bytes"] } else { &object["pause_us"] };
            let size = size.as_u64().and_then(|size| usize::try_from(size).ok()).ok_or_else(fail)?;
            for (suffix, name) in FIGURES {
                let test = format!("{test}{suffix}");
                let figure = object[name].as_f64().ok_or_else(fail)?;
                figures.add(round, Series { test: &test, who, place, size }, figure);
            }
        }
        let after = environment.probe()?;
        let [least_ns, most_ns] = [before.ns.min(after.ns), before.ns.max(after.ns)];
        figures.rounds.push(Round { class: Class::of(least_ns, most_ns), least_ns, most_ns, again: 0, load });
    }
    Ok(figures)
}
