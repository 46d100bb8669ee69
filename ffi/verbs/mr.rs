//! A memory region: memory that the NIC may read and write, owned by its registration.
//!
//! The memory is reached by raw pointer only, since the NIC may write it at any time; nobody gets a reference:
//!
//! ```compile_fail
//! use superpipe::verbs::Mr;
//! fn bytes(mr: &mut Mr) -> &mut [u8] { mr }
//! ```
//!
//! It goes into the region and does not come out, so that it cannot be unmapped while the NIC has its address:
//!
//! ```compile_fail,E0382
//! use superpipe::{os::Mapping, verbs::{Access, Error, Mr, Pd}};
//! fn keep(pd: &Pd, memory: Mapping) -> Result<Mr, Error> {
//!     let mr = Mr::register(pd, memory, Access::Local)?;
//!     drop(memory);
//!     Ok(mr)
//! }
//! ```
//!
//! What is posted borrows the region until it was posted:
//!
//! ```compile_fail,E0505
//! use superpipe::verbs::{Mr, Sge};
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
//! use superpipe::{os::Mapping, verbs::{Access, Error, Mr, Pd, Sge}};
//! fn keep(pd: &Pd, memory: Mapping) -> Result<u32, Error> {
//!     let mr = Mr::register(pd, memory, Access::Local)?;
//!     let sge: Sge<'_> = mr.sge(0, 64).expect("it is longer");
//!     let bytes = sge.bytes();
//!     drop(mr);
//!     Ok(bytes)
//! }
//! ```

use super::answer::{errno_of, made};
use super::error::Error;
use super::pd::Pd;
use super::sys::{ibv_access_flags, ibv_mr, ibv_sge};
use crate::os::{Bytes, Mapping};
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

/// Who may do what with a region. The least that serves; relaxed ordering is not among it, since flags are polled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Our own NIC reads it and writes it: what is sent from, and received into.
    Local,
    /// The peer writes it as well.
    RemoteWrite,
}

/// What our own NIC knows a region by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lkey(pub u32);

/// What a peer's NIC names a region by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rkey(pub u32);

/// A registered mapping.
#[derive(Debug)]
pub struct Mr {
    raw: NonNull<ibv_mr>,
    /// unmapped after deregistration; never where that failed
    memory: ManuallyDrop<Mapping>,
    lkey: Lkey,
    rkey: Rkey,
    pd: Pd,
}

/// A part of a region, to be posted.
#[derive(Debug, Clone, Copy)]
pub struct Sge<'mr> {
    raw: ibv_sge,
    mr: PhantomData<&'mr Mr>,
}

// SAFETY: the raw pointer is to the library's struct, whose functions may be called from any thread (verbs(7)), and which
// is not read after it was made. The memory is a `Mapping`, which is Send.
unsafe impl Send for Mr {}
// SAFETY: `&Mr` gives out addresses and keys, which never change.
unsafe impl Sync for Mr {}

impl Mr {
    /// Registers `memory`, which makes it resident. Where that fails it is unmapped.
    ///
    /// # Errors
    /// When more would be pinned than RLIMIT_MEMLOCK or the device allows.
    pub fn register(pd: &Pd, memory: Mapping, access: Access) -> Result<Self, Error> {
        let (start, bytes) = (memory.as_ptr(), memory.len());
        // SAFETY: the domain lives, and the mapping is of this length. It is owned by what is returned, which unmaps it
        // only once the NIC has given it up.
        let raw = unsafe {
            pd.context().verbs().required.ibv_reg_mr(pd.raw(), start.as_ptr().cast(), bytes, access.raw())
        };
        let raw = made(raw, "ibv_reg_mr", || format!("register {}", Bytes(bytes as u64)))?;
        // SAFETY: the library has just made it; the keys never change.
        let (lkey, rkey) = unsafe { ((*raw.as_ptr()).lkey, (*raw.as_ptr()).rkey) };
        let memory = ManuallyDrop::new(memory);
        Ok(Self { raw, memory, lkey: Lkey(lkey), rkey: Rkey(rkey), pd: pd.clone() })
    }

    /// The first byte: valid for [`len`](Self::len) bytes until the region is dropped. The NIC may write there at any time.
    #[must_use]
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.memory.as_ptr()
    }

    /// Bytes of it, whole pages.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a region is never empty")]
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// What our own NIC knows it by.
    #[must_use]
    pub fn lkey(&self) -> Lkey {
        self.lkey
    }

    /// What the peer's NIC names it by.
    #[must_use]
    pub fn rkey(&self) -> Rkey {
        self.rkey
    }

    /// The address that the peer's NIC names it by.
    #[must_use]
    pub fn remote_addr(&self) -> u64 {
        self.as_ptr().addr().get() as u64
    }

    /// `bytes` bytes from `at` on. None where they are not all inside.
    #[must_use]
    pub fn sge(&self, at: usize, bytes: u32) -> Option<Sge<'_>> {
        let end = at.checked_add(usize::try_from(bytes).ok()?)?;
        (end <= self.len()).then(|| Sge {
            raw: ibv_sge { addr: self.remote_addr() + at as u64, length: bytes, lkey: self.lkey.0 },
            mr: PhantomData,
        })
    }
}

impl Drop for Mr {
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
    /// Bytes of it.
    #[must_use]
    pub fn bytes(&self) -> u32 {
        self.raw.length
    }

    pub(super) fn raw(&self) -> ibv_sge {
        self.raw
    }
}
