//! Coverage of a poller's connections: events by state.

use core::fmt;

use superpipe_core::polling::Member;

/// State of a connection of the poller, or of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolledState {
    /// Looked at in each round.
    Active,
    /// Waits for a wake-up.
    Armed,
    /// It has ended.
    Ended,
    /// The slot is empty.
    Empty,
}

impl PolledState {
    /// All states in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Active, Self::Armed, Self::Ended, Self::Empty];

    pub(super) const fn of(member: &Member) -> Self {
        if member.is_active() {
            Self::Active
        } else if member.is_armed() {
            Self::Armed
        } else {
            Self::Ended
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Armed => "armed",
            Self::Ended => "ended",
            Self::Empty => "empty slot",
        }
    }
}

/// Something that happens to a connection of a poller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollCase {
    /// The set reports it.
    Reported,
    /// The set reports a stale key, whose slot is in this state.
    ReportedStale,
    /// The program uses a stale key, whose slot is in this state.
    StaleKey,
    /// A look that was due finds what no wake-up has told.
    FoundByLook,
    /// It is due.
    Tended,
    /// Its peer is silent.
    Silent,
    /// There was no room to report it.
    LeftOut,
    /// The program asks for it.
    Touched,
    /// The program wants to be told of more.
    InterestWidened,
    /// The program wants to be told of less.
    InterestNarrowed,
    /// The program removes it.
    Removed,
    /// The program puts another connection in its place.
    Exchanged,
    /// Its peer is killed.
    PeerKilled,
    /// The poller's CPU stalls.
    Stalled,
    /// All processes are stopped, and continued.
    Stopped,
}

impl PollCase {
    /// All cases in the order of their numbers.
    pub const ALL: [Self; 15] = [
        Self::Reported,
        Self::ReportedStale,
        Self::StaleKey,
        Self::FoundByLook,
        Self::Tended,
        Self::Silent,
        Self::LeftOut,
        Self::Touched,
        Self::InterestWidened,
        Self::InterestNarrowed,
        Self::Removed,
        Self::Exchanged,
        Self::PeerKilled,
        Self::Stalled,
        Self::Stopped,
    ];

    /// Name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reported => "reported by the set",
            Self::ReportedStale => "stale report",
            Self::StaleKey => "stale key used",
            Self::FoundByLook => "found by a look",
            Self::Tended => "due",
            Self::Silent => "peer is silent",
            Self::LeftOut => "left out of a call",
            Self::Touched => "asked for",
            Self::InterestWidened => "more wanted",
            Self::InterestNarrowed => "less wanted",
            Self::Removed => "removed",
            Self::Exchanged => "exchanged",
            Self::PeerKilled => "peer killed",
            Self::Stalled => "poller stalls",
            Self::Stopped => "all are stopped",
        }
    }

    /// Returns why it cannot happen in a state.
    const fn unreachable_because(self, state: PolledState) -> Option<&'static str> {
        use PolledState::{Active, Armed, Empty, Ended};
        match (self, state) {
            (Self::ReportedStale | Self::StaleKey, _) => None,
            (_, Empty) => Some("nothing is there"),
            (Self::FoundByLook, Active | Ended) => Some("it waits for no wake-up"),
            (Self::Tended | Self::Silent, Ended) => Some("nothing is due any more"),
            (Self::LeftOut, Armed | Ended) => Some("only active ones are looked at"),
            (Self::PeerKilled, Ended) => Some("a client that is killed had not closed"),
            (_, Active | Armed | Ended) => None,
        }
    }
}

/// Counts by case and state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PollCoverage([[u64; PolledState::ALL.len()]; PollCase::ALL.len()]);

impl PollCoverage {
    pub(super) fn count(&mut self, case: PollCase, state: PolledState) {
        self.0[case as usize][state as usize] += 1;
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        for (ours, theirs) in self.0.iter_mut().flatten().zip(other.0.iter().flatten()) {
            *ours += theirs;
        }
    }

    /// Returns how often a case was met in a state.
    #[must_use]
    pub fn at(&self, case: PollCase, state: PolledState) -> u64 {
        self.0[case as usize][state as usize]
    }

    /// Returns the defects: cells that can be met and were not, and those that were and cannot be.
    #[must_use]
    pub fn defects(&self) -> Vec<String> {
        let cells = PollCase::ALL.iter().flat_map(|case| PolledState::ALL.map(|state| (*case, state)));
        cells
            .filter_map(|(case, state)| match (self.at(case, state), case.unreachable_because(state)) {
                (0, None) => Some(format!("never met, but can be: {} while {}", case.name(), state.name())),
                (1.., Some(why)) => Some(format!("{} while {}, but {why}", case.name(), state.name())),
                _ => None,
            })
            .collect()
    }
}

impl fmt::Display for PollCoverage {
    /// Prints one row per case and one column per state. A dash is an impossible cell.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<20}", "")?;
        for state in PolledState::ALL {
            write!(f, " {:>12}", state.name())?;
        }
        writeln!(f)?;
        for case in PollCase::ALL {
            write!(f, "{:<20}", case.name())?;
            for state in PolledState::ALL {
                match self.at(case, state) {
                    0 if case.unreachable_because(state).is_some() => write!(f, " {:>12}", "-")?,
                    count => write!(f, " {count:>12}")?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
