//! Memory that a connection has grown by, for as long as it is there.

use std::sync::Arc;

use super::{BudgetShare, Refused};

/// Bytes by which a connection's share of the budget has grown. Dropping it returns them.
#[derive(Debug)]
pub(crate) struct Charge {
    share: Arc<BudgetShare>,
    bytes: u64,
}

impl Charge {
    /// Takes bytes for a landing buffer or an image.
    ///
    /// # Errors
    /// [`Refused`], as [`BudgetShare::grow`].
    pub(crate) fn take(share: &Arc<BudgetShare>, bytes: u64) -> Result<Self, Refused> {
        share.grow(bytes)?;
        Ok(Self { share: Arc::clone(share), bytes })
    }

    #[cfg(test)]
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.share.shrink(self.bytes);
    }
}
