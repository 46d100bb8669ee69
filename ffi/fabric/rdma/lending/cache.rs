//! Registrations of an application's buffers that are kept for their next message, the least recently used of a connection first.
//!
//! A buffer owns its registrations, so they end with it. A connection finds them here, and ends them when it ends, or when others wait for
//! their share of the budget.

use super::steps::Held;
use crate::fabric::RegisteredMemory;
use crate::os::jobs::{Busy, Jobs, Step, Steps};
use crate::os::owner::Owner;
use core::mem::{self, ManuallyDrop};
use std::sync::{Arc, Weak};
use superpipe_verbs::Access;

/// Most registrations that a connection keeps: a search of all of them takes about a microsecond.
const KEPT_MAX: usize = 64;

/// A registration that is kept. A drop deregisters; what the device does not give up stays mapped for ever.
#[derive(Debug)]
pub(super) struct Kept {
    held: ManuallyDrop<Held>,
    pub(super) access: Access,
    owner: Owner,
}

/// Registrations that one connection keeps.
#[derive(Debug)]
pub(super) struct Cache {
    /// The least recently used first.
    kept: Vec<Weak<Kept>>,
}

impl Kept {
    pub(super) fn held(&self) -> &Held {
        &self.held
    }

    /// Returns the region, whose drop aborts the process if the device does not give the memory up.
    pub(super) fn into_held(self) -> Held {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped, and the field is not used again.
        unsafe { ManuallyDrop::take(&mut this.held) }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if !self.owner.is_current() {
            // A child of fork: what rdma-core deregisters here, it deregisters for the parent.
            return;
        }
        // SAFETY: it is taken here and nowhere else, and not used again.
        let Held { mr, charge, memory } = unsafe { ManuallyDrop::take(&mut self.held) };
        if let Err((_, mr)) = mr.deregister() {
            // No work request names the memory, and no peer writes to it. But it must never be used for anything else.
            mem::forget((mr, charge, memory));
        }
    }
}

impl Cache {
    pub(super) const fn new() -> Self {
        Self { kept: Vec::new() }
    }

    /// Finds the registration of a buffer for this access, and makes it the most recently used.
    pub(super) fn find(&mut self, memory: &Arc<RegisteredMemory>, access: Access) -> Option<Arc<Kept>> {
        let is_of = |kept: &Arc<Kept>| {
            kept.access == access && kept.held.memory.as_ref().is_some_and(|it| Arc::ptr_eq(it, memory))
        };
        let index = self.kept.iter().rposition(|kept| kept.upgrade().is_some_and(|kept| is_of(&kept)))?;
        let found = self.kept.remove(index);
        self.kept.push(found);
        self.kept.last()?.upgrade()
    }

    /// Keeps a registration of a buffer, and returns it. Returns the region if it is not of a buffer.
    pub(super) fn keep(&mut self, held: Held, access: Access) -> Result<Arc<Kept>, Held> {
        let Some(memory) = held.memory.clone() else { return Err(held) };
        let kept = Arc::new(Kept { held: ManuallyDrop::new(held), access, owner: Owner::current() });
        memory.registrations().add(Arc::<Kept>::clone(&kept));
        self.kept.retain(|kept| kept.strong_count() > 0);
        self.kept.push(Arc::downgrade(&kept));
        Ok(kept)
    }

    /// Returns true if there is no place for another registration.
    pub(super) fn is_full(&self) -> bool {
        self.kept.iter().filter(|kept| kept.strong_count() > 0).count() >= KEPT_MAX
    }

    /// Takes the least recently used registration away from its buffer, except `pinned` ones.
    pub(super) fn take_oldest(&mut self, pinned: [Option<&Arc<Kept>>; 2]) -> Option<Arc<Kept>> {
        self.kept.retain(|kept| kept.strong_count() > 0);
        let is_free = |kept: &Arc<Kept>| pinned.iter().flatten().all(|pinned| !Arc::ptr_eq(pinned, kept));
        let index = self.kept.iter().position(|kept| kept.upgrade().is_some_and(|kept| is_free(&kept)))?;
        let kept = self.kept.remove(index).upgrade()?;
        release(&kept);
        Some(kept)
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        for kept in self.kept.drain(..) {
            if let Some(kept) = kept.upgrade() {
                release(&kept);
            }
        }
    }
}

/// Takes a registration away from its buffer.
pub(super) fn release(kept: &Arc<Kept>) {
    if let Some(memory) = &kept.held.memory {
        memory.registrations().remove(kept);
    }
}

/// Deregisters what was kept, by a job that nobody waits for.
struct Retire(Option<Arc<Kept>>);

impl Steps for Retire {
    type Output = ();

    fn step(&mut self) -> Step<()> {
        drop(self.0.take());
        Step::Done(())
    }
}

/// Deregisters a registration that was taken away from its buffer, beside the caller if there is a core for it.
pub(super) fn retire(kept: Arc<Kept>, jobs: &Jobs) {
    match jobs.begin(Retire(Some(kept))) {
        // The job is cancelled, and its steps are dropped by the helper, or here if there is none.
        Ok(ticket) => drop(ticket),
        Err(Busy(steps)) => drop(steps),
    }
}
