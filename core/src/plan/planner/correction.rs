//! What a way really takes, as a part of its prediction: a median of three, then a slow average without outliers, of logarithms.

/// An octave, a factor of two, in the units of [`log_of`].
pub(super) const OCTAVE: i16 = 2048;

/// Largest ratio either way, in octaves. 2048 times this fits an `i16`.
const OCTAVES_MAX: f64 = 15.0;

/// No ratio.
const NONE: i16 = i16::MIN;

/// Observations of which the average is made, at most: it follows a slow change in about as many.
const AVERAGED_MAX: i16 = 16;

/// Difference from the average, or of the median of three from their minimum, from which on an observation may be an outlier: a factor of 1.4.
const FAR: i16 = OCTAVE / 2;

/// Times that three observations of which two may be outliers do not count as three. With one outlier in 50 this comes about once in 800 ways, and twice in a row
/// seldom; where times are that scattered, the median counts in the end.
const DOUBTS_MAX: u8 = 3;

/// Returns log2 of a ratio in 1/2048. `None` where the ratio is not a positive number.
pub(super) fn log_of(ratio: f64) -> Option<i16> {
    if ratio.is_nan() || ratio <= 0.0 || ratio.is_infinite() {
        return None;
    }
    let octaves = libm::log2(ratio).clamp(-OCTAVES_MAX, OCTAVES_MAX);
    #[expect(clippy::cast_possible_truncation, reason = "at most 15 octaves")]
    let log = libm::round(octaves * f64::from(OCTAVE)) as i16;
    Some(log)
}

/// Returns the ratio of a logarithm.
pub(super) fn ratio_of(log: i16) -> f64 {
    libm::exp2(f64::from(log) / f64::from(OCTAVE))
}

/// Returns a number that is kept in half of the space.
#[expect(
    clippy::cast_possible_truncation,
    reason = "seven digits are enough, and no number here is out of range"
)]
pub(super) const fn narrow(value: f64) -> f32 {
    value as f32
}

/// The correction of one way in one class: observed over predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Correction {
    /// Average; [`NONE`] before the first observation.
    average: i16,
    /// The two observations before the last average.
    recent: [i16; 2],
    /// Observations since it was last doubted.
    count: u8,
    /// Times that three observations were too scattered.
    doubts: u8,
}

impl Correction {
    pub(super) const NEW: Self = Self { average: NONE, recent: [NONE; 2], count: 0, doubts: 0 };

    /// Returns the logarithm of the correction, also if it is doubted. `None`: never observed.
    pub(super) const fn log(&self) -> Option<i16> {
        if self.average == NONE { None } else { Some(self.average) }
    }

    /// Returns the observations that it rests on, up to 255: 0 if it is doubted.
    pub(super) const fn count(&self) -> u8 {
        self.count
    }

    /// Takes one more observation. The first two count by their minimum, since outliers are slow, the first three by the average of those that are near their median. From then on
    /// each counts in the average. A far one does not count, unless another one of the last three is as far: then it counts as one by a factor of
    /// 1.19.
    pub(super) fn note(&mut self, log: i16) {
        let [before, last] = self.recent;
        self.recent = [last, log];
        match self.count {
            0 => self.average = log,
            1 => self.average = log.min(last),
            2 => {
                let (least, middle) = (before.min(last).min(log), median(before, last, log));
                if middle.saturating_sub(least) > FAR && self.doubts < DOUBTS_MAX {
                    self.doubts += 1;
                    self.average = least;
                    return;
                }
                self.average = average_near(middle, [before, last, log]);
            }
            count => {
                let middle = median(before, last, log);
                if self.is_far(log) && !self.is_far(middle) {
                    return;
                }
                let (least, most) =
                    (self.average.saturating_sub(FAR / 2), self.average.saturating_add(FAR / 2));
                let value = if self.is_far(log) { middle.clamp(least, most) } else { log };
                // Rounded, so that small differences count.
                let parts = i16::from(count).saturating_add(1).min(AVERAGED_MAX);
                let more = value.saturating_sub(self.average);
                self.average += more.saturating_add(more.signum() * (parts / 2)) / parts;
            }
        }
        self.count = self.count.saturating_add(1);
    }

    const fn is_far(&self, log: i16) -> bool {
        log.saturating_sub(self.average).saturating_abs() > FAR
    }

    /// Doubts it: it stays as a prediction, and the next observation replaces it.
    pub(super) const fn doubt(&mut self) {
        (self.count, self.doubts) = (0, 0);
    }

    /// Begins anew after a change, from the last two observations and this one.
    pub(super) fn restart(&mut self, log: i16) {
        let [before, last] = self.recent;
        if before == NONE || last == NONE {
            *self = Self { average: log, recent: [NONE, log], count: 1, doubts: 0 };
            return;
        }
        *self = Self { average: median(before, last, log), recent: [last, log], count: 3, doubts: 0 };
    }
}

/// Returns the average of those that are near.
fn average_near(middle: i16, logs: [i16; 3]) -> i16 {
    let near = || logs.into_iter().filter(|log| log.saturating_sub(middle).saturating_abs() <= FAR);
    let sum: i32 = near().map(i32::from).sum();
    let count = near().map(|_| 1).sum::<i32>().max(1);
    i16::try_from(sum / count).unwrap_or(middle)
}

/// Returns the median of three.
fn median(one: i16, two: i16, three: i16) -> i16 {
    one.min(two).max(one.max(two).min(three))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(logs: &[i16]) -> Correction {
        let mut correction = Correction::NEW;
        logs.iter().for_each(|&log| correction.note(log));
        correction
    }

    #[test]
    fn a_ratio_comes_back() {
        for ratio in [1e-4, 0.5, 1.0, 1.1, 3.0, 2e4] {
            let back = ratio_of(log_of(ratio).unwrap());
            assert!((back / ratio - 1.0).abs() < 2e-4, "{ratio} {back}");
        }
        assert_eq!(log_of(1e300), Some(15 * OCTAVE));
        assert_eq!(log_of(5e-324), Some(-15 * OCTAVE));
        for absurd in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(log_of(absurd), None);
        }
    }

    #[test]
    fn an_outlier_counts_for_nothing_wherever_it_is() {
        let outlier = 3 * OCTAVE / 2;
        assert_eq!(after(&[100, outlier]).log(), Some(100));
        assert_eq!(after(&[outlier, 100]).log(), Some(100));
        for place in 0..6 {
            let mut logs = [100; 6];
            logs[place] = outlier;
            assert_eq!(after(&logs).log(), Some(100), "{place}");
        }
    }

    #[test]
    fn two_outliers_among_three_ask_for_more() {
        for two in [[2000, 2000, 100], [2000, 100, 2100], [100, 2000, 2000]] {
            let mut correction = after(&two);
            assert_eq!((correction.log(), correction.count()), (Some(100), 2), "{two:?}");
            correction.note(110);
            correction.note(90);
            assert!(correction.count() >= 3 && correction.log().unwrap() <= 110, "{correction:?}");
        }
        // Scattered times end with a median.
        assert_eq!(after(&[100, 3000, 2000, 100, 3000, 2000]).count(), 3);
    }

    #[test]
    fn the_average_follows_and_small_differences_count() {
        let mut correction = after(&[100; 40]);
        (0..90).for_each(|_| correction.note(150));
        assert!((140..=150).contains(&correction.log().unwrap()), "{correction:?}");
        (0..200).for_each(|_| correction.note(-2000));
        assert!(correction.log().unwrap() < -1900, "{correction:?}");
    }

    #[test]
    fn a_doubted_correction_is_replaced_by_the_next_observation() {
        let mut correction = after(&[100; 9]);
        correction.doubt();
        assert_eq!((correction.log(), correction.count()), (Some(100), 0));
        correction.note(900);
        assert_eq!((correction.log(), correction.count()), (Some(900), 1));
    }

    #[test]
    fn after_a_change_the_last_three_count() {
        let mut correction = after(&[100, 100, 100, 900, 950]);
        correction.restart(920);
        assert_eq!((correction.log(), correction.count()), (Some(920), 3));
        let mut young = after(&[100]);
        young.restart(900);
        assert_eq!((young.log(), young.count()), (Some(900), 1));
    }
}
