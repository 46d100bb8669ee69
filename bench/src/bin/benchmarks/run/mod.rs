//! Measuring: part by part, in rounds in which every contestant has its turn.

mod contestants;
mod launch;
mod limits;
mod machine;
mod peers;
mod rperf;
mod waiting;
mod world;

use std::collections::BTreeMap;
use std::path::PathBuf;

use superpipe_bench::failure::Failure;
use superpipe_bench::pin::Cores;

use crate::plan::{Cell, Part};
use crate::raw::{self, Figure, Line, Round, State};
use contestants::Contestant;
use rperf::Rperf;
use world::World;

/// How often a round is run during which the distance of the cores changed.
const ATTEMPTS_MAX: u32 = 3;
/// A machine with more to do than this is not idle.
const LOAD_MAX: f64 = 0.5;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where benchmarks/ is, with a file for each part
    #[arg(long, default_value = "target/benchmarks", value_name = "DIR")]
    dir: PathBuf,
    /// The two cores, the client's first
    #[arg(long, default_value = "0,1", value_name = "A,B")]
    cores: Cores,
    /// Only these parts; the files of the others stay as they are
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Rounds of a part that must be of one kind; up to twice as many are run for that
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// The peers as well, which scripts/peers.sh must have set up
    #[arg(long)]
    peers: bool,
    /// One short round, to see that everything works
    #[arg(long)]
    quick: bool,
}

/// Measures all parts that are asked for.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let world = World::new(options.cores, options.quick)?;
    let load = world::load();
    if load > LOAD_MAX && !options.quick {
        eprintln!("warning: the machine is not idle (load {load}): the figures will be too high");
    }
    // before anything is written to a work tree, which would then not be the commit's any more
    let machine = machine::describe(&world);
    let chosen = Part::ALL.into_iter().filter(|part| options.only.is_empty() || options.only.contains(part));
    for part in chosen {
        let lines = match part {
            Part::Waiting => waiting::run(&world, options)?,
            _ => run_part(&world, options, part)?,
        };
        let lines = [vec![Line::Machine(machine.clone())], lines].concat();
        raw::write(&options.dir.join("benchmarks").join(format!("{}.jsonl", part.name())), &lines)?;
    }
    Ok(())
}

fn run_part(world: &World, options: &Options, part: Part) -> Result<Vec<Line>, Failure> {
    let cells = part.cells(options.quick);
    let mut contestants = Contestant::all(part, options.peers);
    let server = Rperf::new(world)?;
    let mut rounds = Vec::new();
    let mut seen: BTreeMap<State, u32> = BTreeMap::new();
    let rounds_wanted = if options.quick { 1 } else { options.rounds };
    for number in 1..=2 * rounds_wanted {
        eprintln!("{}: round {number}", part.name());
        let (round, figures) = run_round(world, &server, part, number, &cells, &mut contestants)?;
        *seen.entry(round.state).or_default() += 1;
        rounds.push(Line::Round(round));
        rounds.extend(figures.into_iter().map(|figure| Line::Figure(Figure { round: number, ..figure })));
        if seen.iter().any(|(&state, &count)| state != State::Mixed && count >= rounds_wanted) {
            break;
        }
    }
    let mut described: Vec<raw::Contestant> = Vec::new();
    for contestant in &contestants {
        let contestant = contestant.describe(world, part, &cells)?;
        // superpipe takes part once for each kind of memory
        if described.iter().all(|other| other.id != contestant.id) {
            described.push(contestant);
        }
    }
    Ok(described.into_iter().map(Line::Contestant).chain(rounds).collect())
}

/// Every contestant once: forwards and backwards in turn, since whoever comes first may find the machine otherwise.
fn run_round(
    world: &World,
    server: &Rperf,
    part: Part,
    number: u32,
    cells: &[Cell],
    contestants: &mut [Contestant],
) -> Result<(Round, Vec<Figure>), Failure> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let load = world::load();
        let now_ns = world.distance_ns()?;
        let tuned_for = world::state(now_ns, now_ns);
        for contestant in &mut *contestants {
            contestant.tune(world, cells, tuned_for)?;
        }
        // tuning took its time
        let before_ns = world.distance_ns()?;
        let mut order: Vec<usize> = (0..contestants.len()).collect();
        if number.is_multiple_of(2) {
            order.reverse();
        }
        let mut figures = Vec::new();
        for index in order {
            figures.extend(contestants[index].run(world, server, part, cells, tuned_for)?);
        }
        let after_ns = world.distance_ns()?;
        let mut state = world::state(before_ns, after_ns);
        if state != tuned_for {
            state = State::Mixed;
        }
        if state != State::Mixed || attempts == ATTEMPTS_MAX || world.is_quick {
            return Ok((Round { round: number, attempts, before_ns, after_ns, state, load }, figures));
        }
        eprintln!("{}: the distance of the cores changed; once more", part.name());
    }
}
