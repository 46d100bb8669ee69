//! Why there is no connection over RDMA, each in one line that a person acts on.

use super::wrong::Wrong;
use crate::budget::OverBudget;
use crate::os::ResolveError;
use crate::os::descriptors::lack_of_descriptors;
use crate::packet::PacketError;
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
    /// The peer refused, and not for want of room: a superpipe that does not want this connection.
    Refused(verbs::CmFailure),
    /// What the peer says makes no connection.
    Packet(PacketError),
    /// The process's budget has no room for the connection.
    Budget(OverBudget),
    /// The peer broke a rule below that.
    Wrong(Wrong),
    /// The deadline passed.
    TimedOut,
    /// The caller's flag was set.
    Interrupted,
}

impl ConnectError {
    /// Whether a moment later there may be a connection.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Nobody | Self::Lost(_) => true,
            Self::Verbs(verbs::Error::Connection(failure)) => failure.is_transient(),
            // Drivers of iWARP connect in the call, and answer there.
            Self::Verbs(verbs::Error::Verb(error)) => {
                matches!(error.errno(), libc::ECONNRESET | libc::ETIMEDOUT | libc::EHOSTUNREACH)
            }
            _ => false,
        }
    }
}

/// Descriptors that one connection opens, and the libraries beside it for a moment: an event channel, a device's two, a completion channel,
/// and what lists the devices.
const DESCRIPTORS: usize = 8;

impl ConnectError {
    /// Libraries that cannot open a file tell of devices and names that are not there: this names the limit instead.
    pub(super) fn or_limit(self) -> Self {
        let may_be = match &self {
            Self::NotFound(_) => true,
            Self::Verbs(error) => !matches!(error, verbs::Error::Limit(_)) && !self.is_transient(),
            _ => false,
        };
        match lack_of_descriptors(DESCRIPTORS) {
            Some(limit) if may_be => Self::Verbs(verbs::Error::Limit(limit)),
            _ => self,
        }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Verbs(error) => error.fmt(f),
            Self::NotFound(text) => f.write_str(text),
            Self::Nobody => f.write_str("nobody listens there; start the receiver first"),
            Self::Lost(when) => write!(f, "the peer went away {when}"),
            Self::Refused(failure) => failure.fmt(f),
            Self::Packet(error) => error.fmt(f),
            Self::Budget(error) => error.fmt(f),
            Self::Wrong(error) => error.fmt(f),
            Self::TimedOut => f.write_str("the peer did not answer in time"),
            Self::Interrupted => f.write_str("interrupted by a signal"),
        }
    }
}

impl error::Error for ConnectError {}

impl From<PacketError> for ConnectError {
    fn from(error: PacketError) -> Self {
        Self::Packet(error)
    }
}

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
