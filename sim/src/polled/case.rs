//! Everything that a seed decides of a run with a poller.

use superpipe_core::driver::WaitStrategy;
use superpipe_testkit::Rng;

/// One of this many seeds has a poller, beginning behind those that find planted bugs of other parts: these stay as they were.
const POLLED_EVERY: u64 = 16;
const POLLED_AT: u64 = 9;
const POLLED_FROM: u64 = 4000;

/// Strategy of a client that waits for answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientWait {
    /// It tries again and again.
    Polls,
    /// It waits for a set of its own.
    Waits,
}

/// End of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// It closes.
    Closes,
    /// Its process is killed.
    IsKilled,
}

/// A client of the poller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientPlan {
    pub(crate) wait: ClientWait,
    pub(crate) leaving: Leaving,
    /// Bursts of messages, and messages of one.
    pub(crate) bursts: u32,
    pub(crate) burst: u32,
    /// Longest pause between two bursts.
    pub(crate) pause_ns: u64,
    /// It sends keepalives during its pauses.
    pub(crate) keeps_alive: bool,
    /// Calls in which the program leaves each of its messages there.
    pub(crate) left_calls: u32,
}

/// Faults of sleeps.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SleepFaults {
    /// A membarrier makes the stores of the other core visible. Without it looks are 1, 2, 4, .. ms apart.
    pub(crate) has_barrier: bool,
    /// One barrier in so many does not make the stores of the other core visible; 0: none.
    pub(crate) lost_one_in: usize,
    /// One wake-up in so many comes late, up to this; 0: none.
    pub(crate) late_one_in: usize,
    pub(crate) late_ns: u64,
}

/// A run with a poller.
#[derive(Clone, Debug)]
pub(crate) struct PolledCase {
    pub(crate) seed: u64,
    /// Places of the poller. More clients than that come one after the other.
    pub(crate) places: u32,
    pub(crate) clients: Vec<ClientPlan>,
    pub(crate) faults: SleepFaults,
    pub(crate) quiet_ns: u64,
    /// Strategy of the poller while nothing happens.
    pub(crate) wait: WaitStrategy,
    /// Room for reports in a call.
    pub(crate) room: usize,
    /// Idle timeout of both ends.
    pub(crate) idle_timeout_ns: u64,
    /// The server does something else than to answer in one call of so many, and leaves places free for a while; 0: in none.
    pub(crate) acts_one_in: usize,
}

/// Returns the seed of the `number`-th case that has a poller, counted from 0.
#[must_use]
pub const fn polled_seed(number: u64) -> u64 {
    (POLLED_FROM / POLLED_EVERY + number) * POLLED_EVERY + POLLED_AT
}

impl PolledCase {
    /// Returns the case of a seed, if that has a poller.
    pub(crate) fn of_seed(seed: u64) -> Option<Self> {
        (seed >= POLLED_FROM && seed % POLLED_EVERY == POLLED_AT).then(|| Self::drawn(seed))
    }

    fn drawn(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x9011);
        let rng = &mut rng;
        let places = [1, 2, 4, 8, 12][rng.below(5)];
        let count = places as usize + rng.below(places as usize + 1);
        let has_barrier = !rng.one_in(5);
        let faults = SleepFaults {
            has_barrier,
            lost_one_in: if has_barrier { [0, 3, 20][rng.below(3)] } else { 0 },
            late_one_in: [0, 0, 2, 10][rng.below(4)],
            late_ns: [20_000, 3_000_000, 130_000_000][rng.below(3)],
        };
        let wait = if rng.one_in(4) { WaitStrategy::Yield } else { WaitStrategy::Sleep };
        let quiet_ns = [0, 3_000, 30_000, 1_000_000, 3_600_000_000_000][rng.below(5)];
        let idle_timeout_ns = [300_000_000, 1_000_000_000, 6_000_000_000, 30_000_000_000][rng.below(4)];
        let acts_one_in = [4, 16, 1000][rng.below(3)];
        let left = rng.one_in(3);
        let pauses = [0, 2_000, 300_000, 60_000_000, 2_000_000_000, 10_000_000_000];
        let most = 2 + rng.below(pauses.len() - 1);
        let clients = (0..count).map(|_| ClientPlan {
            wait: if rng.one_in(2) { ClientWait::Polls } else { ClientWait::Waits },
            leaving: if rng.one_in(3) { Leaving::IsKilled } else { Leaving::Closes },
            bursts: up_to(rng, 5),
            burst: [1, 1, 2, 12][rng.below(4)],
            pause_ns: pauses[rng.below(most)],
            keeps_alive: !rng.one_in(4),
            left_calls: if left && rng.one_in(2) { 80 } else { 0 },
        });
        let clients = clients.collect();
        let room = 4 + rng.below(3) * rng.below(8);
        Self { seed, places, clients, faults, quiet_ns, wait, room, idle_timeout_ns, acts_one_in }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "at most `most`")]
fn up_to(rng: &mut Rng, most: u32) -> u32 {
    1 + rng.below(most as usize) as u32
}
