//! The figures of a part, as they are kept in DIR/benchmarks/PART.jsonl: JSON, one object per line.
//!
//! ```text
//! {"fact":[NAME,VALUE]}                                        the machine and the versions, in the order of the page
//! {"contestant":{"id","title","kind","version","settings","command"}}
//! {"command":[WHO AND TEST,LINE]}                              the command behind a contestant's figures of a test
//! {"round":{"distance","least_ns","most_ns","again","load"}}   one per round; none where the distance was not probed
//! {"best":[TEST,SIZE,DISTANCE,OPTIONS]}                        the bare ring's best configuration
//! {"row":[TEST,WHO,PLACE,SIZE,[FIGURE,...]]}                   every figure of a series, round by round; null for none
//! {"figure":[ROUND,TEST,WHO,PLACE,SIZE,FIGURE]}                one figure, as a guest prints it; kept in rows
//! ```
//!
//! A distance is near, apart or far. A round of a distance has one figure of each series: the figures of one test and size were taken right after
//! one another at that distance, those of other sizes whenever the cores were there. The last round of a distance may lack some sizes.
//!
//! A figure is what the page compares: µs per message (the median of half round trips, the average of a stream), or 10^6
//! bytes per second of the tests of a rate. SIZE is in bytes, or µs of a pause. PLACE is the receiver's memory, the RDMA
//! driver or the placement on cores. A test that a round repeats has its figures side by side in the row.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use superpipe_bench::failure::Failure;
use superpipe_bench::stats::median;

use crate::class::Class;

/// Steps of a figure in a µs: tenths of a nanosecond, since more was not measured.
const STEPS: f64 = 1e4;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Fact(String, String),
    Contestant(Contestant),
    Command(String, String),
    Round(Round),
    Best(String, usize, Class, String),
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

/// One round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Round {
    #[serde(rename = "distance")]
    pub(crate) class: Class,
    /// times of 8 bytes from core to core, before and after the round's visits
    pub(crate) least_ns: f64,
    pub(crate) most_ns: f64,
    /// visits that were run again, since the distance changed
    pub(crate) again: u32,
    /// the machine's load average at the beginning
    pub(crate) load: f64,
}

impl Round {
    const UNKNOWN: Self = Self { class: Class::Unknown, least_ns: 0.0, most_ns: 0.0, again: 0, load: 0.0 };
}

/// The best configuration of the bare ring.
#[derive(Clone, Debug)]
pub(crate) struct Best {
    pub(crate) test: String,
    pub(crate) size: usize,
    pub(crate) class: Class,
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
    /// Adds a figure of a round, counted from 0. Rounds of different classes may take turns.
    pub(crate) fn add(&mut self, round: usize, of: Series<'_>, figure: f64) {
        let at = self.rows.iter().position(|row| row.series() == of).unwrap_or_else(|| {
            let Series { test, who, place, size } = of;
            let [test, who, place] = [test, who, place].map(str::to_owned);
            self.rows.push(Row { test, who, place, size, figures: Vec::new() });
            self.rows.len() - 1
        });
        let figures = &mut self.rows[at].figures;
        figures.resize(figures.len().max(round + 1), None);
        match &mut figures[round] {
            place @ None => *place = Some(figure),
            // a test that every round repeats equally often
            Some(_) => figures.push(Some(figure)),
        }
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
            Line::Best(test, size, class, options) => {
                self.bests.push(Best { test, size, class, options });
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
        let is_known = |round: &&Round| round.class != Class::Unknown;
        let rounds = self.rounds.iter().filter(is_known).copied().map(Line::Round);
        let bests = self.bests.iter().cloned().map(|best| {
            let Best { test, size, class, options } = best;
            Line::Best(test, size, class, options)
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

    /// Classes of which there are rounds, in the order of the page. Mixed rounds are not shown.
    pub(crate) fn classes(&self) -> Vec<Class> {
        Class::SHOWN.into_iter().filter(|&class| self.round_count(class) > 0).collect()
    }

    pub(crate) fn round_count(&self, class: Class) -> usize {
        self.rounds.iter().filter(|round| round.class == class).count()
    }

    fn row(&self, of: Series<'_>) -> Option<&Row> {
        self.rows.iter().find(|row| row.series() == of)
    }

    /// A row's figures of each round of a class.
    fn by_round(&self, class: Class, of: Series<'_>) -> impl Iterator<Item = &[Option<f64>]> {
        let figures = self.row(of).map_or(&[][..], |row| &row.figures);
        let per_round = figures.len().div_ceil(self.rounds.len().max(1)).max(1);
        let rounds = figures.chunks(per_round).zip(&self.rounds);
        rounds.filter(move |(_, round)| round.class == class).map(|(figures, _)| figures)
    }

    /// A series.
    pub(crate) fn spread(&self, class: Class, of: Series<'_>) -> Option<Spread> {
        self.compare(class, of, of, |figure, _| figure)
    }

    /// A series, over the rounds of all classes.
    pub(crate) fn spread_of_all(&self, of: Series<'_>) -> Option<Spread> {
        Spread::new(&self.row(of)?.figures.iter().flatten().copied().collect::<Vec<_>>())
    }

    /// Two series compared inside each round.
    pub(crate) fn compare(
        &self,
        class: Class,
        one: Series<'_>,
        other: Series<'_>,
        compare: impl Fn(f64, f64) -> f64,
    ) -> Option<Spread> {
        let rounds = self.by_round(class, one).zip(self.by_round(class, other));
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
    use superpipe_bench::probe::Distance;

    use super::{Class, Figures, Round, Series};

    #[test]
    fn a_round_without_a_figure_stays_empty() {
        let text = "{\"figure\":[1,\"rate\",\"a\",\"rxe\",8,1.0]}\n{\"figure\":[3,\"rate\",\"a\",\"rxe\",8,3.0]}\n\
                    {\"figure\":[3,\"rate\",\"b\",\"rxe\",8,6.0]}\n";
        let figures = Figures::parse(text).unwrap();
        let a = Series { test: "rate", who: "a", place: "rxe", size: 8 };
        assert_eq!(figures.spread(Class::Unknown, a).unwrap().count, 2);
        let ratio = figures.compare(Class::Unknown, Series { who: "b", ..a }, a, |b, a| b / a).unwrap();
        assert_eq!((ratio.median, ratio.count), (2.0, 1));
    }

    #[test]
    fn rounds_may_take_turns() {
        let of = Series { test: "latency", who: "a", place: "reused", size: 8 };
        let mut figures = Figures::default();
        for (round, figure) in [(0, 1.0), (1, 20.0), (3, 40.0), (2, 3.0)] {
            figures.add(round, of, figure);
        }
        let round = |class| Round { class, ..Round::UNKNOWN };
        let [near, far] = [Distance::Near, Distance::Far].map(Class::At);
        figures.rounds = [near, far, near, far].map(round).into();
        let spread = |class| figures.spread(class, of).map(|spread| (spread.min, spread.max, spread.count));
        assert_eq!((spread(near), spread(far)), (Some((1.0, 3.0, 2)), Some((20.0, 40.0, 2))));
        assert_eq!(figures.classes(), [near, far]);
    }

    #[test]
    fn a_line_that_is_no_figure_is_an_error() {
        assert!(Figures::parse("{\"figure\":[1]}").unwrap_err().starts_with("line 1:"));
    }
}
