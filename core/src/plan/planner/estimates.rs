//! Estimates: predictions of the model, corrected by what was observed.

use super::Planner;
use super::candidate::{Candidate, Candidates};
use super::classes::CLASSES;
use super::correction::ratio_of;
use super::state::{absence_index, correction_index, sibling};
use super::terms::{Kind, Way};

/// Part of a correction that is taken over from the next class.
const TAKEN_OVER: f64 = 0.8;

impl Planner {
    /// Returns the ways of a message, with what is known of them.
    pub(super) fn candidates(&self, class: usize, kind: Kind, bytes: f64) -> Candidates {
        let state = &self.classes[class];
        let mut candidates = Candidates::new();
        for way in Way::ALL.into_iter().filter(|&way| self.allows(way, kind, class)) {
            let log = self.log(class, way, kind);
            let (predicted_ns, factor) = (self.model.ns(way, kind, bytes), ratio_of(log));
            let takes_ns = predicted_ns * factor;
            let score_ns = if way == Way::Register && kind == Kind::Keepable {
                let hit = self.model.ns(Way::RegisterCached, Kind::Kept, bytes);
                let hit_ns = hit * ratio_of(self.log(class, Way::RegisterCached, Kind::Kept));
                let reuse = f64::from(state.reuse.share());
                (1.0 - reuse) * takes_ns + reuse * hit_ns
            } else {
                takes_ns
            };
            let out_for = absence_index(way, kind).map_or(0, |index| state.absences[index].left());
            let correction = &state.corrections[correction_index(way, kind)];
            // As many as it has room for.
            let _ = candidates.push(Candidate {
                way,
                predicted_ns,
                takes_ns,
                score_ns,
                factor,
                log,
                count: correction.count(),
                is_doubted: correction.count() == 0 && correction.log().is_some(),
                out_for,
            });
        }
        candidates
    }

    /// Returns the logarithm of a way's correction: its own; or that of the same way out of other memory; or, the less the farther, that of the nearest class that has one.
    pub(super) fn log(&self, class: usize, way: Way, kind: Kind) -> i16 {
        let index = correction_index(way, kind);
        let of = |class: usize, index: usize| {
            self.classes.get(class).and_then(|state| state.corrections[index].log())
        };
        let own = of(class, index).or_else(|| of(class, sibling(index)));
        if let Some(own) = own {
            return own;
        }
        let mut part = 1.0;
        for distance in 1..CLASSES {
            part *= TAKEN_OVER;
            let below = class.checked_sub(distance).and_then(|below| of(below, index));
            if let Some(log) = below.or_else(|| of(class + distance, index)) {
                #[expect(clippy::cast_possible_truncation, reason = "less than it was")]
                let log = (f64::from(log) * part) as i16;
                return log;
            }
        }
        0
    }
}
