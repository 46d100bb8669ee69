//! A memory region: memory that the NIC may read and write, owned by its registration.
//!
//! The memory is reached by raw pointer only, since the NIC may write it at any time; nobody gets a reference:
//!
//! ```compile_fail
//! use superpipe_verbs::Mr;
//! fn bytes(mr: &mut Mr) -> &mut [u8] { mr }
//! ```
//!
//! The region takes the memory and does not give it back, so that it cannot be unmapped while the NIC has its address:
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
//! The same without its fault:
//!
//! ```
//! use superpipe_verbs::{Access, Error, Mr, Pages, Pd, Sge};
//! fn keep(pd: &Pd, memory: Pages) -> Result<u32, Error> {
//!     let mr = Mr::register(pd, memory, Access::Local)?;
//!     let sge: Sge<'_> = mr.sge(0, 64).expect("it is longer");
//!     let bytes = sge.bytes();
//!     drop(mr);
//!     Ok(bytes)
//! }
//! ```

use super::error::Error;
use super::pd::Pd;
use super::return_code::{errno_of, made};
use super::sys::{ibv_access_flags, ibv_mr, ibv_sge};
use crate::bytes::Bytes;
use crate::memory::{Memory, Pages};
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

/// Access to a region. Relaxed ordering is not offered, since it breaks polling for flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// Our own NIC reads and writes it: for sending and receiving.
    Local,
    /// The peer writes it, too.
    RemoteWrite,
}

/// Key of a region for our own NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lkey(pub u32);

/// Key of a region for the NIC of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rkey(pub u32);

/// Registered memory.
pub struct Mr<M: Memory = Pages> {
    raw: NonNull<ibv_mr>,
    /// released after deregistration; never if that failed
    memory: ManuallyDrop<M>,
    lkey: Lkey,
    rkey: Rkey,
    pd: Pd,
}

/// A part of a region, for a work request.
#[derive(Debug, Clone, Copy)]
pub struct Sge<'mr> {
    raw: ibv_sge,
    mr: PhantomData<&'mr ()>,
}

// SAFETY: the raw pointer is to the library's struct, whose functions may be called from any thread (verbs(7)), and which
// is not read after it was made. `Memory` is Send.
unsafe impl<M: Memory> Send for Mr<M> {}
// SAFETY: `&Mr` gives out addresses and keys, which never change.
unsafe impl<M: Memory> Sync for Mr<M> {}

impl<M: Memory> Mr<M> {
    /// Registers `memory`, which makes it resident. If that fails, the memory is released.
    ///
    /// # Errors
    /// RLIMIT_MEMLOCK or the device allows no more pinned memory.
    pub fn register(pd: &Pd, memory: M, access: Access) -> Result<Self, Error> {
        let (start, bytes) = (memory.as_ptr(), memory.len());
        // SAFETY: the domain lives, and `Memory` promises this many bytes. The region that is returned owns them, and releases
        // them only once the NIC has given them up.
        let raw = unsafe {
            pd.context().verbs().required.ibv_reg_mr(pd.raw(), start.as_ptr().cast(), bytes, access.raw())
        };
        let raw = made(raw, "ibv_reg_mr", || format!("register {}", Bytes(bytes as u64)))?;
        // SAFETY: the library has just made it; the keys never change.
        let (lkey, rkey) = unsafe { ((*raw.as_ptr()).lkey, (*raw.as_ptr()).rkey) };
        let memory = ManuallyDrop::new(memory);
        Ok(Self { raw, memory, lkey: Lkey(lkey), rkey: Rkey(rkey), pd: pd.clone() })
    }

    /// Returns the address of the first byte, valid for [`len`](Self::len) bytes until the region is dropped. The NIC may write there at
    /// any time.
    #[must_use]
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.memory.as_ptr()
    }

    /// Returns its length in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a region is never empty")]
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Returns its key for our own NIC.
    #[must_use]
    pub fn lkey(&self) -> Lkey {
        self.lkey
    }

    /// Returns its key for the NIC of a peer.
    #[must_use]
    pub fn rkey(&self) -> Rkey {
        self.rkey
    }

    /// Returns its address for the NIC of a peer.
    #[must_use]
    pub fn remote_addr(&self) -> u64 {
        self.as_ptr().addr().get() as u64
    }

    /// Returns `bytes` bytes from `at` on; none if they are not all inside.
    #[must_use]
    #[inline]
    pub fn sge(&self, at: usize, bytes: u32) -> Option<Sge<'_>> {
        let end = at.checked_add(usize::try_from(bytes).ok()?)?;
        (end <= self.len()).then(|| Sge {
            raw: ibv_sge { addr: self.remote_addr() + at as u64, length: bytes, lkey: self.lkey.0 },
            mr: PhantomData,
        })
    }
}

impl<M: Memory> fmt::Debug for Mr<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mr")
            .field("bytes", &self.len())
            .field("lkey", &self.lkey)
            .field("rkey", &self.rkey)
            .finish_non_exhaustive()
    }
}

impl<M: Memory> Drop for Mr<M> {
    fn drop(&mut self) {
        // SAFETY: it was made here, and is dropped once. When the call succeeds the NIC has given the memory up.
        let answer = unsafe { self.pd.context().verbs().required.ibv_dereg_mr(self.raw.as_ptr()) };
        if errno_of(answer).is_ok() {
            // SAFETY: it is dropped here only, and not used again.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
    }
}

impl Access {
    fn raw(self) -> i32 {
        let local = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0;
        let flags = match self {
            Self::Local => local,
            Self::RemoteWrite => local | ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0,
        };
        flags.cast_signed()
    }
}

impl Sge<'_> {
    /// Returns its length in bytes.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> u32 {
        self.raw.length
    }

    pub(super) fn raw(&self) -> ibv_sge {
        self.raw
    }
}
