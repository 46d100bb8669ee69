//! Tells when the chosen way takes another time than it took, by cumulative sums (after Page, 1954, as in `copying::watch`).

use super::correction::OCTAVE;

/// Units of the sums to an octave.
const UNITS: i16 = 32;

/// Least slack: a quarter of an octave, 1.19. Noise of 10 % stays within half of it.
const SLACK_LEAST: i16 = 8;
/// Slack as a multiple of the noise, in halves.
const SLACK_OF_NOISE_Q1: i16 = 3;
/// Most that an observation adds: half an octave.
const STEP_MAX: i16 = 16;
/// A sum that says that the time has changed: four observations in a row, far away. Three would come about by chance once in 125,000 messages with one
/// outlier in 50, four once in six million.
const LIMIT: i16 = 60;
/// Most that openings in vain multiply it by.
const PATIENCE_MAX: u8 = 4;

/// Observations of which the noise is an average.
const NOISE_COUNT: u16 = 16;
/// Noise before anything is known: a sixteenth of an octave, 4 %.
const NOISE_START: u16 = OCTAVE.unsigned_abs() / 16;

/// The sums of one choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Drift {
    /// Average difference from one observation to the next, times [`NOISE_COUNT`]: a change adds to it once.
    noise: u16,
    /// The last difference from the correction.
    last: i16,
    above: u8,
    below: u8,
    patience: u8,
}

impl Drift {
    pub(super) const NEW: Self =
        Self { noise: NOISE_START * NOISE_COUNT, last: 0, above: 0, below: 0, patience: 1 };

    /// Returns the average difference from one observation to the next, in the units of [`OCTAVE`].
    pub(super) const fn noise(&self) -> i16 {
        // At most an octave, which is what a difference adds at most.
        (self.noise / NOISE_COUNT).cast_signed()
    }

    /// Takes the difference of an observation from the correction before it. Returns true if the time has changed.
    pub(super) fn has_changed(&mut self, difference: i16) -> bool {
        let noise_units = self.noise() / (OCTAVE / UNITS);
        let slack = (noise_units * SLACK_OF_NOISE_Q1 / 2).max(SLACK_LEAST);
        let units = difference / (OCTAVE / UNITS);
        self.above = summed(self.above, units, slack);
        self.below = summed(self.below, units.saturating_neg(), slack);
        let size = difference.abs_diff(self.last).min(OCTAVE.unsigned_abs());
        self.last = difference;
        self.noise = self.noise - self.noise / NOISE_COUNT + size;
        i16::from(self.above.max(self.below)) >= LIMIT * i16::from(self.patience)
    }

    /// Begins anew.
    pub(super) const fn clear(&mut self) {
        (self.above, self.below) = (0, 0);
    }

    /// An opening is over. In vain: the time had not changed, and no choice has.
    pub(super) fn settle(&mut self, is_in_vain: bool) {
        self.patience = if is_in_vain { (self.patience * 2).min(PATIENCE_MAX) } else { 1 };
        self.clear();
    }
}

fn summed(sum: u8, units: i16, slack: i16) -> u8 {
    let more = units.min(slack + STEP_MAX).saturating_sub(slack);
    u8::try_from(i16::from(sum).saturating_add(more).clamp(0, 255)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of observations until it tells of a change.
    fn until(drift: &mut Drift, difference: i16) -> Option<usize> {
        (1..200).find(|_| drift.has_changed(difference))
    }

    #[test]
    fn four_far_observations_are_a_change_and_three_are_none() {
        for far in [OCTAVE, 3 * OCTAVE / 2, -OCTAVE, i16::MAX, i16::MIN] {
            assert_eq!(until(&mut { Drift::NEW }, far), Some(4), "{far}");
        }
        let mut drift = Drift::NEW;
        for _ in 0..1000 {
            (0..3).for_each(|_| assert!(!drift.has_changed(OCTAVE)));
            (0..47).for_each(|_| assert!(!drift.has_changed(100)));
        }
    }

    #[test]
    fn noise_raises_the_slack() {
        let mut drift = Drift::NEW;
        assert_eq!(until(&mut { drift }, OCTAVE / 2), Some(8));
        for _ in 0..100 {
            assert!(!drift.has_changed(OCTAVE / 4) && !drift.has_changed(-OCTAVE / 4));
        }
        assert!((OCTAVE / 3..=OCTAVE / 2).contains(&drift.noise()), "{}", drift.noise());
        assert!(until(&mut drift, OCTAVE / 2).is_some_and(|count| count > 12));
    }

    #[test]
    fn openings_in_vain_make_it_patient_and_others_do_not() {
        let mut drift = Drift::NEW;
        drift.settle(true);
        assert_eq!(until(&mut { drift }, OCTAVE), Some(8));
        (0..9).for_each(|_| drift.settle(true));
        assert_eq!(until(&mut { drift }, OCTAVE), Some(15));
        drift.settle(false);
        assert_eq!(until(&mut drift, OCTAVE), Some(4));
    }
}
