//! Bytes of the budget for memory of a connection that comes and goes, held with that memory.

use std::sync::Arc;

use crate::budget::{BudgetShare, Refused};

/// Bytes of the budget. Dropping it returns them.
pub(super) struct Charge(Kind);

enum Kind {
    /// Lent to a connection's share.
    Lent { share: Arc<BudgetShare>, bytes: u64, purpose: Purpose },
    /// A part of its minimum, for a small buffer.
    Part { _part: BudgetShare },
}

/// Purpose of a loan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A landing buffer, or the peer's.
    Landing,
    /// A registered buffer, of this end or of the peer.
    Exposed,
}

impl Charge {
    /// Takes bytes out of the budget.
    ///
    /// # Errors
    /// There is no room.
    pub(super) fn take(share: &Arc<BudgetShare>, bytes: u64, purpose: Purpose) -> Result<Self, Refused> {
        match purpose {
            Purpose::Landing => share.grow(bytes)?,
            Purpose::Exposed => share.cache(bytes)?,
        }
        Ok(Self(Kind::Lent { share: Arc::clone(share), bytes, purpose }))
    }

    /// Holds a part of the minimum of a share.
    pub(super) const fn of_part(part: BudgetShare) -> Self {
        Self(Kind::Part { _part: part })
    }

    /// Returns the bytes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> u64 {
        match &self.0 {
            Kind::Lent { bytes, .. } => *bytes,
            Kind::Part { _part: part } => part.bytes(),
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        match &self.0 {
            Kind::Lent { share, bytes, purpose: Purpose::Landing } => share.shrink(*bytes),
            Kind::Lent { share, bytes, purpose: Purpose::Exposed } => share.uncache(*bytes),
            Kind::Part { .. } => {}
        }
    }
}
