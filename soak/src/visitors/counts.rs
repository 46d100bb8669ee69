//! Counts of what has occurred, and of what should have.

use core::fmt;

/// Something that occurs in a soak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// a message was received by an operation
    Received,
    /// a message was read in place
    Loaned,
    /// a message was sent by one call
    Sent,
    /// a message was sent by an operation
    Driven,
    /// a message was built in place
    Built,
    Blocking,
    Tokio,
    Poller,
    Stopped,
    /// a visitor was killed
    Killed,
    /// a connection was closed by its visitor
    Closed,
    /// a connection was lost with its visitor
    Lost,
    /// a client did not become a connection
    AcceptFailed,
    /// a key of a connection that was removed was refused
    StaleKey,
}

const NAMES: [(Event, &str); 14] = [
    (Event::Received, "messages received by operations"),
    (Event::Loaned, "messages read in place"),
    (Event::Sent, "messages sent by one call"),
    (Event::Driven, "messages sent by operations"),
    (Event::Built, "messages built in place"),
    (Event::Blocking, "visitors with calls that wait"),
    (Event::Tokio, "visitors with tokio"),
    (Event::Poller, "visitors with a poller"),
    (Event::Stopped, "stops"),
    (Event::Killed, "kills"),
    (Event::Closed, "connections closed"),
    (Event::Lost, "connections lost"),
    (Event::AcceptFailed, "handshakes that failed"),
    (Event::StaleKey, "stale keys refused"),
];

/// Number of occurrences of each.
#[derive(Default)]
pub(crate) struct Counts([u64; NAMES.len()]);

impl Counts {
    pub(crate) fn add(&mut self, event: Event) {
        self.0[event as usize] += 1;
    }

    /// Returns the names of what has not occurred, and should have. A kill seldom strikes a handshake.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        let has_to = |event: Event| event != Event::AcceptFailed;
        NAMES
            .iter()
            .filter(|(event, _)| has_to(*event) && self.0[*event as usize] == 0)
            .map(|(_, name)| *name)
            .collect()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        NAMES.iter().try_for_each(|(event, name)| writeln!(f, "{:>10} {name}", self.0[*event as usize]))
    }
}
