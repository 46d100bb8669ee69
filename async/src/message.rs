//! What is received, and why it may not be.

use core::fmt;

use superpipe::{Error, ErrorKind, Incoming, Length};

/// A message in a buffer of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The sender's tag.
    pub tag: u64,
    /// All bytes of the message.
    pub bytes: Vec<u8>,
}

/// Error of a receiving call.
#[derive(Debug)]
pub enum RecvError {
    /// The next message is longer than what can be taken in one poll, or a part of it was received by [`recv_message`](crate::Connection::recv_message): a borrowed buffer would lose what was received if the
    /// future is dropped. It is still there: receive it by [`recv_message`](crate::Connection::recv_message).
    NeedsOwnedBuffer(Incoming),
    /// The next message is longer than the room that the caller gives, or a stream. It is still there: give more room, accept the stream, or reject it.
    TooSmall(Incoming),
    /// The connection has ended, the peer is silent, or the message was cancelled.
    Connection(Error),
}

impl RecvError {
    /// Returns the kind of the connection's error; [`ErrorKind::TooSmall`] for a message that is still there.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NeedsOwnedBuffer(_) | Self::TooSmall(_) => ErrorKind::TooSmall,
            Self::Connection(error) => error.kind(),
        }
    }
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeedsOwnedBuffer(incoming) => {
                write!(
                    f,
                    "{} comes next, which a borrowed buffer could lose: receive it with recv_message",
                    Named(incoming)
                )
            }
            Self::TooSmall(incoming) => {
                write!(f, "{} comes next, for which the room is too small", Named(incoming))
            }
            Self::Connection(error) => error.fmt(f),
        }
    }
}

/// A transfer, in a text.
struct Named<'a>(&'a Incoming);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.length {
            Length::Exact(bytes) => write!(f, "a message of {bytes} bytes"),
            Length::Stream => f.write_str("a stream"),
        }
    }
}

impl core::error::Error for RecvError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Connection(error) => Some(error),
            Self::NeedsOwnedBuffer(_) | Self::TooSmall(_) => None,
        }
    }
}

impl From<Error> for RecvError {
    fn from(error: Error) -> Self {
        Self::Connection(error)
    }
}
