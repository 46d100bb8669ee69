//! Measuring: part by part, in rounds of each distance of the cores, in which every contestant has its turn.
//!
//! A visit is one contestant's measurement of one test and size, some 50 ms, with a probe of the distance before and after it. `sequence` says
//! which visit is next.

mod contestants;
mod environment;
mod launch;
mod limits;
mod machine;
mod peers;
mod rperf;
mod sequence;
mod waiting;

use core::time::Duration;
use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use serde_json::Value;
use superpipe_bench::failure::Failure;
use superpipe_bench::options::Cores;
use superpipe_bench::probe::Distance;

use crate::class::Class;
use crate::figures::{Figures, Round};
use crate::plan::{Cell, LATENCY, Part};
use contestants::Contestant;
use environment::Environment;
use rperf::Rperf;
use sequence::{Sequence, Slice, Visit};

/// The load average above which the machine is not idle.
const LOAD_MAX: f64 = 0.5;
/// Time until the next probe if there is nothing to measure at the present distance.
const IDLE: Duration = Duration::from_millis(50);
const MINUTES_MAX: f64 = 24.0 * 60.0;

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
    /// Rounds of a part at each distance of the cores; up to twice as many are run while others lack theirs
    #[arg(long, default_value_t = 9, value_parser = at_least_one)]
    rounds: usize,
    /// Minutes for all parts but waiting: distances that are not seen long enough within them have fewer rounds
    #[arg(long, default_value_t = 20.0, value_parser = minutes)]
    minutes: f64,
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
    let chosen: Vec<Part> = chosen.collect();
    let end = Instant::now() + Duration::from_secs_f64(options.minutes * 60.0);
    for (index, &part) in chosen.iter().enumerate() {
        let shares: u32 = chosen[index..].iter().map(|part| part.share()).sum();
        let now = Instant::now();
        let until = now + end.saturating_duration_since(now) * part.share() / shares.max(1);
        let mut figures = match part {
            Part::Waiting => waiting::run(&environment, options)?,
            _ => run_part(&environment, options, part, until)?,
        };
        figures.facts.clone_from(&facts);
        figures.write(&options.dir.join("benchmarks").join(format!("{}.jsonl", part.name())))?;
    }
    Ok(())
}

fn minutes(text: &str) -> Result<f64, String> {
    let minutes = text.parse().ok().filter(|minutes| (0.0..=MINUTES_MAX).contains(minutes));
    minutes.ok_or_else(|| format!("'{text}' is not a number of minutes from 0 to {MINUTES_MAX}"))
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

/// What a visit took, with the least and the most time of 8 bytes around it.
struct Taken {
    timings: Vec<Timing>,
    least_ns: f64,
    most_ns: f64,
}

/// Measures until each distance has its rounds, or the time is over.
fn run_part(
    environment: &Environment,
    options: &Options,
    part: Part,
    until: Instant,
) -> Result<Figures, Failure> {
    let is_quick = environment.is_quick;
    let (wanted, most) = if is_quick { (1, 1) } else { (options.rounds, 2 * options.rounds) };
    let _server = Rperf::new(environment)?;
    let mut contestants = Contestant::all(part, options.peers);
    let mut sequence = Sequence::new(contestants.len(), wanted, most);
    let mut rounds = Rounds::default();
    let start = Instant::now();
    let now_ns = || u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let mut at = environment.probe()?;
    // A quick run takes the first distance for all.
    while !sequence.is_done() && (is_quick || Instant::now() < until) {
        let Some(step) = sequence.next(at.distance) else {
            thread::sleep(IDLE);
            at = environment.probe()?;
            continue;
        };
        let units = part.units(step.round, is_quick);
        let contestant = &mut contestants[step.contestant];
        if contestant.prepare(environment, &units[step.unit], step.distance)? && !is_quick {
            at = environment.probe()?;
            continue;
        }
        let begin_ns = now_ns();
        let timings = contestant.visit(environment, part, &units[step.unit], step.distance)?;
        let after = if is_quick { at } else { environment.probe()? };
        let taken = Taken { timings, least_ns: at.ns.min(after.ns), most_ns: at.ns.max(after.ns) };
        let visit = Visit { step, begin_ns, end_ns: now_ns(), after: after.distance, taken };
        if let Some(slice) = sequence.record(visit, units.len()) {
            if slice.is_last {
                eprintln!("{}: {}, round {} of {wanted}", part.name(), slice.distance, slice.round + 1);
            }
            rounds.add(part, &contestants, &slice);
        }
        at = after;
    }
    let seen = Distance::ALL.map(|at| format!("{} {}", sequence.rounds(at), at.name())).join(", ");
    eprintln!("{}: complete rounds: {seen}", part.name());
    let cells = part.cells(is_quick);
    let mut figures = rounds.figures;
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

/// The figures of a part, and the places of the rounds of each distance among its rounds.
#[derive(Default)]
struct Rounds {
    figures: Figures,
    places: [Vec<usize>; Distance::ALL.len()],
}

impl Rounds {
    fn add(&mut self, part: Part, contestants: &[Contestant], slice: &Slice<Taken>) {
        let places = &mut self.places[slice.distance as usize];
        if slice.round == places.len() {
            places.push(self.figures.rounds.len());
            let (class, load) = (Class::At(slice.distance), environment::load());
            let none = Round { class, least_ns: f64::INFINITY, most_ns: 0.0, again: 0, load };
            self.figures.rounds.push(none);
        }
        let place = places[slice.round];
        self.figures.rounds[place].again += slice.again;
        for (contestant, taken) in contestants.iter().zip(&slice.taken) {
            let round = &mut self.figures.rounds[place];
            round.least_ns = round.least_ns.min(taken.least_ns);
            round.most_ns = round.most_ns.max(taken.most_ns);
            contestant.add(&mut self.figures, place, part, &taken.timings);
        }
    }
}
