//! Why there is no connection over RDMA, each in one line that a person acts on.

use crate::os::ResolveError;
use crate::packet::VERSION;
use crate::verbs;
use core::{error, fmt};

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// A verb failed, or there is no device.
    Verbs(verbs::Error),
    /// The host, the device's address or the way to the peer was not found.
    NotFound(String),
    /// Nobody listens there.
    Nobody,
    /// The peer went away, or stopped answering, before the connection was there.
    Lost(&'static str),
    /// What answers is not of superpipe.
    Garbage,
    /// The peer speaks another version.
    Version {
        /// the peer's
        theirs: u16,
    },
    /// A packet that is not the next one, or a field out of its range.
    Malformed(&'static str),
    /// The two ends want different things.
    Disagreement(String),
    /// The peer refused, in its own words.
    Refused {
        /// why: [`REFUSED_VERSION`](crate::shm::handshake::REFUSED_VERSION), and so on, or anything else
        code: u8,
        /// made printable
        text: String,
    },
    /// The deadline passed.
    TimedOut,
    /// The caller's flag was set.
    Interrupted,
}

impl ConnectError {
    /// Whether a moment later there may be a connection.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Nobody | Self::Lost(_))
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Verbs(error) => error.fmt(f),
            Self::NotFound(text) | Self::Disagreement(text) => f.write_str(text),
            Self::Nobody => f.write_str("nobody listens there; start the receiver first"),
            Self::Lost(when) => write!(f, "the peer went away {when}"),
            Self::Garbage => f.write_str("what answers there does not speak superpipe"),
            Self::Version { theirs } => write!(
                f,
                "the peer speaks version {theirs} of the protocol, this is version {VERSION}: use the same release on \
                 both ends"
            ),
            Self::Malformed(what) => write!(f, "the peer broke the handshake: {what} (wire.md 10)"),
            Self::Refused { text, .. } => write!(f, "the peer refused: {text}"),
            Self::TimedOut => f.write_str("the peer did not answer in time"),
            Self::Interrupted => f.write_str("interrupted by a signal"),
        }
    }
}

impl error::Error for ConnectError {}

impl From<verbs::Error> for ConnectError {
    fn from(error: verbs::Error) -> Self {
        match error {
            verbs::Error::Connection(failure) if failure.is_nobody_listening() => Self::Nobody,
            verbs::Error::Verb(error) if error.errno() == libc::ECONNREFUSED => Self::Nobody,
            verbs::Error::Connection(failure) if failure.kind == verbs::CmEventKind::DISCONNECTED => {
                Self::Lost("while connecting")
            }
            verbs::Error::TimedOut => Self::TimedOut,
            verbs::Error::Interrupted => Self::Interrupted,
            error => Self::Verbs(error),
        }
    }
}

impl From<ResolveError> for ConnectError {
    fn from(error: ResolveError) -> Self {
        match error {
            ResolveError::NotFound(text) | ResolveError::TimedOut(text) => Self::NotFound(text),
            ResolveError::Interrupted => Self::Interrupted,
        }
    }
}
