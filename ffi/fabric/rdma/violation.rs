//! Rules below core's protocol that a peer can break.

use core::{error, fmt};
use superpipe_core::WcError;
use superpipe_verbs::WcStatus;

/// A rule that the peer broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A receive failed: what came is longer than the receive, or of a kind that the device does not take.
    Receive(WcError),
    /// The peer's device refused what it must take: it has no receive of that length, or another region than was negotiated.
    Refusal(WcError),
    /// A message that is no signal, no packet and no enclosed write.
    UnknownMessage,
    /// An enclosed write to an offset outside the registered memory.
    OutOfBounds,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the peer broke the protocol: ")?;
        match self {
            Self::Receive(error) => {
                write!(f, "a message that its receive cannot take (wire.md 10.3): {}", WcStatus(error.status))
            }
            Self::Refusal(error) => {
                write!(f, "it refused what it must take (wire.md 10.3): {}", WcStatus(error.status))
            }
            Self::UnknownMessage => f.write_str("an unknown message (wire.md 10.3)"),
            Self::OutOfBounds => f.write_str("an enclosed write out of bounds (wire.md 10.3)"),
        }
    }
}

impl error::Error for Violation {}
