//! Which fault struck in which state of the protocol, how often.

use core::fmt;

use superpipe_core::Phase;

use crate::column::Column;
use crate::faults::Fault;

/// Why a fault cannot strike in a state, if so.
const fn unreachable_because(fault: Fault, column: Column) -> Option<&'static str> {
    match (fault, column) {
        (Fault::FailedRegistration, Column::Connecting) => None,
        (Fault::FailedRegistration, _) => Some("core registers nothing once it is connected"),
        (_, Column::Connecting) => Some("nothing is posted, and nobody acts, before the connection is there"),
        (Fault::LostCompletion, Column::Phase(Phase::Failed)) => {
            Some("once it has failed, an end posts nothing whose completion it awaits")
        }
        _ => None,
    }
}

/// Counts by fault and state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally([[u64; Column::ALL.len()]; Fault::ALL.len()]);

impl Tally {
    /// A fault strikes an end in these.
    pub(crate) fn count(&mut self, fault: Fault, [sending, receiving, phase]: [Column; 3]) {
        let row = &mut self.0[fault as usize];
        row[sending.number()] += 1;
        if receiving != sending {
            row[receiving.number()] += 1;
            row[phase.number()] += 1;
        }
    }

    /// Adds what another run counted.
    pub fn add(&mut self, other: &Self) {
        for (ours, theirs) in self.0.iter_mut().flatten().zip(other.0.iter().flatten()) {
            *ours += theirs;
        }
    }

    /// Whether nothing has gone wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().flatten().all(|count| *count == 0)
    }

    /// How often a fault struck an end in this state.
    #[must_use]
    pub fn at(&self, fault: Fault, column: Column) -> u64 {
        self.0[fault as usize][column.number()]
    }

    /// The cells that can be reached and were not.
    #[must_use]
    pub fn missing(&self) -> Vec<(Fault, Column)> {
        let cells = Fault::ALL.iter().flat_map(|fault| Column::ALL.map(|column| (*fault, column)));
        let is_missing = |(fault, column): &(Fault, Column)| {
            self.at(*fault, *column) == 0 && unreachable_because(*fault, *column).is_none()
        };
        cells.filter(is_missing).collect()
    }
}

impl fmt::Display for Tally {
    /// A table with a row a state and a column a fault; what cannot be is a dash.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for word in 0..2 {
            write!(f, "{:<17}", "")?;
            for fault in Fault::ALL {
                write!(f, " {:>15}", fault.name().split(' ').nth(word).unwrap_or_default())?;
            }
            writeln!(f)?;
        }
        for column in Column::ALL {
            write!(f, "{column:<17}")?;
            for fault in Fault::ALL {
                match self.at(fault, column) {
                    0 if unreachable_because(fault, column).is_some() => write!(f, " {:>15}", "-")?,
                    count => write!(f, " {count:>15}")?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
