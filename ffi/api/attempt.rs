//! One attempt to connect.

use super::error::{Error, ErrorKind};

/// An attempt that failed, and whether a moment later it may not.
pub(super) struct Attempt {
    pub(super) error: Error,
    pub(super) is_transient: bool,
}

/// Returns true if a listener that ends a connection so, before the application has it, may make the next one: it has ended, or had
/// no room for a client that was silent for longer than others.
pub(super) fn may_pass(error: &Error) -> bool {
    error.kind() == ErrorKind::PeerLost
}
