//! A transport of one owner.

use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use std::thread;

use superpipe_core::Reason;
use superpipe_core::driver::Drive;

use super::access::{Access, Attempt};
use super::transport::Transport;
use super::waiting::Waiting;
use crate::budget::Budget;
use crate::os::owner::Owner;
use crate::port::Port;

/// A transport of one owner. Dropped, it closes.
pub(in crate::api) struct Whole<P: Port> {
    transport: ManuallyDrop<Box<Transport<P>>>,
    _budget: Budget,
    owner: Owner,
}

impl<P: Port> Whole<P> {
    pub(super) fn new(transport: Transport<P>, budget: Budget) -> Self {
        let transport = ManuallyDrop::new(Box::new(transport));
        Self { transport, _budget: budget, owner: Owner::current() }
    }

    pub(super) const fn owner(&self) -> Owner {
        self.owner
    }
}

impl<P: Port> Deref for Whole<P> {
    type Target = Transport<P>;

    #[inline]
    fn deref(&self) -> &Transport<P> {
        &self.transport
    }
}

impl<P: Port> DerefMut for Whole<P> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Transport<P> {
        &mut self.transport
    }
}

impl<P: Port> Access for Whole<P> {
    type Port = P;
    type Held<'a> = &'a mut Transport<P>;
    const IS_SHARED: bool = false;

    #[inline]
    fn hold(&mut self) -> &mut Transport<P> {
        self
    }

    #[inline]
    fn try_hold(&mut self) -> Option<&mut Transport<P>> {
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

    fn yield_lending(&mut self, _: &mut (dyn Attempt<P> + Send)) {
        thread::yield_now();
    }

    fn is_interrupted(&self) -> bool {
        self.options.is_interrupted()
    }

    fn is_ours(&self) -> bool {
        self.owner.is_current()
    }
}

impl<P: Port> fmt::Debug for Whole<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(P::NAME).finish_non_exhaustive()
    }
}

impl<P: Port> Drop for Whole<P> {
    fn drop(&mut self) {
        let is_ours = self.is_ours();
        // A close that failed has waited already.
        if is_ours && !self.driver.is_closing() {
            let linger = self.options.linger;
            // A drop has nobody to report to that the peer was not told.
            let _ = self.close(Reason::DONE, linger.into());
        }
        // A child of fork has descriptors of it, and nothing else.
        if is_ours || P::DROPS_IN_CHILD {
            // SAFETY: it is dropped here and nowhere else, and nothing uses it afterwards.
            unsafe { ManuallyDrop::drop(&mut self.transport) };
        }
    }
}
