//! Line of a poller.

use super::words::{LineWords, Packer, Unpacker, counters_as_words};

/// A [`Poller`](crate::Poller), as it copied its counters last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PollerLine {
    /// Number of the poller in its process, from 1 on.
    pub number: u64,
    /// Time at which this line was copied: nanoseconds of the monotonic clock.
    pub copied_at_ns: u64,
    /// Connections, those that are being made or have failed included.
    pub connections: u64,
    /// Connections that are looked at in each round.
    pub active: u64,
    /// Connections that wait for a wake-up.
    pub armed: u64,
    /// Listeners.
    pub listeners: u64,
    /// Rounds of looks so far.
    pub rounds: u64,
    /// Calls of [`poll`](crate::Poller::poll) so far.
    pub calls: u64,
    /// Armed connections that a peer or a device woke.
    pub wakeups: u64,
    /// Times that the poller slept.
    pub sleeps: u64,
    /// Connections that its listeners accepted.
    pub accepted: u64,
    /// Attempts of clients that failed.
    pub accept_failed: u64,
    /// Connects that succeeded.
    pub connected: u64,
    /// Connects that failed.
    pub connect_failed: u64,
}

counters_as_words!(
    PollerLine: number, copied_at_ns, connections, active, armed, listeners, rounds, calls, wakeups, sleeps, accepted,
    accept_failed, connected, connect_failed,
);

impl PollerLine {
    pub(super) fn to_words(self) -> LineWords {
        let mut packer = Packer::new();
        self.pack(&mut packer);
        packer.finish()
    }

    /// Reads a line. `None`: no poller has it now.
    pub(super) fn of_words(words: &[u64]) -> Option<Self> {
        Some(Self::unpack(&mut Unpacker::new(words))).filter(|line| line.number != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let words: Vec<u64> = (1..=14).collect();
        let line = PollerLine::of_words(&words).unwrap();
        assert_eq!((line.number, line.connect_failed), (1, 14));
        assert_eq!(line.to_words()[..14], words);
        assert_eq!(PollerLine::of_words(&[0, 2, 3]), None, "it is nobody's");
    }
}
