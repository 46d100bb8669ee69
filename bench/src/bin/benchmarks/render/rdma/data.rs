//! The raw figures, one JSON object a line.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use superpipe_bench::failure::Failure;

use super::super::data::Spread;

pub(super) const BARE_RATE: &str = "ib_write_bw";
pub(super) const BARE_LATENCY: &str = "ib_write_lat";
pub(super) const COPY: &str = "memcpy";
pub(super) const UCX: &str = "UCX";
/// superpipe's arrival modes as contestants, the default first.
pub(super) const MODES: [&str; 3] = ["superpipe, notify", "superpipe, flag", "superpipe, checked-flag"];

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Test {
    /// 10^6 bytes a second
    Rate,
    /// half a round trip in µs
    Latency,
    /// the same, of a process's first message
    First,
    /// the same, of a connection's first message: the median of some connections of one process
    Connection,
    /// 10^6 bytes a second of one core's memcpy
    Copy,
    /// 10^6 bytes a second between two hosts, with packets lost
    Lossy,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Line {
    Fact { name: String, value: String },
    Command { who: String, line: String },
    Figure(Figure),
}

/// One figure of one round.
#[derive(Debug, Deserialize)]
struct Figure {
    round: u32,
    driver: String,
    test: Test,
    who: String,
    bytes: usize,
    value: f64,
}

/// Whose figures, of what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Series<'a> {
    pub(super) driver: &'a str,
    pub(super) test: Test,
    pub(super) who: &'a str,
    pub(super) bytes: usize,
}

/// All that was measured.
#[derive(Debug)]
pub(super) struct Measured {
    /// what ran where, by name
    pub(super) facts: Vec<(String, String)>,
    /// how figures came about, by contestant and test
    pub(super) commands: Vec<(String, String)>,
    figures: Vec<Figure>,
}

impl Measured {
    /// The file's, if there is one.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, Failure> {
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(path).map_err(|error| Failure::Os("read rdma.jsonl", error))?;
        Self::parse(&text).map(Some).map_err(|error| Failure::Usage(format!("rdma.jsonl: {error}")))
    }

    pub(super) fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let mut measured = Self { facts: Vec::new(), commands: Vec::new(), figures: Vec::new() };
        for line in text.lines() {
            match serde_json::from_str(line)? {
                Line::Fact { name, value } => measured.facts.push((name, value)),
                Line::Command { who, line } => {
                    if measured.commands.iter().all(|(other, _)| *other != who) {
                        measured.commands.push((who, line));
                    }
                }
                Line::Figure(figure) => measured.figures.push(figure),
            }
        }
        Ok(measured)
    }

    /// A round's figure; the copy's stands for every driver.
    fn at(&self, round: u32, series: Series<'_>) -> Option<f64> {
        let is_it = |figure: &&Figure| {
            figure.round == round
                && (figure.driver == series.driver || series.test == Test::Copy)
                && (figure.test, figure.bytes) == (series.test, series.bytes)
                && figure.who == series.who
        };
        self.figures.iter().find(is_it).map(|figure| figure.value)
    }

    fn rounds(&self) -> BTreeSet<u32> {
        self.figures.iter().map(|figure| figure.round).collect()
    }

    /// Of every round that has what `value` asks for.
    pub(super) fn spread(&self, value: impl Fn(u32) -> Option<f64>) -> Option<Spread> {
        Spread::new(&self.rounds().into_iter().filter_map(value).collect::<Vec<_>>())
    }

    pub(super) fn of(&self, series: Series<'_>) -> Option<Spread> {
        self.spread(|round| self.at(round, series))
    }

    /// One series over another, inside the rounds.
    pub(super) fn ratio(&self, series: Series<'_>, other: Series<'_>) -> Option<Spread> {
        self.spread(|round| Some(self.at(round, series)? / self.at(round, other)?))
    }

    /// What whoever copies can reach in a round.
    pub(super) fn bound(&self, round: u32, driver: &str, bytes: usize) -> Option<f64> {
        let wire = self.at(round, Series { driver, test: Test::Rate, who: BARE_RATE, bytes })?;
        let copy = self.at(round, Series { driver, test: Test::Copy, who: COPY, bytes })?;
        Some(1.0 / (1.0 / wire + 1.0 / copy))
    }

    /// A rate over the bound, inside the rounds.
    pub(super) fn of_bound(&self, series: Series<'_>) -> Option<Spread> {
        self.spread(|round| Some(self.at(round, series)? / self.bound(round, series.driver, series.bytes)?))
    }

    pub(super) fn drivers(&self) -> BTreeSet<&str> {
        let drivers = self.figures.iter().filter(|figure| figure.test != Test::Copy);
        drivers.map(|figure| figure.driver.as_str()).collect()
    }

    /// Sizes of a test that anybody was measured at.
    pub(super) fn sizes(&self, driver: &str, test: Test) -> BTreeSet<usize> {
        let these = self.figures.iter().filter(|figure| figure.driver == driver && figure.test == test);
        these.map(|figure| figure.bytes).collect()
    }
}
