//! Oracle of one direction: each message is seen in time, in order, and unchanged.

use std::collections::VecDeque;

/// Virtual time that an end may take to see what it was woken for: rounds beside others, answers to them, and a wait for its turn to report.
const SLACK_NS: u64 = 3_000_000;

/// Bytes of the longest message.
pub(super) const BYTES_MAX: usize = 400;

/// Messages of one direction of a connection.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// Number of the next message to send, and of the next one that is taken.
    sent: u64,
    taken: u64,
    /// Time at which those that were not seen became visible.
    unseen: VecDeque<u64>,
    /// Until then the receiver may be blind, and why.
    blind_until_ns: u64,
    blind: &'static str,
}

impl Flow {
    /// Returns the tag and the bytes of a message.
    pub(super) fn message(pair: usize, side: usize, number: u64) -> (u64, Vec<u8>) {
        let tag = (pair as u64) << 33 | (side as u64) << 32 | number;
        let bytes = usize::try_from(tag.wrapping_mul(0x9e37_79b9) >> 7).unwrap_or_default() % BYTES_MAX;
        (tag, (0..bytes).map(|at| (tag ^ (31 * at as u64)).to_le_bytes()[0]).collect())
    }

    /// Returns the number of the next message.
    pub(super) const fn next(&self) -> u64 {
        self.sent
    }

    /// Notes that it was sent, and when all of it is visible.
    pub(super) fn note_sent(&mut self, visible_ns: u64) {
        self.sent += 1;
        self.unseen.push_back(visible_ns);
    }

    /// Allows the receiver to see nothing until this time.
    pub(super) fn note_blind(&mut self, until_ns: u64, why: &'static str) {
        if until_ns > self.blind_until_ns {
            (self.blind_until_ns, self.blind) = (until_ns, why);
        }
    }

    /// Notes that the receiver was told of what is visible.
    pub(super) fn note_seen(&mut self, now_ns: u64) {
        while self.unseen.front().is_some_and(|visible_ns| *visible_ns <= now_ns) {
            self.see_first(now_ns);
        }
    }

    fn see_first(&mut self, now_ns: u64) {
        let Some(visible_ns) = self.unseen.pop_front() else { return };
        let by_ns = visible_ns.max(self.blind_until_ns) + SLACK_NS;
        assert!(
            now_ns <= by_ns,
            "a message was not seen for {} us, allowed are {} ({})",
            (now_ns - visible_ns) / 1000,
            (by_ns - visible_ns) / 1000,
            self.blind
        );
    }

    /// Returns true if something is visible that was not taken.
    pub(super) fn has_untaken(&self, now_ns: u64) -> bool {
        let unseen = self.unseen.iter().filter(|visible_ns| **visible_ns > now_ns).count() as u64;
        self.taken + unseen < self.sent
    }

    /// Checks a message that was taken. It is seen now if it was not before: what is visible to the last store of its sender may have been taken before that.
    pub(super) fn take(&mut self, (pair, side): (usize, usize), (tag, bytes): (u64, &[u8]), now_ns: u64) {
        if self.sent - self.unseen.len() as u64 == self.taken {
            self.see_first(now_ns);
        }
        let (expected, content) = Self::message(pair, side, self.taken);
        assert_eq!(tag, expected, "connection {pair} got a message of another one, or out of order");
        assert!(bytes == content, "bytes differ");
        self.taken += 1;
        assert!(self.taken <= self.sent, "nothing was sent");
    }

    /// Returns the messages that were taken.
    pub(super) const fn taken(&self) -> u64 {
        self.taken
    }

    /// Returns true if everything was taken.
    pub(super) const fn is_empty(&self) -> bool {
        self.taken == self.sent
    }
}
