//! The provisioned memory of a process, counted against one bound.

use core::sync::atomic::{AtomicU64, Ordering};
use core::{error, fmt};

use crate::os::Bytes;

/// Bytes that all connections of this process may provision together, by default.
const LIMIT_BYTES: u64 = 1 << 30;

static LIMIT: AtomicU64 = AtomicU64::new(LIMIT_BYTES);
static USED: AtomicU64 = AtomicU64::new(0);

/// A share of the budget; dropped, it is given back.
///
/// A connection takes its share before any memory is provisioned, and before it agrees with the peer. Over shared memory the
/// share counts both segments: this process fills the holes of the peer's, too. Over RDMA it counts what is registered.
#[derive(Debug)]
pub struct Budget(u64);

/// There is no room for a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverBudget {
    bytes: u64,
    used: u64,
    limit: u64,
}

impl Budget {
    /// Sets the bound for what is provisioned from now on. Default: 1 GiB.
    pub fn set_limit_bytes(bytes: u64) {
        LIMIT.store(bytes, Ordering::Relaxed);
    }

    /// Bytes that are provisioned.
    #[must_use]
    pub fn used_bytes() -> u64 {
        USED.load(Ordering::Relaxed)
    }

    /// Bytes that there is room for.
    pub(crate) fn left_bytes() -> u64 {
        LIMIT.load(Ordering::Relaxed).saturating_sub(USED.load(Ordering::Relaxed))
    }

    /// Takes a share.
    pub(crate) fn take(bytes: u64) -> Result<Self, OverBudget> {
        let limit = LIMIT.load(Ordering::Relaxed);
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit);
        match USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => Ok(Self(bytes)),
            Err(used) => Err(OverBudget { bytes, used, limit }),
        }
    }

    /// Bytes of this share.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.0
    }
}

impl OverBudget {
    /// Bytes that were requested.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Text for the peer, short enough for a REFUSED.
    pub(crate) fn text_for_the_peer(&self) -> String {
        let Self { bytes, used, limit } = *self;
        format!(
            "its memory budget has no room for {}: {} of {} are in use",
            Bytes(bytes),
            Bytes(used),
            Bytes(limit)
        )
    }
}

impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, used, limit } = *self;
        write!(
            f,
            "cannot provision {} for a connection: {} of the process's {} are in use; close connections, make landing \
             buffers smaller, or raise the budget",
            Bytes(bytes),
            Bytes(used),
            Bytes(limit)
        )
    }
}

impl error::Error for OverBudget {}

impl Drop for Budget {
    fn drop(&mut self) {
        USED.fetch_sub(self.0, Ordering::Relaxed);
    }
}
