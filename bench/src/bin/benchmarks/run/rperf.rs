//! superpipe, measured by rperf: a server per part, and a client per visit.

use std::process::{Child, Command, Stdio};

use superpipe_bench::failure::Failure;
use superpipe_bench::process::die_with_parent;

use super::Timing;
use super::environment::Environment;
use super::launch;
use crate::plan::{Cell, REUSED};

/// New connections of a visit, of which the first message of median duration counts.
const CONNECTIONS: &str = "3";

/// A server. Dropping ends it.
pub(crate) struct Rperf {
    server: Child,
}

impl Rperf {
    /// Starts a server on its core.
    pub(crate) fn new(environment: &Environment) -> Result<Self, Failure> {
        let mut command = environment.rperf()?;
        command.args(["serve", "--keep", "--quiet", "--listen", &address(environment)]);
        command.args(["--core", &environment.cores.server.to_string()]);
        let server = die_with_parent(&mut command)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| Failure::Os("start rperf serve", error))?;
        Ok(Self { server })
    }
}

impl Drop for Rperf {
    fn drop(&mut self) {
        // It ends with this process anyway.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Measures cells at the server. With `is_first` each size has new connections.
pub(crate) fn run(
    environment: &Environment,
    cells: &[Cell],
    place: &str,
    is_first: bool,
) -> Result<Vec<Timing>, Failure> {
    let mut timings = Vec::with_capacity(cells.len());
    // One client runs all sizes with the same count of messages.
    for alike in cells.chunk_by(|a, b| (a.test, a.messages) == (b.test, b.messages)) {
        let objects = launch::objects(&mut client(environment, alike, place, is_first)?)?;
        for &cell in alike {
            let of_cell = |object: &&serde_json::Value| object["bytes"].as_u64() == Some(cell.bytes as u64);
            let object = objects.iter().find(of_cell);
            let object =
                object.ok_or_else(|| Failure::Usage(format!("rperf: no result of {} B", cell.bytes)))?;
            timings.push(Timing::new(object, cell));
        }
    }
    Ok(timings)
}

/// Returns the client for cells of one test and one count of messages.
pub(crate) fn client(
    environment: &Environment,
    cells: &[Cell],
    place: &str,
    is_first: bool,
) -> Result<Command, Failure> {
    let mut command = environment.rperf()?;
    command.args([
        &address(environment),
        "--quiet",
        "--wait",
        "spin",
        "--json=-",
        "--core",
        &environment.cores.client.to_string(),
    ]);
    if let Some(cell) = cells.first() {
        let sizes: Vec<String> = cells.iter().map(|cell| cell.bytes.to_string()).collect();
        command.args(["--test", cell.test, "--sizes", &sizes.join(",")]);
        command.args(["--iterations", &cell.messages.to_string()]);
        // In the warm-up a new connection chooses how to copy, which takes it 20 ms of traffic at most. Peers choose nothing while data flow, and are
        // the same processes at every visit.
        let is_short = environment.is_quick || place != REUSED;
        let warm_up = if is_short { cell.messages / 10 + 1 } else { cell.messages };
        command.args(["--warmup", &warm_up.to_string()]);
    }
    if place != REUSED {
        command.arg(format!("--fresh={place}"));
    }
    if is_first {
        command.arg(format!("--reconnect={CONNECTIONS}"));
    }
    Ok(command)
}

fn address(environment: &Environment) -> String {
    format!("shm:{}", environment.scratch("socket").display())
}
