//! The clock of a listener.

use superpipe_core::Nanos;

use crate::os::monotonic_ns;

/// Part of a pause between two calls that counts at most. So timeouts apply to a program that calls now and then, and a program that serves a
/// client for long finds the half-open connections unchanged.
const PAUSE_NS: u64 = 100_000_000;
/// Part of the time between two polls that counts as silence at most: while this end is busy, or has no core, it receives from no peer.
pub(super) const LISTENED_MAX_NS: u64 = 10_000_000;

/// Clocks of a listener, in nanoseconds: its time, which mostly stands still between calls, and the time for which it has listened.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListenerClock {
    /// Time of pauses that did not count, so far.
    paused_ns: u64,
    /// Begin of the last pause.
    since_ns: u64,
    /// Most of this pause that counts.
    counts_ns: u64,
    /// Time of the last poll of the descriptors, and the time that counts as listened so far.
    polled_ns: u64,
    listened_ns: u64,
}

impl ListenerClock {
    pub(super) const fn new() -> Self {
        Self { paused_ns: 0, since_ns: 0, counts_ns: PAUSE_NS, polled_ns: 0, listened_ns: 0 }
    }

    /// Continues after a pause.
    pub(super) fn begin(&mut self) {
        let pause_ns = monotonic_ns() - self.since_ns;
        self.paused_ns += pause_ns.saturating_sub(self.counts_ns);
    }

    /// Begins a pause, of which [`PAUSE_NS`] at most count, or none.
    pub(super) fn pause(&mut self, counts: bool) {
        self.since_ns = monotonic_ns();
        self.counts_ns = if counts { PAUSE_NS } else { 0 };
    }

    pub(super) fn now_ns(self) -> u64 {
        monotonic_ns() - self.paused_ns
    }

    /// Notes a poll of the descriptors.
    pub(super) fn note_poll(&mut self, now_ns: u64) {
        self.listened_ns += (now_ns - self.polled_ns).min(LISTENED_MAX_NS);
        self.polled_ns = now_ns;
    }

    /// Returns the time by which silence is measured. Between two polls it advances by [`LISTENED_MAX_NS`] at most.
    pub(super) const fn listened(self) -> Nanos {
        Nanos(self.listened_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use superpipe_core::driver::EVICTION_SILENCE_NS;

    #[test]
    fn nobody_is_silent_for_longer_than_somebody_listens() {
        let mut clock = ListenerClock::new();
        let mut listened = |now_ns| {
            let Nanos(before_ns) = clock.listened();
            clock.note_poll(now_ns);
            clock.listened().0 - before_ns
        };
        let begin_ns = 1_000_000_000_000;
        assert_eq!(listened(begin_ns), LISTENED_MAX_NS);
        assert_eq!(listened(begin_ns + 3), 3);
        assert_eq!(listened(begin_ns + 3 + LISTENED_MAX_NS), LISTENED_MAX_NS);
        assert_eq!(listened(2 * begin_ns), LISTENED_MAX_NS, "it was busy elsewhere");
        const {
            assert!(
                EVICTION_SILENCE_NS > 4 * LISTENED_MAX_NS,
                "several looks find nothing before one makes room"
            )
        };
    }
}
