//! Watches what copies take in the way that was chosen, and tells when the cores have moved: their cost stays away from the reference.
//!
//! Medians are compared by *cumulative sums* (after E. S. Page, "Continuous inspection schemes", Biometrika 41, 1954): what a median is above the reference,
//! less a slack that noise explains, is added to one sum, and what it is below to another; a median within the slack takes off a step. A sum that comes to its
//! limit opens the choice. So a move is found although noise hides it in some of the medians, and two costs in random order, of which the reference is one, seldom
//! open anything. The slack follows the noise, which is measured from one cost to the next: a move adds to it once. The reference follows while both
//! sums are 0, so that a move does not carry it along before it is found.
//!
//! An opening that changes nothing was *in vain*: it doubles the limit for the next opening, so that noise cannot keep a connection
//! trying. A move that changes what copies take, and no choice, is not in vain.

use core::mem;

use super::cost::{CLEARLY_BETTER_Q4, MUCH_WORSE_Q4, parts};

/// The reference, of which differences are parts.
const WHOLE: u32 = 256;

/// Larger differences count as this one.
const DIFFERENCE_MAX: i32 = 1 << 16;

/// Most that a difference of two costs adds to the noise, a half: an outlier counts twice, a move once, and neither more than noise of 50 %.
const NOISE_MAX: u32 = 128;
/// Noise of which nothing is known: that of copies which take up to two fifths more or less.
const NOISE_START: u16 = 64;
/// Costs of which the noise is an average.
const NOISE_COSTS: u16 = 16;

/// Least slack: a thirteenth of the reference. With a smaller one, quiet costs that drift by some percent would open choices.
const SLACK_MIN: i32 = 20;
/// Slack as parts of the noise, in eighths. A median of five costs has a standard deviation of about half of the mean difference of two costs.
const SLACK_Q3: i32 = 5;
/// Factor of the slack while the reference is an average of fewer than this many medians, and so less exact.
const YOUNG_FACTOR: i32 = 2;
const MEDIANS_YOUNG: u8 = 4;

/// Most that a median adds to a sum, in slacks; what it takes off if it is within the slack.
const STEP_OF_SLACK: i32 = 2;
/// Medians that open a choice if each adds so much, and no opening was in vain. Medians of five share costs: three costs make
/// up to three of them.
const STEPS: i32 = 4;
/// Most times as many.
const PATIENCE_MAX: u8 = 16;

/// Medians of which the reference is an average.
const MEDIANS_MAX: u8 = 16;

/// Largest change of the cost over an opening in vain, in halves of the slack; and the largest of all, a quarter.
const IN_VAIN_Q1: i32 = 3;
const IN_VAIN_MAX: i32 = 64;
/// Largest change up to which the reference from before the opening is kept: an eighth.
const KEPT_MAX: i32 = 32;

/// Noise explains a single cost between these parts of the reference, in whole sixteenths.
const DOUBTED_Q4: [u64; 2] = [CLEARLY_BETTER_Q4, MUCH_WORSE_Q4];

/// Costs in a row that press for the next ones. Each cost that does not press gives one back; without any left, and so at first, none presses, so that a machine
/// whose times mean nothing is not timed densely all of the time.
const DOUBTS_MAX: u8 = 16;

/// The cost of what was chosen, and whether it has changed.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Watch {
    /// 0 for none.
    reference: u32,
    /// Medians in it.
    medians: u8,
    /// Sums of what medians were above and below it, in parts of [`WHOLE`].
    above: i32,
    below: i32,
    /// Factor by which openings in vain have raised the limit of the sums.
    patience: u8,
    /// The last cost; 0 for none.
    last: u32,
    /// Difference from one cost to the next, in parts of [`WHOLE`], times [`NOISE_COSTS`].
    noise: u16,
    /// Reference and its medians when the choice was opened, until it is settled; 0 for none.
    opened_at: u32,
    medians_opened: u8,
    /// What was chosen by the last opening has to prove itself; the cost before it had changed.
    is_proving: bool,
    has_changed: bool,
    is_doubted: bool,
    doubts_left: u8,
}

impl Watch {
    pub(super) const NEW: Self = Self {
        reference: 0,
        medians: 0,
        above: 0,
        below: 0,
        patience: 1,
        last: 0,
        noise: NOISE_START * NOISE_COSTS,
        opened_at: 0,
        medians_opened: 0,
        is_proving: false,
        has_changed: false,
        is_doubted: false,
        doubts_left: 0,
    };

    /// Returns the cost of what was chosen; 0 if it is not known.
    pub(super) const fn reference(&self) -> u32 {
        self.reference
    }

    /// Returns true if noise does not explain the last cost, for the timing that this brings: it is no time for a trial. Later ones are as usual until the next
    /// cost is known, which may take many of them.
    pub(super) const fn spend_doubt(&mut self) -> bool {
        mem::replace(&mut self.is_doubted, false)
    }

    /// Returns true if the next costs are to be measured soon: the last one is doubted, or a sum has begun.
    pub(super) const fn is_pressing(&self) -> bool {
        self.is_doubted || self.has_sum() && self.doubts_left > 0
    }

    const fn has_sum(&self) -> bool {
        self.above > 0 || self.below > 0
    }

    /// Returns the factor by which openings in vain have raised the limit of the sums: 1 to 16.
    pub(super) const fn patience(&self) -> u8 {
        self.patience
    }

    /// Handles a single cost, before the median that it belongs to.
    pub(super) fn note(&mut self, cost: u32) {
        if self.reference == 0 {
            return;
        }
        let last = mem::replace(&mut self.last, cost);
        if last > 0 {
            // Not of the reference, which says nothing of costs after a move.
            let change = difference(cost, last, cost.max(last)).unsigned_abs().min(NOISE_MAX);
            self.noise = self.noise - self.noise / NOISE_COSTS + u16::try_from(change).unwrap_or(0);
        }
        let is_far = is_far(cost, self.reference);
        self.is_doubted = is_far && self.doubts_left > 0;
        self.doubts_left = if is_far || self.has_sum() {
            self.doubts_left.saturating_sub(1)
        } else {
            (self.doubts_left + 1).min(DOUBTS_MAX)
        };
    }

    /// Handles a median. Returns true if the cores have moved: the choice is to be opened.
    pub(super) fn has_moved(&mut self, median: u32) -> bool {
        if self.reference == 0 {
            self.settle(median, false);
        }
        let slack = self.slack();
        let step = slack * STEP_OF_SLACK;
        // A fall is a part of what is left, so that halves and doubles count the same.
        let rise = difference(median, self.reference, self.reference);
        let fall = difference(self.reference, median, median);
        self.above = summed(self.above, rise, slack, step);
        self.below = summed(self.below, fall, slack, step);
        if !self.has_sum() {
            self.follow(median);
        }
        self.above.max(self.below) >= step * STEPS * i32::from(self.patience)
    }

    /// Returns the difference that noise explains.
    fn slack(&self) -> i32 {
        let slack = self.slack_of_noise();
        if self.medians < MEDIANS_YOUNG { slack * YOUNG_FACTOR } else { slack }
    }

    /// Returns the same with an exact reference.
    fn slack_of_noise(&self) -> i32 {
        let noise = i32::from(self.noise / NOISE_COSTS);
        (noise * SLACK_Q3 / 8).max(SLACK_MIN)
    }

    /// Takes one more median into the reference.
    fn follow(&mut self, median: u32) {
        self.medians = (self.medians + 1).min(MEDIANS_MAX);
        let part = u32::from(self.medians);
        self.reference = self.reference - self.reference / part + median / part;
    }

    /// Begins to watch again, what was chosen costing so much: another one was chosen, or one has proved itself.
    pub(super) const fn restart(&mut self, cost: u32) {
        (self.reference, self.medians, self.last) = (cost, 1, 0);
        (self.above, self.below, self.is_doubted) = (0, 0, false);
    }

    /// The choice is opened.
    pub(super) const fn open(&mut self) {
        if self.reference > 0 {
            (self.opened_at, self.medians_opened) = (self.reference, self.medians);
        }
        self.restart(0);
    }

    /// Begins to watch after an opening, at the end of which what was chosen before costs `cost`. `is_replaced`: another one is chosen.
    pub(super) fn settle(&mut self, cost: u32, is_replaced: bool) {
        let (opened_at, medians) = (mem::take(&mut self.opened_at), self.medians_opened);
        let change = difference(cost, opened_at, opened_at).abs();
        let in_vain = (self.slack_of_noise() * IN_VAIN_Q1 / 2).min(IN_VAIN_MAX);
        let was_in_vain = opened_at > 0 && change <= in_vain;
        // One that was asked for says nothing of the noise.
        (self.is_proving, self.has_changed) = (is_replaced && opened_at > 0, !was_in_vain);
        self.restart(cost);
        // A replacement may be noise until it has proved itself, and is after a cost that is about the same; a changed cost without one may be a move.
        if was_in_vain && !is_replaced {
            self.be_patient();
            if change <= KEPT_MAX {
                // The cores may move before there is another reference.
                (self.reference, self.medians) = (opened_at, medians);
                self.follow(cost);
            }
        }
    }

    /// Begins to watch what has proved itself at this cost. If an opening chose it after a changed cost, that was not in vain.
    pub(super) const fn prove(&mut self, cost: u32) {
        if mem::replace(&mut self.is_proving, false) && self.has_changed {
            self.patience = 1;
        }
        self.restart(cost);
    }

    /// Begins to watch what was there before at this cost, since what was chosen has not proved itself. If an opening chose that, it was in vain.
    pub(super) fn fail(&mut self, cost: u32) {
        if mem::replace(&mut self.is_proving, false) {
            self.be_patient();
        }
        self.restart(cost);
    }

    fn be_patient(&mut self) {
        self.patience = (self.patience * 2).min(PATIENCE_MAX);
    }

    /// Forgets the cost, since copies are made in another way from now on.
    pub(super) const fn forget(&mut self) {
        self.opened_at = 0;
        self.restart(0);
    }

    /// Ends an opening with a choice that was better several times, and has to prove itself.
    pub(super) const fn replace(&mut self) {
        self.opened_at = 0;
        (self.is_proving, self.has_changed) = (true, true);
    }
}

/// Returns by how many parts of a whole that counts as [`WHOLE`] a cost is above another one, [`DIFFERENCE_MAX`] at most; below it if that is negative.
fn difference(cost: u32, other: u32, whole: u32) -> i32 {
    let parts = i64::from(cost).abs_diff(i64::from(other)) * u64::from(WHOLE) / u64::from(whole.max(1));
    let parts = i32::try_from(parts).unwrap_or(DIFFERENCE_MAX).min(DIFFERENCE_MAX);
    if cost < other { -parts } else { parts }
}

/// Returns a sum with a difference: less the slack if it is more than that, a step at most; and else a step less, since the cost is what it was.
fn summed(sum: i32, difference: i32, slack: i32, step: i32) -> i32 {
    let added = if difference > slack { (difference - slack).min(step) } else { -step };
    (sum + added).max(0)
}

/// Returns true if noise does not explain a single cost.
fn is_far(cost: u32, reference: u32) -> bool {
    let [below, above] = DOUBTED_Q4;
    !(below..=above).contains(&parts(cost, reference))
}

#[cfg(test)]
mod tests;
