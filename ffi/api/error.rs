//! Errors: a kind that a program acts on, and one line of text that a person acts on.

use core::fmt;
use std::borrow::Cow;

use superpipe_core::driver::{Ended, LookFailed};
use superpipe_core::{Closed, Failure, Reason, WcError};

use crate::os::OsError;
use crate::packet::{PacketError, REFUSED_LIMIT, REFUSED_VERSION, REFUSED_WISHES};
use crate::port::Gone;
use crate::shm::handshake::HandshakeError;
use crate::shm::{AddressError, BindError, ConnectError, SegmentError, SocketError};

/// The kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument that cannot be: the caller's mistake.
    Usage,
    /// The message is longer than the buffer: it is still there. Receive it into a larger one, or reject it.
    TooSmall,
    /// No listener answers, or the address cannot be used.
    Connect,
    /// The deadline passed, or the peer was silent for the idle timeout.
    Timeout,
    /// The peer died, or went away without closing.
    PeerLost,
    /// The peer speaks another version of the protocol.
    Version,
    /// The peer is not who may connect.
    Auth,
    /// The peer broke the protocol.
    Protocol,
    /// The operating system refused something here.
    Os,
    /// The device failed.
    Device,
    /// A limit of this process or machine, or of the peer's, which then says so.
    Limit,
    /// The interrupt flag was set.
    Interrupted,
    /// The peer closed the connection, with this reason.
    Closed(Reason),
    /// The sender gave the transfer up.
    Cancelled(Reason),
    /// The receiver does not want the transfer.
    Rejected(Reason),
}

impl ErrorKind {
    /// Kind of an error in a packet, which is the same on every fabric.
    pub(super) const fn of_packet(error: &PacketError) -> Self {
        match error {
            PacketError::Version { .. } | PacketError::Refused { code: REFUSED_VERSION, .. } => Self::Version,
            PacketError::Disagreement(_) | PacketError::Refused { code: REFUSED_WISHES, .. } => Self::Usage,
            PacketError::Refused { code: REFUSED_LIMIT, .. } => Self::Limit,
            PacketError::Garbage | PacketError::Malformed(_) | PacketError::Refused { .. } => Self::Protocol,
        }
    }
}

/// An error: its kind, and what to tell a person.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    text: Text,
}

/// Text of an error. Errors that may come often, such as from each try on a closed connection, keep a value and make their text
/// only when they are displayed, so that such a try allocates nothing.
#[derive(Clone, Debug)]
enum Text {
    Written(Cow<'static, str>),
    Ended(Ended),
    Late(LookFailed),
    Cancelled(Reason),
    Rejected(Reason),
}

impl Error {
    pub(super) fn new(kind: ErrorKind, text: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, text: Text::Written(text.into()) }
    }

    /// Kind of the error.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The same error with something more to tell, if there is something.
    pub(super) fn and(self, more: Option<String>) -> Self {
        match more {
            Some(more) => Self::new(self.kind, format!("{self}; {more}")),
            None => self,
        }
    }

    pub(super) const fn lost() -> Self {
        Self { kind: ErrorKind::PeerLost, text: Text::Ended(Ended::Lost) }
    }

    /// Error of a lost peer, with the cause if one is known.
    pub(super) fn gone(why: Option<Gone>) -> Self {
        match why {
            None => Self::lost(),
            Some(Gone::Wrong(rule)) => Self::new(ErrorKind::Protocol, rule),
            Some(Gone::Device(text)) => Self::new(ErrorKind::Device, text),
        }
    }

    pub(super) const fn deadline() -> Self {
        Self::late(LookFailed::Deadline)
    }

    /// Error of a wait that is over before its operation is.
    pub(super) const fn late(failed: LookFailed) -> Self {
        Self { kind: ErrorKind::Timeout, text: Text::Late(failed) }
    }

    pub(super) fn interrupted() -> Self {
        Self::new(ErrorKind::Interrupted, "interrupted")
    }

    /// Error of a closed endpoint.
    pub(super) const fn closed(closed: Closed) -> Self {
        let kind = match closed {
            Closed::Here(_) => ErrorKind::Usage,
            Closed::ByPeer(Reason::PROTOCOL) | Closed::Failed(Failure::Protocol(_)) => ErrorKind::Protocol,
            Closed::ByPeer(reason) => ErrorKind::Closed(reason),
            Closed::Failed(Failure::Device(_)) => ErrorKind::Device,
        };
        Self { kind, text: Text::Ended(Ended::Closed(closed)) }
    }

    pub(super) const fn cancelled(reason: Reason) -> Self {
        Self { kind: ErrorKind::Cancelled(reason), text: Text::Cancelled(reason) }
    }

    pub(super) const fn rejected(reason: Reason) -> Self {
        Self { kind: ErrorKind::Rejected(reason), text: Text::Rejected(reason) }
    }
}

/// A completion's status by its name.
#[cfg(feature = "verbs")]
fn device_text(error: WcError, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let status = crate::verbs::WcStatus(error.status);
    write!(f, "the RDMA device failed a work request: {status}, vendor error {:#x}", error.vendor_err)
}

#[cfg(not(feature = "verbs"))]
fn device_text(error: WcError, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    fmt::Display::fmt(&error, f)
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text {
            Text::Written(ref text) => f.write_str(text),
            Text::Ended(Ended::Closed(Closed::Failed(Failure::Device(error)))) => device_text(error, f),
            Text::Ended(ended) => ended.fmt(f),
            Text::Late(failed) => failed.fmt(f),
            Text::Cancelled(Reason(reason)) => {
                write!(f, "the sender gave the transfer up (reason {reason})")
            }
            Text::Rejected(Reason(reason)) => {
                write!(f, "the receiver does not want the transfer (reason {reason})")
            }
        }
    }
}

impl core::error::Error for Error {}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        let kind = match error.kind {
            ErrorKind::Timeout => std::io::ErrorKind::TimedOut,
            ErrorKind::PeerLost | ErrorKind::Closed(_) => std::io::ErrorKind::ConnectionReset,
            ErrorKind::Cancelled(_) | ErrorKind::Rejected(_) => std::io::ErrorKind::ConnectionAborted,
            ErrorKind::Connect => std::io::ErrorKind::NotConnected,
            ErrorKind::Auth => std::io::ErrorKind::PermissionDenied,
            ErrorKind::Usage => std::io::ErrorKind::InvalidInput,
            _ => std::io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

impl From<OsError> for Error {
    fn from(error: OsError) -> Self {
        let kind = if error.is_limit() { ErrorKind::Limit } else { ErrorKind::Os };
        Self::new(kind, error.to_string())
    }
}

impl From<AddressError> for Error {
    fn from(error: AddressError) -> Self {
        let kind = match &error {
            AddressError::UnknownOwner { .. } => ErrorKind::Auth,
            AddressError::Os(error) if error.is_limit() => ErrorKind::Limit,
            _ => ErrorKind::Connect,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<BindError> for Error {
    fn from(error: BindError) -> Self {
        let kind = match &error {
            BindError::ForeignOwner { .. } => ErrorKind::Auth,
            BindError::Os(error) if error.is_limit() => ErrorKind::Limit,
            _ => ErrorKind::Connect,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<ConnectError> for Error {
    fn from(error: ConnectError) -> Self {
        let kind = match &error {
            ConnectError::Denied(_) => ErrorKind::Auth,
            ConnectError::Os(error) if error.is_limit() => ErrorKind::Limit,
            _ => ErrorKind::Connect,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<SocketError> for Error {
    fn from(error: SocketError) -> Self {
        let kind = match error {
            SocketError::TimedOut => ErrorKind::Timeout,
            SocketError::Interrupted => ErrorKind::Interrupted,
            SocketError::Closed => ErrorKind::PeerLost,
            SocketError::Os(error) => return error.into(),
            _ => ErrorKind::Protocol,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<HandshakeError> for Error {
    fn from(error: HandshakeError) -> Self {
        let kind = match &error {
            HandshakeError::Socket(SocketError::Interrupted) => return Self::interrupted(),
            HandshakeError::Socket(SocketError::Closed) | HandshakeError::Nobody => ErrorKind::PeerLost,
            HandshakeError::Socket(SocketError::TimedOut) => ErrorKind::Timeout,
            HandshakeError::Os(error)
            | HandshakeError::Memory(SegmentError::Os(error))
            | HandshakeError::Socket(SocketError::Os(error)) => return error.clone().into(),
            HandshakeError::Budget(_) => ErrorKind::Limit,
            HandshakeError::Packet(error) => ErrorKind::of_packet(error),
            HandshakeError::Socket(_) | HandshakeError::Memory(_) => ErrorKind::Protocol,
        };
        Self::new(kind, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::Disagreement;
    use superpipe_core::ProtocolError;

    #[test]
    fn packets_have_the_same_kinds_on_every_fabric() {
        let refused = |code| PacketError::Refused { code, text: "no".into() };
        for (error, kind) in [
            (PacketError::Garbage, ErrorKind::Protocol),
            (PacketError::Malformed("too short"), ErrorKind::Protocol),
            (PacketError::Version { theirs: 9 }, ErrorKind::Version),
            (PacketError::Disagreement(Disagreement::FlagAtOneEnd), ErrorKind::Usage),
            (refused(REFUSED_VERSION), ErrorKind::Version),
            (refused(REFUSED_WISHES), ErrorKind::Usage),
            (refused(REFUSED_LIMIT), ErrorKind::Limit),
            (refused(0), ErrorKind::Protocol),
        ] {
            let text = error.to_string();
            let error = Error::from(HandshakeError::from(error));
            assert_eq!((error.kind(), error.to_string()), (kind, text));
        }
    }

    #[test]
    fn a_limit_is_one_wherever_it_is_met() {
        let os = |errno| OsError::new(errno, "cannot make a socket");
        for (errno, connecting) in [(libc::EMFILE, ErrorKind::Limit), (libc::EIO, ErrorKind::Connect)] {
            assert_eq!(Error::from(ConnectError::Os(os(errno))).kind(), connecting);
            assert_eq!(Error::from(BindError::Os(os(errno))).kind(), connecting);
            assert_eq!(Error::from(AddressError::Os(os(errno))).kind(), connecting);
            let accepting = if errno == libc::EMFILE { ErrorKind::Limit } else { ErrorKind::Os };
            assert_eq!(Error::from(SocketError::Os(os(errno))).kind(), accepting);
            let handshake = HandshakeError::Socket(SocketError::Os(os(errno)));
            assert_eq!(Error::from(handshake).kind(), accepting);
        }
    }

    #[test]
    fn the_end_of_a_wait_is_told_in_the_words_of_core() {
        let broken = Closed::Failed(Failure::Protocol(ProtocolError::CloseTwice));
        let closed =
            [Closed::Here(Reason(3)), Closed::ByPeer(Reason(4)), Closed::ByPeer(Reason::PROTOCOL), broken];
        for closed in closed {
            assert_eq!(Error::closed(closed).to_string(), Ended::Closed(closed).to_string());
        }
        assert_eq!(Error::lost().to_string(), Ended::Lost.to_string());
        for failed in [LookFailed::Deadline, LookFailed::Silent(700_000)] {
            let error = Error::late(failed);
            assert_eq!((error.kind(), error.to_string()), (ErrorKind::Timeout, failed.to_string()));
        }
    }

    #[cfg(feature = "verbs")]
    #[test]
    fn a_failed_work_request_is_named() {
        let closed = |status| {
            let error = WcError { status, vendor_err: 0x81 };
            Error::closed(Closed::Failed(Failure::Device(error))).to_string()
        };
        assert_eq!(
            closed(4),
            "the RDMA device failed a work request: local protection error: the memory is not registered for this \
             (IBV_WC_LOC_PROT_ERR), vendor error 0x81"
        );
        assert!(closed(99).contains("work completion status 99"));
    }
}
