//! The budget of provisioned memory: one limit per process.

use core::sync::atomic::{AtomicU64, Ordering};
use core::{error, fmt};

use crate::os::Bytes;

/// Bytes that all connections of this process may provision together, by default: about a thousand connections of the default sizes.
const LIMIT_BYTES: u64 = 1 << 30;

static LIMIT: AtomicU64 = AtomicU64::new(LIMIT_BYTES);
static USED: AtomicU64 = AtomicU64::new(0);

/// The budget of this process: the limit of the memory that all its connections provision together, 1 GiB by default.
///
/// A connection takes its share before it provisions memory, and before both ends agree; it fails with
/// [`Limit`](crate::ErrorKind::Limit) if there is no room. Over shared memory the share counts both segments, since this process also fills
/// the holes of the peer's. Over RDMA it counts the registered memory.
#[derive(Debug)]
pub enum Budget {}

/// A connection's share of the budget. Dropping it returns the bytes.
#[cfg_attr(
    not(feature = "internals"),
    expect(unreachable_pub, reason = "`fabric` shows it with `internals`")
)]
#[derive(Debug)]
pub struct BudgetShare(u64);

/// Refusal of a share that exceeds the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverBudget {
    bytes: u64,
    used: u64,
    limit: u64,
}

impl Budget {
    /// Sets the limit for memory that is provisioned from now on.
    pub fn set_limit_bytes(bytes: u64) {
        LIMIT.store(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes that are provisioned.
    #[must_use]
    pub fn used_bytes() -> u64 {
        USED.load(Ordering::Relaxed)
    }

    /// Returns the bytes that can still be provisioned.
    pub(crate) fn left_bytes() -> u64 {
        LIMIT.load(Ordering::Relaxed).saturating_sub(USED.load(Ordering::Relaxed))
    }
}

#[cfg_attr(
    not(feature = "internals"),
    expect(unreachable_pub, reason = "`fabric` shows it with `internals`")
)]
impl BudgetShare {
    /// Takes a share.
    pub(crate) fn take(bytes: u64) -> Result<Self, OverBudget> {
        let limit = LIMIT.load(Ordering::Relaxed);
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit);
        match USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => Ok(Self(bytes)),
            Err(used) => Err(OverBudget { bytes, used, limit }),
        }
    }

    /// Returns the bytes of this share.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.0
    }
}

impl OverBudget {
    /// Bytes that were requested.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
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

impl Drop for BudgetShare {
    fn drop(&mut self) {
        USED.fetch_sub(self.0, Ordering::Relaxed);
    }
}
