//! Who is at the other end.

use crate::shm::PeerCred;

/// Who is at the other end of a connection, as this host's kernel or the device tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Peer {
    /// A process of this host.
    Process(PeerCred),
    /// Nobody tells.
    Unknown,
}

impl Peer {
    /// Whether a second connection can have come from whoever made this one: the same process, where that is known.
    #[must_use]
    pub fn is_maybe(self, other: Self) -> bool {
        self == other
    }
}
