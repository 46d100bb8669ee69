//! Line of a process.

use super::words::{LineWords, Packer, Unpacker, counters_as_words};

/// What a process says of itself: what its connections have in common, and the sums of those that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessLine {
    /// Time at which this line was copied, by whichever connection: nanoseconds of the monotonic clock.
    pub copied_at_ns: u64,
    /// Connections that were made since the process began to publish, and those that it had then.
    pub connections_made: u64,
    /// Connections among them that have ended.
    pub connections_ended: u64,
    /// Connections now for which the page has no line.
    pub connections_unlisted: u64,
    /// Transfers sent by the connections that have ended.
    pub ended_transfers_sent: u64,
    /// Transfers received by them.
    pub ended_transfers_received: u64,
    /// Payload bytes sent by them, as [`ConnectionCounts::bytes_sent`](super::ConnectionCounts::bytes_sent).
    pub ended_bytes_sent: u64,
    /// Payload bytes received by them.
    pub ended_bytes_received: u64,
    /// Registered memory of the process: what connections took when they began.
    pub registered_reserved_bytes: u64,
    /// What they have grown by.
    pub registered_grown_bytes: u64,
    /// Buffers whose registrations are kept.
    pub registered_cached_bytes: u64,
    /// Limit of registered memory, as of the newest connection.
    pub registered_max_bytes: u64,
    /// Shared memory of the process: what connections took when they began.
    pub shared_reserved_bytes: u64,
    /// What they have grown by.
    pub shared_grown_bytes: u64,
    /// Registered and trusted buffers of both ends.
    pub shared_cached_bytes: u64,
    /// Limit of shared memory, as of the newest connection.
    pub shared_max_bytes: u64,
}

counters_as_words!(
    ProcessLine: copied_at_ns, connections_made, connections_ended, connections_unlisted, ended_transfers_sent,
    ended_transfers_received, ended_bytes_sent, ended_bytes_received, registered_reserved_bytes, registered_grown_bytes,
    registered_cached_bytes, registered_max_bytes, shared_reserved_bytes, shared_grown_bytes, shared_cached_bytes,
    shared_max_bytes,
);

impl ProcessLine {
    pub(super) fn to_words(self) -> LineWords {
        let mut packer = Packer::new();
        self.pack(&mut packer);
        packer.finish()
    }

    pub(super) fn of_words(words: &[u64]) -> Self {
        Self::unpack(&mut Unpacker::new(words))
    }

    /// Returns the registered memory in use.
    #[must_use]
    pub const fn registered_bytes(&self) -> u64 {
        self.registered_reserved_bytes
            .saturating_add(self.registered_grown_bytes)
            .saturating_add(self.registered_cached_bytes)
    }

    /// Returns the shared memory in use.
    #[must_use]
    pub const fn shared_bytes(&self) -> u64 {
        self.shared_reserved_bytes
            .saturating_add(self.shared_grown_bytes)
            .saturating_add(self.shared_cached_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let words: Vec<u64> = (1..=16).collect();
        let line = ProcessLine::of_words(&words);
        assert_eq!(line.to_words()[..16], words);
        assert_eq!((line.registered_bytes(), line.shared_bytes()), (9 + 10 + 11, 13 + 14 + 15));
    }
}
