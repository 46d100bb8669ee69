//! What to do in a round that found no work.
//!
//! Three strategies, all of which begin by spinning with `pause`: **spin** goes on so for ever; **yield** gives the core
//! to whoever else wants it between rounds; **sleep**, the default, yields for a while and then asks its caller to
//! sleep, which only the fabric knows how to do. Yield and sleep cannot livelock where both ends share one core.
//!
//! Deadlines, liveness and completion errors are not this one's business in a round that found work (its caller counts those),
//! and in one that found none only every 128th round of spinning or 16th of yielding (which may last another thread's time slice): then the answer is
//! [`Idle::Look`].
//!
//! ```text
//!          reset()           128 rounds              64 yields
//! work ──────────────▶ spin ────────────▶ yield ──────────────▶ sleep, sleep, ..
//!                       │ strategy spin: stays  │ strategy yield: stays
//! ```
//!
//! **Where both ends share a core, spinning only keeps the peer from its work**: yielding brings it, and soon. So a first
//! yield that took no longer than spinning does, and after which few more were needed, makes the next wait spin a quarter
//! as long, down to two rounds. One that took longer (somebody else had the core), or several that brought nothing (the
//! peer runs elsewhere, or is not done), make it spin in full again.

use super::clock::monotonic_ns;
use core::str::FromStr;
use core::{error, fmt, hint};
use std::thread;

/// Rounds of spinning before anything else is tried (fewer where both ends share a core), and between two looks while spinning: 1,024 attempts where a round
/// makes eight of them, which is about 10 to 50 µs.
pub const SPIN_ROUNDS: u32 = 128;
/// Rounds of yielding between two looks.
pub const YIELD_LOOK_ROUNDS: u32 = 16;
/// Rounds of yielding before [`WaitStrategy::Sleep`] sleeps.
pub const YIELD_ROUNDS: u32 = 64;

/// Rounds of spinning where yielding is what helps.
const SPIN_ROUNDS_MIN: u32 = 2;
/// So many yields without work mean that the peer is not waiting for this core. The scheduler may pass over a peer once or
/// twice.
const YIELDS_IN_VAIN: u32 = 4;
/// A first yield that takes longer was somebody else's time slice: spinning would have been no slower.
const YIELD_NS_MAX: u64 = 50_000;

const _: () = assert!(YIELD_ROUNDS.is_multiple_of(YIELD_LOOK_ROUNDS));

/// How to wait: what is spent, a core or latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WaitStrategy {
    /// Spin for ever: the lowest latency, and a core for each end. On one shared core it advances a time slice a message.
    Spin,
    /// Spin, then yield the core between rounds: as fast where the core is free, fair where it is not.
    Yield,
    /// Spin, yield, then sleep: costs nothing while nothing comes, and a wake-up (10 to 40 µs) when it does.
    #[default]
    Sleep,
}

/// What the caller of [`Waiter::idle`] does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idle {
    /// Nothing but the next round.
    Again,
    /// Look at deadlines, liveness and completion errors, then the next round.
    Look,
    /// Look, then sleep until woken or until the next deadline, then the next round.
    Sleep,
}

/// Counts rounds without work, and does the waiting of one.
#[derive(Debug, Clone)]
pub struct Waiter {
    /// rounds since the last work
    rounds: u32,
    /// the round that does not merely spin, in this wait and in the next
    spins: u32,
    next_spins: u32,
    strategy: WaitStrategy,
}

impl Waiter {
    /// A waiter that has just seen work.
    #[must_use]
    pub const fn new(strategy: WaitStrategy) -> Self {
        Self { rounds: 0, spins: SPIN_ROUNDS, next_spins: SPIN_ROUNDS, strategy }
    }

    /// The strategy that it was made with.
    #[must_use]
    pub const fn strategy(&self) -> WaitStrategy {
        self.strategy
    }

    /// There was work: begin again with spinning.
    #[inline]
    pub fn reset(&mut self) {
        (self.rounds, self.spins) = (0, self.next_spins);
    }

    /// There was none: waits a little, and says what comes next.
    #[inline]
    pub fn idle(&mut self) -> Idle {
        self.rounds += 1;
        if self.rounds < self.spins {
            hint::spin_loop();
            return Idle::Again;
        }
        self.idle_longer()
    }

    #[cold]
    #[inline(never)]
    fn idle_longer(&mut self) -> Idle {
        let yields = self.rounds - self.spins;
        match self.strategy {
            WaitStrategy::Spin => {
                self.rounds = 0;
                return Idle::Look;
            }
            WaitStrategy::Yield if yields == YIELD_ROUNDS => self.rounds = self.spins,
            WaitStrategy::Sleep if yields > YIELD_ROUNDS => {
                self.rounds -= 1;
                return Idle::Sleep;
            }
            WaitStrategy::Yield | WaitStrategy::Sleep => {}
        }
        match yields {
            0 => self.yield_first(),
            YIELDS_IN_VAIN => {
                self.next_spins = SPIN_ROUNDS;
                thread::yield_now();
            }
            _ => thread::yield_now(),
        }
        if yields.is_multiple_of(YIELD_LOOK_ROUNDS) { Idle::Look } else { Idle::Again }
    }

    /// The yield that shows whether both ends may share a core.
    fn yield_first(&mut self) {
        let begin_ns = monotonic_ns();
        thread::yield_now();
        let yielded_ns = monotonic_ns() - begin_ns;
        self.note_first_yield(yielded_ns);
    }

    fn note_first_yield(&mut self, yielded_ns: u64) {
        let is_short = yielded_ns <= YIELD_NS_MAX;
        self.next_spins = if is_short { (self.spins / 4).max(SPIN_ROUNDS_MIN) } else { SPIN_ROUNDS };
    }
}

impl Default for Waiter {
    fn default() -> Self {
        Self::new(WaitStrategy::default())
    }
}

impl WaitStrategy {
    /// Every strategy, in the order of the cores they cost.
    pub const ALL: [Self; 3] = [Self::Spin, Self::Yield, Self::Sleep];

    /// The word that people write for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Spin => "spin",
            Self::Yield => "yield",
            Self::Sleep => "sleep",
        }
    }
}

impl fmt::Display for WaitStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A word that names no strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownStrategy;

impl fmt::Display for UnknownStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown wait strategy; use spin, yield or sleep")
    }
}

impl error::Error for UnknownStrategy {}

impl FromStr for WaitStrategy {
    type Err = UnknownStrategy;

    fn from_str(word: &str) -> Result<Self, UnknownStrategy> {
        Self::ALL.into_iter().find(|strategy| strategy.name() == word).ok_or(UnknownStrategy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rounds, counted from 1, at which `answer` came in the first `rounds`.
    fn rounds_of(waiter: &mut Waiter, answer: Idle, rounds: u32) -> Vec<u32> {
        (1..=rounds).filter(|_| waiter.idle() == answer).collect()
    }

    #[test]
    fn spin_looks_every_128_rounds_and_never_sleeps() {
        let mut waiter = Waiter::new(WaitStrategy::Spin);
        assert_eq!(rounds_of(&mut waiter, Idle::Look, 512), [128, 256, 384, 512]);
        assert_eq!(rounds_of(&mut waiter, Idle::Sleep, 4096), []);
    }

    #[test]
    fn yield_looks_every_16th_yield_and_never_sleeps() {
        let mut waiter = Waiter::new(WaitStrategy::Yield);
        let looks = rounds_of(&mut waiter, Idle::Look, 128 + 200);
        assert_eq!(looks, (0..=200 / 16).map(|look| 128 + 16 * look).collect::<Vec<_>>());
        assert_eq!(rounds_of(&mut waiter, Idle::Sleep, 4096), []);
    }

    #[test]
    fn sleep_spins_yields_and_then_sleeps_every_round() {
        let mut waiter = Waiter::default();
        assert_eq!(waiter.strategy(), WaitStrategy::Sleep);
        assert_eq!(rounds_of(&mut waiter, Idle::Look, 128 + 64), [128, 144, 160, 176, 192]);
        for _ in 0..10_000 {
            assert_eq!(waiter.idle(), Idle::Sleep);
        }
        waiter.reset();
        assert_eq!(rounds_of(&mut waiter, Idle::Sleep, 128 + 64), []);
        assert_eq!(waiter.idle(), Idle::Sleep);
    }

    #[test]
    fn work_begins_everything_again() {
        let mut waiter = Waiter::new(WaitStrategy::Sleep);
        for _ in 0..100 {
            for _ in 0..127 {
                assert_eq!(waiter.idle(), Idle::Again);
            }
            waiter.reset();
        }
    }

    /// The round of the first yield, with which every wait but spinning first looks.
    fn spins(waiter: &mut Waiter) -> Option<u32> {
        (1..=SPIN_ROUNDS).find(|_| waiter.idle() == Idle::Look)
    }

    #[test]
    fn a_first_yield_that_brings_work_soon_shortens_the_next_waits() {
        for strategy in [WaitStrategy::Yield, WaitStrategy::Sleep] {
            let mut waiter = Waiter::new(strategy);
            for rounds in [128, 32, 8, 2, 2] {
                assert_eq!(spins(&mut waiter), Some(rounds), "{strategy}");
                waiter.note_first_yield(YIELD_NS_MAX);
                waiter.reset();
            }
            // Work that comes while spinning changes nothing.
            waiter.idle();
            waiter.reset();
            assert_eq!(spins(&mut waiter), Some(2));
            waiter.note_first_yield(YIELD_NS_MAX + 1);
            waiter.reset();
            assert_eq!(spins(&mut waiter), Some(128), "somebody else had the core");
        }
    }

    #[test]
    fn yields_that_bring_nothing_restore_the_spinning() {
        for (more, rounds) in [(3, 8), (4, 128), (64, 128)] {
            let mut waiter = Waiter::default();
            for rounds in [128, 32] {
                assert_eq!(spins(&mut waiter), Some(rounds));
                waiter.note_first_yield(0);
                if rounds == 128 {
                    waiter.reset();
                }
            }
            (0..more).for_each(|_| _ = waiter.idle());
            waiter.reset();
            assert_eq!(spins(&mut waiter), Some(rounds), "after {more} more yields");
        }
    }

    #[test]
    fn words_are_read_as_they_are_shown() {
        for strategy in WaitStrategy::ALL {
            assert_eq!(strategy.to_string().parse(), Ok(strategy));
        }
        assert_eq!("Spin".parse::<WaitStrategy>(), Err(UnknownStrategy));
        assert_eq!(format!("{:>6}", WaitStrategy::Spin), "  spin");
    }
}
