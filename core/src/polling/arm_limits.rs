//! Limits to arming in rounds: when a connection is armed beside others that are active.

/// Looks in a row that must have found nothing. Arming and waking take system calls of both ends, some microseconds, and as many looks take about as long.
pub(super) const QUIET_LOOKS: u32 = 256;
/// Time from one such arming to the next, on average: a bound for what wake-ups cost where they cost more than that.
pub(super) const ARMING_NS: u64 = 16_000;
/// Armings in one round after a time without any, though the round before was not long ago.
pub(super) const BURST: u64 = 8;
/// Armings in one round at most, however long ago the round before was.
pub(super) const ROUND_MAX: u32 = 256;

/// Limits to arming in rounds: the quiet that a connection must have had, by the time and by looks, and a rate.
///
/// Looks and rate are for many busy connections. Their rounds take long, and each of them seems quiet by the time between two of its messages. If all were armed then, each message would cost a
/// wake-up, and these would keep the rounds as long as they are.
#[derive(Debug)]
pub(super) struct ArmLimits {
    quiet_ns: u64,
    quiet_looks: u32,
    /// Time of this round, and time from which on the next arming is within the rate.
    round_ns: u64,
    next_ns: u64,
    /// Time since which the rate has not been used, as far as that is kept for this round.
    unused_ns: u64,
    turn: Turn,
}

/// Turn of connections to be armed. A round looks at the connections of the list from one index on, and after the last one at the first; one that ends for lack of room leaves the others to the next.
#[derive(Debug)]
struct Turn {
    /// Index with which this round begins, and its count of connections.
    start: u32,
    count: u32,
    /// Index behind which others wait for their turn, which is not given to those before it. `None`: nobody waits.
    from: Option<u32>,
    /// This round is not likely to come to that index, so those before it may be armed.
    is_open: bool,
    /// They had nothing of the rate when it was their turn, or an open round came there.
    is_overdue: bool,
    /// Looks of the round before, and of the rounds that have not come to that index.
    looked: u32,
    passed: u32,
    /// Armed in this round, and the last one.
    taken: u32,
    last: u32,
    /// The rate refused one.
    is_refused: bool,
}

impl ArmLimits {
    /// Makes limits. `quiet_ns`: time for which a connection must not have moved; 0: one look that finds nothing is enough.
    pub(super) const fn new(quiet_ns: u64) -> Self {
        let quiet_looks = if quiet_ns == 0 { 1 } else { QUIET_LOOKS };
        Self { quiet_ns, quiet_looks, round_ns: u64::MAX, next_ns: 0, unused_ns: u64::MAX, turn: Turn::new() }
    }

    /// Begins a round of so many connections, at an index, at which the time is known. What the rate has left since the round before is there, and a burst at least.
    #[inline]
    pub(super) fn begin_round(&mut self, now_ns: u64, (start, count): (u32, u32)) {
        let burst_ns = now_ns.saturating_sub((BURST - 1) * ARMING_NS);
        self.next_ns = self.next_ns.max(burst_ns.min(self.unused_ns));
        self.round_ns = now_ns;
        self.turn.begin_round(start, count);
    }

    /// Ends it, after so many looks. The rate is kept for those whose turn it is if the round did not come to them.
    #[inline]
    pub(super) fn end_round(&mut self, looked: u32) {
        if self.turn.end_round(looked) {
            self.unused_ns = self.round_ns;
        }
    }

    /// Returns true if a connection was quiet for long enough.
    #[inline]
    pub(super) const fn is_quiet(&self, quiet_ns: u64, looks: u32) -> bool {
        looks >= self.quiet_looks && quiet_ns >= self.quiet_ns
    }

    /// Takes the right to arm the connection with this index in the list of active ones. Returns false if it has to wait for a later round.
    pub(super) fn take(&mut self, index: u32) -> bool {
        let is_within = self.next_ns <= self.round_ns;
        let is_taken = self.turn.take(index, is_within);
        if is_taken {
            self.next_ns = self.next_ns.saturating_add(ARMING_NS);
        }
        is_taken
    }
}

impl Turn {
    const fn new() -> Self {
        Self {
            start: 0,
            count: 0,
            from: None,
            is_open: false,
            is_overdue: false,
            looked: 0,
            passed: 0,
            taken: 0,
            last: 0,
            is_refused: false,
        }
    }

    #[inline]
    fn begin_round(&mut self, start: u32, count: u32) {
        (self.start, self.count, self.taken, self.is_refused) = (start, count, 0, false);
        self.is_open = self.from.is_some() && !self.is_overdue && self.first_rank() >= self.looked;
    }

    /// Returns false if the rate is to be kept for those whose turn it is.
    #[inline]
    fn end_round(&mut self, looked: u32) -> bool {
        self.looked = looked;
        self.from.is_none() && !self.is_refused || self.move_on(looked)
    }

    /// The same, where somebody waits.
    #[cold]
    fn move_on(&mut self, looked: u32) -> bool {
        let has_come = looked > self.first_rank();
        self.passed = self.passed.saturating_add(looked);
        // Rounds without a time may be those that come there.
        let is_given_up = self.passed >= self.count;
        if self.is_open && has_come {
            (self.is_overdue, self.passed) = (true, 0);
        } else if !self.is_open && self.is_refused {
            // The last connection of the list gets the index of one that is armed, and waits until all others had their turn.
            self.from = if self.taken > 0 { Some(self.last + 1) } else { self.from };
            (self.is_overdue, self.passed) = (self.taken == 0, 0);
        } else if has_come || is_given_up {
            (self.from, self.is_overdue, self.passed) = (None, false, 0);
        } else {
            return self.is_open;
        }
        true
    }

    fn take(&mut self, index: u32, is_within: bool) -> bool {
        if !self.is_open && self.rank(index) < self.first_rank() {
            return false;
        }
        if !is_within || self.taken >= ROUND_MAX {
            self.is_refused = true;
            return false;
        }
        (self.taken, self.last) = (self.taken + 1, index);
        true
    }

    /// Returns the place in the round of those whose turn it is.
    fn first_rank(&self) -> u32 {
        self.from.map_or(0, |index| self.rank(index))
    }

    /// Returns at which place of the round an index is.
    const fn rank(&self, index: u32) -> u32 {
        if self.count == 0 {
            0
        } else {
            (index % self.count + self.count - self.start % self.count) % self.count
        }
    }
}
