//! The raw figures of a part, and what is asked of them.

use std::collections::BTreeMap;
use std::path::Path;

use superpipe_bench::failure::Failure;
use superpipe_bench::stats::median;

use crate::plan::{Memory, Part, Test};
use crate::raw::{self, Contestant, Figure, Kind, Line, Machine, Round, State, Waiting};

pub(super) const SUPERPIPE: &str = "superpipe";
pub(super) const LIMIT: &str = "limit";

/// A part that was measured.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) part: Part,
    pub(super) machine: Machine,
    pub(super) contestants: Vec<Contestant>,
    pub(super) rounds: Vec<Round>,
    pub(super) figures: Vec<Figure>,
    pub(super) waiting: Vec<Waiting>,
}

/// Whose figures, of what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Series<'a> {
    pub(super) who: &'a str,
    pub(super) memory: Memory,
    pub(super) test: Test,
    pub(super) bytes: usize,
}

/// The median of rounds, the lowest and the highest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    pub(super) count: usize,
}

impl Spread {
    /// Of no rounds there is none.
    pub(super) fn new(values: &[f64]) -> Option<Self> {
        let min = values.iter().copied().reduce(f64::min)?;
        let max = values.iter().copied().reduce(f64::max)?;
        Some(Self { median: median(values), min, max, count: values.len() })
    }
}

impl Measured {
    /// The part's file, if there is one.
    pub(super) fn read(directory: &Path, part: Part) -> Result<Option<Self>, Failure> {
        Ok(Self::new(part, raw::read(&directory.join(format!("{}.jsonl", part.name())))?))
    }

    /// The part's lines, if they say where they come from.
    pub(super) fn new(part: Part, lines: Vec<Line>) -> Option<Self> {
        let (mut machine, mut contestants, mut rounds) = (None, Vec::new(), Vec::new());
        let (mut figures, mut waiting) = (Vec::new(), Vec::new());
        for line in lines {
            match line {
                Line::Machine(line) => machine = Some(line),
                Line::Contestant(line) => contestants.push(line),
                Line::Round(line) => rounds.push(line),
                Line::Figure(line) => figures.push(line),
                Line::Waiting(line) => waiting.push(line),
            }
        }
        Some(Self { part, machine: machine?, contestants, rounds, figures, waiting })
    }

    /// The states of which there are rounds, the one with the most first.
    pub(super) fn states(&self) -> Vec<State> {
        let mut states = vec![State::Near, State::Far];
        states.retain(|&state| self.round_count(state) > 0);
        states.sort_by_key(|&state| core::cmp::Reverse(self.round_count(state)));
        states
    }

    pub(super) fn round_count(&self, state: State) -> usize {
        self.rounds.iter().filter(|round| round.state == state).count()
    }

    /// A figure of every round of a state that has one; the median where a round has several.
    pub(super) fn by_round(
        &self,
        state: State,
        of: Series,
        value: impl Fn(&Figure) -> Option<f64>,
    ) -> BTreeMap<u32, f64> {
        let mut rounds: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for figure in &self.figures {
            let is_wanted = figure.bytes == of.bytes
                && (figure.test, figure.memory) == (of.test, of.memory)
                && figure.contestant == of.who;
            if is_wanted && self.state_of(figure.round) == Some(state) {
                rounds.entry(figure.round).or_default().extend(value(figure));
            }
        }
        rounds
            .into_iter()
            .filter(|(_, values)| !values.is_empty())
            .map(|(round, all)| (round, median(&all)))
            .collect()
    }

    /// The time of a message.
    pub(super) fn us(&self, state: State, of: Series) -> Option<Spread> {
        let rounds = self.by_round(state, of, |figure| Some(figure.us()));
        Spread::new(&rounds.into_values().collect::<Vec<_>>())
    }

    /// One time divided by another, round by round.
    pub(super) fn ratio(&self, state: State, over: Series, under: Series) -> Option<Spread> {
        let us = |of| self.by_round(state, of, |figure| Some(figure.us()));
        let (over, under) = (us(over), us(under));
        let ratios: Vec<f64> =
            over.iter().filter_map(|(round, over)| Some(over / under.get(round)?)).collect();
        Spread::new(&ratios)
    }

    /// The peer that is the fastest in the median, with its memory.
    pub(super) fn best_peer(&self, state: State, test: Test, bytes: usize) -> Option<(&Contestant, f64)> {
        let memory = self.peers_memory();
        let us = |peer: &Contestant| {
            self.us(state, Series { who: &peer.id, memory, test, bytes }).map(|spread| spread.median)
        };
        let peers = self.contestants.iter().filter(|contestant| contestant.kind == Kind::Peer);
        peers.filter_map(|peer| Some((peer, us(peer)?))).min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// What peers receive into.
    pub(super) fn peers_memory(&self) -> Memory {
        if self.part == Part::Cold { Memory::Plain } else { Memory::Reused }
    }

    /// Every size of a test, in ascending order.
    pub(super) fn sizes(&self, test: Test) -> Vec<usize> {
        let mut sizes: Vec<usize> =
            self.figures.iter().filter(|figure| figure.test == test).map(|figure| figure.bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    fn state_of(&self, round: u32) -> Option<State> {
        self.rounds.iter().find(|other| other.round == round).map(|round| round.state)
    }
}
