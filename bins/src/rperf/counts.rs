//! COUNTS: what arrived at the server over each of many connections. wire.md 8.2.

use crate::protocol::{Violation, word};
use core::time::Duration;

/// Messages that arrived at one end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    /// time from the begin of the run to the last of them, in nanoseconds
    pub elapsed_ns: u64,
    /// messages of each connection
    pub messages: Vec<u64>,
}

impl Counts {
    /// Encodes the message: the time, then a count per connection, 8 bytes each.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        core::iter::once(&self.elapsed_ns).chain(&self.messages).flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Returns the bytes of the message for so many connections.
    #[must_use]
    pub const fn bytes(connections: usize) -> usize {
        8 + 8 * connections
    }

    /// Decodes the message of a server, to which so many messages were sent over each connection.
    ///
    /// # Errors
    /// The first rule that the message breaks.
    pub fn decode(bytes: &[u8], sent: &[u64]) -> Result<Self, Violation> {
        if bytes.len() != Self::bytes(sent.len()) {
            return Err(Violation("sent COUNTS of the wrong length"));
        }
        let mut words = bytes.chunks_exact(8).map(word);
        let elapsed_ns = words.next().unwrap_or(0);
        let messages: Vec<u64> = words.collect();
        if messages != sent {
            return Err(Violation("counted other messages than were sent"));
        }
        if elapsed_ns == 0 && messages.iter().any(|count| *count > 0) {
            return Err(Violation("received messages in no time"));
        }
        Ok(Self { elapsed_ns, messages })
    }

    /// Returns the sum of all connections.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.messages.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Returns the smallest, the middle and the largest count of a connection.
    #[must_use]
    pub fn spread(&self) -> [u64; 3] {
        let mut sorted = self.messages.clone();
        sorted.sort_unstable();
        let at = |index: usize| sorted.get(index).copied().unwrap_or(0);
        [at(0), at(sorted.len() / 2), at(sorted.len().saturating_sub(1))]
    }

    /// Returns the sum of two directions, over the longer time of both.
    #[must_use]
    pub fn beside(&self, other: &Self) -> Self {
        let messages = self.messages.iter().zip(&other.messages).map(|(one, other)| one + other).collect();
        Self { elapsed_ns: self.elapsed_ns.max(other.elapsed_ns), messages }
    }

    /// Returns the time.
    #[must_use]
    pub const fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_must_be_those_that_were_sent() {
        let counts = Counts { elapsed_ns: 9, messages: vec![5, 0, 7, 6] };
        assert_eq!(Counts::decode(&counts.encode(), &[5, 0, 7, 6]), Ok(counts.clone()));
        assert_eq!((counts.total(), counts.spread()), (18, [0, 6, 7]));
        let wrong = |bytes: &[u8], sent: &[u64]| Counts::decode(bytes, sent).unwrap_err().0;
        assert!(wrong(&counts.encode(), &[5, 0, 7, 5]).contains("other messages"));
        assert!(wrong(&counts.encode(), &[5, 0, 7]).contains("length"));
        assert!(wrong(&counts.encode()[1..], &[5, 0, 7, 6]).contains("length"));
        assert!(wrong(&Counts { elapsed_ns: 0, ..counts }.encode(), &[5, 0, 7, 6]).contains("no time"));
        let none = Counts { elapsed_ns: 0, messages: vec![0] };
        assert_eq!(Counts::decode(&none.encode(), &[0]), Ok(none));
        assert_eq!(Counts::default().spread(), [0; 3]);
    }
}
