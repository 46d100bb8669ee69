//! The raw limits: bare rings, at each size and distance in the configuration that a sweep finds best.

use std::collections::HashMap;
use std::process::Command;

use serde_json::Value;
use superpipe_bench::failure::Failure;
use superpipe_bench::probe::Distance;

use super::Timing;
use super::environment::Environment;
use super::launch;
use crate::class::Class;
use crate::figures::Best;
use crate::plan::{Cell, LATENCY};

const LINES_BYTES: usize = 8;
/// Time per configuration of a sweep, which visits up to 200, and of a visit of a round.
const SWEEP_SECONDS: &str = "0.003";
const VISIT_SECONDS: &str = "0.03";
/// The best configurations of a sweep are visited so often again, of long messages less often.
const FINAL_VISITS: &str = "5";
const FINAL_VISITS_LONG: &str = "3";
const LONG_BYTES: usize = 16 << 20;
/// Visits, of these, without which a sweep has found nothing.
const FINAL_VISITS_MIN: u64 = 3;

/// The limits, with the options of their best configurations by distance.
#[derive(Default)]
pub(crate) struct Limits {
    best: [HashMap<Cell, Vec<String>>; Distance::ALL.len()],
}

impl Limits {
    /// Sweeps for the cells that have no best configuration at this distance yet. Returns whether there was one.
    pub(crate) fn tune(
        &mut self,
        environment: &Environment,
        cells: &[Cell],
        distance: Distance,
    ) -> Result<bool, Failure> {
        let mut has_swept = false;
        for &cell in cells {
            if self.best[distance as usize].contains_key(&cell) {
                continue;
            }
            has_swept = true;
            let mut found = sweep_once(environment, cell)?;
            if environment.is_quick {
                // It does not ask for the distance, and the cores of a busy machine seem to move all the time.
                let any = found.pop().map_or_else(|| shown(&configurations(cell, true)), |(_, any)| any);
                found = Distance::ALL.map(|at| (at, any.clone())).into();
            }
            for (at, options) in found {
                self.best[at as usize].entry(cell).or_insert(options);
            }
        }
        Ok(has_swept)
    }

    /// Visits the best configuration of each cell once.
    pub(crate) fn run(
        &self,
        environment: &Environment,
        cells: &[Cell],
        distance: Distance,
    ) -> Result<Vec<Timing>, Failure> {
        let visit = |&cell| {
            let best = self.best[distance as usize].get(&cell).map(Vec::as_slice).unwrap_or_default();
            let mut command = command(environment, cell)?;
            command.args(best).args(["--rounds", "1", "--seconds-per-config", VISIT_SECONDS]);
            Ok(Timing::new(&last(&mut command)?, cell))
        };
        cells.iter().map(visit).collect()
    }

    /// The best configurations, as the page shows them.
    pub(crate) fn bests(&self, cells: &[Cell]) -> Vec<Best> {
        let all = Distance::ALL.iter().flat_map(|&distance| cells.iter().map(move |&cell| (distance, cell)));
        all.filter_map(|(distance, cell)| {
            let options = self.best[distance as usize].get(&cell)?.join(" ").replace("--", "");
            Some(Best { test: cell.test.to_owned(), size: cell.bytes, class: Class::At(distance), options })
        })
        .collect()
    }
}

/// Sweeps for a cell. Returns the options of the best configuration at each distance at which the sweep is complete.
fn sweep_once(environment: &Environment, cell: Cell) -> Result<Vec<(Distance, Vec<String>)>, Failure> {
    let mut command = sweep(environment, cell)?;
    if !is_lines(cell) {
        let objects = launch::objects(&mut command)?;
        let found = complete(&objects);
        return Ok(found.into_iter().map(|(at, best)| (at, options(cell, best))).collect());
    }
    let before = environment.probe()?.distance;
    let best = last(&mut command)?;
    let is_same = environment.probe()?.distance == before;
    Ok(is_same.then(|| (before, options(cell, &best))).into_iter().collect())
}

/// The best configurations among what `limit_blocks --by-distance` printed, at the distances at which it visited every configuration, and the best
/// one often enough.
fn complete(objects: &[Value]) -> Vec<(Distance, &Value)> {
    let is_best = |object: &&Value| {
        object["event"] == "median"
            && object["rank"] == 1
            && object["swept"] == object["configurations"]
            && object["visits"].as_u64().is_some_and(|visits| visits >= FINAL_VISITS_MIN)
    };
    let at =
        |object: &Value| Distance::ALL.into_iter().find(|distance| object["distance"] == distance.name());
    objects.iter().filter(is_best).filter_map(|object| Some((at(object)?, object))).collect()
}

/// The options of a configuration that a sweep printed.
fn options(cell: Cell, best: &Value) -> Vec<String> {
    let option = |name: &&str| [format!("--{name}"), text(&best[*name])];
    names(cell).iter().flat_map(option).collect()
}

fn shown(options: &[&str]) -> Vec<String> {
    options.iter().map(|&word| word.to_owned()).collect()
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

/// Returns the command that finds the best of all configurations worth a visit: of blocks at each distance of the cores, of lines at the present one.
pub(crate) fn sweep(environment: &Environment, cell: Cell) -> Result<Command, Failure> {
    let mut command = command(environment, cell)?;
    command.args(configurations(cell, environment.is_quick));
    if is_lines(cell) {
        command.arg("--best");
    } else {
        let visits = if cell.bytes < LONG_BYTES { FINAL_VISITS } else { FINAL_VISITS_LONG };
        command.args(["--by-distance", "--final-visits", visits]);
    }
    command.args(["--rounds", "1", "--seconds-per-config", SWEEP_SECONDS]);
    Ok(command)
}

/// Configurations of the sweep: those that were ever found best at such a size, and their neighbours.
fn configurations(cell: Cell, is_quick: bool) -> Vec<&'static str> {
    let (block, ring, flag, copy_in, copy_out) = match cell.bytes {
        _ if is_lines(cell) && is_quick => return vec!["--slots", "64", "--stride", "128"],
        _ if is_lines(cell) => return vec!["--slots", "16,64,128,256", "--stride", "128,256"],
        _ if is_quick => ("8K", "256K", "apart", "plain", "plain"),
        0..=2048 => ("256,512,1K,2K,4K", "16K,64K,256K,2M", "end,apart", "plain,prefetch,nt", "plain"),
        2049..=8192 => {
            ("2K,4K,8K,16K", "64K,256K,1M,4M", "end,line,apart", "plain,movsb,prefetch,nt", "plain")
        }
        8193..=262_144 => {
            ("4K,8K,16K,32K", "128K,512K,2M,8M", "end,apart", "plain,movsb,prefetch,nt", "plain")
        }
        262_145..=4_194_304 => {
            ("8K,16K,32K", "128K,512K,2M,8M", "apart", "plain,movsb,prefetch,nt", "plain,nt")
        }
        4_194_305..=16_777_216 => ("16K,32K", "256K,2M,8M", "apart", "plain,movsb,prefetch,nt", "plain,nt"),
        _ => ("16K", "256K,2M", "apart", "plain,movsb,prefetch,nt", "plain,nt"),
    };
    vec!["--block", block, "--ring", ring, "--flag", flag, "--copy-in", copy_in, "--copy-out", copy_out]
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
    use super::{Distance, complete};
    use serde_json::{Value, json};

    fn median(distance: &str, rank: u64, swept: u64, visits: u64) -> Value {
        json!({
            "event": "median", "distance": distance, "rank": rank, "swept": swept, "configurations": 9,
            "visits": visits, "block": 4096
        })
    }

    #[test]
    fn only_complete_sweeps_have_a_best_configuration() {
        let objects = [
            json!({"event": "limit", "distance": "near", "block": 256}),
            median("near", 1, 9, 3),
            median("near", 2, 9, 5),
            median("apart", 1, 8, 5),
            median("far", 1, 9, 2),
        ];
        assert_eq!(complete(&objects), [(Distance::Near, &objects[1])]);
    }
}
