//! Limits to arming in rounds: when a connection is armed beside others that are active.

/// Looks in a row that must have found nothing. Arming and waking take system calls of both ends, some microseconds, and as many looks take about as long.
pub(super) const QUIET_LOOKS: u32 = 256;
/// Time from one such arming to the next, on average: a bound for what wake-ups cost where they cost more than that.
pub(super) const ARMING_NS: u64 = 16_000;
/// Armings in one round after a time without any, though the round before was not long ago.
pub(super) const BURST: u64 = 8;
/// Armings in one round at most, however long ago the last one was.
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
    /// Time since which the rate may be used: that of the round before, or an earlier one that did not come to those whose turn it was.
    unused_ns: u64,
    /// Armed in this round.
    taken: u32,
    turns: Turns,
}

/// Turns of connections to be armed: one that has to wait gets a ticket of this generation. While somebody has an older one, nobody else is armed; the next generation begins with the round after that. So each waits for
/// those that waited already, and at most a round for others, wherever they are in the list, and wherever rounds begin and end, if each is looked at in rounds that know the time: a call after one without room for all is
/// such a round.
#[derive(Debug)]
struct Turns {
    generation: u64,
    /// Tickets of earlier generations, and of this one.
    old: u32,
    young: u32,
    /// One with an old ticket was looked at in this round.
    has_seen_old: bool,
    /// Looks since then.
    passed: u32,
}

/// Ticket of a connection that waits to be armed: its generation, or 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket(u64);

impl Ticket {
    /// That of one that does not wait.
    pub(super) const NONE: Self = Self(0);
}

impl ArmLimits {
    /// Makes limits. `quiet_ns`: time for which a connection must not have moved; 0: one look that finds nothing is enough.
    pub(super) const fn new(quiet_ns: u64) -> Self {
        let quiet_looks = if quiet_ns == 0 { 1 } else { QUIET_LOOKS };
        let turns = Turns { generation: 1, old: 0, young: 0, has_seen_old: false, passed: 0 };
        Self { quiet_ns, quiet_looks, round_ns: u64::MAX, next_ns: 0, unused_ns: u64::MAX, taken: 0, turns }
    }

    /// Begins a round at which the time is known. What the rate has left since the round before is there, and a burst at least.
    #[inline]
    pub(super) fn begin_round(&mut self, now_ns: u64) {
        let burst_ns = now_ns.saturating_sub((BURST - 1) * ARMING_NS);
        self.next_ns = self.next_ns.max(burst_ns.min(self.unused_ns));
        (self.round_ns, self.taken) = (now_ns, 0);
        self.turns.begin_round();
    }

    /// Ends it, after so many looks at as many connections as there are, or fewer.
    #[inline]
    pub(super) const fn end_round(&mut self, looked: u32, count: u32) {
        if self.turns.end_round(looked, count) {
            self.unused_ns = self.round_ns;
        }
    }

    /// Returns true if a connection was quiet for long enough.
    #[inline]
    pub(super) const fn is_quiet(&self, quiet_ns: u64, looks: u32) -> bool {
        looks >= self.quiet_looks && quiet_ns >= self.quiet_ns
    }

    /// Takes the right to arm the connection with this ticket. Returns false if it has to wait for a later round.
    pub(super) const fn take(&mut self, ticket: &mut Ticket) -> bool {
        let is_within = self.next_ns <= self.round_ns && self.taken < ROUND_MAX;
        let is_taken = self.turns.take(ticket, is_within);
        if is_taken {
            self.next_ns = self.next_ns.saturating_add(ARMING_NS);
            self.taken += 1;
        }
        is_taken
    }

    /// Returns the count of tickets.
    #[cfg(test)]
    pub(super) const fn waiting(&self) -> u32 {
        self.turns.old + self.turns.young
    }

    /// Takes back the ticket of a connection that does not wait any more.
    #[inline]
    pub(super) const fn give_up(&mut self, ticket: &mut Ticket) {
        if ticket.0 != 0 {
            self.turns.give_up(ticket);
        }
    }
}

impl Turns {
    #[inline]
    const fn begin_round(&mut self) {
        self.has_seen_old = false;
        if self.old == 0 {
            self.advance();
        }
    }

    /// Returns false if the rate is to be kept for those whose turn it is.
    #[inline]
    const fn end_round(&mut self, looked: u32, count: u32) -> bool {
        if self.old == 0 || self.has_seen_old {
            self.passed = 0;
            return true;
        }
        self.passed = self.passed.saturating_add(looked);
        // None of them is looked at when the time is known.
        if self.passed >= count {
            self.advance();
        }
        false
    }

    const fn take(&mut self, ticket: &mut Ticket, is_within: bool) -> bool {
        let is_old = ticket.0 != 0 && ticket.0 != self.generation;
        self.has_seen_old |= is_old;
        if is_within && (is_old || self.old == 0) {
            self.give_up(ticket);
            return true;
        }
        if ticket.0 == 0 {
            (ticket.0, self.young) = (self.generation, self.young + 1);
        }
        false
    }

    const fn give_up(&mut self, ticket: &mut Ticket) {
        if ticket.0 == self.generation {
            self.young -= 1;
        } else if ticket.0 != 0 {
            self.old -= 1;
        }
        ticket.0 = 0;
    }

    /// Begins a generation.
    const fn advance(&mut self) {
        (self.generation, self.passed) = (self.generation + 1, 0);
        (self.old, self.young) = (self.old + self.young, 0);
    }
}
