//! One half of a connection that was split: a share of the driver, behind a lock that a half holds for a few attempts at a time and never
//! while it waits.
//!
//! ```text
//! half                                             the other half
//!   try_lock, attempts and a round, unlock           try_lock: refused, wants a turn
//!   sees that a turn is wanted: yields        --->   try_lock, attempts and a round, unlock
//! ```
//!
//! **Where both halves run on one core**, spinning only keeps the other from its work, so a half that has nothing to do yields soon.
//! While it yields it lends its attempt. The other half, which then has the core, makes that attempt beside its own, under the lock,
//! and yields once it is done. So both directions flow whichever thread runs, and blocks are copied out while they are in the
//! caches. A half that was lent no attempt moves a few hundred KiB before it yields.
//!
//! **Where they run on two cores**, a half that moves data takes the lock again within nanoseconds, and the other would hardly ever
//! find it free. So a half that was refused the lock sets a flag, and the other one yields once.

use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use core::{fmt, hint, mem};
use std::sync::Arc;
use std::thread;

use spin::mutex::{SpinMutex, SpinMutexGuard};
use superpipe_core::driver::Drive;

use super::access::{Attempt, DriverAccess, pause_after_refusals};
use super::exclusive::Exclusive;
use super::host_driver::HostDriver;
use crate::fabric::HostFabric;
use crate::options::Options;
use crate::os::owner::Owner;

/// Tries of the lock before it counts as refused: about as long as an attempt takes. More would spin while the other half moves data,
/// fewer would refuse a lock that is about to be free.
const LOCK_TRIES: u32 = 32;
/// Bytes that a half moves before the other has its turn, where both run on one core: half of the default landing buffer (512 KiB), so
/// that neither direction stops while the other flows. Not less, since each turn costs a switch of threads.
pub(super) const TURN_BYTES: usize = 256 << 10;
/// Number in place of a core: the half has not waited yet, or the kernel does not say.
pub(super) const NO_CORE: i32 = -1;

/// State that the two halves share.
struct Shared<F: HostFabric> {
    joint: SpinMutex<Joint<F>>,
    /// True for a half that was refused the lock and wants a turn.
    wants: [AtomicBool; 2],
    /// The core where each half waited last.
    cores: [AtomicI32; 2],
    options: Options,
    owner: Owner,
}

/// State behind the lock.
struct Joint<F: HostFabric> {
    driver: Exclusive<F>,
    /// The attempt of each half, while that half yields.
    lent: [Option<Lent<F>>; 2],
}

/// An attempt of a half that yields.
struct Lent<F>(NonNull<dyn Attempt<F> + Send>);

// SAFETY: the attempt is `Send` (the type says so), and only the holder of the lock uses the pointer.
unsafe impl<F> Send for Lent<F> {}

/// One half. Dropping the last one closes the connection.
pub(crate) struct Half<F: HostFabric> {
    shared: Arc<Shared<F>>,
    side: usize,
    /// Bytes moved in this turn.
    moved: usize,
}

impl<F: HostFabric> Half<F> {
    /// Splits access to a driver.
    pub(super) fn split(driver: Exclusive<F>) -> [Self; 2] {
        let (options, owner) = (driver.options, driver.owner());
        let wants = [const { AtomicBool::new(false) }; 2];
        let cores = [const { AtomicI32::new(NO_CORE) }; 2];
        let shared = Arc::new(Shared {
            joint: SpinMutex::new(Joint { driver, lent: [const { None }; 2] }),
            wants,
            cores,
            options,
            owner,
        });
        [Self { shared: Arc::clone(&shared), side: 0, moved: 0 }, Self { shared, side: 1, moved: 0 }]
    }

    /// Joins the two halves.
    ///
    /// # Errors
    /// The halves are not of one connection.
    pub(super) fn reunite(self, other: Self) -> Result<Exclusive<F>, [Self; 2]> {
        if !self.is_other_half_of(&other) {
            return Err([self, other]);
        }
        drop(other);
        match Arc::try_unwrap(self.shared) {
            Ok(shared) => Ok(shared.joint.into_inner().driver),
            Err(_) => unreachable!("there are two halves, and a helper has one only while it is lent"),
        }
    }

    /// Returns true if it was refused the lock, and had no turn since.
    #[cfg(test)]
    pub(super) fn wants_turn(&self) -> bool {
        self.wants().load(Ordering::Relaxed)
    }

    /// Bytes moved in this turn.
    #[cfg(test)]
    pub(super) const fn moved(&self) -> usize {
        self.moved
    }

    /// Notes that this half waited last on `core`.
    #[cfg(test)]
    pub(super) fn waited_on(&self, core: i32) {
        self.shared.cores[self.side].store(core, Ordering::Relaxed);
    }

    /// Returns true for the halves of one connection.
    pub(super) fn is_other_half_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    #[inline]
    fn wants(&self) -> &AtomicBool {
        &self.shared.wants[self.side]
    }

    #[inline]
    fn other_wants(&self) -> &AtomicBool {
        &self.shared.wants[1 - self.side]
    }
}

/// A driver while a half holds the lock.
pub(crate) struct HeldHalf<'a, F: HostFabric> {
    joint: SpinMutexGuard<'a, Joint<F>>,
    side: usize,
}

impl<F: HostFabric> Deref for HeldHalf<'_, F> {
    type Target = HostDriver<F>;

    #[inline]
    fn deref(&self) -> &HostDriver<F> {
        &self.joint.driver
    }
}

impl<F: HostFabric> DerefMut for HeldHalf<'_, F> {
    #[inline]
    fn deref_mut(&mut self) -> &mut HostDriver<F> {
        &mut self.joint.driver
    }
}

impl<F: HostFabric> DriverAccess for Half<F> {
    type Fabric = F;
    type Held<'a> = HeldHalf<'a, F>;
    const IS_SHARED: bool = true;

    fn hold(&mut self) -> HeldHalf<'_, F> {
        self.lock()
    }

    fn inspect<R>(&self, work: impl FnOnce(&HostDriver<F>) -> R) -> R {
        work(&self.lock())
    }

    #[inline]
    fn try_hold(&mut self) -> Option<HeldHalf<'_, F>> {
        self.try_lock_briefly()
    }

    #[inline]
    fn give_way(&self) -> bool {
        self.other_wants().load(Ordering::Relaxed) && self.yield_to_other()
    }

    #[inline]
    fn count_moved(&mut self, bytes: usize) -> bool {
        self.moved += bytes;
        if self.moved < TURN_BYTES {
            return false;
        }
        self.moved = 0;
        self.shares_core()
    }

    #[inline]
    fn step_other(held: &mut HeldHalf<'_, F>) -> Option<Drive<()>> {
        let other = 1 - held.side;
        let Joint { driver, lent } = &mut *held.joint;
        let attempt = lent[other].as_mut()?;
        let host = &mut **driver;
        // SAFETY: the other half is in `yield_lending`. That does not return before it has taken the attempt out of `lent` under the
        // lock, and does not use the attempt meanwhile; this half holds the lock.
        let driven = unsafe { attempt.0.as_mut() }.step(&mut host.driver, &mut host.fabric);
        if driven == Drive::Done(()) {
            lent[other] = None;
        }
        Some(driven)
    }

    fn yield_lending(&mut self, attempt: &mut (dyn Attempt<F> + Send)) {
        // SAFETY: only the lifetime changes. The pointer is taken out of `lent` below, under the lock, before the borrow ends; nothing
        // in between can panic.
        let lent = unsafe {
            mem::transmute::<NonNull<dyn Attempt<F> + Send + '_>, NonNull<dyn Attempt<F> + Send>>(
                NonNull::from(attempt),
            )
        };
        let side = self.side;
        self.hold().joint.lent[side] = Some(Lent(lent));
        thread::yield_now();
        self.hold().joint.lent[side] = None;
    }

    #[inline]
    fn shares_core(&self) -> bool {
        // SAFETY: it takes nothing, and gives a number or -1.
        let core = unsafe { libc::sched_getcpu() };
        let own = &self.shared.cores[self.side];
        if own.load(Ordering::Relaxed) != core {
            own.store(core, Ordering::Relaxed);
        }
        core != NO_CORE && self.shared.cores[1 - self.side].load(Ordering::Relaxed) == core
    }

    fn is_interrupted(&self) -> bool {
        self.shared.options.is_interrupted()
    }

    fn is_ours(&self) -> bool {
        self.shared.owner.is_current()
    }
}

impl<F: HostFabric> Half<F> {
    fn lock(&self) -> HeldHalf<'_, F> {
        let mut refused = 0;
        loop {
            if let Some(guard) = self.try_lock_briefly() {
                return guard;
            }
            refused += 1;
            pause_after_refusals(refused);
        }
    }

    #[inline]
    fn try_lock_briefly(&self) -> Option<HeldHalf<'_, F>> {
        for _ in 0..LOCK_TRIES {
            if let Some(joint) = self.shared.joint.try_lock() {
                if self.wants().load(Ordering::Relaxed) {
                    self.wants().store(false, Ordering::Relaxed);
                }
                return Some(HeldHalf { joint, side: self.side });
            }
            hint::spin_loop();
        }
        self.wants().store(true, Ordering::Relaxed);
        None
    }

    /// Yields once, after a short wait for the other half to take its turn without that. The other half may have given up meanwhile.
    /// Returns true if it yielded.
    #[cold]
    #[inline(never)]
    fn yield_to_other(&self) -> bool {
        for _ in 0..LOCK_TRIES {
            if !self.other_wants().load(Ordering::Relaxed) {
                return false;
            }
            hint::spin_loop();
        }
        self.other_wants().store(false, Ordering::Relaxed);
        thread::yield_now();
        true
    }
}

impl<F: HostFabric> fmt::Debug for Half<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(F::NAME).field("side", &self.side).finish_non_exhaustive()
    }
}
