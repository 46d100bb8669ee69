//! Bytes of the budget for memory of a connection that comes and goes, held with that memory.

use std::sync::Arc;

use super::{BudgetShare, Refused};

/// Bytes of the budget. Dropping it returns them.
#[derive(Debug)]
pub(crate) struct Charge(Kind);

#[derive(Debug)]
enum Kind {
    /// By which a connection's share has grown.
    Grown { share: Arc<BudgetShare>, bytes: u64 },
    /// For a registration that is kept.
    Cached { share: Arc<BudgetShare>, bytes: u64 },
    /// A part of the minimum of a share.
    Part { _part: BudgetShare },
}

impl Charge {
    /// Takes bytes for a landing buffer, an image, or memory of one message.
    ///
    /// # Errors
    /// [`Refused`], as [`BudgetShare::grow`].
    pub(crate) fn grow(share: &Arc<BudgetShare>, bytes: u64) -> Result<Self, Refused> {
        share.grow(bytes)?;
        Ok(Self(Kind::Grown { share: Arc::clone(share), bytes }))
    }

    /// Takes bytes for a registration that is kept.
    ///
    /// # Errors
    /// [`Refused`], as [`BudgetShare::cache`].
    pub(crate) fn cache(share: &Arc<BudgetShare>, bytes: u64) -> Result<Self, Refused> {
        share.cache(bytes)?;
        Ok(Self(Kind::Cached { share: Arc::clone(share), bytes }))
    }

    /// Holds a part of the minimum of a share.
    pub(crate) const fn of_part(part: BudgetShare) -> Self {
        Self(Kind::Part { _part: part })
    }

    /// Returns true if it is for a registration that is kept.
    #[cfg(feature = "verbs")]
    pub(crate) const fn is_cached(&self) -> bool {
        matches!(self.0, Kind::Cached { .. })
    }

    /// Returns the bytes.
    #[cfg(any(test, feature = "verbs"))]
    pub(crate) fn bytes(&self) -> u64 {
        match &self.0 {
            Kind::Grown { bytes, .. } | Kind::Cached { bytes, .. } => *bytes,
            Kind::Part { _part: part } => part.bytes(),
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        match &self.0 {
            Kind::Grown { share, bytes } => share.shrink(*bytes),
            Kind::Cached { share, bytes } => share.uncache(*bytes),
            // Its own drop returns the bytes.
            Kind::Part { .. } => {}
        }
    }
}
