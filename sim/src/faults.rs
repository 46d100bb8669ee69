//! What goes wrong, and how often: within what a `Fabric` may do, so that nothing of it is an excuse.

use core::ops::{Index, IndexMut};

use superpipe_testkit::Rng;

use crate::column::Column;

/// Where a seed aims a fault at a state; a stall holds up each turn in it.
const AIMED: Chance = Chance::one_in(8);
const AIMED_STALL: Chance = Chance::one_in(64);

/// A probability, in 1/2^20.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chance(pub u32);

impl Chance {
    /// One in so many.
    #[must_use]
    pub const fn one_in(many: u32) -> Self {
        Self((1 << 20) / many)
    }

    pub(crate) fn happens(self, rng: &mut Rng) -> bool {
        self.0 > 0 && rng.next() >> 44 < u64::from(self.0)
    }
}

/// One thing that can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A WR: its completion comes up to 20 round trips late, and so do those behind it.
    LateCompletion,
    /// A WR: its completion never comes. The next one of its QP stands for it, too, if there is one.
    LostCompletion,
    /// A packet: it is torn at multiples of 8, 16 or 64 bytes, and the pieces become visible one after the other; without
    /// order inside a write in any order.
    TornPacket,
    /// A write: it becomes visible later than those that were posted after it, by less than a round trip.
    OvertakenWrite,
    /// An acknowledgement: it is up to 20 round trips late.
    LateAcknowledgement,
    /// A turn of an end: its CPU does nothing for up to 20 round trips.
    StalledPeer,
    /// A WR: its NIC fails it, and with it the QP; what it carried may have arrived.
    QpError,
    /// A turn of an end: its process is killed. Its QP and its memory are gone, and the peer is told so.
    KilledProcess,
    /// A turn of an end: it is gone, and nothing tells of it. Its host died, or the wire was cut.
    VanishedPeer,
    /// A line: it says something else than it should, or a write goes where none may.
    LyingPeer,
    /// A registration, before the connection is there.
    FailedRegistration,
}

impl Fault {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::LateCompletion,
        Self::LostCompletion,
        Self::TornPacket,
        Self::OvertakenWrite,
        Self::LateAcknowledgement,
        Self::StalledPeer,
        Self::QpError,
        Self::KilledProcess,
        Self::VanishedPeer,
        Self::LyingPeer,
        Self::FailedRegistration,
    ];

    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LateCompletion => "late completion",
            Self::LostCompletion => "lost completion",
            Self::TornPacket => "torn packet",
            Self::OvertakenWrite => "overtaken write",
            Self::LateAcknowledgement => "late acknowledgement",
            Self::StalledPeer => "stalled peer",
            Self::QpError => "QP error",
            Self::KilledProcess => "killed process",
            Self::VanishedPeer => "vanished peer",
            Self::LyingPeer => "lying peer",
            Self::FailedRegistration => "failed registration",
        }
    }

    /// Whether it can end a connection.
    pub(crate) const fn is_fatal(self) -> bool {
        matches!(
            self,
            Self::LostCompletion
                | Self::QpError
                | Self::KilledProcess
                | Self::VanishedPeer
                | Self::LyingPeer
                | Self::FailedRegistration
        )
    }

    /// Whether it is the other end that has to cope with it.
    pub(crate) const fn strikes_peer(self) -> bool {
        match self {
            Self::LateCompletion
            | Self::LostCompletion
            | Self::StalledPeer
            | Self::QpError
            | Self::FailedRegistration => false,
            Self::TornPacket
            | Self::OvertakenWrite
            | Self::LateAcknowledgement
            | Self::KilledProcess
            | Self::VanishedPeer
            | Self::LyingPeer => true,
        }
    }

    /// Rare, common and frequent.
    const fn weights(self) -> [Chance; 3] {
        match self {
            Self::LateCompletion | Self::OvertakenWrite | Self::LateAcknowledgement => {
                [Chance::one_in(100), Chance::one_in(10), Chance::one_in(2)]
            }
            Self::TornPacket => [Chance::one_in(100), Chance::one_in(5), Chance(943_718)],
            Self::StalledPeer => [Chance::one_in(1000), Chance::one_in(250), Chance::one_in(64)],
            Self::LostCompletion => [Chance::one_in(200), Chance::one_in(50), Chance::one_in(10)],
            Self::QpError | Self::LyingPeer => [Chance::one_in(400), Chance::one_in(100), Chance::one_in(25)],
            Self::KilledProcess | Self::VanishedPeer => {
                [Chance::one_in(5000), Chance::one_in(1000), Chance::one_in(200)]
            }
            Self::FailedRegistration => [Chance::one_in(100), Chance::one_in(20), Chance::one_in(4)],
        }
    }

    /// One in so many seeds has it: those that end a run are rarer than those that it must live with.
    const fn rarity(self) -> usize {
        match self {
            Self::FailedRegistration => 50,
            fatal if fatal.is_fatal() => 10,
            _ => 2,
        }
    }
}

/// Each fault with its probability; 0 by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    chances: [Chance; Fault::ALL.len()],
    /// One of them is likely in one state, whatever its probability elsewhere: so that all states are struck, short ones, too.
    pub aim: Option<(Fault, Column)>,
    /// One of them strikes once, after it could have so many times: nothing is drawn for it.
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
    /// A mix of its own for each seed: some faults are off, the others rare, common or frequent.
    pub fn swarm(rng: &mut Rng) -> Self {
        let mut faults = Self::default();
        for fault in Fault::ALL {
            let weight = fault.weights()[rng.below(3)];
            if rng.one_in(fault.rarity()) {
                faults[fault] = weight;
            }
        }
        let aimed = Fault::ALL[rng.below(Fault::ALL.len())];
        let column = Column::ALL[rng.below(Column::ALL.len())];
        faults.aim = rng.one_in(2).then_some((aimed, column));
        faults
    }

    /// Whether this one happens now, to an end in these states.
    pub(crate) fn happens(&mut self, fault: Fault, columns: [Column; 3], rng: &mut Rng) -> bool {
        if let Some((once, before)) = &mut self.once
            && *once == fault
        {
            // Those after the one count from the top, and never come so far.
            let is_due = *before == 0;
            *before = before.wrapping_sub(1);
            return is_due;
        }
        let aimed = self.aim.is_some_and(|(aimed, column)| aimed == fault && columns.contains(&column));
        let chance = match fault {
            Fault::StalledPeer if aimed => AIMED_STALL,
            _ if aimed => AIMED,
            _ => self[fault],
        };
        chance.happens(rng)
    }

    /// Whether any of these can happen.
    #[must_use]
    pub fn any(&self, of: &[Fault]) -> bool {
        let is_aimed = |fault: &Fault| self.aim.is_some_and(|(aimed, _)| aimed == *fault);
        let is_once = |fault: &Fault| self.once.is_some_and(|(once, _)| once == *fault);
        of.iter().any(|fault| self[*fault] != Chance::default() || is_aimed(fault) || is_once(fault))
    }
}
