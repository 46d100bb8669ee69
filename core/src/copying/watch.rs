//! Watches what copies take in the way that was chosen, and tells when the cores have moved: their cost differs from the reference several times in a row.
//!
//! What opens a choice then, and changes nothing, was *in vain*: it makes the next opening need more signs, so that noise cannot keep a connection
//! trying. A move that changes what copies take, and no choice, is not in vain.

use super::cost::{CLEARLY_BETTER_Q4, MUCH_WORSE_Q4, parts};

/// A median below or above these parts of the reference, in whole sixteenths, is a sign that the cores moved: less than 14 or at least 19.
const MOVED_Q4: [u64; 2] = [14, 18];

/// Noise explains a single cost between these parts of the reference, in whole sixteenths.
const DOUBTED_Q4: [u64; 2] = [CLEARLY_BETTER_Q4, MUCH_WORSE_Q4];

/// Signs in a row that open a choice, at first and at most.
const SIGNS: [u8; 2] = [3, 48];

/// Medians of which the reference is an average.
const MEDIANS_MAX: u8 = 8;
/// Takes the place of [`MOVED_Q4`] while the reference has fewer medians, so that a first one that noise has moved is no reason for signs: less than 12 or
/// at least 21.
const MOVED_YOUNG_Q4: [u64; 2] = [12, 20];

/// Most doubted costs in a row that count. Each cost that is not doubted gives one back; at none they do not count, so a machine whose times mean nothing is
/// not timed densely.
const DOUBTS_MAX: u8 = 16;

/// The cost of what was chosen, and signs that it has changed.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Watch {
    /// 0 for none.
    reference: u32,
    /// Medians in it.
    medians: u8,
    signs: u8,
    signs_max: u8,
    /// Reference and its medians when the choice was opened, until it is settled; 0 for none.
    opened_at: u32,
    medians_opened: u8,
    is_doubted: bool,
    doubts_left: u8,
}

impl Watch {
    pub(super) const NEW: Self = Self {
        reference: 0,
        medians: 0,
        signs: 0,
        signs_max: SIGNS[0],
        opened_at: 0,
        medians_opened: 0,
        is_doubted: false,
        doubts_left: 0,
    };

    /// Returns the cost of what was chosen; 0 if it is not known.
    pub(super) const fn reference(&self) -> u32 {
        self.reference
    }

    /// Returns true if the last cost is far from the reference, so that the next ones are to be measured soon.
    pub(super) const fn is_doubted(&self) -> bool {
        self.is_doubted
    }

    /// Returns the factor by which openings in vain have raised the signs that an opening needs: 1 to 16.
    pub(super) const fn patience(&self) -> u8 {
        self.signs_max / SIGNS[0]
    }

    /// Handles a single cost.
    pub(super) fn note(&mut self, cost: u32) {
        if self.reference == 0 {
            return;
        }
        let is_doubted = is_far(cost, self.reference);
        self.is_doubted = is_doubted && self.doubts_left > 0;
        self.doubts_left = if is_doubted {
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
        let range = if self.medians < MEDIANS_MAX { MOVED_YOUNG_Q4 } else { MOVED_Q4 };
        if is_within(range, median, self.reference) {
            self.follow(median);
            self.signs = 0;
            return false;
        }
        self.signs += 1;
        self.signs >= self.signs_max
    }

    /// Takes one more median into the reference. It follows slowly, so that it is more exact than a single median, and the first one after a move, of old and
    /// new costs, does not carry it along.
    fn follow(&mut self, median: u32) {
        self.medians = (self.medians + 1).min(MEDIANS_MAX);
        let part = u32::from(self.medians);
        self.reference = self.reference - self.reference / part + median / part;
    }

    /// Begins to watch again, what was chosen costing so much: another one was chosen, or one has proved itself.
    pub(super) const fn restart(&mut self, cost: u32) {
        (self.reference, self.medians) = (cost, 1);
        (self.signs, self.is_doubted) = (0, false);
    }

    /// The choice is opened.
    pub(super) const fn open(&mut self) {
        if self.reference > 0 {
            (self.opened_at, self.medians_opened) = (self.reference, self.medians);
        }
        self.restart(0);
    }

    /// The choice is settled. What was chosen before costs so much now, and is replaced or not.
    pub(super) fn settle(&mut self, cost: u32, is_replaced: bool) {
        let was_in_vain = self.opened_at > 0 && is_within(MOVED_YOUNG_Q4, cost, self.opened_at);
        let (opened_at, medians) = (core::mem::take(&mut self.opened_at), self.medians_opened);
        self.restart(cost);
        match (was_in_vain, is_replaced) {
            (true, false) => {
                self.signs_max = self.signs_max.saturating_mul(2).min(SIGNS[1]);
                if is_within(MOVED_Q4, cost, opened_at) {
                    // Its reference was right. The cores may move before there is another one.
                    (self.reference, self.medians) = (opened_at, medians);
                    self.follow(cost);
                }
            }
            (false, true) => self.signs_max = SIGNS[0],
            // A replacement after a cost that is about the same may be noise; a changed cost without one may be a move.
            (true, true) | (false, false) => {}
        }
    }

    /// Forgets the cost, since copies are made in another way from now on.
    pub(super) const fn forget(&mut self) {
        self.opened_at = 0;
        self.restart(0);
    }

    /// Forgets what was in vain, since another one was better several times.
    pub(super) const fn relax(&mut self) {
        self.opened_at = 0;
        self.signs_max = SIGNS[0];
    }
}

/// Returns true if noise does not explain a single cost.
fn is_far(cost: u32, reference: u32) -> bool {
    !is_within(DOUBTED_Q4, cost, reference)
}

fn is_within([below, above]: [u64; 2], cost: u32, reference: u32) -> bool {
    (below..=above).contains(&parts(cost, reference))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a watch whose reference has so many medians.
    fn settled(cost: u32, medians: u32) -> Watch {
        let mut watch = Watch::NEW;
        watch.settle(cost, false);
        (1..medians).for_each(|_| assert!(!watch.has_moved(cost)));
        watch
    }

    fn signs(watch: &mut Watch, median: u32) -> u32 {
        (1..=100).find(|_| watch.has_moved(median)).unwrap_or(0)
    }

    #[test]
    fn a_changed_median_opens_after_three_signs() {
        for (medians, ranges) in [(1, [74, 75, 131, 132]), (8, [87, 88, 118, 119])] {
            for (median, opens) in ranges.into_iter().zip([3, 0, 0, 3]) {
                let mut watch = settled(100, medians);
                assert_eq!(signs(&mut watch, median), opens, "{median} after {medians}");
            }
        }
    }

    /// The first median is one of old and new costs.
    #[test]
    fn the_reference_is_not_carried_along() {
        let mut watch = settled(1000, 8);
        assert!(!watch.has_moved(880));
        assert_eq!(signs(&mut watch, 790), 3);
    }

    /// The cores move while an opening in vain ends.
    #[test]
    fn an_opening_in_vain_keeps_the_reference() {
        for (cost, later, opens) in [(1000, 850, 6), (1120, 850, 6), (1400, 1150, 0), (1600, 1250, 0)] {
            let mut watch = settled(1000, 8);
            watch.open();
            watch.settle(cost, false);
            assert_eq!(signs(&mut watch, later), opens, "{cost}");
        }
    }

    #[test]
    fn only_openings_in_vain_make_the_next_one_later() {
        for (now, is_replaced, patience) in [
            (100, false, 2),
            (100, true, 1),
            (131, false, 2),
            (132, false, 1),
            (74, false, 1),
            (75, false, 2),
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
        assert_eq!(watch.patience(), 1);
    }

    #[test]
    fn doubts_are_few() {
        let mut watch = Watch::NEW;
        watch.note(1);
        watch.settle(100, false);
        watch.note(300);
        assert!(!watch.is_doubted(), "nothing is known of the noise yet");
        (0..40).for_each(|_| watch.note(110));
        let doubted = (0..40).filter(|_| {
            watch.note(300);
            watch.is_doubted()
        });
        assert_eq!(doubted.count(), 16);
        watch.note(100);
        watch.note(20);
        assert!(watch.is_doubted());
    }
}
