//! Trials of one window in a row, until it has won or lost.

/// Trials that a window must win to be chosen.
const WINS: u8 = 3;

/// Lost trials that end a series: in an opening, and at rest.
const LOSSES: [u8; 2] = [3, 1];

/// Result of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The other window is better by the margin.
    Won,
    /// It is not, or nobody told.
    Lost,
}

/// Trials of one candidate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Series {
    pub(super) candidate: usize,
    wins: u8,
    losses: u8,
    losses_max: u8,
    /// Costs in the chosen window before the last trials: as many as it takes to win.
    bases: [u32; WINS as usize],
}

impl Series {
    pub(super) const fn new(candidate: usize, is_opening: bool) -> Self {
        let [opening, settled] = LOSSES;
        let losses_max = if is_opening { opening } else { settled };
        Self { candidate, wins: 0, losses: 0, losses_max, bases: [0; WINS as usize] }
    }

    /// Handles the cost in the chosen window before a trial.
    pub(super) const fn note_base(&mut self, cost: u32) {
        let [_, second, third] = self.bases;
        self.bases = [second, third, cost];
    }

    pub(super) fn note(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Won => self.wins += 1,
            Outcome::Lost => self.losses += 1,
        }
    }

    pub(super) const fn has_won(&self) -> bool {
        self.wins >= WINS
    }

    pub(super) const fn has_lost(&self) -> bool {
        self.losses >= self.losses_max
    }

    /// Returns the cost in the chosen window: the median of that before the last three trials; 0 before the second one.
    pub(super) fn base(&self) -> u32 {
        let mut bases = self.bases;
        bases.sort_unstable();
        bases[bases.len() / 2]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_wins_by_three_trials_and_loses_by_one_or_three() {
        let mut series = Series::new(1, true);
        for (outcome, won, lost) in [
            (Outcome::Won, false, false),
            (Outcome::Lost, false, false),
            (Outcome::Won, false, false),
            (Outcome::Lost, false, false),
            (Outcome::Won, true, false),
            (Outcome::Lost, true, true),
        ] {
            series.note(outcome);
            assert_eq!((series.has_won(), series.has_lost()), (won, lost), "{series:?}");
        }
        let mut settled = Series::new(1, false);
        settled.note(Outcome::Lost);
        assert!(settled.has_lost());
    }

    #[test]
    fn an_outlier_among_bases_changes_nothing() {
        let mut series = Series::new(1, true);
        [9, 100, 5000, 110].into_iter().for_each(|cost| series.note_base(cost));
        assert_eq!(series.base(), 110);
    }
}
