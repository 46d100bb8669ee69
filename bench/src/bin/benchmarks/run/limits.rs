//! The raw limits: bare rings, at each size in the configuration that a sweep finds best.

use std::collections::HashMap;
use std::process::Command;

use serde_json::Value;
use superpipe_bench::failure::Failure;

use super::Timing;
use super::environment::Environment;
use super::launch;
use crate::figures::{Best, Distance};
use crate::plan::{Cell, LATENCY};

const LINES_BYTES: usize = 8;
/// Time per configuration of a sweep, which visits up to 40, and of a round, which visits one.
const SWEEP_SECONDS: &str = "0.004";
const ROUND_SECONDS: &str = "0.03";

/// The limits, with their best configurations.
#[derive(Default)]
pub(crate) struct Limits {
    /// the options of the best configuration, by the distance of the cores
    best: HashMap<(Distance, Cell), Vec<String>>,
}

impl Limits {
    /// Sweeps for the cells that have no best configuration at this distance yet.
    pub(crate) fn tune(
        &mut self,
        environment: &Environment,
        cells: &[Cell],
        distance: Distance,
    ) -> Result<(), Failure> {
        for &cell in cells {
            if self.best.contains_key(&(distance, cell)) {
                continue;
            }
            let best = last(&mut sweep(environment, cell)?)?;
            let option = |name: &&str| [format!("--{name}"), text(&best[*name])];
            self.best.insert((distance, cell), names(cell).iter().flat_map(option).collect());
        }
        Ok(())
    }

    /// Visits the best configuration of each cell once.
    pub(crate) fn run(
        &self,
        environment: &Environment,
        cells: &[Cell],
        distance: Distance,
    ) -> Result<Vec<Timing>, Failure> {
        let visit = |&cell| {
            let best = self.best.get(&(distance, cell)).map(Vec::as_slice).unwrap_or_default();
            let mut command = command(environment, cell)?;
            command.args(best).args(["--rounds", "1", "--seconds-per-config", ROUND_SECONDS]);
            Ok(Timing::new(&last(&mut command)?, cell))
        };
        cells.iter().map(visit).collect()
    }

    /// The best configurations at some distances, as the page shows them.
    pub(crate) fn bests(&self, cells: &[Cell], distances: &[Distance]) -> Vec<Best> {
        let all = distances.iter().flat_map(|&distance| cells.iter().map(move |&cell| (distance, cell)));
        all.filter_map(|(distance, cell)| {
            let options = self.best.get(&(distance, cell))?.join(" ").replace("--", "");
            Some(Best { test: cell.test.to_owned(), size: cell.bytes, distance, options })
        })
        .collect()
    }
}

/// Lines carry 8 bytes there and back; everything else goes through blocks.
fn is_lines(cell: Cell) -> bool {
    cell.bytes == LINES_BYTES && cell.test == LATENCY
}

/// Options of a configuration.
fn names(cell: Cell) -> &'static [&'static str] {
    if is_lines(cell) {
        &["slots", "stride", "pause"]
    } else {
        &["block", "ring", "flag", "copy-in", "copy-out"]
    }
}

fn command(environment: &Environment, cell: Cell) -> Result<Command, Failure> {
    let mut command = environment.program(if is_lines(cell) { "limit_lines" } else { "limit_blocks" })?;
    if !is_lines(cell) {
        let pattern = if cell.test == LATENCY { "pingpong" } else { "stream" };
        command.args(["--sizes", &cell.bytes.to_string(), "--pattern", pattern]);
    }
    command.args(["--cores", &environment.cores(), "--json"]);
    Ok(command)
}

/// Returns the command that finds the best of all configurations worth a visit, and visits it once.
pub(crate) fn sweep(environment: &Environment, cell: Cell) -> Result<Command, Failure> {
    let mut command = command(environment, cell)?;
    command.args(configurations(cell, environment.is_quick));
    command.args(["--best", "--rounds", "1", "--seconds-per-config", SWEEP_SECONDS]);
    Ok(command)
}

/// Configurations of the sweep: those that were ever found best at such a size, and their neighbours.
fn configurations(cell: Cell, is_quick: bool) -> Vec<&'static str> {
    let (block, ring, flag, copy_out) = match cell.bytes {
        _ if is_lines(cell) && is_quick => return vec!["--slots", "64", "--stride", "128"],
        _ if is_lines(cell) => return vec!["--slots", "16,64,128,256", "--stride", "128,256"],
        _ if is_quick => ("8K", "256K", "apart", "plain"),
        0..=2048 => ("256,512,1K,2K", "16K,64K,256K", "end,apart", "plain"),
        2049..=8192 => ("2K,4K,8K,16K", "64K,256K,1M", "end,line,apart", "plain"),
        8193..=4_194_304 => ("4K,8K,16K,32K", "64K,128K,256K,512K,1M", "end,apart", "plain"),
        _ => ("16K,32K", "256K,1M", "apart", "plain,nt"),
    };
    vec!["--block", block, "--ring", ring, "--flag", flag, "--copy-in", "plain", "--copy-out", copy_out]
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
