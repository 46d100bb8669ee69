//! Running an entrant: a fresh process with a deadline, and the figure that it prints.

use core::time::Duration;
use std::env;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

use serde_json::Value;
use superpipe_bench::failure::Failure;
use superpipe_bench::pin::Cores;
use superpipe_bench::process::die_with_parent;

use crate::contests::{DISTANCE, Entrant};

/// What a whole sweep may take.
const DEADLINE: Duration = Duration::from_secs(300);
const TUNING_SECONDS: f64 = 0.02;
const DISTANCE_SECONDS: f64 = 0.01;

/// Runs the programs of one directory on two cores.
pub(crate) struct Runner {
    directory: PathBuf,
    cores: Cores,
}

impl Runner {
    /// A runner of the programs that lie where this one does.
    pub(crate) fn beside_this_program(cores: Cores) -> Result<Self, Failure> {
        let own = env::current_exe().map_err(|error| Failure::Os("find this program", error))?;
        Ok(Self { directory: own.parent().map(PathBuf::from).unwrap_or_default(), cores })
    }

    /// The further arguments with which the entrant is at its best; none if it has nothing to tune.
    pub(crate) fn tune(&self, entrant: &Entrant) -> Result<Vec<String>, Failure> {
        if entrant.tuned.is_empty() {
            return Ok(Vec::new());
        }
        let best = self.last_result(entrant, &["--best".to_owned()], TUNING_SECONDS)?;
        let argument = |name: &&str| {
            let value = match &best[*name] {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            [format!("--{name}"), value]
        };
        Ok(entrant.tuned.iter().flat_map(argument).collect())
    }

    /// How far apart the cores are now: half the round trip of 8 bytes, in microseconds.
    pub(crate) fn distance_us(&self) -> Result<f64, Failure> {
        self.run(&DISTANCE, &[], DISTANCE_SECONDS)
    }

    /// One run's median, in microseconds.
    pub(crate) fn run(&self, entrant: &Entrant, tuned: &[String], seconds: f64) -> Result<f64, Failure> {
        self.last_result(entrant, tuned, seconds)?["p50_us"].as_f64().ok_or_else(|| no_figure(entrant))
    }

    fn last_result(&self, entrant: &Entrant, more: &[String], seconds: f64) -> Result<Value, Failure> {
        let mut command = Command::new(self.directory.join(entrant.program));
        command.args(entrant.args).args(more);
        command.arg("--cores").arg(format!("{},{}", self.cores.client, self.cores.server));
        command.args(["--rounds", "1", "--json", "--seconds-per-config", &seconds.to_string()]);
        let output = output_in_time(&mut command)?;
        let mut results = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        results.rfind(|result| result["p50_us"].is_f64()).ok_or_else(|| no_figure(entrant))
    }
}

fn no_figure(entrant: &Entrant) -> Failure {
    Failure::Usage(format!("{} printed no result", entrant.program))
}

/// What the command prints, if it succeeds before the deadline.
fn output_in_time(command: &mut Command) -> Result<String, Failure> {
    let fail = |error| Failure::Os("run an entrant (build all programs of superpipe-bench)", error);
    let mut child =
        die_with_parent(command).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(fail)?;
    let (sender, receiver) = mpsc::channel();
    if let Some(mut stdout) = child.stdout.take() {
        thread::spawn(move || {
            let mut text = String::new();
            let outcome = stdout.read_to_string(&mut text).map(|_| text);
            // Nobody listens any more after the deadline.
            let _ = sender.send(outcome);
        });
    }
    let outcome = receiver.recv_timeout(DEADLINE);
    if outcome.is_err() {
        child.kill().map_err(fail)?;
    }
    let status = child.wait().map_err(fail)?;
    match outcome {
        Err(_) => Err(Failure::Timeout(DEADLINE.as_secs())),
        Ok(_) if !status.success() => Err(fail(io::Error::other(format!("{status}")))),
        Ok(text) => text.map_err(fail),
    }
}
