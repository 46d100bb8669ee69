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
mod tests {
    use super::*;

    /// Returns a watch whose reference is 1000, of so many medians, where costs take `noise` percent more and less in turn.
    fn settled(medians: u32, noise: u32) -> Watch {
        let mut watch = Watch::NEW;
        watch.settle(1000, false);
        for turn in 0..64 {
            watch.note(if turn % 2 == 0 { 1000 - 10 * noise } else { 1000 + 10 * noise });
        }
        (1..medians).for_each(|_| assert!(!watch.has_moved(1000)));
        watch.note(1000);
        watch
    }

    /// Returns how many such medians open the choice; 0 if 200 do not.
    fn opens_after(watch: &mut Watch, medians: &[u32]) -> usize {
        let mut medians = medians.iter().cycle().take(200);
        medians.position(|median| watch.has_moved(*median)).map_or(0, |at| at + 1)
    }

    #[test]
    fn a_changed_median_opens_soon_if_noise_is_small() {
        let steady = [(2000, 4), (1240, 4), (1160, 8), (1070, 0), (930, 0), (840, 6), (770, 4), (1, 4)];
        let young = [(2000, 4), (1260, 13), (1130, 0), (870, 0), (740, 7), (1, 4)];
        for (medians, table) in [(8, &steady[..]), (1, &young)] {
            for (median, opens) in table {
                let mut watch = settled(medians, 0);
                assert_eq!(opens_after(&mut watch, &[*median]), *opens, "{median} after {medians}");
            }
        }
    }

    #[test]
    fn the_slack_follows_the_noise() {
        for (noise, slack) in [(0, 20), (5, 20), (10, 28), (15, 39), (25, 61), (90, 78)] {
            assert_eq!(settled(8, noise).slack(), slack, "noise of {noise} %");
        }
        let mut watch = settled(8, 0);
        let before = watch.noise / NOISE_COSTS;
        for cost in [5000, 5000, 1000, 1000] {
            watch.note(cost);
        }
        let outlier = u16::try_from(NOISE_MAX).unwrap_or(0) / NOISE_COSTS;
        assert!(watch.noise / NOISE_COSTS <= before + 2 * outlier, "a move counts once, an outlier twice");
    }

    /// Every third median is one that noise explains; of two in turn, one is.
    #[test]
    fn a_move_within_the_noise_is_found_and_carries_nothing_along() {
        for (medians, opens) in [
            ([1380, 1380, 1100], 47),
            ([700, 700, 900], 44),
            ([1180, 900, 1000], 0),
            ([1600, 1000, 1000], 0),
            ([2000, 1000, 1000], 0),
        ] {
            let mut watch = settled(8, 12);
            watch.patience = 4;
            assert_eq!(opens_after(&mut watch, &medians), opens, "{medians:?}");
            assert!(opens == 0 || watch.reference().abs_diff(1000) <= 20, "{}", watch.reference());
        }
    }

    /// A connection between near cores that moves far apart at once: neither its noise nor its costs are known well.
    #[test]
    fn a_large_move_of_a_young_connection_is_found_soon() {
        for [low, high] in [[15_000, 25_000], [400, 500], [1500, 2000]] {
            let (mut watch, mut samples) = (Watch::NEW, super::super::samples::Samples::NONE);
            watch.settle(1000, false);
            let opens = (1..=200).find(|turn| {
                let cost = if turn % 2 == 0 { low } else { high };
                watch.note(cost);
                samples.add(cost);
                samples.median().is_some_and(|median| watch.has_moved(median))
            });
            assert!(opens.is_some_and(|costs| costs <= 12), "{low} to {high}: {opens:?}");
        }
    }

    /// Two kinds of buffers, of which one costs twice as much.
    #[test]
    fn two_costs_at_random_open_seldom() {
        let (mut watch, mut samples) = (Watch::NEW, super::super::samples::Samples::NONE);
        watch.settle(1000, false);
        let (mut seed, mut opened) = (1_u64, 0);
        for _ in 0..100_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let cost = if seed >> 63 == 0 { 1000 } else { 2000 };
            watch.note(cost);
            samples.add(cost);
            if samples.median().is_some_and(|median| watch.has_moved(median)) {
                opened += 1;
                watch.open();
                watch.settle(cost, false);
            }
        }
        assert!(opened <= 200, "{opened}");
    }

    #[test]
    fn one_median_takes_off_no_more_than_another_one_adds() {
        let mut watch = settled(8, 0);
        watch.patience = 4;
        let mut medians = [2000; 20];
        medians[6] = 1;
        assert_eq!(opens_after(&mut watch, &medians), 18);
    }

    #[test]
    fn the_reference_follows_what_is_no_move() {
        let mut watch = settled(8, 0);
        for median in (1000..2000).step_by(2) {
            assert!(!watch.has_moved(median), "{median}");
        }
        assert!(watch.reference() > 1900);
    }

    /// The cores move while an opening in vain ends.
    #[test]
    fn an_opening_in_vain_keeps_the_reference() {
        for (cost, later, opens) in [(1000, 850, 13), (1120, 850, 12), (1240, 1150, 0), (1400, 1150, 22)] {
            let mut watch = settled(8, 0);
            watch.open();
            watch.settle(cost, false);
            assert_eq!(opens_after(&mut watch, &[later]), opens, "{cost}");
        }
    }

    #[test]
    fn only_openings_in_vain_make_the_next_one_later() {
        for (now, is_replaced, patience) in [
            (100, false, 2),
            (100, true, 1),
            (123, false, 2),
            (124, false, 1),
            (76, false, 1),
            (77, false, 2),
        ] {
            let mut watch = Watch::NEW;
            watch.settle(100, false);
            watch.open();
            watch.open();
            watch.settle(now, is_replaced);
            assert_eq!(watch.patience(), patience, "{now}");
        }
        let mut watch = Watch::NEW;
        for patience in [1, 2, 4, 8, 16, 16] {
            watch.settle(100, false);
            assert_eq!(watch.patience(), patience);
            watch.open();
        }
        watch.settle(300, false);
        assert_eq!(watch.patience(), 16, "a move that replaces nothing proves nothing of the noise");
        watch.open();
        watch.settle(100, true);
        assert_eq!(watch.patience(), 16, "it has to prove itself");
        watch.prove(90);
        assert_eq!(watch.patience(), 1);
        // After an opening for another cost, and after one for the same.
        for (now, [proved, failed]) in [(300, [1, 4]), (90, [2, 4])] {
            let mut watch = Watch { patience: 2, ..Watch::NEW };
            watch.settle(90, false);
            watch.open();
            watch.settle(now, true);
            let mut other = watch;
            watch.prove(80);
            other.fail(90);
            assert_eq!([watch.patience(), other.patience()], [proved, failed], "{now}");
            other.fail(90);
            assert_eq!(other.patience(), failed, "no opening");
        }
    }

    /// Whatever the noise.
    #[test]
    fn a_change_by_more_than_a_quarter_was_not_in_vain() {
        for (cost, patience) in [(1250, 2), (1254, 1)] {
            let mut watch = settled(8, 90);
            watch.open();
            watch.settle(cost, false);
            assert_eq!(watch.patience(), patience, "{cost}");
        }
    }

    #[test]
    fn a_reference_that_is_kept_is_as_young_as_before() {
        for (medians, slack) in [(2, 40), (3, 20), (8, 20)] {
            let mut watch = settled(medians, 0);
            watch.open();
            watch.settle(1000, false);
            assert_eq!(watch.slack(), slack, "{medians}");
        }
    }

    #[test]
    fn absurd_costs_do_no_harm() {
        let mut watch = settled(8, 0);
        for turn in 0..1000 {
            let cost = [1, u32::MAX, 1000, 0][turn % 4];
            watch.note(cost);
            if watch.has_moved(cost) {
                watch.open();
                watch.settle(cost, turn % 3 == 0);
            }
        }
        assert!(watch.noise <= NOISE_COSTS * u16::try_from(NOISE_MAX).unwrap_or(0) + NOISE_COSTS);
    }

    /// Without it the end that opens first, whose peer then tells the time of its chosen kernel rarely, keeps the other one from opening.
    #[test]
    fn a_sum_that_has_begun_presses() {
        let mut watch = settled(8, 0);
        for (median, is_pressing) in [(1000, false), (1300, true), (1000, false), (780, true), (1000, false)]
        {
            watch.note(1000);
            assert!(!watch.has_moved(median));
            assert_eq!((watch.is_pressing(), watch.is_doubted), (is_pressing, false), "{median}");
        }
    }

    #[test]
    fn doubts_are_few() {
        let mut watch = Watch::NEW;
        watch.note(1);
        watch.settle(100, false);
        watch.note(300);
        assert!(!watch.is_doubted, "nothing is known of the noise yet");
        (0..40).for_each(|_| watch.note(110));
        let doubted = (0..40).filter(|_| {
            watch.note(300);
            watch.is_doubted
        });
        assert_eq!(doubted.count(), 16);
        watch.note(100);
        watch.note(20);
        assert!(watch.is_doubted);
        watch.note(20);
        assert!(!watch.is_doubted, "one cost gives one doubt back");
    }

    #[test]
    fn noise_explains_a_single_cost_between_11_and_25_sixteenths() {
        for (cost, is_doubted) in [(687, true), (688, false), (1562, false), (1563, true)] {
            let mut watch = settled(8, 0);
            watch.note(cost);
            assert_eq!(watch.is_doubted, is_doubted, "{cost}");
        }
    }

    #[test]
    fn a_restart_forgets_the_last_cost() {
        let mut watch = settled(8, 0);
        let noise = watch.noise;
        watch.note(3000);
        assert!(watch.is_doubted && watch.noise > noise);
        let noise = watch.noise;
        watch.restart(1000);
        assert!(!watch.is_doubted);
        watch.note(1000);
        assert_eq!(watch.noise, noise, "no difference from before");
    }
}
