//! Showing life while the owner of a connection is blocked in its own source, sink or disk.
//!
//! The owner lends its connection for as long as it is blocked; a helper thread, made on first use, looks ten times a
//! second whether something was lent, and makes a round of progress with it. Lending costs two uncontended locks. A half of a
//! connection lends its share.

use core::mem;
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

use super::access::Access;

const TURN: Duration = Duration::from_millis(100);

type Slot<A> = Mutex<Option<A>>;

/// The place where a connection is lent.
pub(super) struct Lender<A> {
    slot: Option<Arc<Slot<A>>>,
}

fn lock<A>(slot: &Slot<A>) -> MutexGuard<'_, Option<A>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<A: Access> Lender<A> {
    pub(super) const fn new() -> Self {
        Self { slot: None }
    }

    /// Runs `work` while the helper has the connection.
    pub(super) fn lend<R>(&mut self, access: &mut Option<A>, work: impl FnOnce() -> R) -> R {
        let slot = self.slot.get_or_insert_with(|| {
            let slot = Arc::new(Mutex::new(None));
            let weak = Arc::downgrade(&slot);
            // Without a thread nothing shows life, and the peer's idle timeout decides: no reason to fail.
            let _ = thread::Builder::new().name("superpipe-life".into()).spawn(move || keep_alive(&weak));
            slot
        });
        let lent = Lent { slot, owner: access };
        mem::swap(&mut *lock(lent.slot), lent.owner);
        let result = work();
        drop(lent);
        result
    }
}

/// Takes the connection back, also when the work panics.
struct Lent<'a, A> {
    slot: &'a Slot<A>,
    owner: &'a mut Option<A>,
}

impl<A> Drop for Lent<'_, A> {
    fn drop(&mut self) {
        *self.owner = lock(self.slot).take();
    }
}

/// The helper: ends when the lender is gone.
fn keep_alive<A: Access>(slot: &Weak<Slot<A>>) {
    loop {
        thread::sleep(TURN);
        let Some(slot) = slot.upgrade() else { return };
        // Another half that is at work shows life itself.
        if let Some(access) = &mut *lock(&slot)
            && let Some(mut transport) = access.try_hold()
        {
            transport.keep_alive();
        }
    }
}
