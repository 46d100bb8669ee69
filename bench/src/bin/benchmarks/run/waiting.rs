//! The wait strategies, measured by a program of their own.

use serde_json::Value;
use superpipe_bench::failure::Failure;

use super::world::{self, World};
use super::{Options, launch};
use crate::raw::{Line, Round, Waiting};

/// Every round is a run of the program.
pub(crate) fn run(world: &World, options: &Options) -> Result<Vec<Line>, Failure> {
    let mut lines = Vec::new();
    let (rounds, seconds) = if options.quick { (1, "0.001") } else { (options.rounds, "0.05") };
    for number in 1..=rounds {
        eprintln!("waiting: round {number}");
        let load = world::load();
        let before_ns = world.distance_ns()?;
        let mut command = world.program("waiting")?;
        command.args(["--cores", &world.cores(), "--rounds", "1", "--json", "--seconds-per-config", seconds]);
        if options.quick {
            command.args(["--sizes", "8", "--pauses-us", "100"]);
        }
        let objects = launch::objects(&mut command)?;
        let after_ns = world.distance_ns()?;
        let state = world::state(before_ns, after_ns);
        lines.push(Line::Round(Round { round: number, attempts: 1, before_ns, after_ns, state, load }));
        for object in &objects {
            lines.push(Line::Waiting(row(number, object)?));
        }
    }
    Ok(lines)
}

fn row(round: u32, object: &Value) -> Result<Waiting, Failure> {
    let row = serde_json::from_value::<Waiting>(object.clone())
        .map_err(|error| Failure::Usage(format!("waiting printed {object}: {error}")))?;
    Ok(Waiting { round, ..row })
}
