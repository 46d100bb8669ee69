//! Jobs that register and deregister memory of the application. Each is one step, since a device knows no half of a region.

use crate::budget::BudgetShare;
use crate::fabric::RegisteredMemory;
use crate::os::jobs::{Step, Steps};
use core::ptr::NonNull;
use std::sync::Arc;
use superpipe_verbs::{Access, LentMr, Pd};

/// Bytes of the application.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) start: NonNull<u8>,
    pub(super) len: usize,
}

// SAFETY: it is an address to register, and memory belongs to the process, not to a thread.
unsafe impl Send for Extent {}

/// Bytes of the budget, which a drop gives back.
#[derive(Debug)]
pub(super) struct Charge {
    share: Arc<BudgetShare>,
    bytes: u64,
    /// For a registration that is kept.
    is_cached: bool,
}

/// Memory of the application that is registered. A drop deregisters, or aborts the process.
#[derive(Debug)]
pub(super) struct Held {
    // Fields are dropped in this order.
    pub(super) mr: LentMr,
    pub(super) charge: Charge,
    /// The memory, if a buffer owns it.
    pub(super) memory: Option<Arc<RegisteredMemory>>,
}

/// Registers memory. Dropping it before it is done leaves nothing.
#[derive(Debug)]
pub(super) struct Register {
    pd: Pd,
    extent: Extent,
    access: Access,
    charge: Option<Charge>,
    memory: Option<Arc<RegisteredMemory>>,
}

/// Deregisters memory. Dropping it does the same.
#[derive(Debug)]
pub(super) struct Deregister(Option<Held>);

impl Charge {
    /// Takes bytes for one message. None if the budget has no room.
    pub(super) fn grow(share: &Arc<BudgetShare>, bytes: u64) -> Option<Self> {
        share.grow(bytes).ok()?;
        Some(Self { share: Arc::clone(share), bytes, is_cached: false })
    }

    /// Takes bytes for a registration that is kept. None if the budget has no room.
    pub(super) fn cache(share: &Arc<BudgetShare>, bytes: u64) -> Option<Self> {
        share.cache(bytes).ok()?;
        Some(Self { share: Arc::clone(share), bytes, is_cached: true })
    }

    pub(super) fn is_cached(&self) -> bool {
        self.is_cached
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if self.is_cached {
            self.share.uncache(self.bytes);
        } else {
            self.share.shrink(self.bytes);
        }
    }
}

impl Register {
    /// Begins to register memory, for which `charge` was taken.
    ///
    /// # Safety
    /// Until this, and what it makes, is dropped, the memory is there for `access`: `memory` owns it, or the caller has borrowed it for as long.
    pub(super) unsafe fn new(
        pd: &Pd,
        extent: Extent,
        access: Access,
        charge: Charge,
        memory: Option<Arc<RegisteredMemory>>,
    ) -> Self {
        Self { pd: pd.clone(), extent, access, charge: Some(charge), memory }
    }
}

impl Steps for Register {
    type Output = Option<Held>;

    fn step(&mut self) -> Step<Self::Output> {
        let Some(charge) = self.charge.take() else { return Step::Done(None) };
        let Extent { start, len } = self.extent;
        // SAFETY: 1. `new`'s caller promises it. 2. and 3. A message is written out of it, or into it, only while the application's call
        // borrows it (`Lending`), or the application has declared that the peer writes at no other time.
        let registered = unsafe { LentMr::register(&self.pd, start, len, self.access) };
        let memory = self.memory.take();
        Step::Done(registered.ok().map(|mr| Held { mr, charge, memory }))
    }
}

impl Deregister {
    pub(super) const fn new(held: Held) -> Self {
        Self(Some(held))
    }

    /// Returns the region, if the step was not made.
    pub(super) fn undo(mut self) -> Option<Held> {
        self.0.take()
    }
}

impl Steps for Deregister {
    type Output = ();

    fn step(&mut self) -> Step<()> {
        drop(self.0.take());
        Step::Done(())
    }
}
