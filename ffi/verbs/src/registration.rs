//! A registration of memory with a device: its access, its keys, and the parts of it that work requests name. [`Mr`](crate::Mr),
//! [`SourceMr`](crate::SourceMr) and [`DestinationMr`](crate::DestinationMr) are made of it, and decide who owns the memory.

use super::error::Error;
use super::pd::Pd;
use super::return_code::{done, failed, made};
use super::sys::{ibv_access_flags, ibv_mr, ibv_sge};
use crate::bytes::Bytes;
use core::marker::PhantomData;
use core::ptr::NonNull;

/// Access to a region, as flags of ibv_reg_mr(3). Relaxed ordering is not offered, since it breaks polling for flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// Our own NIC reads it and no NIC writes it: the source of a SEND or RDMA write. No flag is set, because local read access is
    /// always enabled. The memory may be read-only.
    LocalRead,
    /// Our own NIC reads and writes it: for sending and receiving. `IBV_ACCESS_LOCAL_WRITE`.
    Local,
    /// The peer writes it, too: the destination of RDMA writes. `IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE`, because the
    /// second flag requires the first.
    RemoteWrite,
}

/// Key of a region for our own NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lkey(pub u32);

/// Key of a region for the NIC of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rkey(pub u32);

/// A part of a region, for a work request.
#[derive(Debug, Clone, Copy)]
pub struct Sge<'mr> {
    raw: ibv_sge,
    is_writable: bool,
    mr: PhantomData<&'mr ()>,
}

/// Memory that a device knows. Its owner deregisters it; dropping it does not.
#[derive(Debug)]
pub(super) struct Registration {
    raw: NonNull<ibv_mr>,
    start: NonNull<u8>,
    len: usize,
    access: Access,
    lkey: Lkey,
    rkey: Rkey,
    pd: Pd,
}

// SAFETY: `raw` is of the library, whose functions may be called from any thread (verbs(7)), and is not read after it was made.
// `start` is never dereferenced here: it is an address to give out. The other fields are Send.
unsafe impl Send for Registration {}
// SAFETY: `&Registration` gives out addresses and keys, which never change.
unsafe impl Sync for Registration {}

impl Registration {
    /// Registers `len` bytes from `start` on, which makes them resident.
    ///
    /// # Errors
    /// RLIMIT_MEMLOCK or the device allows no more pinned memory, or `len` is 0.
    ///
    /// # Safety
    /// Until [`deregister`](Self::deregister) has succeeded
    /// 1. these bytes are mapped and readable and, unless `access` is [`Access::LocalRead`], writable;
    /// 2. nobody uses a reference to them, except shared ones if `access` is [`Access::LocalRead`].
    pub(super) unsafe fn register(
        pd: &Pd,
        start: NonNull<u8>,
        len: usize,
        access: Access,
    ) -> Result<Self, Error> {
        let doing = || format!("register {}", Bytes(len as u64));
        if len == 0 {
            // The kernel would pin the page of an address where nothing is.
            return Err(failed(libc::EINVAL, "ibv_reg_mr", doing()));
        }
        // SAFETY: the domain lives, and the caller promises that the NIC may use these bytes in this way.
        let raw = unsafe {
            pd.context().verbs().required.ibv_reg_mr(pd.raw(), start.as_ptr().cast(), len, access.raw())
        };
        let raw = made(raw, "ibv_reg_mr", doing)?;
        // SAFETY: the library has just made it; the keys never change.
        let (lkey, rkey) = unsafe { ((*raw.as_ptr()).lkey, (*raw.as_ptr()).rkey) };
        Ok(Self { raw, start, len, access, lkey: Lkey(lkey), rkey: Rkey(rkey), pd: pd.clone() })
    }

    /// Deregisters. After a success the NIC has given the memory up; after an error it may still use it, and the call may be tried
    /// again.
    ///
    /// # Errors
    /// The device refuses, or is gone.
    ///
    /// # Safety
    /// 1. The call has not succeeded before.
    pub(super) unsafe fn deregister(&mut self) -> Result<(), Error> {
        // SAFETY: it was made here, and the caller promises that it was not destroyed since.
        let answer = unsafe { self.pd.context().verbs().required.ibv_dereg_mr(self.raw.as_ptr()) };
        done(answer, "ibv_dereg_mr", || format!("deregister {}", Bytes(self.len as u64)))
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn lkey(&self) -> Lkey {
        self.lkey
    }

    pub(super) fn rkey(&self) -> Rkey {
        self.rkey
    }

    pub(super) fn remote_addr(&self) -> u64 {
        self.start.addr().get() as u64
    }

    /// Returns `bytes` bytes from `at` on; none if they are not all inside.
    #[inline]
    pub(super) fn sge(&self, at: usize, bytes: u32) -> Option<Sge<'_>> {
        let end = at.checked_add(usize::try_from(bytes).ok()?)?;
        (end <= self.len).then(|| Sge {
            raw: ibv_sge { addr: self.remote_addr() + at as u64, length: bytes, lkey: self.lkey.0 },
            is_writable: self.access != Access::LocalRead,
            mr: PhantomData,
        })
    }
}

impl Access {
    fn raw(self) -> i32 {
        let local = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0;
        let flags = match self {
            Self::LocalRead => 0,
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

    /// Returns true if our own NIC may write there.
    #[inline]
    pub(super) fn is_writable(&self) -> bool {
        self.is_writable
    }
}
