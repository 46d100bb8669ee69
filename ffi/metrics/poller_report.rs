//! What a poller keeps for its line.

use super::page::Slot;
use super::poller_line::PollerLine;
use super::{COPY_PERIOD_NS, current};

/// Counts of a poller, beside those that it keeps for itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PollerCounts {
    pub(crate) wakeups: u64,
    pub(crate) sleeps: u64,
    pub(crate) accepted: u64,
    pub(crate) accept_failed: u64,
    pub(crate) connected: u64,
    pub(crate) connect_failed: u64,
}

/// A poller's part in the page.
pub(crate) struct PollerReport {
    number: u64,
    due_ns: u64,
    /// Its line, in the page of this number.
    slot: Option<(Slot, u32)>,
    /// Rounds and calls so far, and the values of the poller's own counters, which wrap, at the last copy.
    rounds: (u64, u32),
    calls: (u64, u32),
    pub(crate) counts: PollerCounts,
}

impl PollerReport {
    /// Begins with a poller of this number, from 1 on.
    pub(crate) const fn new(number: u64) -> Self {
        let counts = PollerCounts {
            wakeups: 0,
            sleeps: 0,
            accepted: 0,
            accept_failed: 0,
            connected: 0,
            connect_failed: 0,
        };
        Self { number, due_ns: 0, slot: None, rounds: (0, 0), calls: (0, 0), counts }
    }

    /// Returns true if [`copy`](Self::copy) is due.
    #[inline]
    pub(crate) const fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.due_ns
    }

    /// Copies the counts to the page that is published now. `places`: connections, active, armed, listeners.
    pub(crate) fn copy(&mut self, now_ns: u64, rounds: u32, calls: u32, places: [u64; 4]) {
        self.due_ns = now_ns.saturating_add(COPY_PERIOD_NS);
        add_since(&mut self.rounds, rounds);
        add_since(&mut self.calls, calls);
        if self.slot.as_ref().is_some_and(|(_, number)| *number != current::number()) {
            self.slot = None;
        }
        if self.slot.is_none() && current::number() & 1 == 1 {
            self.slot =
                current::page().and_then(|(page, number)| Slot::of_poller(&page).map(|slot| (slot, number)));
        }
        let Some((slot, _)) = &self.slot else { return };
        let PollerCounts { wakeups, sleeps, accepted, accept_failed, connected, connect_failed } =
            self.counts;
        let [connections, active, armed, listeners] = places;
        let line = PollerLine {
            number: self.number,
            copied_at_ns: now_ns,
            connections,
            active,
            armed,
            listeners,
            rounds: self.rounds.0,
            calls: self.calls.0,
            wakeups,
            sleeps,
            accepted,
            accept_failed,
            connected,
            connect_failed,
        };
        slot.write(&line.to_words());
    }
}

/// Adds what a counter that wraps has counted since the last time.
const fn add_since((sum, last): &mut (u64, u32), count: u32) {
    *sum = sum.wrapping_add(count.wrapping_sub(*last) as u64);
    *last = count;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_wraps_is_continued() {
        let mut rounds = (0, 0);
        for (count, sum) in [(5, 5), (u32::MAX, 0xFFFF_FFFF), (3, 0x1_0000_0003)] {
            add_since(&mut rounds, count);
            assert_eq!(rounds.0, sum);
        }
    }
}
