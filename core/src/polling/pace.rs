//! Pace of a poller's looks at the clock and at the reports of its set, which cost it more than looks at connections do.

use crate::driver::{SPIN_ROUNDS, WaitStrategy, YIELD_ROUNDS};

/// Looks at active connections, and calls, between two looks at the clock.
const LOOKS_PER_CLOCK: u32 = 16;
const CALLS_PER_CLOCK: u32 = 4;
/// Time between two calls from which on each one looks at the clock.
const APART_NS: u64 = 5_000;
/// Time between two looks at what the set reports, which are system calls, while some connections are active: those that wait for a wake-up are found that much later. Without such ones only listeners
/// and ends of peers are found by them.
const READY_NS: u64 = 10_000;
const READY_UNARMED_NS: u64 = 50_000;

/// Times of a poller's last looks at the clock and at its set.
#[derive(Clone, Copy, Debug, Default)]
pub struct PollerClock {
    now_ns: u64,
    /// The last look at the clock was in this call.
    is_fresh: bool,
    /// The next call looks at the clock.
    is_due: bool,
    /// Time of the first look at the clock in the last call that had one, its number, and such calls in a row that were close to the one before.
    call_ns: u64,
    call: u32,
    close_calls: u32,
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
        Self {
            now_ns,
            is_fresh: false,
            is_due: false,
            call_ns: 0,
            call: 0,
            close_calls: 0,
            ready_ns: 0,
            looks: 0,
            rounds: 0,
            calls: 0,
        }
    }

    /// Begins a call. Returns true if the clock and the set are to be looked at first: what the program did since the last call may have taken long.
    #[inline]
    #[must_use]
    pub const fn begin_call(&mut self) -> bool {
        self.is_fresh = false;
        self.calls = self.calls.wrapping_add(1);
        let is_due = core::mem::replace(&mut self.is_due, false);
        is_due || self.close_calls < CALLS_PER_CLOCK || self.calls.is_multiple_of(CALLS_PER_CLOCK)
    }

    /// Has the next call look at the clock: this one had no room for all, and the next one goes on with the others, which may be the same each fourth call.
    #[inline]
    pub const fn note_full(&mut self) {
        self.is_due = true;
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
        if !self.is_fresh {
            let calls = self.calls.wrapping_sub(self.call) as u64;
            let is_close = now_ns.saturating_sub(self.call_ns) < calls * APART_NS;
            self.close_calls = if is_close { self.close_calls.saturating_add(1) } else { 0 };
            (self.call_ns, self.call) = (now_ns, self.calls);
        }
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
    pub const fn is_set_due(&self, active: u32, armed: u32) -> bool {
        let after_ns = if armed == 0 { READY_UNARMED_NS } else { READY_NS };
        active == 0 || self.now_ns.saturating_sub(self.ready_ns) >= after_ns
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
    /// Looks in them since everything else was looked at.
    looks: u32,
}

impl Pace {
    /// Begins a call that waits in this way.
    pub(super) const fn new(wait: WaitStrategy) -> Self {
        Self { wait, empty_rounds: 0, looks: 0 }
    }

    /// Counts a round with so many looks that found nothing. Returns true if the call is to look at everything else.
    #[inline]
    pub(super) const fn note_empty(&mut self, looks: u32) -> bool {
        self.empty_rounds = self.empty_rounds.saturating_add(1);
        self.looks = self.looks.saturating_add(looks);
        let is_due = looks == 0 || self.looks >= LOOKS_PER_CLOCK || self.is_asleep();
        if is_due {
            self.looks = 0;
        }
        is_due
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

    /// Returns true if the next pause is a sleep.
    pub(super) const fn is_asleep(&self) -> bool {
        self.empty_rounds >= SPIN_ROUNDS + YIELD_ROUNDS && matches!(self.wait, WaitStrategy::Sleep)
    }
}

#[cfg(test)]
mod tests {
    use super::{APART_NS, CALLS_PER_CLOCK, LOOKS_PER_CLOCK, Pace, PollerClock};
    use crate::driver::WaitStrategy;

    /// Makes calls at these times, with one active connection. Returns at how many the clock was looked at.
    fn looks_at_clock(calls: impl Iterator<Item = u64>) -> u32 {
        let mut clock = PollerClock::new(0);
        let mut looks = 0;
        for at_ns in calls {
            let is_wanted = clock.begin_call();
            if clock.begin_round(1) || is_wanted {
                clock.note(at_ns);
                looks += 1;
            }
        }
        looks
    }

    #[test]
    fn calls_in_a_row_look_at_the_clock_now_and_then() {
        let looks = looks_at_clock((1..=400).map(|call| call * 100));
        assert_eq!(looks, CALLS_PER_CLOCK + (400 - CALLS_PER_CLOCK) / CALLS_PER_CLOCK);
    }

    #[test]
    fn calls_that_are_far_apart_look_at_the_clock_each_time() {
        assert_eq!(looks_at_clock((1..=400).map(|call| call * APART_NS)), 400);
        // A second one close behind each, as in a program that polls until there is nothing.
        let pairs = (1..=200).flat_map(|pair| [pair * 1_000_000, pair * 1_000_000 + 1000]);
        assert_eq!(looks_at_clock(pairs), 400);
    }

    #[test]
    fn a_program_that_slows_down_is_noticed_soon() {
        let fast = (1..=100).map(|call| call * 100);
        let slow = (1..=100).map(|call| call * 1_000_000);
        let looks = looks_at_clock(fast.clone().chain(slow)) - looks_at_clock(fast);
        assert!(looks > 100 - CALLS_PER_CLOCK, "{looks}");
    }

    #[test]
    fn calls_that_are_less_apart_do_not_look_more_often() {
        for apart_ns in [100, APART_NS / 4, APART_NS / 2, APART_NS - 1] {
            let looks = looks_at_clock((1..=4000).map(|call| call * apart_ns));
            assert!(looks <= 4000 / CALLS_PER_CLOCK + CALLS_PER_CLOCK, "{looks} with {apart_ns} ns");
        }
    }

    /// Later looks of a call say nothing about calls.
    #[test]
    fn only_the_first_look_of_a_call_counts() {
        let mut clock = PollerClock::new(0);
        for call in 1..=100 {
            assert!(clock.begin_call(), "call {call}");
            for later_ns in 0..10 {
                clock.note(call * 1_000_000 + later_ns);
            }
        }
    }

    #[test]
    fn a_call_looks_at_the_rest_after_so_many_looks() {
        for (active, rounds) in [(0, 1), (1, LOOKS_PER_CLOCK), (5, 4), (16, 1), (10_000, 1)] {
            let mut pace = Pace::new(WaitStrategy::Spin);
            for _ in 0..3 {
                for round in 1..=rounds {
                    assert_eq!(pace.note_empty(active), round == rounds, "{active} active, round {round}");
                }
            }
        }
    }
}
