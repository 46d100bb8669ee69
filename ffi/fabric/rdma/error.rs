//! Causes that there is no connection over RDMA, each in one line with its remedy.

use super::violation::Violation;
use crate::budget::OverBudget;
use crate::os::descriptors::lack_of_descriptors;
use crate::os::{OsError, ResolveError};
use core::{error, fmt};
use superpipe_core::driver::setup::PacketError;
use superpipe_verbs as verbs;

/// Cause that there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// A verb failed, or there is no device.
    Verbs(verbs::Error),
    /// A system call failed.
    Os(OsError),
    /// The host, an address of the device or the route to the peer was not found.
    NotFound(String),
    /// Nobody listens there.
    Nobody,
    /// The peer went away or stopped answering before the connection was established.
    Lost(&'static str),
    /// The peer refused with its private data: a superpipe that does not accept this connection.
    Refused(verbs::CmFailure),
    /// A packet of the peer is invalid, or refuses the connection.
    Packet(PacketError),
    /// The budget of the process has no room for the connection.
    Budget(OverBudget),
    /// The peer broke a rule below the handshake.
    Violation(Violation),
    /// The deadline passed.
    TimedOut,
    /// The caller set its interrupt flag.
    Interrupted,
}

impl ConnectError {
    /// Returns true if a later attempt may succeed.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Nobody | Self::Lost(_) => true,
            Self::Verbs(verbs::Error::Connection(failure)) => failure.is_transient(),
            // Drivers of iWARP connect in the call, and fail there.
            _ => matches!(self.errno(), Some(libc::ECONNRESET | libc::ETIMEDOUT | libc::EHOSTUNREACH)),
        }
    }

    /// Returns the error number of a verb or a system call that failed.
    pub(crate) fn errno(&self) -> Option<i32> {
        match self {
            Self::Verbs(verbs::Error::Verb(error)) => Some(error.errno()),
            Self::Os(error) => Some(error.errno()),
            _ => None,
        }
    }
}

/// Descriptors that one connection needs: an event channel, two of the device, a completion channel, and some that the libraries
/// open for a moment to list the devices.
const DESCRIPTORS: usize = 8;

impl ConnectError {
    /// Returns the limit of open files as the cause where it can be one: libraries that cannot open a file report that a device or a
    /// name does not exist.
    pub(super) fn or_limit(self) -> Self {
        let may_be = match &self {
            Self::NotFound(_) => true,
            Self::Os(_) => !self.is_transient(),
            Self::Verbs(error) => !matches!(error, verbs::Error::Limit(_)) && !self.is_transient(),
            _ => false,
        };
        match lack_of_descriptors(DESCRIPTORS) {
            Some(limit) if may_be => Self::Os(limit),
            _ => self,
        }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Verbs(error) => error.fmt(f),
            Self::Os(error) => error.fmt(f),
            Self::NotFound(text) => f.write_str(text),
            Self::Nobody => f.write_str("nobody listens there; start the receiver first"),
            Self::Lost(when) => {
                write!(f, "the peer went away {when}; see its own messages, and connect again")
            }
            Self::Refused(failure) => failure.fmt(f),
            Self::Packet(error) => error.fmt(f),
            Self::Budget(error) => error.fmt(f),
            Self::Violation(error) => error.fmt(f),
            Self::TimedOut => {
                f.write_str("the peer did not answer in time; check that it runs, or set a later deadline")
            }
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

impl From<OsError> for ConnectError {
    fn from(error: OsError) -> Self {
        Self::Os(error)
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
