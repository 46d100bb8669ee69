//! Counts of the faults by the state that they struck.

use core::fmt;

use superpipe_core::Phase;

use super::{EndState, Fault};

/// Returns why a fault cannot strike in a state.
const fn unreachable_because(fault: Fault, end_state: EndState) -> Option<&'static str> {
    match (fault, end_state) {
        (Fault::FailedRegistration, EndState::Connecting) => None,
        (Fault::FailedRegistration, _) => Some("what a job registers later is counted as a failed job"),
        (_, EndState::Connecting) => Some("nothing is posted before the connection exists"),
        (Fault::LostCompletion, EndState::Phase(Phase::Failed)) => {
            Some("an end that has failed posts nothing whose completion it awaits")
        }
        _ => None,
    }
}

/// Counts by fault and state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultCoverage([[u64; EndState::ALL.len()]; Fault::ALL.len()]);

impl FaultCoverage {
    /// Counts a fault that strikes an end in these states.
    pub(crate) fn count(&mut self, fault: Fault, [sending, receiving, phase]: [EndState; 3]) {
        let row = &mut self.0[fault as usize];
        row[sending.number()] += 1;
        if receiving != sending {
            row[receiving.number()] += 1;
            row[phase.number()] += 1;
        }
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        for (ours, theirs) in self.0.iter_mut().flatten().zip(other.0.iter().flatten()) {
            *ours += theirs;
        }
    }

    /// Returns true if no fault struck.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().flatten().all(|count| *count == 0)
    }

    /// Returns how often a fault struck an end in this state.
    #[must_use]
    pub fn at(&self, fault: Fault, end_state: EndState) -> u64 {
        self.0[fault as usize][end_state.number()]
    }

    /// Returns the reachable cells that are 0.
    #[must_use]
    pub fn missing(&self) -> Vec<(Fault, EndState)> {
        let cells = Fault::ALL.iter().flat_map(|fault| EndState::ALL.map(|end_state| (*fault, end_state)));
        let is_missing = |(fault, end_state): &(Fault, EndState)| {
            self.at(*fault, *end_state) == 0 && unreachable_because(*fault, *end_state).is_none()
        };
        cells.filter(is_missing).collect()
    }
}

/// Writes the heads of the columns, one per fault.
pub(super) fn write_heads(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for word in 0..2 {
        write!(f, "{:<17}", "")?;
        for fault in Fault::ALL {
            write!(f, " {:>15}", fault.name().split(' ').nth(word).unwrap_or_default())?;
        }
        writeln!(f)?;
    }
    Ok(())
}

impl fmt::Display for FaultCoverage {
    /// Prints one row per state and one column per fault. A dash is an impossible cell.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_heads(f)?;
        for end_state in EndState::ALL {
            write!(f, "{end_state:<17}")?;
            for fault in Fault::ALL {
                match self.at(fault, end_state) {
                    0 if unreachable_because(fault, end_state).is_some() => write!(f, " {:>15}", "-")?,
                    count => write!(f, " {count:>15}")?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
