//! Why two ends do not agree by packets, on whichever fabric.

use super::{REFUSED_VERSION, REFUSED_WISHES, VERSION};
use core::{error, fmt};

/// Why what the other end says makes no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PacketError {
    /// What came is not of superpipe.
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
        /// why: [`REFUSED_VERSION`], [`REFUSED_WISHES`], or anything else
        code: u8,
        /// made printable
        text: String,
    },
}

impl PacketError {
    /// The code of the REFUSED that tells the peer; none where the peer has told us.
    pub(crate) const fn refusal(&self) -> Option<u8> {
        match self {
            Self::Version { .. } => Some(REFUSED_VERSION),
            Self::Disagreement(_) => Some(REFUSED_WISHES),
            Self::Garbage | Self::Malformed(_) => Some(0),
            Self::Refused { .. } => None,
        }
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
            Self::Disagreement(text) => f.write_str(text),
            Self::Refused { text, .. } => write!(f, "the peer refused: {text}"),
        }
    }
}

impl error::Error for PacketError {}
