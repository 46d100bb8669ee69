//! Ends whose descriptors are in a set ([`Epoll`](crate::os::epoll::Epoll)), and that are looked at when these are ready or a time has come: by a poller, or one alone that a program waits for.

mod arming;
mod listening;
mod polled;

pub use arming::Arming;
pub(crate) use listening::Listening;
pub(crate) use polled::Polled;

use core::sync::atomic::{AtomicU32, Ordering};

/// Returns the number of a new set, by which a connection knows who watches it.
pub(crate) fn next_set() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
