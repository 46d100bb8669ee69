//! Which fault struck in which state of the protocol, how often.

use core::fmt;

use superpipe_core::{Phase, Receiving, Sending, State};

use crate::faults::Fault;

/// What an end is in when a fault strikes: it connects, or is in one state each of sending, receiving and its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Memory is being registered.
    Connecting,
    /// What it sends.
    Sending(Sending),
    /// What it receives.
    Receiving(Receiving),
    /// How far its connection is.
    Phase(Phase),
}

impl Column {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Connecting,
        Self::Sending(Sending::Nothing),
        Self::Sending(Sending::Started),
        Self::Sending(Sending::AwaitingCts),
        Self::Sending(Sending::Underway),
        Self::Sending(Sending::Cancelling),
        Self::Receiving(Receiving::Nothing),
        Self::Receiving(Receiving::Underway),
        Self::Receiving(Receiving::Discarding),
        Self::Phase(Phase::Open),
        Self::Phase(Phase::PeerCloses),
        Self::Phase(Phase::ClosedHere),
        Self::Phase(Phase::ClosedByPeer),
        Self::Phase(Phase::Failed),
    ];

    /// Those of an end in this state; `None` while it connects.
    pub(crate) const fn of(state: Option<State>) -> [Self; 3] {
        match state {
            None => [Self::Connecting; 3],
            Some(State { sending, receiving, phase }) => {
                [Self::Sending(sending), Self::Receiving(receiving), Self::Phase(phase)]
            }
        }
    }

    pub(crate) const fn number(self) -> usize {
        match self {
            Self::Connecting => 0,
            Self::Sending(sending) => 1 + sending as usize,
            Self::Receiving(receiving) => 6 + receiving as usize,
            Self::Phase(phase) => 9 + phase as usize,
        }
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Connecting => "connecting",
            Self::Sending(Sending::Nothing) => "sends nothing",
            Self::Sending(Sending::Started) => "started",
            Self::Sending(Sending::AwaitingCts) => "awaits CTS",
            Self::Sending(Sending::Underway) => "sends",
            Self::Sending(Sending::Cancelling) => "cancels",
            Self::Receiving(Receiving::Nothing) => "receives nothing",
            Self::Receiving(Receiving::Underway) => "receives",
            Self::Receiving(Receiving::Discarding) => "discards",
            Self::Phase(Phase::Open) => "open",
            Self::Phase(Phase::PeerCloses) => "peer closes",
            Self::Phase(Phase::ClosedHere) => "closed here",
            Self::Phase(Phase::ClosedByPeer) => "closed by peer",
            Self::Phase(Phase::Failed) => "failed",
        })
    }
}

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
