//! superpipe, measured by rperf: a server per part, and a client per cell.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::{env, process};

use superpipe_bench::failure::Failure;
use superpipe_bench::process::die_with_parent;

use super::Timing;
use super::environment::Environment;
use super::launch;
use crate::plan::{Cell, REUSED};

/// A server. Dropping ends it.
pub(crate) struct Rperf {
    server: Child,
    directory: PathBuf,
}

impl Rperf {
    /// Starts a server on its core, at a socket of its own.
    pub(crate) fn new(environment: &Environment) -> Result<Self, Failure> {
        let directory = directory();
        fs::create_dir_all(&directory).map_err(|error| Failure::Os("make a directory", error))?;
        let mut command = environment.rperf()?;
        command.args(["serve", "--keep", "--quiet", "--listen", &address()]);
        command.args(["--core", &environment.cores.server.to_string()]);
        let server = die_with_parent(&mut command)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| Failure::Os("start rperf serve", error))?;
        Ok(Self { server, directory })
    }

    /// Runs one round. With `is_first` each size has a connection of its own.
    pub(crate) fn run(
        &self,
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
                let of_cell =
                    |object: &&serde_json::Value| object["bytes"].as_u64() == Some(cell.bytes as u64);
                let object = objects.iter().find(of_cell);
                let object =
                    object.ok_or_else(|| Failure::Usage(format!("rperf: no result of {} B", cell.bytes)))?;
                timings.push(Timing::new(object, cell));
            }
        }
        Ok(timings)
    }
}

impl Drop for Rperf {
    fn drop(&mut self) {
        // It ends with this process anyway, and its directory is temporary.
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
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
        &address(),
        "--quiet",
        "--wait",
        "spin",
        "--json=-",
        "--core",
        &environment.cores.client.to_string(),
    ]);
    if let Some(cell) = cells.first() {
        let sizes: Vec<String> = cells.iter().map(|cell| cell.bytes.to_string()).collect();
        let warm_up = cell.messages / 10 + 1;
        command.args(["--test", cell.test, "--sizes", &sizes.join(",")]);
        command.args(["--iterations", &cell.messages.to_string(), "--warmup", &warm_up.to_string()]);
    }
    if place != REUSED {
        command.arg(format!("--fresh={place}"));
    }
    if is_first {
        command.arg("--reconnect");
    }
    Ok(command)
}

fn directory() -> PathBuf {
    env::temp_dir().join(format!("superpipe-benchmarks-{}", process::id()))
}

fn address() -> String {
    format!("shm:{}", directory().join("socket").display())
}
