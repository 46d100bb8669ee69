//! Whether targets are met, in the state of which there are the most rounds.

use super::data::{LIMIT, Measured, SUPERPIPE, Series, Spread};
use super::targets::{Rival, Rule, Target};
use crate::plan::{Memory, Part, Test};
use crate::raw::State;

/// A target at one size.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) test: Test,
    pub(super) memory: Memory,
    pub(super) bytes: usize,
    pub(super) state: State,
    /// the rival's title, where there is one
    pub(super) rival: String,
    /// what the rule is about
    pub(super) got: Spread,
    pub(super) met: bool,
}

/// The verdicts of a target; none where it was not measured.
pub(super) fn judge(target: &Target, measured: &[Measured]) -> Vec<Verdict> {
    let Some(measured) = measured.iter().find(|measured| measured.part == target.part) else {
        return Vec::new();
    };
    let mut verdicts = Vec::new();
    for state in measured.states() {
        for &memory in target.memories {
            for &test in target.tests {
                let judge = Judge { target, measured, state, memory, test };
                match target.rule {
                    Rule::StepKeeps(share) => verdicts.extend(judge.worst_step(share)),
                    _ if target.sizes.is_empty() => {
                        verdicts
                            .extend(measured.sizes(test).into_iter().filter_map(|bytes| judge.size(bytes)));
                    }
                    _ => verdicts.extend(target.sizes.iter().filter_map(|&bytes| judge.size(bytes))),
                }
            }
        }
    }
    verdicts
}

struct Judge<'a> {
    target: &'a Target,
    measured: &'a Measured,
    state: State,
    memory: Memory,
    test: Test,
}

impl Judge<'_> {
    const fn own(&self, bytes: usize) -> Series<'static> {
        Series { who: SUPERPIPE, memory: self.memory, test: self.test, bytes }
    }

    fn size(&self, bytes: usize) -> Option<Verdict> {
        let own = self.own(bytes);
        let (rival, got, met) = match self.target.rule {
            Rule::TimesAtMost(rival, factor) => {
                let (title, rival) = self.rival(rival, bytes)?;
                let got = self.measured.ratio(self.state, own, rival)?;
                (title, got, got.median <= factor)
            }
            Rule::SpeedAtLeast(rival, factor) => {
                let (title, rival) = self.rival(rival, bytes)?;
                let got = self.measured.ratio(self.state, rival, own)?;
                (title, got, got.median >= factor)
            }
            Rule::FasterThan(rival) => {
                let (title, rival) = self.rival(rival, bytes)?;
                let got = self.measured.ratio(self.state, rival, own)?;
                (title, got, got.median > 1.0)
            }
            Rule::NanosecondsMore(rival, ns) => {
                let (title, rival) = self.rival(rival, bytes)?;
                let got = self.nanoseconds_more(own, rival)?;
                (title, got, got.median <= ns)
            }
            Rule::FirstAtMost(factor) => {
                let got = self.first(own)?;
                (String::new(), got, got.median <= factor)
            }
            Rule::StepKeeps(_) => return None,
        };
        Some(self.verdict(bytes, rival, got, met))
    }

    fn verdict(&self, bytes: usize, rival: String, got: Spread, met: bool) -> Verdict {
        Verdict { test: self.test, memory: self.memory, bytes, state: self.state, rival, got, met }
    }

    /// Its title and figures.
    fn rival(&self, rival: Rival, bytes: usize) -> Option<(String, Series<'_>)> {
        let memory = self.measured.peers_memory();
        let series = |who| Series { who, memory, test: self.test, bytes };
        match rival {
            Rival::Limit => Some(("bare ring".to_owned(), series(LIMIT))),
            Rival::Ucx => {
                let us = |who| self.measured.us(self.state, series(who)).map(|spread| spread.median);
                let ids = self.measured.contestants.iter().filter(|other| other.id.starts_with("ucx"));
                let best =
                    ids.filter_map(|ucx| Some((ucx, us(&ucx.id)?))).min_by(|a, b| a.1.total_cmp(&b.1))?;
                Some((best.0.title.clone(), series(&best.0.id)))
            }
            Rival::BestPeer => {
                let (peer, _) = self.measured.best_peer(self.state, self.test, bytes)?;
                Some((peer.title.clone(), series(&peer.id)))
            }
        }
    }

    fn nanoseconds_more(&self, own: Series, rival: Series) -> Option<Spread> {
        let us = |of| self.measured.by_round(self.state, of, |figure| Some(figure.us()));
        let (own, rival) = (us(own), us(rival));
        let more = own.iter().filter_map(|(round, own)| Some((own - rival.get(round)?) * 1000.0));
        Spread::new(&more.collect::<Vec<_>>())
    }

    /// The first message of a connection over the median of those that follow: the median of all connections.
    fn first(&self, own: Series) -> Option<Spread> {
        let ratio = |figure: &crate::raw::Figure| figure.first_us.map(|first_us| first_us / figure.p50_us);
        Spread::new(&self.measured.by_round(self.state, own, ratio).into_values().collect::<Vec<_>>())
    }

    /// The step that keeps the least of its bandwidth, named by the size that it leads to.
    fn worst_step(&self, share: f64) -> Option<Verdict> {
        let sizes = self.measured.sizes(self.test);
        let steps = sizes.windows(2).filter_map(|pair| {
            let us = |bytes| self.measured.by_round(self.state, self.own(bytes), |figure| Some(figure.us()));
            let (before, after) = (us(pair[0]), us(pair[1]));
            let growth = pair[1] as f64 / pair[0] as f64;
            let kept = before.iter().filter_map(|(round, before)| Some(before / after.get(round)? * growth));
            Some((pair[1], Spread::new(&kept.collect::<Vec<_>>())?))
        });
        let (bytes, got) = steps.min_by(|a, b| a.1.median.total_cmp(&b.1.median))?;
        Some(self.verdict(bytes, String::new(), got, got.median >= share))
    }
}

impl Verdict {
    /// Whether it counts: the state with the most rounds decides, and the other one is shown.
    pub(super) fn decides(&self, measured: &[Measured], part: Part) -> bool {
        let part = measured.iter().find(|measured| measured.part == part);
        part.is_some_and(|part| part.states().first() == Some(&self.state))
    }
}
