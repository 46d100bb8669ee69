//! A segment of memory that two processes share: a sealed memfd, reserved and mapped.
//!
//! The maker seals its size (SHRINK, GROW) and maps it before it sends the descriptor. The taker refuses anything else, maps
//! it, and then seals it against all other changes (FUTURE_WRITE, SEAL). From then on nobody can punch a hole into it, map it
//! for writing once more, or change a seal. Pages that are reserved after that stay, so no access can end in SIGBUS, whatever
//! the peer does: [`Segment::hold`]. Only a memfd can have these seals: every other tmpfs file has F_SEAL_SEAL from the start.
//!
//! Before Linux 5.1 there is no FUTURE_WRITE, and a peer can punch holes later. An access fills such a hole with zeros
//! at the cost of this process's memory limits, and ends in SIGBUS or the OOM killer if these are exhausted.
//!
//! References: memfd_create(2), fcntl(2) "File sealing", wire.md 6.4.

use super::ancillary::SentFd;
use crate::os::limits::{Resource, soft_limit};
use crate::os::page::{page_bytes, round_to_pages};
use crate::os::{Bytes, Mapping, OsError};
use core::ffi::CStr;
use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::NonNull;
use core::{error, fmt};
use rustix::fs::{
    FallocateFlags, MemfdFlags, OFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, fcntl_getfl,
    fstat, fstatfs, ftruncate, memfd_create,
};
use rustix::io::{Errno, retry_on_intr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Seals of a segment that is handed over.
pub(super) const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);
/// Seals that are added once both ends have mapped the segment.
const SEALS_HELD: SealFlags = SealFlags::FUTURE_WRITE.union(SealFlags::SEAL);
/// Seals that would make our writable mapping impossible.
const SEALS_WRITE: SealFlags = SealFlags::WRITE.union(SealFlags::FUTURE_WRITE);
/// Bytes reserved per call. Before Linux 6.10 a signal undoes all of a call, so each call is short.
const SLAB_BYTES: u64 = 2 << 20;
/// Limit of consecutive signals without a reserved page between them: then they come faster than a page can be reserved, and would go on
/// for ever.
const INTERRUPTS_MAX: u32 = 10_000;
/// File systems of memfds, as statfs(2) names them.
const TMPFS_MAGIC: u64 = 0x0102_1994;
const HUGETLBFS_MAGIC: u64 = 0x9584_58F6;

/// Memory that a peer maps, too.
#[derive(Debug)]
pub struct Segment {
    mapping: Mapping,
    fd: OwnedFd,
}

/// A descriptor from a peer breaks a rule, which the variant names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SegmentError {
    /// It is on huge pages, which can run out at an access.
    HugePages,
    /// It is something else: a pipe, a socket, a directory, a device, a file of another file system.
    NotMemory,
    /// It is not open for reading and writing.
    NotWritable,
    /// Its size or its seals can still change, or its pages can still be removed.
    Unsealed {
        /// the seals that are missing
        missing: SealFlags,
    },
    /// It has another size than was agreed.
    WrongSize {
        /// the agreed bytes
        agreed: u64,
        /// the file's bytes
        found: u64,
    },
    /// It breaks no rule, and this machine refused.
    Os(OsError),
}

impl Segment {
    /// Makes a segment of `bytes`, rounded up to pages, all of them resident and zero. The name is visible in /proc only.
    ///
    /// # Errors
    /// The kernel refuses: too little memory, or too many open files.
    pub fn create(name: &CStr, bytes: usize) -> Result<Self, OsError> {
        let doing = || format!("cannot make a shared segment of {}", Bytes(bytes as u64));
        let len = round_to_pages(bytes).ok_or_else(|| OsError::new(libc::ENOMEM, doing()))?;
        let size = len as u64;
        check_file_size(size)?;
        let fd = memfd(name)?;
        retry_on_intr(|| ftruncate(&fd, size)).map_err(|errno| OsError::of(errno, doing()))?;
        reserve(fd.as_fd(), size)?;
        fcntl_add_seals(&fd, SEALS).map_err(|errno| OsError::of(errno, NOT_SEALED))?;
        Self::map(fd, len)
    }

    /// Maps a segment that a peer made and has mapped, if it passes every rule, and keeps its pages. Closes the descriptor if
    /// that fails.
    ///
    /// # Errors
    /// The first rule that the segment breaks, or this machine's refusal.
    pub fn adopt(fd: impl Into<SentFd>, agreed_bytes: u64) -> Result<Self, SegmentError> {
        let fd = fd.into();
        // Seals first: a descriptor with seals is memory, so no later call enters a file system that may not respond.
        check_seals(fd.as_fd(), SEALS)?;
        check_kind(fd.as_fd())?;
        check_size(fd.as_fd(), agreed_bytes)?;
        let too_large = |_| SegmentError::Os(OsError::new(libc::ENOMEM, "cannot map a peer's segment"));
        let len = usize::try_from(agreed_bytes).map_err(too_large)?;
        check_machine(agreed_bytes)?;
        // Mapped first: nobody can map it for writing once it is sealed.
        let mapping = Mapping::shared(fd.as_fd(), len)?;
        seal(fd.as_fd())?;
        reserve(fd.as_fd(), agreed_bytes)?;
        mapping.populate()?;
        Ok(Self { mapping, fd: fd.into_owned() })
    }

    /// Keeps the pages of a segment of our own, once the peer has mapped it. Whatever the peer did before, all pages are
    /// resident afterwards, and nobody can remove one.
    ///
    /// # Errors
    /// The peer made that impossible, or this machine refuses.
    pub fn hold(&self) -> Result<(), SegmentError> {
        seal(self.fd.as_fd())?;
        reserve(self.fd.as_fd(), self.len() as u64)?;
        Ok(self.mapping.populate()?)
    }

    /// Returns the address of the first byte, valid for `len` bytes until the segment is dropped. The peer may write there at
    /// any time.
    #[must_use]
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.mapping.as_ptr()
    }

    /// Returns the bytes mapped, a multiple of the page size.
    #[must_use]
    #[cfg_attr(
        feature = "internals",
        expect(clippy::len_without_is_empty, reason = "a segment is never empty")
    )]
    pub fn len(&self) -> usize {
        self.mapping.len()
    }

    /// Returns the descriptor to send to the peer.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Closes the descriptor and keeps the memory.
    #[must_use]
    pub fn into_mapping(self) -> Mapping {
        self.mapping
    }

    fn map(fd: OwnedFd, len: usize) -> Result<Self, OsError> {
        let mapping = Mapping::shared(fd.as_fd(), len)?;
        mapping.populate()?;
        Ok(Self { mapping, fd })
    }
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the peer's segment ")?;
        match self {
            Self::HugePages => f.write_str("lies on huge pages, which cannot be reserved; expected a memfd"),
            Self::NotMemory => f.write_str("is no memory: its descriptor has no seals; expected a memfd"),
            Self::NotWritable => f.write_str("is not open for reading and writing"),
            Self::Unsealed { missing } => {
                f.write_str("can still change: it lacks")?;
                let names = [
                    (SealFlags::SHRINK, " F_SEAL_SHRINK"),
                    (SealFlags::GROW, " F_SEAL_GROW"),
                    (SealFlags::FUTURE_WRITE, " F_SEAL_FUTURE_WRITE"),
                    (SealFlags::SEAL, " F_SEAL_SEAL"),
                ];
                names
                    .iter()
                    .filter(|(seal, _)| missing.contains(*seal))
                    .try_for_each(|(_, name)| f.write_str(name))
            }
            Self::WrongSize { agreed, found } => {
                write!(f, "has {}; agreed were {}", Bytes(*found), Bytes(*agreed))
            }
            Self::Os(error) => write!(f, "was not mapped: {error}"),
        }
    }
}

impl error::Error for SegmentError {}

impl From<OsError> for SegmentError {
    fn from(error: OsError) -> Self {
        Self::Os(error)
    }
}

pub(super) const NOT_SEALED: &str = "cannot seal a shared segment";

pub(super) fn memfd(name: &CStr) -> Result<OwnedFd, OsError> {
    call_memfd(|flags| memfd_create(name, flags)).map_err(|errno| {
        OsError::of(errno, "cannot make a memfd").with_remedy("raise the limit of open files (ulimit -n)")
    })
}

/// Makes a memfd that can never be executed, or, before Linux 6.3, one without that seal.
fn call_memfd<T>(make: impl Fn(MemfdFlags) -> Result<T, Errno>) -> Result<T, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match make(flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => make(flags),
        made => made,
    }
}

/// Checks the limit of file sizes, which holds for a memfd, too: beyond it the kernel ends the process by SIGXFSZ.
pub(super) fn check_file_size(size: u64) -> Result<(), OsError> {
    let Some(limit) = soft_limit(Resource::FileBytes).filter(|limit| *limit < size) else { return Ok(()) };
    let (size, limit) = (Bytes(size), Bytes(limit));
    Err(OsError::new(libc::EFBIG, format!("cannot make a shared segment of {size}: RLIMIT_FSIZE is {limit}"))
        .with_remedy("raise it (ulimit -f)"))
}

/// Refuses more than the machine has. A memfd has no limit of its own, and would end in the OOM killer.
pub(super) fn check_machine(size: u64) -> Result<(), OsError> {
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
pub(super) fn reserve(fd: BorrowedFd<'_>, size: u64) -> Result<(), OsError> {
    check_machine(size)?;
    reserve_part(fd, 0..size)
}

/// Allocates the pages of a part of the file, whose size was checked.
pub(super) fn reserve_part(fd: BorrowedFd<'_>, part: Range<u64>) -> Result<(), OsError> {
    let size = part.end - part.start;
    let allocate = |at: u64, len: u64| fallocate(fd, FallocateFlags::empty(), part.start + at, len);
    fill(size, allocate).map_err(|errno| not_reserved(errno, size))
}

/// Allocates `bytes` in slabs. A slab that a signal interrupts may have been undone, so the next is half as long, down to a
/// page, which no kernel interrupts once it has begun.
pub(super) fn fill(bytes: u64, mut allocate: impl FnMut(u64, u64) -> Result<(), Errno>) -> Result<(), Errno> {
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
fn machine_bytes() -> u64 {
    let mut info = MaybeUninit::<libc::sysinfo>::uninit();
    // SAFETY: the pointer is to a sysinfo of ours.
    if unsafe { libc::sysinfo(info.as_mut_ptr()) } != 0 {
        return u64::MAX;
    }
    // SAFETY: sysinfo returned 0, so it has filled it.
    let info = unsafe { info.assume_init() };
    info.totalram.saturating_mul(u64::from(info.mem_unit))
}

/// Checks the mode and the seals of memory to be written, of which all `wanted` must be there. Enters no file system: the kernel itself
/// refuses what is no memfd.
pub(super) fn check_seals(fd: BorrowedFd<'_>, wanted: SealFlags) -> Result<(), SegmentError> {
    check_seals_for(fd, wanted, true)
}

/// Checks as [`check_seals`] does. Memory that is not to be written may be sealed against that.
pub(super) fn check_seals_for(
    fd: BorrowedFd<'_>,
    wanted: SealFlags,
    is_written: bool,
) -> Result<(), SegmentError> {
    let flags = fcntl_getfl(fd).map_err(no_flags)?;
    let seals = match fcntl_get_seals(fd) {
        Err(Errno::INVAL | Errno::BADF) => return Err(SegmentError::NotMemory),
        seals => seals.map_err(no_flags)?,
    };
    if flags & OFlags::ACCMODE != OFlags::RDWR || (is_written && seals.intersects(SEALS_WRITE)) {
        return Err(SegmentError::NotWritable);
    }
    check_missing(wanted.difference(seals))
}

fn check_missing(missing: SealFlags) -> Result<(), SegmentError> {
    if missing.is_empty() { Ok(()) } else { Err(SegmentError::Unsealed { missing }) }
}

/// Checks the file system of a descriptor that has seals, which is memory.
pub(super) fn check_kind(fd: BorrowedFd<'_>) -> Result<(), SegmentError> {
    let found = retry_on_intr(|| fstatfs(fd))
        .map_err(|errno| OsError::of(errno, "cannot tell a descriptor's file system"))?;
    match found.f_type as u64 & 0xFFFF_FFFF {
        TMPFS_MAGIC => Ok(()),
        HUGETLBFS_MAGIC => Err(SegmentError::HugePages),
        _ => Err(SegmentError::NotMemory),
    }
}

/// Seals against everything that could take a page away. Another holder may have done so before.
fn seal(fd: BorrowedFd<'_>) -> Result<(), SegmentError> {
    let mut wanted = SEALS | SEALS_HELD;
    let mut added = fcntl_add_seals(fd, SEALS_HELD);
    if added == Err(Errno::INVAL) {
        // Before Linux 5.1.
        wanted -= SealFlags::FUTURE_WRITE;
        added = fcntl_add_seals(fd, SealFlags::SEAL);
    }
    match added {
        // EPERM: it has F_SEAL_SEAL, and the seals that were added before that.
        Ok(()) | Err(Errno::PERM) => {}
        Err(errno) => return Err(OsError::of(errno, NOT_SEALED).into()),
    }
    check_missing(wanted.difference(fcntl_get_seals(fd).map_err(no_flags)?))
}

/// Checks the size of a sealed file. Before it is sealed, the size may change.
pub(super) fn check_size(fd: BorrowedFd<'_>, agreed: u64) -> Result<(), SegmentError> {
    let stat = fstat(fd).map_err(|errno| OsError::of(errno, "cannot tell what a descriptor is"))?;
    let found = stat.st_size.cast_unsigned();
    if found == agreed && agreed > 0 { Ok(()) } else { Err(SegmentError::WrongSize { agreed, found }) }
}

fn no_flags(errno: Errno) -> OsError {
    OsError::of(errno, "cannot tell a descriptor's flags and seals")
}

#[cfg(test)]
mod tests;
