//! What to do in a round that found no work.
//!
//! Three strategies, all of which begin by spinning with `pause`: **spin** goes on so for ever; **yield** gives the core
//! to whoever else wants it between rounds; **sleep**, the default, yields for a while and then asks its caller to
//! sleep, which only the fabric knows how to do. Yield and sleep cannot livelock where both ends share one core.
//!
//! Deadlines, liveness and completion errors are nobody's business in a round that found work, and in one that found
//! none only every 128th round of spinning or 16th of yielding (which may last another thread's time slice): then the answer is
//! [`Idle::Look`].
//!
//! ```text
//!          reset()           128 rounds              64 yields
//! work ──────────────▶ spin ────────────▶ yield ──────────────▶ sleep, sleep, ..
//!                       │ strategy spin: stays  │ strategy yield: stays
//! ```

use core::str::FromStr;
use core::{error, fmt, hint};
use std::thread;

/// Rounds of spinning before anything else is tried, and between two looks while spinning: 1,024 attempts where a round
/// makes eight of them, which is about 10 to 50 µs.
pub const SPIN_ROUNDS: u32 = 128;
/// Rounds of yielding between two looks.
pub const YIELD_LOOK_ROUNDS: u32 = 16;
/// Rounds of yielding before [`WaitStrategy::Sleep`] sleeps.
pub const YIELD_ROUNDS: u32 = 64;

const _: () = assert!(YIELD_ROUNDS.is_multiple_of(YIELD_LOOK_ROUNDS));

/// How to wait: what is spent, a core or latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WaitStrategy {
    /// Spin for ever: the lowest latency, and a core for each end. On one shared core it advances a time slice a message.
    Spin,
    /// Spin, then yield the core between rounds: as fast where the core is free, fair where it is not.
    Yield,
    /// Spin, yield, then sleep: costs nothing while nothing comes, and a wake-up (about 50 µs) when it does.
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
    /// the round that does not merely spin
    stop: u32,
    strategy: WaitStrategy,
}

impl Waiter {
    /// A waiter that has just seen work.
    #[must_use]
    pub const fn new(strategy: WaitStrategy) -> Self {
        Self { rounds: 0, stop: SPIN_ROUNDS, strategy }
    }

    /// The strategy that it was made with.
    #[must_use]
    pub const fn strategy(&self) -> WaitStrategy {
        self.strategy
    }

    /// There was work: begin again with spinning.
    #[inline]
    pub fn reset(&mut self) {
        (self.rounds, self.stop) = (0, SPIN_ROUNDS);
    }

    /// There was none: waits a little, and says what comes next.
    #[inline]
    pub fn idle(&mut self) -> Idle {
        self.rounds += 1;
        if self.rounds < self.stop {
            hint::spin_loop();
            return Idle::Again;
        }
        self.idle_longer()
    }

    #[cold]
    #[inline(never)]
    fn idle_longer(&mut self) -> Idle {
        let yields = self.rounds - SPIN_ROUNDS;
        match self.strategy {
            WaitStrategy::Spin => {
                self.rounds = 0;
                return Idle::Look;
            }
            WaitStrategy::Yield if yields == YIELD_ROUNDS => self.rounds = SPIN_ROUNDS,
            WaitStrategy::Sleep if yields > YIELD_ROUNDS => {
                self.rounds -= 1;
                return Idle::Sleep;
            }
            WaitStrategy::Yield | WaitStrategy::Sleep => {}
        }
        thread::yield_now();
        if yields.is_multiple_of(YIELD_LOOK_ROUNDS) { Idle::Look } else { Idle::Again }
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

    #[test]
    fn words_are_read_as_they_are_shown() {
        for strategy in WaitStrategy::ALL {
            assert_eq!(strategy.to_string().parse(), Ok(strategy));
        }
        assert_eq!("Spin".parse::<WaitStrategy>(), Err(UnknownStrategy));
        assert_eq!(format!("{:>6}", WaitStrategy::Spin), "  spin");
    }
}
