//! When connections are armed while others are active.

/// Looks in a row that must have found nothing. ArmLimits and waking take system calls of both ends, some microseconds, and as many looks take about as long.
pub(super) const QUIET_LOOKS: u32 = 256;
/// Time from one such arming to the next, on average: a bound for what wake-ups cost where they cost more than that.
pub(super) const ARMING_NS: u64 = 16_000;
/// Armings at once after a time without any.
pub(super) const BURST: u64 = 8;

/// Limits to arming in rounds: the quiet that a connection must have had, by the time and by looks, and a rate.
///
/// Looks and rate are for many busy connections. Where a round takes long, each of them seems quiet by the time between two of its messages. If all were armed then, each message would cost a
/// wake-up, and these would keep the rounds as long as they are.
#[derive(Debug)]
pub(super) struct ArmLimits {
    quiet_ns: u64,
    quiet_looks: u32,
    /// Time from which on the next one is within the rate.
    next_ns: u64,
}

impl ArmLimits {
    /// Begins with a burst. `quiet_ns`: time for which a connection must not have moved; 0: one look that finds nothing is enough.
    pub(super) const fn new(quiet_ns: u64) -> Self {
        Self { quiet_ns, quiet_looks: if quiet_ns == 0 { 1 } else { QUIET_LOOKS }, next_ns: 0 }
    }

    /// Returns true if a connection was quiet for long enough.
    pub(super) const fn is_quiet(&self, quiet_ns: u64, looks: u32) -> bool {
        looks >= self.quiet_looks && quiet_ns >= self.quiet_ns
    }

    /// Takes the right to arm a connection. Returns false if there is none now.
    pub(super) const fn take(&mut self, now_ns: u64) -> bool {
        let earliest_ns = now_ns.saturating_sub((BURST - 1) * ARMING_NS);
        if self.next_ns < earliest_ns {
            self.next_ns = earliest_ns;
        }
        let is_allowed = self.next_ns <= now_ns;
        if is_allowed {
            self.next_ns = self.next_ns.saturating_add(ARMING_NS);
        }
        is_allowed
    }
}
