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
use crate::os::memfd::{NOT_SEALED, SEALS, check_file_size, check_machine, memfd, reserve};
use crate::os::page::round_to_pages;
use crate::os::{Bytes, Mapping, MemoryPlacement, OsError};
use core::ffi::CStr;
use core::ptr::NonNull;
use core::{error, fmt};
use rustix::fs::{
    OFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fcntl_getfl, fstat, fstatfs, ftruncate,
};
use rustix::io::{Errno, retry_on_intr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Seals that are added once both ends have mapped the segment.
const SEALS_HELD: SealFlags = SealFlags::FUTURE_WRITE.union(SealFlags::SEAL);
/// Seals that would make our writable mapping impossible.
const SEALS_WRITE: SealFlags = SealFlags::WRITE.union(SealFlags::FUTURE_WRITE);
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
        Self::create_at(name, bytes, MemoryPlacement::default())
    }

    /// Makes a segment as [`create`](Self::create) does, of memory of this node.
    ///
    /// # Errors
    /// Likewise.
    pub fn create_at(name: &CStr, bytes: usize, memory: MemoryPlacement) -> Result<Self, OsError> {
        let doing = || format!("cannot make a shared segment of {}", Bytes(bytes as u64));
        let len = round_to_pages(bytes).ok_or_else(|| OsError::new(libc::ENOMEM, doing()))?;
        let size = len as u64;
        check_file_size(size)?;
        let fd = memfd(name)?;
        retry_on_intr(|| ftruncate(&fd, size)).map_err(|errno| OsError::of(errno, doing()))?;
        let mapping = Mapping::shared(fd.as_fd(), len)?;
        // The policy of a mapping is that of the file, whose pages come next.
        memory.place(&mapping)?;
        reserve(fd.as_fd(), size)?;
        fcntl_add_seals(&fd, SEALS).map_err(|errno| OsError::of(errno, NOT_SEALED))?;
        mapping.populate()?;
        Ok(Self { mapping, fd })
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
