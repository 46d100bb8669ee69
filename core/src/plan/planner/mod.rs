//! Chooses the way of each message: the cheapest by the cost model, corrected by what messages took.
//!
//! ```text
//!   plan(bytes, memory) ----> way, reason          a look-up
//!   observe(.., took_ns) ---> corrections, choice, next trial
//!   declined(..) -----------> the way is left out for 8, 16, .. messages
//! ```
//!
//! A choice is made for each class of sizes and kind of memory, when an observation comes, never when a message is planned. docs/model.md has the reasons, the constants, and what it does not see.
//!
//! It knows no clock, endpoint or fabric. Times are nanoseconds, bandwidths bytes per nanosecond. No value makes it panic: a profile is clamped, and times that are not positive numbers are
//! ignored. The model is Denis's, equations 1 to 9, and Frey and Alonso's registration.

mod absence;
mod candidate;
mod chunked;
mod classes;
mod correction;
mod drift;
mod entry;
mod estimates;
mod model;
mod plan;
mod reuse;
mod shape;
mod state;
mod terms;
#[cfg(test)]
mod tests;

use super::profile::Profile;
use absence::Absence;
use classes::{CLASSES, class_of, least_bytes};
use correction::{OCTAVE, log_of, narrow, ratio_of};
use model::Model;
pub use plan::{Explanation, Plan, Reason, WayEstimate};
use state::{State, absence_index, correction_index};
use terms::Kind;
pub use terms::{Memory, Terms, Way};

/// Messages of which the size that a choice is made for is an average.
const MEAN_COUNT: f32 = 8.0;

/// Chooses the way of each message of one direction of a connection.
///
/// Plan each message once, send it as planned, and report once how it went: [`observe`](Self::observe), or [`declined`](Self::declined). A message that fails otherwise is
/// not reported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Planner {
    profile: Profile,
    terms: Terms,
    model: Model,
    classes: [State; CLASSES],
}

impl Planner {
    /// Returns a planner that has observed nothing. Values of the profile that are absurd are clamped. Evaluates the cost model some hundred times.
    #[must_use]
    pub fn new(profile: Profile, terms: Terms) -> Self {
        let profile = model::sane(&profile);
        let model = Model::new(&profile, &terms);
        let classes = core::array::from_fn(State::new);
        let mut planner = Self { profile, terms, model, classes };
        planner.choose_all();
        planner
    }

    /// Returns the terms.
    #[must_use]
    pub const fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Changes the terms, as when the landing buffer has grown. What was learnt stays: corrections are parts of predictions.
    pub fn set_terms(&mut self, terms: Terms) {
        self.terms = terms;
        self.model = Model::new(&self.profile, &terms);
        self.choose_all();
    }

    fn choose_all(&mut self) {
        for class in 0..CLASSES {
            for kind in Kind::ALL {
                self.classes[class].entries[kind as usize].armed = None;
                self.choose(class, kind);
            }
        }
    }

    /// Plans a message: a look-up, and arithmetic that does not depend on the size. It changes no choice; a trial that was due is taken.
    pub fn plan(&mut self, bytes: u64, memory: Memory) -> Plan {
        let (class, kind) = (class_of(bytes), self.terms.kind(memory));
        let state = &mut self.classes[class];
        let (way, reason, factor) = if self.terms.is_short(bytes, kind) {
            (Way::Superpipeline, Reason::ShortMessage, f64::from(state.short_factor))
        } else {
            let entry = &mut state.entries[kind as usize];
            match entry.armed.take() {
                Some(way) => (way, Reason::Trial, ratio_of(self.log(class, way, kind))),
                None => (entry.chosen, entry.reason, f64::from(entry.factor)),
            }
        };
        let shape = self.model.shapes[class];
        let chunk_bytes = match way {
            #[expect(clippy::cast_possible_truncation, reason = "casts saturate")]
            Way::Pipeline => chunked::pipeline_chunk_bytes(&self.profile, &self.terms, bytes) as u32,
            Way::Superpipeline | Way::Eager => shape.chunk_bytes,
            Way::Register | Way::RegisterCached | Way::OneCopy | Way::SplitCopy => 0,
        };
        Plan {
            way,
            reason,
            predicted_ns: self.model.ns(way, kind, bytes as f64) * factor,
            c0_bytes: shape.c0_bytes,
            growth_q8: u32::from(shape.growth_q8),
            chunk_bytes,
        }
    }

    /// Handles what a message took: nanoseconds from its begin until the peer has acknowledged its end and its memory is released. `memory` is as it was planned. A time that
    /// is no positive number, or a way that is not possible, counts for nothing but the share of reuse.
    pub fn observe(&mut self, bytes: u64, memory: Memory, way: Way, took_ns: f64) {
        let (class, kind) = (class_of(bytes), self.terms.kind(memory));
        self.note_reuse(class, memory);
        let Some(log) = log_of(took_ns / self.model.ns(way, kind, bytes as f64)) else { return };
        if !self.allows(way, kind, class) {
            return;
        }
        let state = &mut self.classes[class];
        let correction = &mut state.corrections[correction_index(way, kind)];
        if self.terms.is_short(bytes, kind) {
            if way == Way::Superpipeline {
                correction.note(log);
                state.short_factor = narrow(ratio_of(correction.log().unwrap_or(0)));
            }
            return;
        }
        state.mean_bytes += (bytes as f32 - state.mean_bytes) / MEAN_COUNT;
        if let Some(index) = absence_index(way, kind) {
            state.absences[index].succeed();
        }
        let entry = &mut state.entries[kind as usize];
        let proven = correction.log().filter(|_| correction.count() >= 3);
        match proven {
            Some(before) if entry.chosen == way && entry.has_changed(log.saturating_sub(before)) => {
                correction.restart(log);
                self.open(class, kind, before);
            }
            Some(before) if entry.chosen != way && log < before - OCTAVE / 2 => {
                // Much faster than it was: two more trials follow.
                correction.doubt();
                correction.note(log);
            }
            Some(_) | None => correction.note(log),
        }
        self.pass(class, kind);
    }

    /// Handles a message that the peer or the fabric could not take this way, and that went through the landing buffer after a rendezvous. The way is left out for the next
    /// 8 messages of this class, after each further time for twice as many, up to 16,384. Such a message is not observed.
    pub fn declined(&mut self, bytes: u64, memory: Memory, way: Way) {
        let (class, kind) = (class_of(bytes), self.terms.kind(memory));
        self.note_reuse(class, memory);
        let Some(index) = absence_index(way, kind) else { return };
        self.pass_absences(class, kind);
        self.classes[class].absences[index].decline();
        self.choose(class, kind);
        self.arm(class, kind);
    }

    /// Explains what the next message would be planned as, unless it is a trial.
    #[must_use]
    pub fn explain(&self, bytes: u64, memory: Memory) -> Explanation {
        let (class, kind) = (class_of(bytes), self.terms.kind(memory));
        let state = &self.classes[class];
        let entry = &state.entries[kind as usize];
        let reuse = f64::from(state.reuse.share());
        let is_short = self.terms.is_short(bytes, kind);
        let (chosen, reason) =
            if is_short { (Way::Superpipeline, Reason::ShortMessage) } else { (entry.chosen, entry.reason) };
        let mut explanation = Explanation::new(bytes, memory, chosen, reason, reuse);
        let candidates = self.candidates(class, kind, bytes as f64);
        candidates
            .iter()
            .filter(|one| !is_short || one.way == Way::Superpipeline)
            .for_each(|candidate| explanation.push(candidate));
        explanation
    }

    /// Counts whether the buffer of a message was sent before.
    fn note_reuse(&mut self, class: usize, memory: Memory) {
        let reuse = &mut self.classes[class].reuse;
        match memory {
            Memory::Unnamed | Memory::Fresh => return,
            Memory::Keepable => reuse.note(false),
            Memory::KeepableAgain | Memory::Kept => reuse.note(true),
        }
        if memory == Memory::Kept {
            // Misses are to be registered, or no more.
            self.choose(class, Kind::Keepable);
        }
    }

    /// A message of this class and kind is over.
    fn pass(&mut self, class: usize, kind: Kind) {
        self.pass_absences(class, kind);
        self.choose(class, kind);
        self.arm(class, kind);
    }

    fn pass_absences(&mut self, class: usize, kind: Kind) {
        let places = match kind {
            Kind::Unnamed => 0..0,
            Kind::Fresh => 0..1,
            Kind::Keepable => 1..2,
            Kind::Kept => 2..4,
        };
        self.classes[class].absences[places].iter_mut().for_each(Absence::pass);
    }

    /// Opens a choice, and the others that rest on the same corrections.
    fn open(&mut self, class: usize, kind: Kind, log: i16) {
        let chosen = self.classes[class].entries[kind as usize].chosen;
        for other in Kind::ALL {
            let is_same = correction_index(chosen, other) == correction_index(chosen, kind);
            let entry = &mut self.classes[class].entries[other as usize];
            if other != kind && (!is_same || entry.is_unused() || !chosen.is_through_landing()) {
                continue;
            }
            entry.open(log);
            for way in Way::ALL.into_iter().filter(|&way| way != chosen) {
                if self.allows(way, other, class) {
                    self.classes[class].corrections[correction_index(way, other)].doubt();
                }
            }
        }
    }

    fn choose(&mut self, class: usize, kind: Kind) {
        let candidates = self.candidates(class, kind, f64::from(self.classes[class].mean_bytes));
        self.classes[class].entries[kind as usize].choose(&candidates, kind);
    }

    /// Decides on the next trial. A choice that is settled now tells the classes that have none.
    fn arm(&mut self, class: usize, kind: Kind) {
        let candidates = self.candidates(class, kind, f64::from(self.classes[class].mean_bytes));
        if self.classes[class].entries[kind as usize].pass(&candidates) {
            for other in 0..CLASSES {
                if self.classes[other].entries[kind as usize].is_unused() {
                    self.choose(other, kind);
                }
            }
        }
    }

    fn allows(&self, way: Way, kind: Kind, class: usize) -> bool {
        let below = if class + 1 < CLASSES { least_bytes(class + 1) } else { u64::MAX };
        self.terms.allows(way, kind, below)
    }
}
