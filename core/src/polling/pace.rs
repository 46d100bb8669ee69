//! Pace of a poller's looks at the clock and at the reports of its set, which cost it more than looks at connections do.

use crate::driver::{SPIN_ROUNDS, WaitStrategy, YIELD_ROUNDS};

/// Looks at active connections, and calls, between two looks at the clock.
const LOOKS_PER_CLOCK: u32 = 16;
const CALLS_PER_CLOCK: u32 = 4;
/// Time between two looks at what the set reports, which are system calls: while some connections are active, others are found that much later. Calls that are further apart look each time.
const READY_NS: u64 = 5_000;

/// Times of a poller's last looks at the clock and at its set.
#[derive(Clone, Copy, Debug, Default)]
pub struct PollerClock {
    now_ns: u64,
    /// The last look at the clock was in this call.
    is_fresh: bool,
    /// The last two looks at the clock were so far apart that a call begins with one.
    is_rare: bool,
    ready_ns: u64,
    /// Looks at connections since the last look at the clock.
    looks: u32,
    rounds: u32,
    calls: u32,
}

impl PollerClock {
    /// Begins at this time.
    #[must_use]
    pub const fn new(now_ns: u64) -> Self {
        Self { now_ns, is_fresh: false, is_rare: false, ready_ns: 0, looks: 0, rounds: 0, calls: 0 }
    }

    /// Begins a call. Returns true if the clock and the set are to be looked at first: what the program did since the last call may have taken long.
    #[inline]
    #[must_use]
    pub const fn begin_call(&mut self) -> bool {
        self.is_fresh = false;
        self.calls = self.calls.wrapping_add(1);
        self.is_rare || self.calls.is_multiple_of(CALLS_PER_CLOCK)
    }

    /// Begins a round that looks at so many connections. Returns true if the clock and the set are to be looked at first. Without active connections there is nothing else to do.
    #[inline]
    #[must_use]
    pub const fn begin_round(&mut self, looks: u32) -> bool {
        self.rounds = self.rounds.wrapping_add(1);
        self.looks = self.looks.saturating_add(looks);
        looks == 0 || self.looks >= LOOKS_PER_CLOCK
    }

    /// Notes the time.
    #[inline]
    pub const fn note(&mut self, now_ns: u64) {
        self.is_rare = now_ns.saturating_sub(self.now_ns) >= READY_NS;
        (self.now_ns, self.is_fresh, self.looks) = (now_ns, true, 0);
    }

    /// Returns the time of the last look at the clock.
    #[inline]
    #[must_use]
    pub const fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Returns the time if the clock was looked at in this call.
    #[inline]
    #[must_use]
    pub const fn fresh_ns(&self) -> Option<u64> {
        if self.is_fresh { Some(self.now_ns) } else { None }
    }

    /// Returns true if the set is to be asked what became ready.
    #[must_use]
    pub const fn is_set_due(&self, active: u32) -> bool {
        active == 0 || self.now_ns.saturating_sub(self.ready_ns) >= READY_NS
    }

    /// Notes that the set was asked.
    pub const fn note_set(&mut self) {
        self.ready_ns = self.now_ns;
    }

    /// Returns the counts of rounds and of calls, which wrap.
    #[must_use]
    pub const fn counts(&self) -> (u32, u32) {
        (self.rounds, self.calls)
    }
}

/// Pause after a round that found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    Spin,
    Yield,
    Sleep,
}

/// Rounds without anything to report in one call, which waits for that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    wait: WaitStrategy,
    empty_rounds: u32,
}

impl Pace {
    /// Begins a call that waits in this way.
    pub(super) const fn new(wait: WaitStrategy) -> Self {
        Self { wait, empty_rounds: 0 }
    }

    /// Counts a round that found nothing. Returns true if the call is to look at everything else.
    #[inline]
    pub(super) const fn note_empty(&mut self) -> bool {
        self.empty_rounds = self.empty_rounds.saturating_add(1);
        self.is_asleep() || self.empty_rounds % LOOKS_PER_CLOCK == 1
    }

    /// Returns the pause before the next round, if everything else had nothing either.
    pub(super) const fn pause(&self) -> Pause {
        match self.wait {
            WaitStrategy::Spin => Pause::Spin,
            _ if self.empty_rounds < SPIN_ROUNDS => Pause::Spin,
            WaitStrategy::Sleep if self.is_asleep() => Pause::Sleep,
            WaitStrategy::Yield | WaitStrategy::Sleep => Pause::Yield,
        }
    }

    const fn is_asleep(&self) -> bool {
        self.empty_rounds >= SPIN_ROUNDS + YIELD_ROUNDS && matches!(self.wait, WaitStrategy::Sleep)
    }
}

#[cfg(test)]
mod tests {
    use super::{CALLS_PER_CLOCK, PollerClock, READY_NS};

    /// Makes calls that are so far apart, with one active connection. Returns at how many the clock was looked at.
    fn looks_at_clock(calls: u32, apart_ns: u64) -> u32 {
        let mut clock = PollerClock::new(0);
        let mut looks = 0;
        for call in 1..=calls {
            let is_wanted = clock.begin_call();
            if clock.begin_round(1) || is_wanted {
                clock.note(u64::from(call) * apart_ns);
                looks += 1;
            }
        }
        looks
    }

    #[test]
    fn calls_in_a_row_look_at_the_clock_now_and_then() {
        assert_eq!(looks_at_clock(400, 100), 400 / CALLS_PER_CLOCK);
    }

    #[test]
    fn calls_that_are_far_apart_look_at_the_clock_each_time() {
        let before_the_first = CALLS_PER_CLOCK - 1;
        assert_eq!(looks_at_clock(400, READY_NS), 400 - before_the_first);
    }
}
