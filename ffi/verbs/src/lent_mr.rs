//! Memory that is registered by its address, for a caller that keeps the borrow itself and beyond one function.

use super::error::Error;
use super::pd::Pd;
use super::registration::{Access, Registration, Rkey, Sge};
use super::scoped_mr::Borrowed;
use core::mem::ManuallyDrop;
use core::ptr::{self, NonNull};

/// Registered memory of which the caller promises that it stays there.
///
/// [`Mr`](crate::Mr) owns its memory, and [`SourceMr`](crate::SourceMr) and [`DestinationMr`](crate::DestinationMr) borrow it while a closure
/// runs. This is for a library that lends memory to a connection and takes it back in another call.
///
/// **If a drop cannot deregister, the process aborts**, as with [`SourceMr`](crate::SourceMr): the NIC may still use memory that its owner
/// is about to get back. [`deregister`](Self::deregister) gives the error and the region back instead.
#[derive(Debug)]
pub struct LentMr(Borrowed);

impl LentMr {
    /// Registers `len` bytes from `start` on, which makes them resident.
    ///
    /// # Errors
    /// RLIMIT_MEMLOCK or the device allows no more pinned memory, or `len` is 0.
    ///
    /// # Safety
    /// Until the region was dropped or deregistered, which may be never:
    /// 1. These bytes are mapped and readable and, unless `access` is [`Access::LocalRead`], writable.
    /// 2. While a work request that names the region is under way, nobody uses a reference to these bytes, except shared ones to what a
    ///    NIC only reads.
    /// 3. From the time when the peer is told the key of [`Access::RemoteWrite`] on, nobody uses a reference to these bytes, unless it is
    ///    known otherwise that the peer does not write.
    pub unsafe fn register(pd: &Pd, start: NonNull<u8>, len: usize, access: Access) -> Result<Self, Error> {
        // SAFETY: 1. The caller promises it. 2. A NIC uses these bytes only for a work request or for a peer that knows the key, and the
        // caller promises that nobody has a reference then.
        let registration = unsafe { Registration::register(pd, start, len, access) }?;
        Ok(Self(Borrowed(registration)))
    }

    /// Deregisters. A work request that is still posted and names the region fails, and its QP with it; so does a write of the peer that
    /// arrives later.
    ///
    /// # Errors
    /// The device does not give the memory up. The region comes back with the error, and is as before.
    pub fn deregister(self) -> Result<(), (Error, Self)> {
        let mut region = ManuallyDrop::new(self);
        // SAFETY: 1. A region whose deregistration succeeded ends here, and is not dropped.
        if let Err(error) = unsafe { region.0.0.deregister() } {
            return Err((error, ManuallyDrop::into_inner(region)));
        }
        // SAFETY: `region` is not dropped, and this field of it is not used again.
        drop(unsafe { ptr::read(&raw const region.0.0) });
        Ok(())
    }

    /// Returns its length in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a region is never empty")]
    pub fn len(&self) -> usize {
        self.0.0.len()
    }

    /// Returns its key for the NIC of a peer.
    #[must_use]
    pub fn rkey(&self) -> Rkey {
        self.0.0.rkey()
    }

    /// Returns its address for the NIC of a peer.
    #[must_use]
    pub fn remote_addr(&self) -> u64 {
        self.0.0.remote_addr()
    }

    /// Returns `bytes` bytes from `at` on; none if they are not all inside.
    #[must_use]
    #[inline]
    pub fn sge(&self, at: usize, bytes: u32) -> Option<Sge<'_>> {
        self.0.0.sge(at, bytes)
    }
}
