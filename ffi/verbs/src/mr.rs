//! A memory region: memory that the NIC may read and write, owned by its registration.
//!
//! The memory is reached by raw pointer only, since the NIC may write it at any time; nobody gets a reference:
//!
//! ```compile_fail
//! use superpipe_verbs::Mr;
//! fn bytes(mr: &mut Mr) -> &mut [u8] { mr }
//! ```
//!
//! The region takes the memory, so that it cannot be unmapped while the NIC has its address:
//!
//! ```compile_fail,E0382
//! use superpipe_verbs::{Access, Error, Mr, Pages, Pd};
//! fn keep(pd: &Pd, memory: Pages) -> Result<Mr, Error> {
//!     let mr = Mr::register(pd, memory, Access::Local)?;
//!     drop(memory);
//!     Ok(mr)
//! }
//! ```
//!
//! An [`Sge`] borrows the region until it is posted:
//!
//! ```compile_fail,E0505
//! use superpipe_verbs::{Mr, Sge};
//! fn late(mr: Mr) -> u32 {
//!     let sge: Sge<'_> = mr.sge(0, 64).expect("it is longer");
//!     drop(mr);
//!     sge.bytes()
//! }
//! ```
//!
//! [`Mr::deregister`] gives the memory back, and no sooner than the region and its SGEs have ended:
//!
//! ```compile_fail,E0505
//! use superpipe_verbs::{Mr, Sge};
//! fn late(mr: Mr) -> u32 {
//!     let sge: Sge<'_> = mr.sge(0, 64).expect("it is longer");
//!     let _memory = mr.deregister();
//!     sge.bytes()
//! }
//! ```
//!
//! The same without its fault:
//!
//! ```
//! use superpipe_verbs::{Access, Error, Mr, Pages, Pd, Sge};
//! fn keep(pd: &Pd, memory: Pages) -> Result<(u32, Pages), Error> {
//!     let mr = Mr::register(pd, memory, Access::Local)?;
//!     let sge: Sge<'_> = mr.sge(0, 64).expect("it is longer");
//!     let bytes = sge.bytes();
//!     let memory = mr.deregister().map_err(|(error, _mr)| error)?;
//!     Ok((bytes, memory))
//! }
//! ```

use super::error::Error;
use super::pd::Pd;
use super::registration::{Access, Lkey, Registration, Rkey, Sge};
use crate::memory::{Memory, Pages};
use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::{self, NonNull};

/// Registered memory.
pub struct Mr<M: Memory = Pages> {
    registration: Registration,
    /// released after deregistration; never if that failed
    memory: ManuallyDrop<M>,
}

impl<M: Memory> Mr<M> {
    /// Registers `memory`, which makes it resident. If that fails, the memory is released.
    ///
    /// # Errors
    /// RLIMIT_MEMLOCK or the device allows no more pinned memory.
    pub fn register(pd: &Pd, memory: M, access: Access) -> Result<Self, Error> {
        // SAFETY: 1. and 2. `Memory` promises it until the value is dropped, and the region that is returned drops the value, or gives
        // it back, only after a deregistration.
        let registration = unsafe { Registration::register(pd, memory.as_ptr(), memory.len(), access) }?;
        Ok(Self { registration, memory: ManuallyDrop::new(memory) })
    }

    /// Deregisters, and gives the memory back, which no NIC uses any more. A work request that is still posted and names the region
    /// fails, and its QP with it; so does a write of the peer that arrives later.
    ///
    /// # Errors
    /// The device does not give the memory up. The region comes back with the error and is as before: the call may be tried again,
    /// and dropping the region tries it once more and leaks the memory if that fails, too.
    pub fn deregister(mut self) -> Result<M, (Error, Self)> {
        // SAFETY: 1. A region whose deregistration succeeded ends here or in Drop.
        if let Err(error) = unsafe { self.registration.deregister() } {
            return Err((error, self));
        }
        let mut ended = ManuallyDrop::new(self);
        // SAFETY: `ended` is not dropped, and this field of it is not used again.
        drop(unsafe { ptr::read(&raw const ended.registration) });
        // SAFETY: `ended` is not dropped, and this field of it is not used again.
        Ok(unsafe { ManuallyDrop::take(&mut ended.memory) })
    }

    /// Returns the address of the first byte, valid for [`len`](Self::len) bytes until the region is dropped. The NIC may write there at
    /// any time.
    #[must_use]
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.registration.start()
    }

    /// Returns its length in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a region is never empty")]
    pub fn len(&self) -> usize {
        self.registration.len()
    }

    /// Returns its key for our own NIC.
    #[must_use]
    pub fn lkey(&self) -> Lkey {
        self.registration.lkey()
    }

    /// Returns its key for the NIC of a peer.
    #[must_use]
    pub fn rkey(&self) -> Rkey {
        self.registration.rkey()
    }

    /// Returns its address for the NIC of a peer.
    #[must_use]
    pub fn remote_addr(&self) -> u64 {
        self.registration.remote_addr()
    }

    /// Returns `bytes` bytes from `at` on; none if they are not all inside.
    #[must_use]
    #[inline]
    pub fn sge(&self, at: usize, bytes: u32) -> Option<Sge<'_>> {
        self.registration.sge(at, bytes)
    }
}

impl<M: Memory> fmt::Debug for Mr<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mr")
            .field("bytes", &self.len())
            .field("lkey", &self.lkey())
            .field("rkey", &self.rkey())
            .finish_non_exhaustive()
    }
}

impl<M: Memory> Drop for Mr<M> {
    fn drop(&mut self) {
        // SAFETY: 1. A region whose deregistration succeeded ends here or in `deregister`, which does not drop it.
        if unsafe { self.registration.deregister() }.is_ok() {
            // SAFETY: it is dropped here only, and not used again; the NIC has given it up.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
    }
}
