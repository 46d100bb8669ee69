//! When connections are armed in rounds, beside others that are active.

/// Looks in a row that must have found nothing. Arming and waking take system calls of both ends, some microseconds, and as many looks take about as long.
pub(super) const QUIET_LOOKS: u32 = 256;
/// Time from one such arming to the next, on average: a bound for what wake-ups cost where they cost more than that.
pub(super) const ARMING_NS: u64 = 16_000;
/// Armings in one round, at most, unless rounds are further apart than as many take.
pub(super) const BURST: u64 = 8;

/// Limits to arming in rounds: the quiet that a connection must have had, by the time and by looks, and a rate.
///
/// Looks and rate are for many busy connections. Where a round takes long, each of them seems quiet by the time between two of its messages. If all were armed then, each message would cost a
/// wake-up, and these would keep the rounds as long as they are.
#[derive(Debug)]
pub(super) struct ArmLimits {
    quiet_ns: u64,
    quiet_looks: u32,
    /// Time of this round, and time from which on the next arming is within the rate.
    round_ns: u64,
    next_ns: u64,
    /// Index from which on connections have their turn in this round, and the first that the rate refused: the next round begins there, so that all have their turn.
    from: u32,
    refused: Option<u32>,
}

impl ArmLimits {
    /// Makes limits. `quiet_ns`: time for which a connection must not have moved; 0: one look that finds nothing is enough.
    pub(super) const fn new(quiet_ns: u64) -> Self {
        let quiet_looks = if quiet_ns == 0 { 1 } else { QUIET_LOOKS };
        Self { quiet_ns, quiet_looks, round_ns: 0, next_ns: 0, from: 0, refused: None }
    }

    /// Begins a round at which the time is known. What the rate has left since the round before is there, and a burst at least.
    #[inline]
    pub(super) fn begin_round(&mut self, now_ns: u64) {
        let burst_ns = now_ns.saturating_sub((BURST - 1) * ARMING_NS);
        self.next_ns = self.next_ns.max(burst_ns.min(self.round_ns));
        self.round_ns = now_ns;
        self.from = self.refused.take().unwrap_or(0);
    }

    /// Returns true if a connection was quiet for long enough.
    #[inline]
    pub(super) const fn is_quiet(&self, quiet_ns: u64, looks: u32) -> bool {
        looks >= self.quiet_looks && quiet_ns >= self.quiet_ns
    }

    /// Takes the right to arm the connection with this index in the list of active ones. Returns false if it has to wait for a later round.
    pub(super) fn take(&mut self, index: u32) -> bool {
        if index < self.from {
            return false;
        }
        if self.next_ns > self.round_ns {
            self.refused.get_or_insert(index);
            return false;
        }
        self.next_ns = self.next_ns.saturating_add(ARMING_NS);
        true
    }
}
