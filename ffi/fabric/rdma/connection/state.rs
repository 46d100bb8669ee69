//! State of a connection.

use crate::fabric::rdma::violation::Violation;
use superpipe_core::WcError;

/// State of a connection, from the time when it can carry anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fabric::rdma) enum State {
    /// The peer is there.
    Open,
    /// The peer disconnected, died or does not answer.
    Gone,
    /// The peer broke a rule.
    Violation(Violation),
    /// A work request failed for another reason, which core does not know yet.
    Failed(WcError),
    /// Core knows of the failure.
    Reported,
}
