//! Measuring: part by part, in rounds in which every contestant has its turn.

mod contestants;
mod environment;
mod launch;
mod limits;
mod machine;
mod peers;
mod rperf;
mod waiting;

use std::path::PathBuf;

use serde_json::Value;
use superpipe_bench::failure::Failure;
use superpipe_bench::options::Cores;

use crate::figures::{Distance, Figures, Round};
use crate::plan::{Cell, LATENCY, Part};
use contestants::Contestant;
use environment::Environment;
use rperf::Rperf;

/// Runs of a round during which the distance of the cores changes.
const ATTEMPTS_MAX: u32 = 3;
/// The load average above which the machine is not idle.
const LOAD_MAX: f64 = 0.5;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Directory of benchmarks/, which has a file per part
    #[arg(long, default_value = "target/benchmarks", value_name = "DIR")]
    dir: PathBuf,
    /// The two cores, the client's first
    #[arg(long, default_value = "0,1", value_name = "A,B")]
    cores: Cores,
    /// Measure only these parts; the files of the others stay as they are
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Rounds of a part at the same distance of the cores; up to twice as many are run for that
    #[arg(long, default_value_t = 7, value_parser = at_least_one)]
    rounds: usize,
    /// Measure the peers as well, which scripts/peers.sh must have set up
    #[arg(long)]
    peers: bool,
    /// Directory of rperf [default: the directory of this program]
    #[arg(long, value_name = "DIR")]
    tools: Option<PathBuf>,
    /// Run one short round, to check that everything works
    #[arg(long)]
    quick: bool,
}

/// Measures the chosen parts.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let environment = Environment::new(options.cores, options.quick, options.tools.as_deref())?;
    let load = environment::load();
    if load > LOAD_MAX && !options.quick {
        eprintln!("warning: the machine is not idle (load {load}): the figures will be too high");
    }
    // before anything is written: a changed work tree is no longer that of the commit
    let facts = machine::describe(&environment);
    let chosen =
        Part::LOCAL.into_iter().filter(|part| options.only.is_empty() || options.only.contains(part));
    for part in chosen {
        let mut figures = match part {
            Part::Waiting => waiting::run(&environment, options)?,
            _ => run_part(&environment, options, part)?,
        };
        figures.facts.clone_from(&facts);
        figures.write(&options.dir.join("benchmarks").join(format!("{}.jsonl", part.name())))?;
    }
    Ok(())
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&count| count > 0).ok_or_else(|| format!("'{text}' is not a number from 1 on"))
}

/// The time of one cell in one round.
pub(crate) struct Timing {
    cell: Cell,
    us: f64,
    /// the first message of a connection
    first_us: Option<f64>,
}

impl Timing {
    /// Reads a program's object: the median of half round trips, or the average of a stream, in which messages may arrive in
    /// bunches.
    fn new(object: &Value, cell: Cell) -> Self {
        let us = |name: &str| object[name].as_f64();
        let compared = if cell.test == LATENCY { "p50_us" } else { "avg_us" };
        Self { cell, us: us(compared).unwrap_or(f64::NAN), first_us: us("first_us") }
    }
}

fn run_part(environment: &Environment, options: &Options, part: Part) -> Result<Figures, Failure> {
    let cells = part.cells(options.quick);
    let mut contestants = Contestant::all(part, options.peers);
    let server = Rperf::new(environment)?;
    let mut figures = Figures::default();
    let rounds_wanted = if options.quick { 1 } else { options.rounds };
    for round in 0..2 * rounds_wanted {
        eprintln!("{}: round {}", part.name(), round + 1);
        let ran = run_round(environment, &server, part, round, &cells, &mut contestants)?;
        figures.rounds.push(ran.0);
        for (index, timings) in ran.1 {
            contestants[index].add(&mut figures, round, part, &timings);
        }
        let count = |distance| figures.round_count(distance);
        if count(Distance::SameCluster).max(count(Distance::OtherCluster)) >= rounds_wanted {
            break;
        }
    }
    for contestant in &contestants {
        let described = contestant.describe(environment, part, &cells)?;
        // superpipe takes part once per kind of memory
        if figures.contestants.iter().all(|other| other.id != described.id) {
            figures.contestants.push(described);
        }
        contestant.add_bests(&mut figures, &cells);
    }
    Ok(figures)
}

/// A round's timings, by the index of the contestant.
type Timings = Vec<(usize, Vec<Timing>)>;

/// Runs every contestant once: forwards and backwards in turn, since the first may find the machine in another state.
fn run_round(
    environment: &Environment,
    server: &Rperf,
    part: Part,
    round: usize,
    cells: &[Cell],
    contestants: &mut [Contestant],
) -> Result<(Round, Timings), Failure> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let load = environment::load();
        let now_ns = environment.distance_ns()?;
        let tuned_for = environment::distance(now_ns, now_ns);
        for contestant in &mut *contestants {
            contestant.tune(environment, cells, tuned_for)?;
        }
        // probed again, since tuning took its time
        let before_ns = environment.distance_ns()?;
        let mut order: Vec<usize> = (0..contestants.len()).collect();
        if !round.is_multiple_of(2) {
            order.reverse();
        }
        let mut timings = Vec::new();
        for index in order {
            timings.push((index, contestants[index].run(environment, server, part, cells, tuned_for)?));
        }
        let after_ns = environment.distance_ns()?;
        let mut distance = environment::distance(before_ns, after_ns);
        if distance != tuned_for {
            distance = Distance::Mixed;
        }
        if distance != Distance::Mixed || attempts == ATTEMPTS_MAX || environment.is_quick {
            timings.sort_by_key(|(index, _)| *index);
            return Ok((Round { distance, attempts, before_ns, after_ns, load }, timings));
        }
        eprintln!("{}: the distance of the cores changed; the round is run again", part.name());
    }
}
