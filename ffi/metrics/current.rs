//! The page that this process publishes now, if it does.

use core::hint;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use spin::mutex::SpinMutex;

use super::page::Page;

/// Number of the page, which changes whenever the process begins or ends to publish; odd while it does.
static NUMBER: AtomicU32 = AtomicU32::new(0);
static CURRENT: SpinMutex<Weak<Page>> = SpinMutex::new(Weak::new());

/// Returns the number of the page that is published now; even if there is none.
#[inline]
pub(super) fn number() -> u32 {
    NUMBER.load(Ordering::Relaxed)
}

/// Tries of the lock, which others hold for a few instructions. One that is still taken may be so for ever: a fork can copy it so into a child.
const LOCK_TRIES: u32 = 1000;

/// Returns the page with its number. `None`: there is none, it is that of a process that made this one by fork, or another thread has the lock and does not run: the
/// caller asks again later.
pub(super) fn page() -> Option<(Arc<Page>, u32)> {
    let current = (0..LOCK_TRIES).find_map(|_| {
        hint::spin_loop();
        CURRENT.try_lock()
    })?;
    let number = number();
    let page = current.upgrade().filter(|page| page.is_here())?;
    (number & 1 == 1).then_some((page, number))
}

/// Publishes a page from now on. Returns false if another thread has the lock, and does not give it back: a fork can copy it so into a child.
pub(super) fn set(page: &Arc<Page>) -> bool {
    let tries = 0..LOCK_TRIES * LOCK_TRIES;
    let Some(mut current) = tries.into_iter().find_map(|_| {
        hint::spin_loop();
        CURRENT.try_lock()
    }) else {
        return false;
    };
    *current = Arc::downgrade(page);
    // The low bit is set, and the number is another one than before.
    let next = number().wrapping_add(2) | 1;
    NUMBER.store(next, Ordering::Relaxed);
    true
}

/// Publishes it no more, if it is the one that is published.
pub(super) fn unset(page: &Arc<Page>) {
    let mut current = CURRENT.lock();
    if Weak::ptr_eq(&current, &Arc::downgrade(page)) {
        *current = Weak::new();
        NUMBER.store(number().wrapping_add(1) & !1, Ordering::Relaxed);
    }
}
