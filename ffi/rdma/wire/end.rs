//! End of a wire.

use crate::rdma::wrong::Wrong;
use superpipe_core::WcError;

/// What is left of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::rdma) enum End {
    /// It is there.
    Not,
    /// It disconnected, died or does not answer.
    Gone,
    /// It broke a rule.
    Wrong(Wrong),
    /// A work request failed for another reason; told once.
    Failed(WcError),
    /// Told.
    Told,
}
