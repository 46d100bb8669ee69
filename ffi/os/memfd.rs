//! Memfds: made sealable, and with all pages allocated, so that no access fails later.

use core::ffi::CStr;
use core::mem::MaybeUninit;
use core::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fallocate, memfd_create};
use rustix::io::Errno;

use super::bytes::Bytes;
use super::error::OsError;
use super::limits::{Resource, soft_limit};
use super::page::page_bytes;

/// Seals of memory whose size does not change.
pub(crate) const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);
/// Bytes reserved per call. Before Linux 6.10 a signal undoes all of a call, so each call is short.
pub(crate) const SLAB_BYTES: u64 = 2 << 20;
/// Limit of consecutive signals without a reserved page between them: then they come faster than a page can be reserved, and would go on
/// for ever.
const INTERRUPTS_MAX: u32 = 10_000;

pub(crate) const NOT_SEALED: &str = "cannot seal a shared segment";

pub(crate) fn memfd(name: &CStr) -> Result<OwnedFd, OsError> {
    call_memfd(|flags| memfd_create(name, flags)).map_err(|errno| {
        OsError::of(errno, "cannot make a memfd").with_remedy("raise the limit of open files (ulimit -n)")
    })
}

/// Makes a memfd that can never be executed, or, before Linux 6.3, one without that seal.
pub(crate) fn call_memfd<T>(make: impl Fn(MemfdFlags) -> Result<T, Errno>) -> Result<T, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match make(flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => make(flags),
        made => made,
    }
}

/// Checks the limit of file sizes, which holds for a memfd, too: beyond it the kernel ends the process by SIGXFSZ.
pub(crate) fn check_file_size(size: u64) -> Result<(), OsError> {
    let Some(limit) = soft_limit(Resource::FileBytes).filter(|limit| *limit < size) else { return Ok(()) };
    let (size, limit) = (Bytes(size), Bytes(limit));
    Err(OsError::new(libc::EFBIG, format!("cannot make a shared segment of {size}: RLIMIT_FSIZE is {limit}"))
        .with_remedy("raise it (ulimit -f)"))
}

/// Refuses more than the machine has. A memfd has no limit of its own, and would end in the OOM killer.
pub(crate) fn check_machine(size: u64) -> Result<(), OsError> {
    if size > machine_bytes() { Err(not_reserved(Errno::NOMEM, size)) } else { Ok(()) }
}

fn not_reserved(errno: Errno, size: u64) -> OsError {
    let remedy = if errno == Errno::INTR {
        "let signals come less often"
    } else {
        "free memory, or raise the container's memory limit"
    };
    OsError::of(errno, format!("cannot reserve {} of shared memory", Bytes(size))).with_remedy(remedy)
}

/// Allocates every page of the file, or fails without having touched it.
pub(crate) fn reserve(fd: BorrowedFd<'_>, size: u64) -> Result<(), OsError> {
    check_machine(size)?;
    reserve_part(fd, 0..size)
}

/// Allocates the pages of a part of the file, whose size was checked.
pub(crate) fn reserve_part(fd: BorrowedFd<'_>, part: Range<u64>) -> Result<(), OsError> {
    let size = part.end - part.start;
    let allocate = |at: u64, len: u64| fallocate(fd, FallocateFlags::empty(), part.start + at, len);
    fill(size, allocate).map_err(|errno| not_reserved(errno, size))
}

/// Allocates `bytes` in slabs. A slab that a signal interrupts may have been undone, so the next is half as long, down to a
/// page, which no kernel interrupts once it has begun.
pub(crate) fn fill(bytes: u64, mut allocate: impl FnMut(u64, u64) -> Result<(), Errno>) -> Result<(), Errno> {
    let (mut at, mut slab, mut interrupts) = (0, SLAB_BYTES, 0);
    while at < bytes {
        let len = slab.min(bytes - at);
        match allocate(at, len) {
            Ok(()) => {
                at += len;
                slab = (slab * 2).min(SLAB_BYTES);
                interrupts = 0;
            }
            Err(Errno::INTR) if interrupts < INTERRUPTS_MAX => {
                slab = (slab / 2).max(page_bytes() as u64);
                interrupts += 1;
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Returns the bytes of memory that this machine has, used or not.
///
/// By libc: rustix relies on the call not failing, and a seccomp filter can make it fail.
pub(crate) fn machine_bytes() -> u64 {
    let mut info = MaybeUninit::<libc::sysinfo>::uninit();
    // SAFETY: the pointer is to a sysinfo of ours.
    if unsafe { libc::sysinfo(info.as_mut_ptr()) } != 0 {
        return u64::MAX;
    }
    // SAFETY: sysinfo returned 0, so it has filled it.
    let info = unsafe { info.assume_init() };
    info.totalram.saturating_mul(u64::from(info.mem_unit))
}
