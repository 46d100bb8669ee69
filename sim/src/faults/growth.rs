//! What struck ends whose landing buffers grow and shrink, by the step of growth, and which cases of growth the runs have met.

use core::fmt;

use superpipe_core::{GrowthState, Leaving, Phase, Providing, Receiving, Requesting, Sending, State};

use super::Fault;

/// A step of growth. An end can be in several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrowthStep {
    /// As a sender.
    Requesting(Requesting),
    /// With the landing buffer that it has left.
    Leaving(Leaving),
    /// As an owner.
    Providing(Providing),
}

impl GrowthStep {
    /// All steps in the order of their numbers.
    pub const ALL: [Self; 12] = [
        Self::Requesting(Requesting::Asking),
        Self::Requesting(Requesting::MakingImage),
        Self::Requesting(Requesting::Ready),
        Self::Requesting(Requesting::GivingBack),
        Self::Leaving(Leaving::InUse),
        Self::Leaving(Leaving::Retired),
        Self::Leaving(Leaving::Releasing),
        Self::Providing(Providing::Provisioning),
        Self::Providing(Providing::Granted),
        Self::Providing(Providing::Shrinking),
        Self::Providing(Providing::Left),
        Self::Providing(Providing::Releasing),
    ];

    /// Returns the steps that an end is in.
    pub(crate) fn of(state: Option<State>) -> impl Iterator<Item = Self> {
        let GrowthState { requesting, leaving, providing } = state.map(|it| it.growth).unwrap_or_default();
        let all = [Self::Requesting(requesting), Self::Leaving(leaving), Self::Providing(providing)];
        all.into_iter().filter(|step| step.number().is_some())
    }

    /// Returns its number, none if nothing is under way.
    fn number(self) -> Option<usize> {
        Self::ALL.iter().position(|step| *step == self)
    }

    /// Name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requesting(Requesting::Asking) => "asks",
            Self::Requesting(Requesting::MakingImage) => "makes an image",
            Self::Requesting(Requesting::Ready) => "may move",
            Self::Requesting(Requesting::GivingBack) => "gives back",
            Self::Leaving(Leaving::InUse) => "has moved",
            Self::Leaving(Leaving::Retired) => "has retired",
            Self::Leaving(Leaving::Releasing) => "frees an image",
            Self::Providing(Providing::Provisioning) => "provisions",
            Self::Providing(Providing::Granted) => "has granted",
            Self::Providing(Providing::Shrinking) => "shrinks",
            Self::Providing(Providing::Left) => "awaits RETIRED",
            Self::Providing(Providing::Releasing) => "releases",
            Self::Requesting(Requesting::Nothing)
            | Self::Leaving(Leaving::Nothing)
            | Self::Providing(Providing::Nothing) => "does nothing",
        }
    }
}

/// A case of growth or registration, which the swarm must have met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrowthCase {
    /// The owner's budget has no room for a landing buffer.
    LandingOverBudget,
    /// The owner's machine refuses a landing buffer.
    LandingRefused,
    /// The sender's budget has no room for the image of a landing buffer.
    ImageOverBudget,
    /// The sender's device refuses the image.
    ImageRefused,
    /// The memory that a message is sent from cannot be registered.
    SourceRefused,
    /// The memory that a message is received in cannot be registered.
    DestinationRefused,
    /// A job finds the fabric busy.
    Busy,
    /// The end of a job is reported twice.
    StaleTicket,
    /// GROW is not answered, and the transfer that it was for is over.
    AnsweredLate,
    /// A landing buffer is granted, and the transfer that it was for is over.
    GrantedLate,
    /// The owner asks its peer to shrink while the peer asks it for more.
    ShrinkCrossesGrow,
    /// The owner asks its peer to shrink while a transfer is under way.
    ShrinkDuringSend,
    /// An end asks for more before the landing buffer that it has left is released.
    GrowthDuringGrowth,
    /// Both directions grow.
    BothDirections,
    /// A transfer is cancelled while it waits for growth.
    CancelDuringGrowth,
    /// A transfer is rejected while its receiver grows.
    RejectDuringGrowth,
    /// An end closes while it grows.
    CloseDuringGrowth,
}

impl GrowthCase {
    /// All cases in the order of their numbers.
    pub const ALL: [Self; 17] = [
        Self::LandingOverBudget,
        Self::LandingRefused,
        Self::ImageOverBudget,
        Self::ImageRefused,
        Self::SourceRefused,
        Self::DestinationRefused,
        Self::Busy,
        Self::StaleTicket,
        Self::AnsweredLate,
        Self::GrantedLate,
        Self::ShrinkCrossesGrow,
        Self::ShrinkDuringSend,
        Self::GrowthDuringGrowth,
        Self::BothDirections,
        Self::CancelDuringGrowth,
        Self::RejectDuringGrowth,
        Self::CloseDuringGrowth,
    ];

    /// Name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LandingOverBudget => "no budget for a landing buffer",
            Self::LandingRefused => "no memory for a landing buffer",
            Self::ImageOverBudget => "no budget for an image",
            Self::ImageRefused => "no memory for an image",
            Self::SourceRefused => "a source is not registered",
            Self::DestinationRefused => "a destination is not registered",
            Self::Busy => "a job finds the fabric busy",
            Self::StaleTicket => "a job is reported twice",
            Self::AnsweredLate => "asked, and the transfer is over",
            Self::GrantedLate => "granted, and the transfer is over",
            Self::ShrinkCrossesGrow => "SHRINK crosses GROW",
            Self::ShrinkDuringSend => "SHRINK during a transfer",
            Self::GrowthDuringGrowth => "GROW before the last release",
            Self::BothDirections => "both directions grow",
            Self::CancelDuringGrowth => "cancelled during growth",
            Self::RejectDuringGrowth => "rejected during growth",
            Self::CloseDuringGrowth => "closed during growth",
        }
    }

    /// Returns true if an end in this state, with its peer in the other, is in this case. Other cases are counted where they occur.
    fn is_met(self, ours: State, theirs: State) -> bool {
        let State { sending, receiving, phase, growth: GrowthState { requesting, leaving, providing } } =
            ours;
        let provides = matches!(providing, Providing::Provisioning | Providing::Granted);
        let is_shrinking = matches!(providing, Providing::Shrinking);
        let asks = matches!(requesting, Requesting::Asking);
        let has_grant = matches!(requesting, Requesting::MakingImage | Requesting::Ready);
        if !matches!((phase, theirs.phase), (Phase::Open, Phase::Open)) {
            let closes = matches!(phase, Phase::ClosedHere);
            return matches!(self, Self::CloseDuringGrowth) && closes && (asks || has_grant || provides);
        }
        match self {
            Self::AnsweredLate => asks && matches!(sending, Sending::Nothing),
            Self::GrantedLate => has_grant && matches!(sending, Sending::Nothing),
            Self::ShrinkCrossesGrow => is_shrinking && matches!(theirs.growth.requesting, Requesting::Asking),
            Self::ShrinkDuringSend => is_shrinking && matches!(theirs.sending, Sending::Underway),
            Self::GrowthDuringGrowth => asks && !matches!(leaving, Leaving::Nothing),
            Self::BothDirections => (asks || has_grant) && provides,
            Self::CancelDuringGrowth => (asks || has_grant) && matches!(sending, Sending::Cancelling),
            Self::RejectDuringGrowth => provides && matches!(receiving, Receiving::Discarding),
            _ => false,
        }
    }
}

/// Returns why a fault cannot strike in a step.
const fn unreachable_because(fault: Fault, step: GrowthStep) -> Option<&'static str> {
    match (fault, step) {
        (Fault::FailedRegistration, _) => Some("growth begins once the connection exists"),
        _ => None,
    }
}

/// Counts of faults by step of growth, and of the cases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrowthCoverage {
    faults: [[u64; GrowthStep::ALL.len()]; Fault::ALL.len()],
    cases: [u64; GrowthCase::ALL.len()],
}

impl GrowthCoverage {
    /// Counts a fault that strikes an end in this state.
    pub(crate) fn count(&mut self, fault: Fault, state: Option<State>) {
        for number in GrowthStep::of(state).filter_map(GrowthStep::number) {
            self.faults[fault as usize][number] += 1;
        }
    }

    /// Counts a case.
    pub(crate) const fn count_case(&mut self, case: GrowthCase) {
        self.cases[case as usize] += 1;
    }

    /// Counts the cases that both ends are in.
    pub(crate) fn note(&mut self, [ours, theirs]: [State; 2]) {
        if [ours, theirs].iter().all(|state| state.growth == GrowthState::default()) {
            return;
        }
        for (count, case) in self.cases.iter_mut().zip(GrowthCase::ALL) {
            *count += u64::from(case.is_met(ours, theirs)) + u64::from(case.is_met(theirs, ours));
        }
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        let ours = self.faults.iter_mut().flatten().chain(&mut self.cases);
        for (ours, theirs) in ours.zip(other.faults.iter().flatten().chain(&other.cases)) {
            *ours += theirs;
        }
    }

    /// Returns how often a fault struck an end in this step.
    #[must_use]
    pub fn at(&self, fault: Fault, step: GrowthStep) -> u64 {
        step.number().map_or(0, |number| self.faults[fault as usize][number])
    }

    /// Returns how often a case was met. Cases that last are counted in each turn.
    #[must_use]
    pub const fn met(&self, case: GrowthCase) -> u64 {
        self.cases[case as usize]
    }

    /// Returns the reachable cells that are 0.
    #[must_use]
    pub fn missing(&self) -> Vec<(Fault, GrowthStep)> {
        let cells = Fault::ALL.iter().flat_map(|fault| GrowthStep::ALL.map(|step| (*fault, step)));
        cells
            .filter(|(fault, step)| {
                self.at(*fault, *step) == 0 && unreachable_because(*fault, *step).is_none()
            })
            .collect()
    }

    /// Returns the cases that were not met.
    #[must_use]
    pub fn missing_cases(&self) -> Vec<GrowthCase> {
        GrowthCase::ALL.into_iter().filter(|case| self.met(*case) == 0).collect()
    }
}

impl fmt::Display for GrowthCoverage {
    /// Prints one row per step and one column per fault, then the cases. A dash is an impossible cell.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::coverage::write_heads(f)?;
        for step in GrowthStep::ALL {
            write!(f, "{:<17}", step.name())?;
            for fault in Fault::ALL {
                match self.at(fault, step) {
                    0 if unreachable_because(fault, step).is_some() => write!(f, " {:>15}", "-")?,
                    count => write!(f, " {count:>15}")?,
                }
            }
            writeln!(f)?;
        }
        writeln!(f)?;
        for case in GrowthCase::ALL {
            writeln!(f, "{:<34} {:>9}", case.name(), self.met(case))?;
        }
        Ok(())
    }
}
