//! Memory of the caller that is registered while a closure runs, for protocols that register as they transfer.
//!
//! As with [`std::thread::scope`], the end depends on no guard that a caller could forget: the closure gets a reference to the region,
//! never the region, and the function that registered deregisters before it returns or unwinds.

use super::error::Error;
use super::pd::Pd;
#[cfg(doc)]
use super::qp::Qp;
use super::registration::{Access, Registration, Rkey, Sge};
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use std::io;
use std::os::fd::AsFd;
use std::process;

/// A borrowed slice that our own NIC reads, the source of SENDs and RDMA writes, while a closure runs.
///
/// [`scope`](Self::scope) registers the slice, calls the closure with the region, and deregisters before it returns, also if the closure
/// panics. What follows is true of [`DestinationMr`], too.
///
/// **If deregistration fails, the process aborts**, whatever the cause (EBUSY, or EIO of a device that was removed): the NIC may still use
/// memory that its owner is about to get back. The reason is written to stderr. An [`Mr`](crate::Mr) owns its memory and leaks it instead.
/// Where devices are removed from running hosts, the environment variable `RDMAV_ALLOW_DISASSOC_DESTROY` makes rdma-core report success
/// for a removed device.
///
/// **If the transfer fails, the caller fails the QP**, inside the closure: [`Qp::fail`] after a post or a completion with an error, after
/// a timeout, and after a loss of the peer; a QP that cannot be failed is dropped. For a destination, these are the QPs by which the peer
/// writes to it. A closure that may panic while something is in flight needs a guard of its own that fails the QP.
///
/// The memory is safe without that, since the NIC uses none of it after deregistration: a work request that is still posted completes
/// with a local protection error (with rxe, `IBV_WC_LOC_QP_OP_ERR`), and a late write of the peer with a remote access error; each
/// fails its QP. But a device may give the same keys to a later region, which an old work request would then read, and an old write of
/// the peer change.
///
/// **Fork**: on a kernel for which `ibv_is_fork_initialized(3)` does not return `IBV_FORK_UNNEEDED`, a process that forks during the
/// closure may see other pages than the NIC.
///
/// ```
/// use superpipe_verbs::{Cq, Pd, Qp, RemoteAddr, SendFlags, Sge, SourceMr, Wc};
/// type Result<T> = core::result::Result<T, Box<dyn std::error::Error>>;
///
/// /// Writes `bytes` to the peer without a copy. Nothing else is in flight on `qp`.
/// fn write(pd: &Pd, qp: &mut Qp, cq: &Cq, bytes: &[u8], to: RemoteAddr) -> Result<()> {
///     SourceMr::scope(pd, bytes, |mr| {
///         let all = mr.sge(0, u32::try_from(bytes.len())?).ok_or("the region is shorter")?;
///         let written = transfer(qp, cq, all, to);
///         if written.is_err() {
///             qp.fail()?;
///         }
///         written
///     })?
/// }
///
/// fn transfer(qp: &mut Qp, cq: &Cq, from: Sge<'_>, to: RemoteAddr) -> Result<()> {
///     let mut batch = qp.batch();
///     batch.write(1, from, to, SendFlags::SIGNALED).map_err(|_| "the batch is full")?;
///     batch.post()?;
///     let mut done = [Wc::default()];
///     while cq.poll(&mut done)? == 0 {}
///     Ok(done[0].result()?)
/// }
/// ```
///
/// The region does not outlive the closure, nor does an SGE or a batch that names it:
///
/// ```compile_fail,E0521
/// use superpipe_verbs::{Error, Pd, SourceMr};
/// fn escapes(pd: &Pd, bytes: &[u8]) -> Result<(), Error> {
///     let mut kept = None;
///     SourceMr::scope(pd, bytes, |mr| kept = Some(mr))
/// }
/// ```
///
/// ```compile_fail
/// use superpipe_verbs::{Error, Pd, SourceMr};
/// fn escapes(pd: &Pd, bytes: &[u8]) -> Result<bool, Error> {
///     let sge = SourceMr::scope(pd, bytes, |mr| mr.sge(0, 64))?;
///     Ok(sge.is_some())
/// }
/// ```
///
/// ```compile_fail,E0521
/// use superpipe_verbs::{Error, Pd, Qp, SendFlags, SourceMr};
/// fn escapes(pd: &Pd, qp: &mut Qp, bytes: &[u8]) -> Result<usize, Error> {
///     let mut batch = qp.batch();
///     SourceMr::scope(pd, bytes, |mr| batch.send(1, mr.sge(0, 64).expect("longer"), SendFlags::SIGNALED).is_ok())?;
///     Ok(batch.len())
/// }
/// ```
///
/// Nobody can forget it:
///
/// ```compile_fail,E0507
/// use superpipe_verbs::{Error, Pd, SourceMr};
/// fn forgets(pd: &Pd, bytes: &[u8]) -> Result<(), Error> {
///     SourceMr::scope(pd, bytes, |mr| core::mem::forget(*mr))
/// }
/// ```
///
/// Nobody can change its bytes, while reading them is fine:
///
/// ```compile_fail,E0500
/// use superpipe_verbs::{Error, Pd, SourceMr};
/// fn changes(pd: &Pd, bytes: &mut Vec<u8>) -> Result<(), Error> {
///     SourceMr::scope(pd, bytes, |_| bytes.clear())
/// }
/// ```
#[derive(Debug)]
pub struct SourceMr(Borrowed);

/// A borrowed slice that the peer writes, the destination of its RDMA writes, while a closure runs. [`SourceMr`] says when the process
/// aborts, and who fails the QP.
///
/// ```
/// use superpipe_verbs::{DestinationMr, Error, Pd, RemoteAddr};
///
/// /// Returns true if the peer has filled `bytes`. `fill` tells the peer the place, waits until the peer says that it has written, and
/// /// fails the QP if that does not come.
/// fn read(pd: &Pd, bytes: &mut [u8], fill: impl FnOnce(RemoteAddr) -> bool) -> Result<bool, Error> {
///     DestinationMr::scope(pd, bytes, |mr| fill(RemoteAddr { addr: mr.remote_addr(), rkey: mr.rkey() }))
/// }
/// ```
///
/// Nobody looks at the slice or changes it while the peer may write it:
///
/// ```compile_fail,E0502
/// use superpipe_verbs::{DestinationMr, Error, Pd};
/// fn looks(pd: &Pd, bytes: &mut [u8]) -> Result<u8, Error> {
///     DestinationMr::scope(pd, bytes, |_| bytes[0])
/// }
/// ```
///
/// ```compile_fail,E0500
/// use superpipe_verbs::{DestinationMr, Error, Pd};
/// fn changes(pd: &Pd, bytes: &mut Vec<u8>) -> Result<(), Error> {
///     DestinationMr::scope(pd, bytes, |_| bytes.clear())
/// }
/// ```
///
/// The region does not outlive the closure, and nobody can forget it:
///
/// ```compile_fail,E0521
/// use superpipe_verbs::{DestinationMr, Error, Pd};
/// fn escapes(pd: &Pd, bytes: &mut [u8]) -> Result<(), Error> {
///     let mut kept = None;
///     DestinationMr::scope(pd, bytes, |mr| kept = Some(mr))
/// }
/// ```
///
/// ```compile_fail,E0507
/// use superpipe_verbs::{DestinationMr, Error, Pd};
/// fn forgets(pd: &Pd, bytes: &mut [u8]) -> Result<(), Error> {
///     DestinationMr::scope(pd, bytes, |mr| core::mem::forget(*mr))
/// }
/// ```
///
/// Initialized memory cannot become uninitialized, since [`scope_uninit`](Self::scope_uninit) takes no such slice:
///
/// ```compile_fail,E0308
/// use superpipe_verbs::{DestinationMr, Error, Pd};
/// fn mistakes(pd: &Pd, bytes: &mut [u8]) -> Result<(), Error> {
///     DestinationMr::scope_uninit(pd, bytes, |_| ())
/// }
/// ```
#[derive(Debug)]
pub struct DestinationMr(Borrowed);

/// A registration of borrowed memory, which ends before the borrow does, or the process ends.
#[derive(Debug)]
pub(super) struct Borrowed(pub(super) Registration);

impl SourceMr {
    /// Registers `memory` with [`Access::LocalRead`], calls `work` with the region, deregisters, and returns the result of `work`. The
    /// memory may be read-only.
    ///
    /// If `work` panics, the panic goes on after deregistration. If deregistration fails, the process aborts.
    ///
    /// # Errors
    /// RLIMIT_MEMLOCK or the device allows no more pinned memory, or `memory` is empty. `work` was not called.
    pub fn scope<T>(pd: &Pd, memory: &[u8], work: impl FnOnce(&Self) -> T) -> Result<T, Error> {
        // SAFETY: 1. The slice is borrowed until this function has returned or unwound, and `region` is dropped before: it is a local
        // that `work` gets by reference. 2. The borrow is shared.
        let registration = unsafe {
            Registration::register(pd, NonNull::from(memory).cast(), memory.len(), Access::LocalRead)
        };
        let region = Self(Borrowed(registration?));
        Ok(work(&region))
    }

    /// Returns its length in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a region is never empty")]
    pub fn len(&self) -> usize {
        self.0.0.len()
    }

    /// Returns `bytes` bytes from `at` on; none if they are not all inside.
    #[must_use]
    #[inline]
    pub fn sge(&self, at: usize, bytes: u32) -> Option<Sge<'_>> {
        self.0.0.sge(at, bytes)
    }
}

impl DestinationMr {
    /// Registers `memory` with [`Access::RemoteWrite`], calls `work` with the region, deregisters, and returns the result of `work`.
    ///
    /// If `work` panics, the panic goes on after deregistration. If deregistration fails, the process aborts.
    ///
    /// # Errors
    /// RLIMIT_MEMLOCK or the device allows no more pinned memory, or `memory` is empty. `work` was not called.
    pub fn scope<T>(pd: &Pd, memory: &mut [u8], work: impl FnOnce(&Self) -> T) -> Result<T, Error> {
        let len = memory.len();
        // SAFETY: the NIC writes bytes, so that the slice stays initialized; the caller keeps it borrowed for as long.
        unsafe { Self::scope_raw(pd, NonNull::from(memory).cast(), len, work) }
    }

    /// Does the same as [`scope`](Self::scope) with memory that need not be initialized. The caller knows which bytes the peer has
    /// written, and that these are initialized.
    ///
    /// # Errors
    /// As [`scope`](Self::scope).
    pub fn scope_uninit<T>(
        pd: &Pd,
        memory: &mut [MaybeUninit<u8>],
        work: impl FnOnce(&Self) -> T,
    ) -> Result<T, Error> {
        let len = memory.len();
        // SAFETY: the region gives out no SGE, so that our own NIC reads no byte of it; the caller keeps it borrowed for as long.
        unsafe { Self::scope_raw(pd, NonNull::from(memory).cast(), len, work) }
    }

    /// Does the work of both.
    ///
    /// # Safety
    /// 1. `len` bytes from `start` on are mutably borrowed until the call has returned or unwound.
    unsafe fn scope_raw<T>(
        pd: &Pd,
        start: NonNull<u8>,
        len: usize,
        work: impl FnOnce(&Self) -> T,
    ) -> Result<T, Error> {
        // SAFETY: 1. The caller promises it, and `region` is dropped before: it is a local that `work` gets by reference.
        // 2. The borrow is a mutable one, and what it was made from is not used meanwhile.
        let registration = unsafe { Registration::register(pd, start, len, Access::RemoteWrite) };
        let region = Self(Borrowed(registration?));
        Ok(work(&region))
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
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        // SAFETY: 1. It is called here only, once.
        if let Err(error) = unsafe { self.0.deregister() } {
            end_process(&error);
        }
    }
}

/// Writes the reason to stderr, past its lock, which another thread may hold, and aborts.
#[cold]
fn end_process(error: &Error) -> ! {
    let reason = format!(
        "superpipe-verbs: {error}; the process ends, because the NIC may still use this memory, which its owner gets back\n"
    );
    let _ = rustix::io::write(io::stderr().as_fd(), reason.as_bytes());
    process::abort()
}
