//! Access of one owner: no lock.

use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::thread;

use superpipe_core::Reason;
use superpipe_core::driver::Drive;

use super::access::{Attempt, DriverAccess};
use super::host_driver::HostDriver;
use super::waiting::Waiting;
use crate::budget::BudgetShare;
use crate::fabric::HostFabric;
use crate::metrics::LastCopy;
use crate::os::owner::Owner;

/// A driver with one owner. Dropping it closes the connection.
pub(crate) struct Exclusive<F: HostFabric> {
    host: ManuallyDrop<Box<HostDriver<F>>>,
    _budget: Arc<BudgetShare>,
    /// Behind the share, which is given back before it is dropped.
    last_copy: Option<LastCopy>,
    owner: Owner,
}

impl<F: HostFabric> Exclusive<F> {
    pub(super) fn new(host: HostDriver<F>, budget: Arc<BudgetShare>) -> Self {
        let host = ManuallyDrop::new(Box::new(host));
        Self { host, _budget: budget, last_copy: None, owner: Owner::current() }
    }

    pub(super) const fn owner(&self) -> Owner {
        self.owner
    }
}

impl<F: HostFabric> Deref for Exclusive<F> {
    type Target = HostDriver<F>;

    #[inline]
    fn deref(&self) -> &HostDriver<F> {
        &self.host
    }
}

impl<F: HostFabric> DerefMut for Exclusive<F> {
    #[inline]
    fn deref_mut(&mut self) -> &mut HostDriver<F> {
        &mut self.host
    }
}

impl<F: HostFabric> DriverAccess for Exclusive<F> {
    type Fabric = F;
    type Held<'a> = &'a mut HostDriver<F>;
    const IS_SHARED: bool = false;

    #[inline]
    fn hold(&mut self) -> &mut HostDriver<F> {
        self
    }

    #[inline]
    fn inspect<R>(&self, work: impl FnOnce(&HostDriver<F>) -> R) -> R {
        work(self)
    }

    #[inline]
    fn try_hold(&mut self) -> Option<&mut HostDriver<F>> {
        Some(self)
    }

    #[inline]
    fn give_way(&self) -> bool {
        false
    }

    #[inline]
    fn shares_core(&self) -> bool {
        false
    }

    #[inline]
    fn count_moved(&mut self, _: usize) -> bool {
        false
    }

    #[inline]
    fn step_other(_: &mut Self::Held<'_>) -> Option<Drive<()>> {
        None
    }

    fn yield_lending(&mut self, _: &mut (dyn Attempt<F> + Send)) {
        thread::yield_now();
    }

    fn is_interrupted(&self) -> bool {
        self.options.is_interrupted()
    }

    fn is_ours(&self) -> bool {
        self.owner.is_current()
    }
}

impl<F: HostFabric> fmt::Debug for Exclusive<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(F::NAME).finish_non_exhaustive()
    }
}

impl<F: HostFabric> Drop for Exclusive<F> {
    fn drop(&mut self) {
        let is_ours = self.is_ours();
        let state = is_ours.then(|| self.observed().state());
        // A close that failed has waited already.
        if is_ours && !self.driver.is_closing() {
            let linger = self.options.linger;
            // A drop cannot report that the close was not sent.
            let _ = self.close(Reason::DONE, linger.into());
        }
        if let Some(state) = state {
            self.last_copy = self.end_report(state);
        }
        // A child of fork has only the descriptors.
        if is_ours || F::DROPS_IN_CHILD {
            // SAFETY: it is dropped here and nowhere else, and nothing uses it afterwards.
            unsafe { ManuallyDrop::drop(&mut self.host) };
        }
    }
}
