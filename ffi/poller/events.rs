//! What a poller reports, and what a program asks it to report.

use super::Key;
use crate::error::ErrorKind;

/// Report of a [`Poller`](super::Poller).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PollEvent {
    /// A listener made a connection.
    Accepted {
        /// The listener.
        listener: Key,
        /// The connection.
        connection: Key,
    },
    /// A client of a listener did not become a connection. Nothing is to be done, but a server may log it.
    AcceptFailed {
        /// The listener.
        listener: Key,
        /// Kind of the error, as [`Listener::accept`](crate::Listener::accept) returns it.
        kind: ErrorKind,
    },
    /// A connection that [`Poller::connect`](super::Poller::connect) began was made.
    Connected {
        /// The connection.
        connection: Key,
    },
    /// A connection that [`Poller::connect`](super::Poller::connect) began was not made. [`Poller::take_error`](super::Poller::take_error) returns the error, and frees the place.
    ConnectFailed {
        /// What would have become the connection.
        connection: Key,
        /// Kind of the error.
        kind: ErrorKind,
    },
    /// A message or stream, or a part of one, can be received. Reported again by each call until it is received or rejected, so none of them waits meanwhile.
    Readable {
        /// The connection.
        connection: Key,
    },
    /// A message of up to 64 KiB, or the next part of the message that was begun, can be sent. Where the landing buffer does not hold such a message, its first part can, by an operation.
    /// Reported by each call, if it was [asked for](Interest::writable), so none of them waits meanwhile.
    Writable {
        /// The connection.
        connection: Key,
    },
    /// The peer has shown no life for the idle timeout ([`Options::idle_timeout`](crate::Options::idle_timeout)). Reported once until it does. The connection can still be used.
    Silent {
        /// The connection.
        connection: Key,
    },
    /// The connection has ended, and what came before was received, or was [readable](PollEvent::Readable) in two calls and left there. Its next call that finds nothing returns the reason as an
    /// error. Reported once, and nothing after it: then it is to be [removed](super::Poller::remove).
    Ended {
        /// The connection.
        connection: Key,
    },
}

/// What is reported of a connection, besides its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// [`PollEvent::Readable`]. Without it what arrives stays in the landing buffer. Default: true.
    pub readable: bool,
    /// [`PollEvent::Writable`]. To be asked for once a try found no room. Default: false.
    pub writable: bool,
}

impl Default for Interest {
    fn default() -> Self {
        Self { readable: true, writable: false }
    }
}

/// Fewest events for which there is room: what one connection reports in a round.
const PER_CONNECTION: usize = 2;

/// The caller's array of events. Memory for all is allocated when it is made.
///
/// With room for few events, a call of [`Poller::poll`](super::Poller::poll) reports the first ones, and the next calls the others: nobody is left out.
#[derive(Debug)]
pub struct PollEvents {
    events: Vec<PollEvent>,
    room: usize,
}

impl PollEvents {
    /// Makes an array for this many events, two at least.
    #[must_use]
    pub fn with_capacity(events: usize) -> Self {
        let room = events.max(PER_CONNECTION);
        Self { events: Vec::with_capacity(room), room }
    }

    /// Returns the events of the last [`Poller::poll`](super::Poller::poll).
    pub fn iter(&self) -> core::iter::Copied<core::slice::Iter<'_, PollEvent>> {
        self.events.iter().copied()
    }

    /// Returns their number.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.events.len()
    }

    /// Returns true if there was none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.events.clear();
    }

    /// Returns true if there is room for what one connection reports in a round.
    pub(super) const fn has_room(&self) -> bool {
        self.room - self.events.len() >= PER_CONNECTION
    }

    pub(super) fn push(&mut self, event: PollEvent) {
        if self.events.len() < self.room {
            self.events.push(event);
        }
    }
}

impl<'a> IntoIterator for &'a PollEvents {
    type Item = PollEvent;
    type IntoIter = core::iter::Copied<core::slice::Iter<'a, PollEvent>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
