//! Choice of the rest after a round without work.
//!
//! There are three strategies, all of which begin by spinning with `pause`. **Spin** never stops spinning. **Yield** then gives the
//! core to another thread between rounds. **Sleep**, the default, yields for a while and then asks its caller to sleep by means of
//! the fabric. Yield and sleep cannot livelock when both ends share one core.
//!
//! Every 128th round of spinning asks for a check of the time, and so does every round of yielding: a yield may last another
//! thread's time slice, and reading the clock costs a tenth of the shortest yield.
//!
//! ```text
//!                         128 rounds              64 yields
//! wait begins, work ---> spin ------------> yield --------------> sleep, sleep, ..
//!                         | strategy spin: stays  | strategy yield: stays
//! ```
//!
//! **When both ends share a core, spinning keeps the peer from its work**, and a yield soon brings the message. So after a first
//! yield that took no longer than spinning, and needed few more yields, the next wait spins a quarter as long, down to two
//! rounds. After a longer yield (another thread had the core), or several without work (the peer runs elsewhere, or is not done),
//! the next wait spins in full again.
//!
//! **When busy threads use the core**, each yield lasts their time slices, while a sleep ends in time. So after a yield of a
//! millisecond or more the next `CROWDED_SLEEPS` rests are sleeps, if the strategy is sleep. docs/performance.md, "Waiting", has
//! the measurements.

use core::str::FromStr;
use core::{error, fmt};

/// Rounds of spinning before the first yield (fewer when both ends share a core), and between two checks of time while spinning. With
/// eight attempts per round these are 1,024 attempts, about 10 to 50 µs.
pub const SPIN_ROUNDS: u32 = 128;
/// Rounds of yielding before [`WaitStrategy::Sleep`] sleeps. They bring what a peer on this core is about to send. More would use a
/// core for longer before each sleep; with fewer, messages that come soon would pay a wake-up.
pub const YIELD_ROUNDS: u32 = 64;

/// Fewest rounds of spinning, when both ends share a core: the attempts of two rounds find what has arrived meanwhile.
const SPIN_ROUNDS_MIN: u32 = 2;
/// Yields without work after which the peer counts as running on another core. The scheduler may pass over a peer once or twice.
const YIELDS_IN_VAIN: u32 = 4;
/// Longest first yield that shortens spinning. A longer one was another thread's time slice: spinning would have been no slower.
const YIELD_NS_MAX: u64 = 50_000;
/// Shortest yield that was the time slice of a busy thread. A peer on the same core needs that long only to move 10 MiB.
const CROWDED_NS: u64 = 1_000_000;
/// Sleeps after such a yield, before a yield is tried again: at most one rest in 17 lasts a time slice while busy threads use the core,
/// and 16 sleeps later a wait notices that they are gone.
const CROWDED_SLEEPS: u32 = 16;

/// Strategy of waits, which trades CPU time for latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WaitStrategy {
    /// Spins without end: the lowest latency, and a core for each end. On one shared core each message takes a time slice.
    Spin,
    /// Spins, then yields the core between rounds: as fast on a free core, and fair on a shared one.
    Yield,
    /// Spins, yields, then sleeps: no CPU time while nothing arrives, and a wake-up (10 to 40 µs) when a message does.
    #[default]
    Sleep,
}

/// Rest after a round without work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// Execute `pause`, then the next round.
    Spin,
    /// Check the time, then the next round.
    CheckTime,
    /// Yield the core, call [`Driver::note_yield`](super::Driver::note_yield) with the time that it took, then check the time.
    Yield {
        /// This is the first yield of the wait.
        is_first: bool,
    },
    /// Check the time, then sleep until woken, for at most as long as the check allows.
    Sleep,
}

/// Strategy of a connection's waits, and what earlier waits measured of the core.
#[derive(Debug, Clone)]
pub(super) struct Pace {
    strategy: WaitStrategy,
    /// First round of the next wait that does more than spin.
    next_spins: u32,
    /// Sleeps left to make in place of yields, because other threads use the core.
    crowded_sleeps: u32,
}

impl Pace {
    pub(super) const fn new(strategy: WaitStrategy) -> Self {
        Self { strategy, next_spins: SPIN_ROUNDS, crowded_sleeps: 0 }
    }

    pub(super) const fn strategy(&self) -> WaitStrategy {
        self.strategy
    }

    /// Notes the duration of a yield. The first yield of a wait indicates whether both ends share a core, and each yield whether other
    /// threads use it.
    pub(super) const fn note_yield(&mut self, is_first: bool, yielded_ns: u64, rounds: &Rounds) {
        if yielded_ns >= CROWDED_NS {
            self.crowded_sleeps = CROWDED_SLEEPS;
        }
        if !is_first {
            return;
        }
        let quarter = rounds.spins / 4;
        self.next_spins = if yielded_ns > YIELD_NS_MAX {
            SPIN_ROUNDS
        } else if quarter > SPIN_ROUNDS_MIN {
            quarter
        } else {
            SPIN_ROUNDS_MIN
        };
    }
}

/// Rounds of one wait since the last work.
#[derive(Debug, Clone)]
pub(super) struct Rounds {
    count: u32,
    /// First round that does more than spin.
    spins: u32,
}

impl Rounds {
    /// Begins a wait.
    #[inline]
    pub(super) const fn new(pace: &Pace) -> Self {
        Self { count: 0, spins: pace.next_spins }
    }

    /// Returns the rounds without work.
    #[inline]
    pub(super) const fn idle_count(&self) -> u32 {
        self.count
    }

    /// Counts a round without work, and returns the rest.
    #[inline]
    pub(super) fn idle(&mut self, pace: &mut Pace) -> Rest {
        self.count += 1;
        if self.count < self.spins { Rest::Spin } else { self.idle_longer(pace) }
    }

    #[cold]
    #[inline(never)]
    fn idle_longer(&mut self, pace: &mut Pace) -> Rest {
        let yields = self.count - self.spins;
        match pace.strategy {
            WaitStrategy::Spin => {
                self.count = 0;
                return Rest::CheckTime;
            }
            WaitStrategy::Yield if yields == YIELD_ROUNDS => self.count = self.spins,
            WaitStrategy::Sleep if pace.crowded_sleeps > 0 => {
                pace.crowded_sleeps -= 1;
                self.count -= 1;
                return Rest::Sleep;
            }
            WaitStrategy::Sleep if yields > YIELD_ROUNDS => {
                self.count -= 1;
                return Rest::Sleep;
            }
            WaitStrategy::Yield | WaitStrategy::Sleep => {}
        }
        if yields == YIELDS_IN_VAIN {
            pace.next_spins = SPIN_ROUNDS;
        }
        Rest::Yield { is_first: yields == 0 }
    }
}

impl WaitStrategy {
    /// Every strategy, in the order of the cores they cost.
    pub const ALL: [Self; 3] = [Self::Spin, Self::Yield, Self::Sleep];

    /// Returns the name of the strategy.
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

/// Error of a text that is no wait strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitStrategyParseError;

impl fmt::Display for WaitStrategyParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown wait strategy; use spin, yield or sleep")
    }
}

impl error::Error for WaitStrategyParseError {}

impl FromStr for WaitStrategy {
    type Err = WaitStrategyParseError;

    fn from_str(word: &str) -> Result<Self, WaitStrategyParseError> {
        Self::ALL.into_iter().find(|strategy| strategy.name() == word).ok_or(WaitStrategyParseError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;
    use std::vec::Vec;

    /// One wait after the other.
    struct Waits {
        pace: Pace,
        rounds: Rounds,
    }

    impl Waits {
        fn new(strategy: WaitStrategy) -> Self {
            let pace = Pace::new(strategy);
            Self { rounds: Rounds::new(&pace), pace }
        }

        fn idle(&mut self) -> Rest {
            self.rounds.idle(&mut self.pace)
        }

        /// There was work, or another wait begins.
        fn reset(&mut self) {
            self.rounds = Rounds::new(&self.pace);
        }

        fn note_first_yield(&mut self, yielded_ns: u64) {
            self.pace.note_yield(true, yielded_ns, &self.rounds);
        }
    }

    /// Returns true if the caller is to check the time before the next round, without sleeping.
    const fn checks_time(rest: Rest) -> bool {
        matches!(rest, Rest::CheckTime | Rest::Yield { .. })
    }

    /// The rounds, counted from 1, of the first `rounds` whose rest `is_one`.
    fn rounds_of(pace: &mut Waits, rounds: u32, is_one: impl Fn(Rest) -> bool) -> Vec<u32> {
        (1..=rounds).filter(|_| is_one(pace.idle())).collect()
    }

    fn is_sleep(rest: Rest) -> bool {
        rest == Rest::Sleep
    }

    #[test]
    fn spin_checks_time_every_128_rounds_and_never_sleeps() {
        let mut pace = Waits::new(WaitStrategy::Spin);
        assert_eq!(rounds_of(&mut pace, 512, |rest| rest == Rest::CheckTime), [128, 256, 384, 512]);
        assert_eq!(rounds_of(&mut pace, 4096, |rest| !matches!(rest, Rest::Spin | Rest::CheckTime)), []);
    }

    #[test]
    fn yield_checks_time_after_each_yield_and_never_sleeps() {
        let mut pace = Waits::new(WaitStrategy::Yield);
        assert_eq!(rounds_of(&mut pace, 128 + 200, checks_time), (128..=328).collect::<Vec<_>>());
        assert_eq!(rounds_of(&mut pace, 4096, |rest| !matches!(rest, Rest::Yield { .. })), []);
    }

    #[test]
    fn only_the_first_yield_of_a_wait_is_the_first() {
        let is_first = |rest| matches!(rest, Rest::Yield { is_first: true });
        for strategy in [WaitStrategy::Yield, WaitStrategy::Sleep] {
            let mut pace = Waits::new(strategy);
            for _ in 0..3 {
                let more = 128 + YIELD_ROUNDS;
                assert_eq!(rounds_of(&mut pace, more - 1, is_first), [128], "{strategy}");
                pace.reset();
            }
        }
    }

    #[test]
    fn sleep_spins_yields_and_then_sleeps_every_round() {
        let mut pace = Waits::new(WaitStrategy::default());
        assert_eq!(pace.pace.strategy(), WaitStrategy::Sleep);
        assert_eq!(rounds_of(&mut pace, 128 + 64, checks_time), (128..=192).collect::<Vec<_>>());
        let count = pace.rounds.count;
        for _ in 0..10_000 {
            assert_eq!(pace.idle(), Rest::Sleep);
            assert_eq!(pace.rounds.count, count, "however many there are");
        }
        pace.reset();
        assert_eq!(rounds_of(&mut pace, 128 + 64, is_sleep), []);
        assert_eq!(pace.idle(), Rest::Sleep);
    }

    #[test]
    fn work_begins_everything_again() {
        let mut pace = Waits::new(WaitStrategy::Sleep);
        for _ in 0..100 {
            for _ in 0..127 {
                assert_eq!(pace.idle(), Rest::Spin);
            }
            pace.reset();
        }
    }

    /// The round of the first yield.
    fn spins(pace: &mut Waits) -> Option<u32> {
        (1..=SPIN_ROUNDS).find(|_| matches!(pace.idle(), Rest::Yield { is_first: true }))
    }

    #[test]
    fn a_first_yield_that_brings_work_soon_shortens_the_next_waits() {
        for strategy in [WaitStrategy::Yield, WaitStrategy::Sleep] {
            let mut pace = Waits::new(strategy);
            for rounds in [128, 32, 8, 2, 2] {
                assert_eq!(spins(&mut pace), Some(rounds), "{strategy}");
                pace.note_first_yield(YIELD_NS_MAX);
                pace.reset();
            }
            // Work that comes while spinning changes nothing.
            pace.idle();
            pace.reset();
            assert_eq!(spins(&mut pace), Some(2));
            pace.note_first_yield(YIELD_NS_MAX + 1);
            pace.reset();
            assert_eq!(spins(&mut pace), Some(128), "another thread had the core");
        }
    }

    #[test]
    fn yields_that_bring_nothing_restore_the_spinning() {
        for (more, rounds) in [(3, 8), (4, 128), (64, 128)] {
            let mut pace = Waits::new(WaitStrategy::Sleep);
            for rounds in [128, 32] {
                assert_eq!(spins(&mut pace), Some(rounds));
                pace.note_first_yield(0);
                if rounds == 128 {
                    pace.reset();
                }
            }
            (0..more).for_each(|_| _ = pace.idle());
            pace.reset();
            assert_eq!(spins(&mut pace), Some(rounds), "after {more} more yields");
        }
    }

    #[test]
    fn words_are_read_as_they_are_shown() {
        assert_eq!(WaitStrategy::ALL.map(WaitStrategy::name), ["spin", "yield", "sleep"]);
        for strategy in WaitStrategy::ALL {
            assert_eq!(strategy.to_string().parse(), Ok(strategy));
        }
        assert_eq!("Spin".parse::<WaitStrategy>(), Err(WaitStrategyParseError));
        assert_eq!(WaitStrategyParseError.to_string(), "unknown wait strategy; use spin, yield or sleep");
        assert_eq!(std::format!("{:>6}", WaitStrategy::Spin), "  spin");
    }
}
