//! The figures of a part, as they are kept in DIR/benchmarks/PART.jsonl: JSON, one object per line.
//!
//! ```text
//! {"fact":[NAME,VALUE]}                                        the machine and the versions, in the order of the page
//! {"contestant":{"id","title","kind","version","settings","command"}}
//! {"command":[WHO AND TEST,LINE]}                              the command behind a contestant's figures of a test
//! {"round":{"distance","attempts","before_ns","after_ns","load"}}      one per round, in order; none where none was probed
//! {"best":[TEST,SIZE,DISTANCE,OPTIONS]}                        the bare ring's best configuration
//! {"row":[TEST,WHO,PLACE,SIZE,[FIGURE,...]]}                   every figure of a series, round by round; null for none
//! {"figure":[ROUND,TEST,WHO,PLACE,SIZE,FIGURE]}                one figure, as a guest prints it; kept in rows
//! ```
//!
//! A figure is what the page compares: µs per message (the median of half round trips, the average of a stream), or 10^6
//! bytes per second of the tests of a rate. SIZE is in bytes, or µs of a pause. PLACE is the receiver's memory, the RDMA
//! driver or the placement on cores. A test that a round repeats has its figures side by side in the row.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use superpipe_bench::failure::Failure;
use superpipe_bench::stats::median;

/// Steps of a figure in a µs: tenths of a nanosecond, since more was not measured.
const STEPS: f64 = 1e4;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Fact(String, String),
    Contestant(Contestant),
    Command(String, String),
    Round(Round),
    Best(String, usize, Distance, String),
    Row(String, String, String, usize, Vec<Option<f64>>),
    Figure(usize, String, String, String, usize, f64),
}

/// A program whose figures are compared.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Contestant {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) kind: Kind,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) version: String,
    /// options other than the defaults
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) settings: String,
    /// one of the commands, without this machine's paths
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) command: String,
}

/// The role of a contestant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// the machine without a protocol
    Limit,
    Superpipe,
    Peer,
    /// does something else than superpipe; shown, and in no ratio
    Aside,
}

/// Cache clusters of the two cores during a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Distance {
    /// 8 bytes cross in some 30 ns
    SameCluster,
    /// in some 200 ns
    OtherCluster,
    /// it changed, and went on changing when the round was run again
    Mixed,
    /// it was not probed
    Unknown,
}

/// One round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Round {
    pub(crate) distance: Distance,
    /// runs of this round, of which the last one counts
    pub(crate) attempts: u32,
    /// time of 8 bytes from core to core before and after
    pub(crate) before_ns: f64,
    pub(crate) after_ns: f64,
    /// the machine's load average before
    pub(crate) load: f64,
}

impl Round {
    const UNKNOWN: Self =
        Self { distance: Distance::Unknown, attempts: 1, before_ns: 0.0, after_ns: 0.0, load: 0.0 };
}

/// The best configuration of the bare ring.
#[derive(Clone, Debug)]
pub(crate) struct Best {
    pub(crate) test: String,
    pub(crate) size: usize,
    pub(crate) distance: Distance,
    pub(crate) options: String,
}

/// The name of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Series<'a> {
    pub(crate) test: &'a str,
    pub(crate) who: &'a str,
    pub(crate) place: &'a str,
    pub(crate) size: usize,
}

#[derive(Clone, Debug)]
struct Row {
    test: String,
    who: String,
    place: String,
    size: usize,
    /// those of the first round, then those of the second, and so on
    figures: Vec<Option<f64>>,
}

impl Row {
    fn series(&self) -> Series<'_> {
        Series { test: &self.test, who: &self.who, place: &self.place, size: self.size }
    }
}

/// The median of rounds, the lowest and the highest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) count: usize,
}

impl Spread {
    /// Returns none of no rounds.
    pub(crate) fn new(values: &[f64]) -> Option<Self> {
        let min = values.iter().copied().reduce(f64::min)?;
        let max = values.iter().copied().reduce(f64::max)?;
        Some(Self { median: median(values), min, max, count: values.len() })
    }
}

/// All that is known of a part.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) facts: Vec<(String, String)>,
    pub(crate) contestants: Vec<Contestant>,
    pub(crate) commands: Vec<(String, String)>,
    pub(crate) rounds: Vec<Round>,
    pub(crate) bests: Vec<Best>,
    rows: Vec<Row>,
}

impl Figures {
    /// Adds a figure of a round, counted from 0.
    pub(crate) fn add(&mut self, round: usize, of: Series<'_>, figure: f64) {
        let at = self.rows.iter().position(|row| row.series() == of).unwrap_or_else(|| {
            let Series { test, who, place, size } = of;
            let [test, who, place] = [test, who, place].map(str::to_owned);
            self.rows.push(Row { test, who, place, size, figures: Vec::new() });
            self.rows.len() - 1
        });
        let figures = &mut self.rows[at].figures;
        // Only a test that every round repeats equally often is longer already.
        figures.resize(figures.len().max(round), None);
        figures.push(Some(figure));
    }

    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(path).map_err(|error| Failure::Os("read the figures", error))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Self::parse(&text).map_err(|error| Failure::Usage(format!("{name}, {error}")))
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut all = Self::default();
        for (index, line) in text.lines().enumerate() {
            let line = serde_json::from_str(line).map_err(|error| format!("line {}: {error}", index + 1))?;
            all.insert(line);
        }
        if all.rounds.is_empty() {
            let count = all.rows.iter().map(|row| row.figures.len()).max().unwrap_or(0);
            all.rounds = vec![Round::UNKNOWN; count];
        }
        Ok(all)
    }

    fn insert(&mut self, line: Line) {
        match line {
            Line::Fact(name, value) => self.facts.push((name, value)),
            Line::Contestant(contestant) => self.contestants.push(contestant),
            Line::Command(who, command) => {
                // the first one stands for all
                if self.commands.iter().all(|(other, _)| *other != who) {
                    self.commands.push((who, command));
                }
            }
            Line::Round(round) => self.rounds.push(round),
            Line::Best(test, size, distance, options) => {
                self.bests.push(Best { test, size, distance, options });
            }
            Line::Row(test, who, place, size, figures) => {
                self.rows.push(Row { test, who, place, size, figures });
            }
            Line::Figure(round, test, who, place, size, figure) => {
                let of = Series { test: &test, who: &who, place: &place, size };
                self.add(round.saturating_sub(1), of, figure);
            }
        }
    }

    /// Writes a file.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Failure> {
        let fail = |error| Failure::Os("write the figures", error);
        let facts = self.facts.iter().cloned().map(|(name, value)| Line::Fact(name, value));
        let contestants = self.contestants.iter().cloned().map(Line::Contestant);
        let commands = self.commands.iter().cloned().map(|(who, line)| Line::Command(who, line));
        let is_known = |round: &&Round| round.distance != Distance::Unknown;
        let rounds = self.rounds.iter().filter(is_known).copied().map(Line::Round);
        let bests = self.bests.iter().cloned().map(|best| {
            let Best { test, size, distance, options } = best;
            Line::Best(test, size, distance, options)
        });
        let rows = self.rows.iter().cloned().map(|row| {
            let figures = row.figures.into_iter().map(|figure| figure.map(rounded)).collect();
            Line::Row(row.test, row.who, row.place, row.size, figures)
        });
        let mut text = String::new();
        for line in facts.chain(contestants).chain(commands).chain(rounds).chain(bests).chain(rows) {
            text += &serde_json::to_string(&line).map_err(|error| fail(error.into()))?;
            text.push('\n');
        }
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(fail)?;
        }
        fs::write(path, text).map_err(fail)
    }

    /// Adds the series of the best that a program that copies can reach over RDMA: one core does the copy and then the
    /// work of posting, so their times add up.
    pub(crate) fn add_bound(&mut self, wire: &str, copy: &str, bound: &str) {
        let rows: Vec<Row> = self.rows.iter().filter(|row| row.who == wire).cloned().collect();
        for mut row in rows {
            let Some(copies) = self.row(Series { who: copy, ..row.series() }) else { continue };
            let times = row.figures.iter().zip(&copies.figures);
            row.figures = times.map(|(wire, copy)| Some(1.0 / (1.0 / (*wire)? + 1.0 / (*copy)?))).collect();
            row.who = bound.to_owned();
            self.rows.push(row);
        }
    }

    /// Distances of which there are rounds, the one with the most first.
    pub(crate) fn distances(&self) -> Vec<Distance> {
        let mut distances = vec![Distance::SameCluster, Distance::OtherCluster, Distance::Unknown];
        distances.retain(|&distance| self.round_count(distance) > 0);
        distances.sort_by_key(|&distance| core::cmp::Reverse(self.round_count(distance)));
        distances
    }

    pub(crate) fn round_count(&self, distance: Distance) -> usize {
        self.rounds.iter().filter(|round| round.distance == distance).count()
    }

    fn row(&self, of: Series<'_>) -> Option<&Row> {
        self.rows.iter().find(|row| row.series() == of)
    }

    /// A row's figures of each round of a distance.
    fn by_round(&self, distance: Distance, of: Series<'_>) -> impl Iterator<Item = &[Option<f64>]> {
        let figures = self.row(of).map_or(&[][..], |row| &row.figures);
        let per_round = figures.len().div_ceil(self.rounds.len().max(1)).max(1);
        let rounds = figures.chunks(per_round).zip(&self.rounds);
        rounds.filter(move |(_, round)| round.distance == distance).map(|(figures, _)| figures)
    }

    /// A series.
    pub(crate) fn spread(&self, distance: Distance, of: Series<'_>) -> Option<Spread> {
        self.compare(distance, of, of, |figure, _| figure)
    }

    /// A series, over the rounds of all distances.
    pub(crate) fn spread_of_all(&self, of: Series<'_>) -> Option<Spread> {
        Spread::new(&self.row(of)?.figures.iter().flatten().copied().collect::<Vec<_>>())
    }

    /// Two series compared inside each round.
    pub(crate) fn compare(
        &self,
        distance: Distance,
        one: Series<'_>,
        other: Series<'_>,
        compare: impl Fn(f64, f64) -> f64,
    ) -> Option<Spread> {
        let rounds = self.by_round(distance, one).zip(self.by_round(distance, other));
        let values = rounds.filter_map(|(one, other)| {
            let pairs = one.iter().zip(other);
            let all: Vec<f64> = pairs.filter_map(|(one, other)| Some(compare((*one)?, (*other)?))).collect();
            (!all.is_empty()).then(|| median(&all))
        });
        Spread::new(&values.collect::<Vec<_>>())
    }

    /// Every size of a test, ascending.
    pub(crate) fn sizes(&self, test: &str, places: &[&str]) -> Vec<usize> {
        let is_wanted = |row: &&Row| row.test == test && places.contains(&row.place.as_str());
        let mut sizes: Vec<usize> = self.rows.iter().filter(is_wanted).map(|row| row.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Every series of a test, in the order of the file.
    pub(crate) fn series(&self, test: &str) -> impl Iterator<Item = Series<'_>> {
        self.rows.iter().filter(move |row| row.test == test).map(Row::series)
    }
}

fn rounded(figure: f64) -> f64 {
    (figure * STEPS).round() / STEPS
}

#[cfg(test)]
mod tests {
    use super::{Distance, Figures, Series};

    #[test]
    fn a_round_without_a_figure_stays_empty() {
        let text = "{\"figure\":[1,\"rate\",\"a\",\"rxe\",8,1.0]}\n{\"figure\":[3,\"rate\",\"a\",\"rxe\",8,3.0]}\n\
                    {\"figure\":[3,\"rate\",\"b\",\"rxe\",8,6.0]}\n";
        let figures = Figures::parse(text).unwrap();
        let a = Series { test: "rate", who: "a", place: "rxe", size: 8 };
        assert_eq!(figures.spread(Distance::Unknown, a).unwrap().count, 2);
        let ratio = figures.compare(Distance::Unknown, Series { who: "b", ..a }, a, |b, a| b / a).unwrap();
        assert_eq!((ratio.median, ratio.count), (2.0, 1));
    }

    #[test]
    fn a_line_that_is_no_figure_is_an_error() {
        assert!(Figures::parse("{\"figure\":[1]}").unwrap_err().starts_with("line 1:"));
    }
}
