//! The raw figures: one JSON object a line. A part's file begins with what ran and where; then every round with its figures.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use superpipe_bench::failure::Failure;

use crate::plan::{Cell, Memory, Test};

/// One line of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(crate) enum Line {
    Machine(Machine),
    Contestant(Contestant),
    Round(Round),
    Figure(Figure),
    Waiting(Waiting),
}

/// Where everything ran: what it is, by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// in the order in which they are told
    pub(crate) facts: Vec<(String, String)>,
}

/// Whose figures are compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Contestant {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) kind: Kind,
    pub(crate) version: String,
    /// what differs from the defaults
    pub(crate) settings: String,
    /// one of the commands, without this machine's paths
    pub(crate) command: String,
}

/// What a contestant counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// a bare ring, which nobody can beat
    Limit,
    Superpipe,
    Peer,
    /// does not do what superpipe does; shown, and in no ratio
    Aside,
}

/// How far apart the cores were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// 8 bytes cross in some 30 ns
    Near,
    /// in some 200 ns
    Far,
    /// it changed, and went on changing when the round was run again
    Mixed,
}

/// One round, told when it is over; its figures follow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Round {
    pub(crate) round: u32,
    /// how often it was run
    pub(crate) attempts: u32,
    /// what 8 bytes took from core to core before and after
    pub(crate) before_ns: f64,
    pub(crate) after_ns: f64,
    pub(crate) state: State,
    /// the machine's load average before
    pub(crate) load: f64,
}

/// What one contestant took in one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    pub(crate) round: u32,
    pub(crate) contestant: String,
    pub(crate) test: Test,
    pub(crate) memory: Memory,
    pub(crate) bytes: usize,
    /// the first message of its size, or of its connection
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) first_us: Option<f64>,
    pub(crate) min_us: f64,
    pub(crate) p50_us: f64,
    pub(crate) avg_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) max_us: f64,
    /// how a limit was configured
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) config: String,
}

/// A line of the program `waiting`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Waiting {
    pub(crate) round: u32,
    /// latency, or wake-up
    pub(crate) test: String,
    pub(crate) placement: String,
    pub(crate) wait: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pause_us: Option<u32>,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) client_cpu_percent: f64,
    pub(crate) server_cpu_percent: f64,
}

impl Figure {
    /// What a program printed of a cell, in a round and of a contestant that are still to be named.
    pub(crate) fn new(object: &Value, cell: Cell, memory: Memory) -> Self {
        // To a tenth of a nanosecond: more was not measured.
        let rounded = |us: f64| (us * 1e4).round() / 1e4;
        let us = |name: &str| rounded(object[name].as_f64().unwrap_or(f64::NAN));
        Self {
            round: 0,
            contestant: String::new(),
            test: cell.test,
            memory,
            bytes: cell.bytes,
            first_us: object["first_us"].as_f64().map(rounded),
            min_us: us("min_us"),
            p50_us: us("p50_us"),
            avg_us: us("avg_us"),
            p99_us: us("p99_us"),
            max_us: us("max_us"),
            config: String::new(),
        }
    }

    /// The time of a message that is compared: the median of half round trips, the average of a stream, in which
    /// messages may come in bunches.
    pub(crate) const fn us(&self) -> f64 {
        match self.test {
            Test::Latency => self.p50_us,
            Test::Stream => self.avg_us,
        }
    }
}

/// Writes a part's lines.
pub(crate) fn write(path: &Path, lines: &[Line]) -> Result<(), Failure> {
    let fail = |error| Failure::Os("write the raw figures", error);
    let mut text = String::new();
    for line in lines {
        text += &serde_json::to_string(line).map_err(|error| fail(error.into()))?;
        text.push('\n');
    }
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(fail)?;
    }
    fs::write(path, text).map_err(fail)
}

/// Reads a part's lines; none if there is no such file.
pub(crate) fn read(path: &Path) -> Result<Vec<Line>, Failure> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(path).map_err(|error| Failure::Os("read the raw figures", error))?;
    let parse = |(index, line)| {
        serde_json::from_str(line).map_err(|error| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            Failure::Usage(format!("{name}, line {}: {error}", index + 1))
        })
    };
    text.lines().enumerate().map(parse).collect()
}
