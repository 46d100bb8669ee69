//! Bytes of the budget for memory that a connection got while communicating, held with that memory.

use std::sync::Arc;

use crate::budget::{BudgetShare, Refused};

/// Bytes that a connection's share of the budget has been lent. Dropping it returns them.
pub(super) struct Charge {
    share: Arc<BudgetShare>,
    bytes: u64,
    purpose: Purpose,
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
        Ok(Self { share: Arc::clone(share), bytes, purpose })
    }

    /// Returns the bytes.
    #[cfg(test)]
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        match self.purpose {
            Purpose::Landing => self.share.shrink(self.bytes),
            Purpose::Exposed => self.share.uncache(self.bytes),
        }
    }
}
