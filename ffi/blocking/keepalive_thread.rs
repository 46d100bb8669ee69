//! The helper thread that sends keepalives while the owner of a connection is blocked in its own source, sink or disk.
//!
//! The owner lends its connection for as long as it is blocked; the thread, made on first use, makes a round of
//! progress with what was lent ten times a second. Lending costs two uncontended locks. A half of a connection lends its share.

use core::mem;
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

use super::access::DriverAccess;

/// Period of the thread: half of that of keepalives (0.2 s), so a keepalive is late by half a period at most.
const TURN: Duration = Duration::from_millis(100);

/// The same while a job is under way, whose steps the turns may have to make: a job has a few, and a peer may wait for its end.
const JOB_TURN: Duration = Duration::from_millis(1);

type Slot<A> = Mutex<Option<A>>;

/// The slot where a connection is lent to the thread.
pub(super) struct KeepaliveThread<A> {
    slot: Option<Arc<Slot<A>>>,
}

fn lock<A>(slot: &Slot<A>) -> MutexGuard<'_, Option<A>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<A: DriverAccess> KeepaliveThread<A> {
    pub(super) const fn new() -> Self {
        Self { slot: None }
    }

    /// Runs `work` while the thread has the connection.
    pub(super) fn lend<R>(&mut self, access: &mut Option<A>, work: impl FnOnce() -> R) -> R {
        let slot = self.slot.get_or_insert_with(|| {
            let slot = Arc::new(Mutex::new(None));
            let weak = Arc::downgrade(&slot);
            // Without a thread no keepalives are sent, and the peer's idle timeout applies: no reason to fail.
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

/// Returns the connection to its owner when dropped, also when the work panics.
struct Lent<'a, A> {
    slot: &'a Slot<A>,
    owner: &'a mut Option<A>,
}

impl<A> Drop for Lent<'_, A> {
    fn drop(&mut self) {
        *self.owner = lock(self.slot).take();
    }
}

/// Runs the thread until the owner drops the slot.
fn keep_alive<A: DriverAccess>(slot: &Weak<Slot<A>>) {
    let mut turn = TURN;
    loop {
        thread::sleep(turn);
        turn = TURN;
        let Some(slot) = slot.upgrade() else { return };
        // Another half that holds the lock sends keepalives itself.
        if let Some(access) = &mut *lock(&slot)
            && let Some(mut host) = access.try_hold()
            && host.keep_alive()
        {
            turn = JOB_TURN;
        }
    }
}
