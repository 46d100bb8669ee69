//! Reasons why two ends do not agree, on any fabric.

use super::VERSION;
use super::text::Text;
use super::tuning::Disagreement;
use core::{error, fmt};

/// REFUSED because of versions.
pub const REFUSED_VERSION: u8 = 1;
/// REFUSED because the two ends propose different values, or one a value that the other does not allow.
pub const REFUSED_PROPOSAL: u8 = 2;
/// REFUSED because a limit of the process or of its machine is reached.
pub const REFUSED_LIMIT: u8 = 3;

/// Packet of the peer that makes no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PacketError {
    /// The packet is not one of superpipe.
    Garbage,
    /// The peer speaks another version.
    Version {
        /// version of the peer
        theirs: u16,
    },
    /// A packet out of turn, or a field out of its range.
    Malformed(&'static str),
    /// The two ends do not agree.
    Disagreement(Disagreement),
    /// The peer refused.
    Refused {
        /// code of the reason: [`REFUSED_VERSION`], [`REFUSED_PROPOSAL`], or anything else
        code: u8,
        /// text of the peer, printable when displayed
        text: Text,
    },
}

impl PacketError {
    /// Returns the code of the REFUSED to send. `None` if the peer has refused.
    #[must_use]
    pub const fn refusal(&self) -> Option<u8> {
        match self {
            Self::Version { .. } => Some(REFUSED_VERSION),
            Self::Disagreement(_) => Some(REFUSED_PROPOSAL),
            Self::Garbage | Self::Malformed(_) => Some(0),
            Self::Refused { .. } => None,
        }
    }
}

impl From<Disagreement> for PacketError {
    fn from(disagreement: Disagreement) -> Self {
        Self::Disagreement(disagreement)
    }
}

impl fmt::Display for PacketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Garbage => f.write_str("what answers there does not speak superpipe"),
            Self::Version { theirs } => write!(
                f,
                "the peer speaks version {theirs} of the protocol, this is version {VERSION}: use the same release on \
                 both ends"
            ),
            Self::Malformed(what) => write!(f, "the peer broke the handshake: {what} (wire.md 6, 10)"),
            Self::Disagreement(disagreement) => disagreement.fmt(f),
            Self::Refused { text, .. } => write!(f, "the peer refused: {text}"),
        }
    }
}

impl error::Error for PacketError {}

/// Contents of a REFUSED.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Code of the reason: [`REFUSED_LIMIT`], or 0 for anything else.
    pub code: u8,
    /// Reason in words.
    pub text: Text,
}

/// Reason why a handshake failed. `E` is an error of the layer below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandshakeFailure<E> {
    /// A packet of the peer makes no connection.
    Packet(PacketError),
    /// This end failed: its memory, or its socket.
    Local(E),
    /// The deadline passed.
    TimedOut,
    /// No HELLO reached the passive end in time.
    Silent,
    /// The peer disconnected.
    Lost,
    /// The peer disconnected before HELLO.
    Nobody,
}

impl<E> From<PacketError> for HandshakeFailure<E> {
    fn from(error: PacketError) -> Self {
        Self::Packet(error)
    }
}
