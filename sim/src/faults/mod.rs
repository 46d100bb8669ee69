//! Faults and their probabilities. A `Fabric` is permitted all of them, so core must cope with each.

mod coverage;
mod growth;
mod state;

use core::ops::{Index, IndexMut};

use superpipe_core::{Requesting, State};
use superpipe_testkit::Rng;

pub use coverage::FaultCoverage;
pub use growth::{GrowthCase, GrowthCoverage, GrowthStep};
pub use state::EndState;

/// Probability of an aimed fault in its state. A stall is rarer, since it can strike each turn in that state.
const AIMED: Chance = Chance::one_in(8);
const AIMED_STALL: Chance = Chance::one_in(64);
/// Probability of a fault that is aimed at a step of growth. Some last for a turn.
const AIMED_AT_GROWTH: Chance = Chance::one_in(2);

/// Faults that every seed draws. The others are drawn where landing buffers grow (`Faults::growing`).
const DRAWN: usize = 11;
/// One of this many seeds in which landing buffers grow has one of the faults of growth, and one a fault aimed at a step of growth.
const GROWING_EVERY: [usize; 2] = [3, 2];

/// A probability in units of 2^-20.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chance(pub u32);

impl Chance {
    /// Returns the probability of one in `many`.
    #[must_use]
    pub const fn one_in(many: u32) -> Self {
        Self((1 << 20) / many)
    }

    pub(crate) fn happens(self, rng: &mut Rng) -> bool {
        self.0 > 0 && rng.next() >> 44 < u64::from(self.0)
    }
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The completion of a WR is up to 20 round trips late, and so are those behind it.
    LateCompletion,
    /// The completion of a WR never comes. The next one of its QP stands for it, too.
    LostCompletion,
    /// A packet is split at multiples of 8, 16 or 64 bytes. The pieces become visible one after the other, or in any order without order
    /// inside a write.
    SplitPacket,
    /// A write becomes visible after writes posted later, by less than a round trip.
    OvertakenWrite,
    /// An acknowledgement is up to 20 round trips late.
    LateAcknowledgement,
    /// The CPU of an end stalls for up to 20 round trips before a turn.
    StalledPeer,
    /// The NIC fails a WR and its QP. The data of the WR may have arrived.
    QpError,
    /// The process of an end is killed. Its QP and its memory are gone, and the peer learns of it, as from a closed socket.
    KilledProcess,
    /// The host of an end dies, or its wire is cut. The peer learns of it only by silence.
    VanishedPeer,
    /// A line is forged, or a write goes to an address without permission.
    HostilePeer,
    /// A registration fails during set-up.
    FailedRegistration,
    /// A job fails that provisions or registers memory.
    FailedJob,
    /// A job lasts up to 20 round trips longer.
    LateJob,
    /// The owner of a landing buffer that has grown needs the memory elsewhere.
    ReclaimedMemory,
}

impl Fault {
    /// All faults in the order of their numbers.
    pub const ALL: [Self; 14] = [
        Self::LateCompletion,
        Self::LostCompletion,
        Self::SplitPacket,
        Self::OvertakenWrite,
        Self::LateAcknowledgement,
        Self::StalledPeer,
        Self::QpError,
        Self::KilledProcess,
        Self::VanishedPeer,
        Self::HostilePeer,
        Self::FailedRegistration,
        Self::FailedJob,
        Self::LateJob,
        Self::ReclaimedMemory,
    ];

    /// Name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LateCompletion => "late completion",
            Self::LostCompletion => "lost completion",
            Self::SplitPacket => "split packet",
            Self::OvertakenWrite => "overtaken write",
            Self::LateAcknowledgement => "late acknowledgement",
            Self::StalledPeer => "stalled peer",
            Self::QpError => "QP error",
            Self::KilledProcess => "killed process",
            Self::VanishedPeer => "vanished peer",
            Self::HostilePeer => "hostile peer",
            Self::FailedRegistration => "failed registration",
            Self::FailedJob => "failed job",
            Self::LateJob => "late job",
            Self::ReclaimedMemory => "reclaimed memory",
        }
    }

    /// Returns true if it can end a connection.
    pub(crate) const fn is_fatal(self) -> bool {
        matches!(
            self,
            Self::LostCompletion
                | Self::QpError
                | Self::KilledProcess
                | Self::VanishedPeer
                | Self::HostilePeer
                | Self::FailedRegistration
        )
    }

    /// Returns true if the other end has to cope with it.
    pub(crate) const fn strikes_peer(self) -> bool {
        match self {
            Self::LateCompletion
            | Self::LostCompletion
            | Self::StalledPeer
            | Self::QpError
            | Self::FailedRegistration
            | Self::FailedJob
            | Self::LateJob
            | Self::ReclaimedMemory => false,
            Self::SplitPacket
            | Self::OvertakenWrite
            | Self::LateAcknowledgement
            | Self::KilledProcess
            | Self::VanishedPeer
            | Self::HostilePeer => true,
        }
    }

    /// Returns the rare, the common and the frequent probability.
    const fn weights(self) -> [Chance; 3] {
        match self {
            Self::LateCompletion | Self::OvertakenWrite | Self::LateAcknowledgement | Self::FailedJob => {
                [Chance::one_in(100), Chance::one_in(10), Chance::one_in(2)]
            }
            // There are few jobs, and most steps of growth are short.
            Self::LateJob => [Chance::one_in(20), Chance::one_in(5), Chance::one_in(2)],
            Self::SplitPacket => [Chance::one_in(100), Chance::one_in(5), Chance(943_718)],
            Self::StalledPeer | Self::ReclaimedMemory => {
                [Chance::one_in(1000), Chance::one_in(250), Chance::one_in(64)]
            }
            Self::LostCompletion => [Chance::one_in(200), Chance::one_in(50), Chance::one_in(10)],
            Self::QpError | Self::HostilePeer => {
                [Chance::one_in(400), Chance::one_in(100), Chance::one_in(25)]
            }
            Self::KilledProcess | Self::VanishedPeer => {
                [Chance::one_in(5000), Chance::one_in(1000), Chance::one_in(200)]
            }
            Self::FailedRegistration => [Chance::one_in(100), Chance::one_in(20), Chance::one_in(4)],
        }
    }

    /// Returns in how many seeds one has this fault. Fatal faults are rarer.
    const fn rarity(self) -> usize {
        match self {
            Self::FailedRegistration => 50,
            fatal if fatal.is_fatal() => 10,
            _ => 2,
        }
    }
}

/// Probabilities of all faults, 0 by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    chances: [Chance; Fault::ALL.len()],
    /// A fault that is likely in one state, so that faults strike short states as well.
    pub aim: Option<(Fault, EndState)>,
    /// A fault that is likely in one step of growth.
    pub growth_aim: Option<(Fault, GrowthStep)>,
    /// A fault that strikes exactly once, after this many opportunities. It draws nothing.
    pub once: Option<(Fault, u64)>,
}

impl Index<Fault> for Faults {
    type Output = Chance;

    fn index(&self, fault: Fault) -> &Chance {
        &self.chances[fault as usize]
    }
}

impl IndexMut<Fault> for Faults {
    fn index_mut(&mut self, fault: Fault) -> &mut Chance {
        &mut self.chances[fault as usize]
    }
}

impl Faults {
    /// Draws the probabilities of a seed: some faults are off, the others rare, common or frequent.
    pub fn swarm(rng: &mut Rng) -> Self {
        let mut faults = Self::default();
        for fault in Fault::ALL[..DRAWN].iter().copied() {
            let weight = fault.weights()[rng.below(3)];
            if rng.one_in(fault.rarity()) {
                faults[fault] = weight;
            }
        }
        let aimed = Fault::ALL[rng.below(DRAWN)];
        let end_state = EndState::ALL[rng.below(EndState::ALL.len())];
        faults.aim = rng.one_in(2).then_some((aimed, end_state));
        faults
    }

    /// Draws the faults of growth besides, for a seed in which landing buffers grow.
    pub fn growing(&mut self, rng: &mut Rng) {
        let [every, aimed_every] = GROWING_EVERY;
        for fault in Fault::ALL[DRAWN..].iter().copied() {
            let weight = fault.weights()[rng.below(3)];
            if rng.one_in(every) {
                self[fault] = weight;
            }
        }
        let aimed = Fault::ALL[rng.below(Fault::ALL.len())];
        let step = GrowthStep::ALL[rng.below(GrowthStep::ALL.len())];
        self.growth_aim = rng.one_in(aimed_every).then_some((aimed, step));
        if self.growth_aim.is_some() && step == GrowthStep::Requesting(Requesting::GivingBack) {
            // Only what failed is given back.
            self[Fault::FailedJob] = Chance::one_in(2);
        }
    }

    /// Draws whether a fault strikes an end in this state.
    pub(crate) fn happens(&mut self, fault: Fault, state: Option<State>, rng: &mut Rng) -> bool {
        if let Some((once, before)) = &mut self.once
            && *once == fault
        {
            // After that the count wraps, and never reaches 0 again.
            let is_due = *before == 0;
            *before = before.wrapping_sub(1);
            return is_due;
        }
        let is_aimed = self
            .aim
            .is_some_and(|(aimed, end_state)| aimed == fault && EndState::of(state).contains(&end_state));
        let is_aimed_at_growth = self
            .growth_aim
            .is_some_and(|(aimed, step)| aimed == fault && GrowthStep::of(state).any(|it| it == step));
        let is_per_turn = matches!(fault, Fault::StalledPeer | Fault::ReclaimedMemory);
        let chance = match (is_aimed_at_growth, is_aimed) {
            (true, _) if is_per_turn => AIMED,
            (true, _) => AIMED_AT_GROWTH,
            (false, true) if is_per_turn => AIMED_STALL,
            (false, true) => AIMED,
            (false, false) => self[fault],
        };
        chance.happens(rng)
    }

    /// Returns true if any of these can strike.
    #[must_use]
    pub fn any(&self, of: &[Fault]) -> bool {
        let is_aimed = |fault: &Fault| self.aim.is_some_and(|(aimed, _)| aimed == *fault);
        let is_aimed_at_growth = |fault: &Fault| self.growth_aim.is_some_and(|(aimed, _)| aimed == *fault);
        let is_once = |fault: &Fault| self.once.is_some_and(|(once, _)| once == *fault);
        of.iter().any(|fault| {
            self[*fault] != Chance::default()
                || is_aimed(fault)
                || is_aimed_at_growth(fault)
                || is_once(fault)
        })
    }
}
