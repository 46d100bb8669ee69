//! Results of one size and memory, as a line of the table.

use core::fmt;

use superpipe::Protocol;
use superpipe::plan::Way;
use superpipe_bench::stats::Spread;

use super::memory::MemoryKind;

/// Excess over the best way that the chosen one may have.
pub(crate) const EXCESS_MAX: f64 = 0.10;
/// Distance of a prediction from what is measured.
pub(crate) const PREDICTION_OFF_MAX: f64 = 0.25;

/// Header of the table.
pub(crate) const HEADER: &str = "size      memory              chosen           over best   of default ways           planned over best    predicted over measured    every way, us";

/// Results of one size and memory.
pub(crate) struct Cell {
    pub(crate) bytes: usize,
    pub(crate) memory: MemoryKind,
    /// the way that is chosen after all messages; `None`: such messages are not planned
    pub(crate) chosen: Option<Way>,
    /// median time of the connection that always goes that way, over that of the best one
    pub(crate) chosen_over_best: Option<f64>,
    /// times of planned messages over those of the best connection in the same round
    pub(crate) planned_over_best: Spread,
    /// predictions over what the messages took
    pub(crate) predicted: Option<Spread>,
    /// what the planner says of it
    pub(crate) explanation: Option<String>,
    /// median of each connection, in microseconds
    pub(crate) times: Vec<(Protocol, f64)>,
}

impl Cell {
    /// Returns true if the chosen way is not within 10 % of the best, or if nothing is chosen, if what planned messages take is not.
    pub(crate) fn exceeds_best(&self) -> bool {
        self.chosen_over_best.unwrap_or(self.planned_over_best.median) > 1.0 + EXCESS_MAX
    }

    /// Returns the median time of the connection that always goes the chosen way, over that of the best of the ways that a planner may choose by default.
    fn chosen_over_default(&self) -> Option<f64> {
        let chosen = self.chosen?.protocol();
        let (_, chosen) = self.times.iter().find(|(protocol, time)| *protocol == chosen && !time.is_nan())?;
        let others = self.times.iter().filter(|(protocol, _)| self.memory.goes_by_default(*protocol));
        Some(chosen / others.map(|(_, time)| *time).fold(f64::INFINITY, f64::min))
    }

    /// Returns true if the prediction is not within 25 % of what is measured.
    pub(crate) fn is_mispredicted(&self) -> bool {
        self.predicted.is_some_and(|predicted| (predicted.median - 1.0).abs() > PREDICTION_OFF_MAX)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let over = |over: Option<f64>| over.map_or_else(|| "-".to_owned(), |over| format!("{over:.2}"));
        write!(
            f,
            "{:<9} {:<19} {:<16} {:>9} {:>17} {:>27} {:>26}   ",
            self.bytes,
            self.memory.name(),
            self.chosen.map_or("not planned", Way::name),
            over(self.chosen_over_best),
            over(self.chosen_over_default()),
            self.planned_over_best.to_text(),
            self.predicted.map_or_else(|| "-".to_owned(), Spread::to_text),
        )?;
        for (protocol, time) in &self.times {
            if !time.is_nan() {
                write!(f, " {protocol} {time:.2}")?;
            }
        }
        match &self.explanation {
            Some(explanation) if self.exceeds_best() || self.is_mispredicted() => {
                write!(f, "\n          {explanation}")
            }
            _ => Ok(()),
        }
    }
}
