//! What goes wrong, and how often: within what a `Fabric` may do, so that nothing of it is an excuse.

use superpipe_testkit::Rng;

/// A probability, in 1/1024.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chance(pub u16);

impl Chance {
    pub(crate) fn happens(self, rng: &mut Rng) -> bool {
        self.0 > 0 && rng.below(1024) < usize::from(self.0)
    }
}

/// Each fault with its probability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// A WR: its completion comes up to 20 round trips late, and so do those behind it.
    pub late_completion: Chance,
    /// A packet: it is torn at multiples of 8, 16 or 64 bytes, and the pieces become visible one after the other; without order
    /// inside a write in any order.
    pub torn_packet: Chance,
    /// A write: it becomes visible later than those that were posted after it, by less than a round trip.
    pub overtaken_write: Chance,
    /// An acknowledgement: it is up to 20 round trips late.
    pub late_acknowledgement: Chance,
    /// A turn of an endpoint's CPU: it does nothing for up to 20 round trips.
    pub stalled_peer: Chance,
}

impl Faults {
    /// A mix of its own for each seed: half of the faults are off, the others rare, common or frequent.
    pub fn swarm(rng: &mut Rng) -> Self {
        let mut weigh = |rare, common, frequent| {
            let chances = [0, 0, 0, rare, common, frequent];
            Chance(chances[rng.below(chances.len())])
        };
        Self {
            late_completion: weigh(10, 100, 500),
            torn_packet: weigh(10, 200, 900),
            overtaken_write: weigh(10, 100, 500),
            late_acknowledgement: weigh(10, 100, 500),
            stalled_peer: weigh(1, 4, 16),
        }
    }
}
