//! Time as a listener counts it.

use superpipe_core::Nanos;

use crate::os::monotonic_ns;

/// Part of a pause between two calls that counts at most. Timeouts so apply to a program that calls now and then, and one that serves a
/// client for long finds the half-open connections as it left them.
const PAUSE_NS: u64 = 100_000_000;
/// Part of the time between two looks that counts as silence at most: while this end is busy, or has no core, it hears no peer.
pub(super) const LISTENED_MAX_NS: u64 = 10_000_000;

/// Clocks of a listener, in nanoseconds: its time, which mostly stands still between calls, and the time for which it has listened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// Time of pauses that did not count, so far.
    paused_ns: u64,
    /// Begin of the last pause.
    since_ns: u64,
    /// Most of this pause that counts.
    counts_ns: u64,
    /// Time of the last look at the descriptors, and the time that counts as listened so far.
    looked_ns: u64,
    listened_ns: u64,
}

impl Clock {
    pub(super) const fn new() -> Self {
        Self { paused_ns: 0, since_ns: 0, counts_ns: PAUSE_NS, looked_ns: 0, listened_ns: 0 }
    }

    /// Goes on after a pause.
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

    /// Notes a look at the descriptors.
    pub(super) fn look(&mut self, now_ns: u64) {
        self.listened_ns += (now_ns - self.looked_ns).min(LISTENED_MAX_NS);
        self.looked_ns = now_ns;
    }

    /// Time by which silence is measured. Between two looks it advances by [`LISTENED_MAX_NS`] at most.
    pub(super) const fn listened(self) -> Nanos {
        Nanos(self.listened_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use superpipe_core::driver::PATIENCE_NS;

    #[test]
    fn nobody_is_silent_for_longer_than_somebody_listens() {
        let mut clock = Clock::new();
        let mut listened = |now_ns| {
            let Nanos(before_ns) = clock.listened();
            clock.look(now_ns);
            clock.listened().0 - before_ns
        };
        let begin_ns = 1_000_000_000_000;
        assert_eq!(listened(begin_ns), LISTENED_MAX_NS);
        assert_eq!(listened(begin_ns + 3), 3);
        assert_eq!(listened(begin_ns + 3 + LISTENED_MAX_NS), LISTENED_MAX_NS);
        assert_eq!(listened(2 * begin_ns), LISTENED_MAX_NS, "it was busy elsewhere");
        const { assert!(PATIENCE_NS > 4 * LISTENED_MAX_NS, "several looks find nothing before one makes room") };
    }
}
