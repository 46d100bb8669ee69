//! The raw limits: bare rings, at each size in the configuration that a sweep finds to be the best.

use std::collections::HashMap;
use std::process::Command;

use serde_json::Value;
use superpipe_bench::failure::Failure;
use superpipe_bench::stats::median;

use super::launch;
use super::world::World;
use crate::plan::{Cell, Memory, Test};
use crate::raw::{Figure, State};

const LINES_BYTES: usize = 8;
const SWEEP_ROUNDS: &str = "3";
const SWEEP_SECONDS: &str = "0.004";
const ROUND_SECONDS: &str = "0.03";

/// The limits, with what was found to be their best.
#[derive(Default)]
pub(crate) struct Limits {
    /// the options of the best configuration, by how far apart the cores are
    best: HashMap<(State, Cell), Vec<String>>,
}

impl Limits {
    /// Sweeps for what is not known yet of this state.
    pub(crate) fn tune(&mut self, world: &World, cells: &[Cell], state: State) -> Result<(), Failure> {
        for &cell in cells {
            if self.best.contains_key(&(state, cell)) {
                continue;
            }
            let best = best(&launch::objects(&mut sweep(world, cell)?)?, names(cell));
            let best =
                best.ok_or_else(|| Failure::Usage(format!("no limit was found at {} B", cell.bytes)))?;
            self.best.insert((state, cell), best);
        }
        Ok(())
    }

    /// One visit to the best configuration of each cell.
    pub(crate) fn run(&self, world: &World, cells: &[Cell], state: State) -> Result<Vec<Figure>, Failure> {
        let visit = |&cell| {
            let best = self.best.get(&(state, cell)).map(Vec::as_slice).unwrap_or_default();
            let mut command = command(world, cell)?;
            command.args(best).args(["--rounds", "1", "--seconds-per-config", ROUND_SECONDS]);
            let figure = Figure::new(&last(&mut command)?, cell, Memory::Reused);
            Ok(Figure { config: best.join(" ").replace("--", ""), ..figure })
        };
        cells.iter().map(visit).collect()
    }
}

/// Lines carry 8 bytes there and back; everything else goes through blocks.
fn is_lines(cell: Cell) -> bool {
    cell.bytes == LINES_BYTES && cell.test == Test::Latency
}

/// What a configuration consists of.
fn names(cell: Cell) -> &'static [&'static str] {
    if is_lines(cell) { &["slots", "stride", "pause"] } else { &["block", "ring", "flag", "copy"] }
}

fn command(world: &World, cell: Cell) -> Result<Command, Failure> {
    let mut command = world.program(if is_lines(cell) { "limit_lines" } else { "limit_blocks" })?;
    if !is_lines(cell) {
        let pattern = if cell.test == Test::Latency { "pingpong" } else { "stream" };
        command.args(["--sizes", &cell.bytes.to_string(), "--pattern", pattern]);
    }
    command.args(["--cores", &world.cores(), "--json"]);
    Ok(command)
}

/// The command that visits every configuration worth a visit.
pub(crate) fn sweep(world: &World, cell: Cell) -> Result<Command, Failure> {
    let mut command = command(world, cell)?;
    command.args(configurations(cell, world.is_quick));
    command.args(["--rounds", SWEEP_ROUNDS, "--seconds-per-config", SWEEP_SECONDS]);
    Ok(command)
}

/// The options of the configuration whose visits have the lowest median.
fn best(visits: &[Value], names: &[&str]) -> Option<Vec<String>> {
    let mut configurations: Vec<(Vec<String>, Vec<f64>)> = Vec::new();
    for visit in visits {
        let option = |name: &&str| [format!("--{name}"), text(&visit[*name])];
        let options: Vec<String> = names.iter().flat_map(option).collect();
        let us = visit["p50_us"].as_f64()?;
        match configurations.iter_mut().find(|(other, _)| *other == options) {
            Some((_, all)) => all.push(us),
            None => configurations.push((options, vec![us])),
        }
    }
    let ranked = configurations.into_iter().map(|(options, us)| (options, median(&us)));
    ranked.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(options, _)| options)
}

/// What is swept: whatever was ever found to be the best at such a size, and its neighbours.
fn configurations(cell: Cell, is_quick: bool) -> Vec<&'static str> {
    let (block, ring, flag, copy) = match cell.bytes {
        _ if is_lines(cell) && is_quick => return vec!["--slots", "64", "--stride", "128"],
        _ if is_lines(cell) => return vec!["--slots", "16,64,128,256", "--stride", "128,256"],
        _ if is_quick => ("8K", "256K", "apart", "plain"),
        0..=2048 => ("256,512,1K,2K", "16K,64K,256K", "end,apart", "plain"),
        2049..=8192 => ("2K,4K,8K,16K", "64K,256K,1M", "end,line,apart", "plain"),
        8193..=4_194_304 => ("4K,8K,16K,32K", "64K,128K,256K,512K,1M", "end,apart", "plain"),
        _ => ("16K,32K", "256K,1M", "apart", "plain,nt"),
    };
    vec!["--block", block, "--ring", ring, "--flag", flag, "--copy", copy]
}

fn last(command: &mut Command) -> Result<Value, Failure> {
    let mut objects = launch::objects(command)?;
    objects.pop().filter(|object| object["p50_us"].is_f64()).ok_or_else(|| {
        let name = command.get_program().to_string_lossy().into_owned();
        Failure::Usage(format!("{name} printed no result"))
    })
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::best;
    use serde_json::json;

    #[test]
    fn one_lucky_visit_does_not_win() {
        let visit = |block: u32, us: f64| json!({"block": block, "flag": "end", "p50_us": us});
        let visits =
            [visit(1, 0.1), visit(2, 0.3), visit(1, 0.5), visit(2, 0.2), visit(1, 0.5), visit(2, 0.2)];
        assert_eq!(best(&visits, &["block", "flag"]).unwrap(), ["--block", "2", "--flag", "end"]);
        assert_eq!(best(&[], &["block"]), None);
    }
}
