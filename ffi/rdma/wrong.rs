//! Rules below core's protocol that a peer can break.

use crate::verbs::WcStatus;
use core::{error, fmt};
use superpipe_core::WcError;

/// The rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// A receive failed: what came is longer than it, or nothing that a device takes.
    Receive(WcError),
    /// The peer's device refused what it must take: no receive is so long, or the region is not the one that was agreed on.
    Refusal(WcError),
    /// Mail that is no word, no packet and no write.
    Nonsense,
    /// A write in a notice, to where no write may go.
    Outside,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the peer broke the protocol: ")?;
        match self {
            Self::Receive(error) => {
                write!(f, "mail that its receive cannot take (wire.md 10.3): {}", WcStatus(error.status))
            }
            Self::Refusal(error) => {
                write!(f, "it refused what it must take (wire.md 10.3): {}", WcStatus(error.status))
            }
            Self::Nonsense => f.write_str("mail that means nothing (wire.md 10.3)"),
            Self::Outside => f.write_str("a write by mail to where no write may go (wire.md 10.3)"),
        }
    }
}

impl error::Error for Wrong {}
