//! Errors: a kind for the program, and one line of text for the user.

#[cfg(feature = "verbs")]
mod rdma;

use core::fmt;
use std::borrow::Cow;
use std::io;

use superpipe_core::driver::{Ended, WaitFailed};
use superpipe_core::{Closed, Failure, Reason, WcError};

use crate::fabric::LossCause;
use crate::fabric::shm::handshake::HandshakeError;
use crate::fabric::shm::{AddressError, BindError, ConnectError, SegmentError, SocketError};
use crate::os::OsError;
use superpipe_core::driver::setup::{PacketError, REFUSED_LIMIT, REFUSED_PROPOSAL, REFUSED_VERSION};

/// The kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Invalid argument.
    Usage,
    /// The message is longer than the buffer. It is still there: receive it into a larger buffer, or reject it.
    TooSmall,
    /// No listener answered, or the address cannot be used.
    Connect,
    /// The deadline passed, or the peer was silent for the idle timeout.
    Timeout,
    /// The peer ended without closing the connection.
    PeerLost,
    /// The peer speaks another version of the protocol.
    Version,
    /// The peer may not connect: it belongs to another user.
    Auth,
    /// The peer broke the protocol.
    Protocol,
    /// The operating system of this host refused a call.
    Os,
    /// The RDMA device failed.
    Device,
    /// Limit of this process or host was reached, or one that the peer reports.
    Limit,
    /// The interrupt flag was set.
    Interrupted,
    /// The peer closed the connection with this reason.
    Closed(Reason),
    /// The sender cancelled the transfer.
    Cancelled(Reason),
    /// The receiver rejected the transfer.
    Rejected(Reason),
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Usage => "invalid argument",
            Self::TooSmall => "buffer too small",
            Self::Connect => "cannot connect",
            Self::Timeout => "timed out",
            Self::PeerLost => "peer lost",
            Self::Version => "protocol version mismatch",
            Self::Auth => "peer not permitted",
            Self::Protocol => "protocol violation",
            Self::Os => "operating system error",
            Self::Device => "device error",
            Self::Limit => "limit reached",
            Self::Interrupted => "interrupted",
            Self::Closed(Reason(reason)) => return write!(f, "closed by the peer (reason {reason})"),
            Self::Cancelled(Reason(reason)) => return write!(f, "cancelled by the sender (reason {reason})"),
            Self::Rejected(Reason(reason)) => return write!(f, "rejected by the receiver (reason {reason})"),
        })
    }
}

impl ErrorKind {
    /// Returns the kind of an error in a packet, which is the same on every fabric.
    const fn of_packet(error: &PacketError) -> Self {
        match error {
            PacketError::Version { .. } | PacketError::Refused { code: REFUSED_VERSION, .. } => Self::Version,
            PacketError::Disagreement(_) | PacketError::Refused { code: REFUSED_PROPOSAL, .. } => Self::Usage,
            PacketError::Refused { code: REFUSED_LIMIT, .. } => Self::Limit,
            PacketError::Garbage | PacketError::Malformed(_) | PacketError::Refused { .. } => Self::Protocol,
        }
    }
}

/// Error of superpipe: a kind, and a text with cause and remedy.
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
    /// By the peer, of itself.
    Reported(String),
    Ended(Ended),
    Late(WaitFailed),
    Cancelled(Reason),
    Rejected(Reason),
}

impl Error {
    /// Makes an error, for a layer above this library. The text is a phrase without a capital letter: the cause, and the remedy if there is one.
    pub fn new(kind: ErrorKind, text: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, text: Text::Written(text.into()) }
    }

    /// Returns the kind of the error.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Makes an error of a packet, on every fabric.
    pub(crate) fn of_packet(packet: &PacketError, text: String) -> Self {
        let kind = ErrorKind::of_packet(packet);
        match packet {
            PacketError::Refused { .. } => Self { kind, text: Text::Reported(text) },
            _ => Self::new(kind, text),
        }
    }

    /// Returns true if the peer has refused, for a reason of its own.
    pub(crate) const fn is_refusal(&self) -> bool {
        matches!(self.text, Text::Reported(_))
    }

    /// Appends a text to the error, if there is one.
    pub(crate) fn and(self, more: Option<String>) -> Self {
        match more {
            Some(more) => Self::new(self.kind, format!("{self}; {more}")),
            None => self,
        }
    }

    pub(crate) const fn lost() -> Self {
        Self { kind: ErrorKind::PeerLost, text: Text::Ended(Ended::Lost) }
    }

    /// Error of a lost peer, with the cause if one is known.
    pub(crate) fn gone(why: Option<LossCause>) -> Self {
        match why {
            None => Self::lost(),
            Some(LossCause::Violation(rule)) => Self::new(ErrorKind::Protocol, rule),
            Some(LossCause::Device(text)) => Self::new(ErrorKind::Device, text),
        }
    }

    pub(crate) const fn deadline() -> Self {
        Self::late(WaitFailed::Deadline)
    }

    /// Error of a wait that is over before its operation is.
    pub(crate) const fn late(failed: WaitFailed) -> Self {
        Self { kind: ErrorKind::Timeout, text: Text::Late(failed) }
    }

    pub(crate) fn interrupted() -> Self {
        Self::new(
            ErrorKind::Interrupted,
            "interrupted: the flag in Options::interrupt is set; clear it to go on",
        )
    }

    /// Error of a closed endpoint.
    pub(crate) const fn closed(closed: Closed) -> Self {
        let kind = match closed {
            Closed::Here(_) => ErrorKind::Usage,
            Closed::ByPeer(Reason::PROTOCOL) | Closed::Failed(Failure::Protocol(_)) => ErrorKind::Protocol,
            Closed::ByPeer(reason) => ErrorKind::Closed(reason),
            Closed::Failed(Failure::Device(_)) => ErrorKind::Device,
        };
        Self { kind, text: Text::Ended(Ended::Closed(closed)) }
    }

    pub(crate) const fn cancelled(reason: Reason) -> Self {
        Self { kind: ErrorKind::Cancelled(reason), text: Text::Cancelled(reason) }
    }

    pub(crate) const fn rejected(reason: Reason) -> Self {
        Self { kind: ErrorKind::Rejected(reason), text: Text::Rejected(reason) }
    }
}

/// Writes the status of a failed work request by its name.
#[cfg(feature = "verbs")]
fn device_text(error: WcError, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let status = superpipe_verbs::WcStatus(error.status);
    write!(
        f,
        "the RDMA device failed a work request: {status}, vendor error {:#x}; see the kernel's log",
        error.vendor_err
    )
}

#[cfg(not(feature = "verbs"))]
fn device_text(error: WcError, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    fmt::Display::fmt(&error, f)
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text {
            Text::Written(ref text) => f.write_str(text),
            Text::Reported(ref text) => f.write_str(text),
            Text::Ended(Ended::Closed(Closed::Failed(Failure::Device(error)))) => device_text(error, f),
            Text::Ended(ended) => ended.fmt(f),
            Text::Late(failed) => failed.fmt(f),
            Text::Cancelled(Reason(reason)) => {
                write!(f, "the sender cancelled the transfer (reason {reason})")
            }
            Text::Rejected(Reason(reason)) => {
                write!(f, "the receiver rejected the transfer (reason {reason})")
            }
        }
    }
}

impl core::error::Error for Error {}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match error.kind {
            ErrorKind::Timeout => io::ErrorKind::TimedOut,
            ErrorKind::PeerLost | ErrorKind::Closed(_) => io::ErrorKind::ConnectionReset,
            ErrorKind::Cancelled(_) | ErrorKind::Rejected(_) => io::ErrorKind::ConnectionAborted,
            ErrorKind::Connect => io::ErrorKind::NotConnected,
            ErrorKind::Auth => io::ErrorKind::PermissionDenied,
            ErrorKind::Usage => io::ErrorKind::InvalidInput,
            _ => io::ErrorKind::Other,
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
            HandshakeError::Packet(packet) => return Self::of_packet(packet, error.to_string()),
            HandshakeError::Socket(_) | HandshakeError::Memory(_) => ErrorKind::Protocol,
        };
        Self::new(kind, error.to_string())
    }
}

/// Error of a stream between a connection and a file or pipe of this end.
#[derive(Debug)]
pub enum StreamError {
    /// The connection or the peer failed.
    Connection(Error),
    /// The source or sink of this end failed.
    Local(io::Error),
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(error) => error.fmt(f),
            Self::Local(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for StreamError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Connection(error) => Some(error),
            Self::Local(error) => Some(error),
        }
    }
}

impl From<StreamError> for io::Error {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Connection(error) => error.into(),
            StreamError::Local(error) => error,
        }
    }
}

impl From<Error> for StreamError {
    fn from(error: Error) -> Self {
        Self::Connection(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use superpipe_core::ProtocolError;
    use superpipe_core::driver::setup::Disagreement;

    #[test]
    fn packets_have_the_same_kinds_on_every_fabric() {
        let refused = |code| PacketError::Refused { code, text: "no".into() };
        for (error, kind) in [
            (PacketError::Garbage, ErrorKind::Protocol),
            (PacketError::Malformed("too short"), ErrorKind::Protocol),
            (PacketError::Version { theirs: 9 }, ErrorKind::Version),
            (PacketError::Disagreement(Disagreement::FlagAtOneEnd), ErrorKind::Usage),
            (refused(REFUSED_VERSION), ErrorKind::Version),
            (refused(REFUSED_PROPOSAL), ErrorKind::Usage),
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
        for failed in [WaitFailed::Deadline, WaitFailed::Silent(700_000)] {
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
             (IBV_WC_LOC_PROT_ERR), vendor error 0x81; see the kernel's log"
        );
        assert!(closed(99).contains("work completion status 99"));
    }
}
