//! The choice for one class of sizes and one kind of memory.
//!
//! ```text
//!          ways have been tried, or 32 messages are over
//!   OPEN ------------------------------------------------> SETTLED
//!    ^           the chosen way takes another time             |
//!    +---------------------------------------------------------+
//! ```
//!
//! While it is open, a message in two or so is a trial of the way with the fewest observations. Once it is settled, trials are rare.

use super::candidate::{Candidate, Candidates};
use super::correction::{OCTAVE, narrow, ratio_of};
use super::drift::Drift;
use super::plan::Reason;
use super::terms::{Kind, Way};

/// Messages of an opening at most.
pub(super) const OPENING: u8 = 32;

/// Ways that take up to this many times as long as the best one are tried in an opening. If each cost of the machine is within a factor of 2 of the profile's, a
/// prediction is within 2 of the truth, and so the best way's is within 4 of the best estimate.
const TRIED_WITHIN: f64 = 4.0;
/// Observations of each of them.
const TRIALS: u8 = 3;
/// Ways this close to the best one are tried further, since three observations with noise of 10 % do not tell them apart: a part of the best one's time, and the observations.
const CLOSE: [(f64, u8); 2] = [(1.3, 8), (1.15, 14)];

/// Observations without which a way does not replace the chosen one: while open, and once settled.
const PROOF: [u8; 2] = [2, TRIALS];

/// Least gain for which the choice changes: log2 of 1.05.
const GAIN: i16 = OCTAVE * 7 / 100;

/// Part of the time that rare trials may lose by their expected cost. Costs are noisy, and the limit is 2 %.
const TRIALS_PART: f64 = 0.01;
/// Fewest and most messages from one rare trial of a way to the next, powers of two.
const PERIODS: [f64; 2] = [64.0, 32_768.0];

/// Change up to which an opening that changed no choice was in vain, in eighths of an octave.
const IN_VAIN: u8 = 2;

/// A choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) chosen: Way,
    pub(super) reason: Reason,
    /// The next message is a trial of this way.
    pub(super) armed: Option<Way>,
    /// Messages left of the opening; 0: settled.
    opening: u8,
    /// The choice before the opening, and its correction in eighths of an octave. `None`: this is the first opening.
    before: Option<(Way, i8)>,
    /// Messages, modulo 2^16.
    count: u16,
    drift: Drift,
    /// Correction of the chosen way, observed over predicted.
    pub(super) factor: f32,
}

impl Entry {
    pub(super) const NEW: Self = Self {
        chosen: Way::Superpipeline,
        reason: Reason::Predicted,
        armed: None,
        opening: OPENING,
        before: None,
        count: 0,
        drift: Drift::NEW,
        factor: 1.0,
    };

    /// Returns true if no message of it was observed yet.
    pub(super) const fn is_unused(&self) -> bool {
        self.opening == OPENING && self.before.is_none()
    }

    /// Takes the difference of an observation of the chosen way from its correction. Returns true if it takes another time.
    pub(super) fn has_changed(&mut self, difference: i16) -> bool {
        self.drift.has_changed(difference)
    }

    /// Opens the choice; `log`: the correction of the chosen way before the change.
    pub(super) fn open(&mut self, log: i16) {
        let eighths = i8::try_from(log / (OCTAVE / 8)).unwrap_or(i8::MAX);
        self.before = Some((self.chosen, eighths));
        self.opening = OPENING;
        self.drift.clear();
    }

    /// Chooses among the candidates, and says why.
    pub(super) fn choose(&mut self, candidates: &Candidates, kind: Kind) {
        let proof = PROOF[usize::from(self.opening == 0)];
        let current = candidates.iter().find(|one| one.way == self.chosen && !one.is_out());
        let is_eligible = |candidate: &&Candidate| {
            // Or as well known as the current one.
            let needed = current.map_or(0, |current| proof.min(current.count));
            let is_proven = candidate.count >= needed;
            !candidate.is_out() && is_proven
        };
        let by_score = |one: &&Candidate, other: &&Candidate| one.score_ns.total_cmp(&other.score_ns);
        let eligible = || candidates.iter().filter(is_eligible);
        let mut best = eligible().min_by(by_score).or(current);
        planted!(PlannerTakesWorst => best = candidates.iter().max_by(by_score));
        let Some(best) = best else { return };
        let is_first = self.before.is_none() && self.opening > 0;
        let mut is_change = current.is_none_or(|current| {
            let margin = if is_first { 1.0 } else { self.margin() };
            best.score_ns < current.score_ns * margin
        });
        planted!(PlannerTakesWorst => is_change = true);
        let chosen = if is_change { best } else { current.unwrap_or(best) };
        if self.chosen != chosen.way {
            self.chosen = chosen.way;
            self.drift.clear();
        }
        let is_held = best.score_ns < chosen.score_ns;
        self.reason = reason(chosen, candidates, kind, is_held);
        self.factor = narrow(chosen.factor);
    }

    /// Returns the part of the chosen one's time below which another one is taken: 5 % less, or by half of the noise.
    fn margin(&self) -> f64 {
        ratio_of(-GAIN.max(self.drift.noise() / 2))
    }

    /// Counts a message, and decides whether the next one is a trial. Returns true if the choice was open and is settled now.
    pub(super) fn pass(&mut self, candidates: &Candidates) -> bool {
        self.count = self.count.wrapping_add(1);
        self.armed = None;
        let Some(chosen) = candidates.iter().find(|one| one.way == self.chosen) else { return false };
        if self.opening == 0 {
            self.armed = self.rare_trial(candidates, chosen);
            return false;
        }
        let wanted = self.opening_trial(candidates);
        self.armed = wanted.filter(|&way| way != self.chosen);
        self.opening = if wanted.is_some() { self.opening - 1 } else { 0 };
        if self.opening > 0 {
            return false;
        }
        let log = chosen.log;
        let is_in_vain = self.before.is_some_and(|(way, eighths)| {
            let now = i8::try_from(log / (OCTAVE / 8)).unwrap_or(i8::MAX);
            way == self.chosen && now.abs_diff(eighths) <= IN_VAIN
        });
        self.drift.settle(is_in_vain);
        // From now on it is not the first opening.
        self.before = Some((self.chosen, 0));
        true
    }

    /// Returns the way whose turn it is while the choice is open: that with the fewest observations, of those that need more. `None`: no other one needs any.
    fn opening_trial(&self, candidates: &Candidates) -> Option<Way> {
        let present = || candidates.iter().filter(|candidate| !candidate.is_out());
        let least = |ns: fn(&Candidate) -> f64| present().map(ns).fold(f64::INFINITY, f64::min);
        let (takes_ns, score_ns) = (least(|one| one.takes_ns), least(|one| one.score_ns));
        // What is in doubt keeps no way out that the model alone would try.
        let hoped_ns = |one: &Candidate| {
            if one.is_doubted { one.takes_ns.min(one.predicted_ns) } else { one.takes_ns }
        };
        let needs = |one: &&Candidate| {
            one.count < TRIALS && hoped_ns(one) < TRIED_WITHIN * takes_ns
                || CLOSE.iter().any(|&(part, trials)| one.count < trials && one.score_ns < part * score_ns)
        };
        let needing = || present().filter(needs);
        if needing().all(|one| one.way == self.chosen) {
            return None;
        }
        needing().min_by_key(|one| (one.count, one.way != self.chosen)).map(|one| one.way)
    }

    /// Returns the way that is tried next once the choice is settled.
    fn rare_trial(&self, candidates: &Candidates, chosen: &Candidate) -> Option<Way> {
        let others = candidates.len().saturating_sub(1) as f64;
        let is_due = |(index, one): &(usize, &Candidate)| {
            if one.way == chosen.way || one.is_out() {
                return false;
            }
            if one.count < TRIALS && one.score_ns < chosen.score_ns {
                return true;
            }
            let lost_ns = (one.takes_ns - chosen.takes_ns).max(one.score_ns - chosen.score_ns);
            let [least, most] = PERIODS;
            let period = (lost_ns / chosen.takes_ns * others / TRIALS_PART).max(least);
            if period > most {
                return false;
            }
            #[expect(clippy::cast_possible_truncation, reason = "at most 32,768")]
            let period = (period as u16).next_power_of_two();
            // No two ways have their turn at once.
            usize::from(self.count % period) == 4 + 9 * index
        };
        candidates.iter().enumerate().find(is_due).map(|(_, one)| one.way)
    }
}

fn reason(chosen: &Candidate, candidates: &Candidates, kind: Kind, is_held: bool) -> Reason {
    let others = || candidates.iter().filter(|one| one.way != chosen.way);
    if others().next().is_none() {
        Reason::OnlyOne
    } else if others().any(|one| one.is_out() && one.score_ns < chosen.score_ns) {
        Reason::OtherDeclined
    } else if is_held {
        Reason::HeldByHysteresis
    } else if kind == Kind::Keepable
        && chosen.way == Way::Register
        && others().any(|one| one.takes_ns < chosen.takes_ns)
    {
        Reason::Invested
    } else if chosen.count == 0 {
        Reason::Predicted
    } else {
        Reason::Measured
    }
}
