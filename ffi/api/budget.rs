//! The provisioned memory of a process, counted against one bound.

use core::sync::atomic::{AtomicU64, Ordering};

use super::error::{Error, ErrorKind};
use crate::os::Bytes;

/// Bytes that all connections of this process may provision together, where nobody says otherwise.
const LIMIT_BYTES: u64 = 1 << 30;

static LIMIT: AtomicU64 = AtomicU64::new(LIMIT_BYTES);
static USED: AtomicU64 = AtomicU64::new(0);

/// A share of the budget; dropped, it is given back.
#[derive(Debug)]
pub struct Budget(u64);

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

    /// Takes a share.
    pub(super) fn take(bytes: u64) -> Result<Self, Error> {
        let limit = LIMIT.load(Ordering::Relaxed);
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit);
        match USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => Ok(Self(bytes)),
            Err(used) => Err(Error::new(
                ErrorKind::Limit,
                format!(
                    "cannot provision {} for a connection: {} of the process's {} are in use; close connections, make \
                     landing buffers smaller, or raise the budget",
                    Bytes(bytes),
                    Bytes(used),
                    Bytes(limit)
                ),
            )),
        }
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        USED.fetch_sub(self.0, Ordering::Relaxed);
    }
}
