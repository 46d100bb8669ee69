//! Showing life while the owner of a connection is blocked in its own source, sink or disk.
//!
//! The owner lends its connection for as long as it is blocked; a helper thread, made on first use, looks ten times a
//! second whether something was lent, and makes a round of progress with it. Lending costs two uncontended locks.

use core::mem;
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

use super::transport::Transport;
use crate::port::Port;

const TURN: Duration = Duration::from_millis(100);

type Slot<P> = Mutex<Option<Box<Transport<P>>>>;

/// The place where a connection is lent.
pub(super) struct Lender<P: Port> {
    slot: Option<Arc<Slot<P>>>,
}

fn lock<P: Port>(slot: &Slot<P>) -> MutexGuard<'_, Option<Box<Transport<P>>>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<P: Port> Lender<P> {
    pub(super) const fn new() -> Self {
        Self { slot: None }
    }

    /// Runs `work` while the helper has the connection.
    pub(super) fn lend<R>(
        &mut self,
        transport: &mut Option<Box<Transport<P>>>,
        work: impl FnOnce() -> R,
    ) -> R {
        let slot = self.slot.get_or_insert_with(|| {
            let slot = Arc::new(Mutex::new(None));
            let weak = Arc::downgrade(&slot);
            // Without a thread nothing shows life, and the peer's idle timeout decides: no reason to fail.
            let _ = thread::Builder::new().name("superpipe-life".into()).spawn(move || keep_alive(&weak));
            slot
        });
        let lent = Lent { slot, owner: transport };
        mem::swap(&mut *lock(lent.slot), lent.owner);
        let result = work();
        drop(lent);
        result
    }
}

/// Takes the connection back, also when the work panics.
struct Lent<'a, P: Port> {
    slot: &'a Slot<P>,
    owner: &'a mut Option<Box<Transport<P>>>,
}

impl<P: Port> Drop for Lent<'_, P> {
    fn drop(&mut self) {
        *self.owner = lock(self.slot).take();
    }
}

/// The helper: ends when the lender is gone.
fn keep_alive<P: Port>(slot: &Weak<Slot<P>>) {
    loop {
        thread::sleep(TURN);
        let Some(slot) = slot.upgrade() else { return };
        if let Some(transport) = &mut *lock(&slot) {
            transport.keep_alive();
        }
    }
}
