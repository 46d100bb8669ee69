//! Events of a poller.

use superpipe_core::polling::Key;

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
    /// A client of a listener did not become a connection. With `Limit`, `Os` or `Device` this process or host lacks descriptors, memory or a device: it tries again after 10 ms, and then at intervals up to
    /// 1 s. With any other kind, and with `Limit` if the client said that it lacks memory, nothing is to be done.
    AcceptFailed {
        /// The listener.
        listener: Key,
        /// Kind of the error, as [`Listener::accept`](crate::Listener::accept) returns it: see [`Poller::take_accept_error`](super::Poller::take_accept_error).
        kind: ErrorKind,
    },
    /// A connection that [`Poller::connect`](super::Poller::connect) began was made.
    Connected {
        /// The connection.
        connection: Key,
    },
    /// A connection that [`Poller::connect`](super::Poller::connect) began was not made. It keeps its place until [`Poller::take_error`](super::Poller::take_error) returns the error.
    ConnectFailed {
        /// The connect that failed.
        connection: Key,
        /// Kind of the error.
        kind: ErrorKind,
    },
    /// A message or stream, or a part of one, can be received. Level-triggered: while it is there, each call reports it, and returns at once. Receive it, [reject](crate::Connection::reject) it, or
    /// switch [`Interest::readable`](crate::Interest::readable) off. A try may still return nothing.
    Readable {
        /// The connection.
        connection: Key,
    },
    /// A message of up to C0 bytes ([`Description::c0_bytes`](crate::Description::c0_bytes), 64 KiB by default), or the next part of the message that was begun, can be sent. Where the landing buffer holds no such message in one piece, the longest that it holds can.
    /// Level-triggered: [ask for it](crate::Interest::writable) only while something is to be sent.
    Writable {
        /// The connection.
        connection: Key,
    },
    /// The peer has shown no life for the idle timeout ([`Options::idle_timeout`](crate::Options::idle_timeout)); this is reported up to a quarter of that later, and once until it does. The connection can still be used, and
    /// keeps its place unless the program [removes](super::Poller::remove) it.
    Silent {
        /// The connection.
        connection: Key,
    },
    /// The connection has ended. Reported once. Messages may still be there if the program did not want [`Readable`](PollEvent::Readable), or left one there in two calls: call
    /// [`try_recv`](crate::Connection::try_recv) until it returns an error, which is the reason. Then [remove](super::Poller::remove) it.
    Ended {
        /// The connection.
        connection: Key,
    },
}

/// Fewest events for which there is room: what one connection reports in a round.
const PER_CONNECTION: usize = 2;

/// The caller's array of events. Memory for all is allocated when it is made.
///
/// With room for few events, a call of [`Poller::poll`](super::Poller::poll) reports the first ones, and the next call goes on with the connection after them.
#[derive(Debug)]
pub struct PollEvents {
    events: Vec<PollEvent>,
    room: usize,
}

impl PollEvents {
    /// Makes an array for this many events, four at least.
    #[must_use]
    pub fn with_capacity(events: usize) -> Self {
        let room = events.max(2 * PER_CONNECTION);
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
    pub(super) const fn has_room_for_one(&self) -> bool {
        self.room - self.events.len() >= PER_CONNECTION
    }

    /// Returns true if there is room for that twice.
    pub(super) const fn has_room_beside(&self) -> bool {
        self.room - self.events.len() >= 2 * PER_CONNECTION
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
