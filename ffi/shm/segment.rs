//! Memory that two processes share by descriptor: a sealed memfd, reserved and mapped.
//!
//! The maker seals it (SHRINK, GROW, SEAL) before it hands it over; the taker maps nothing that is not so. A sealed size
//! and pages that were reserved beforehand mean that no access can end in SIGBUS, whatever the peer does later: it can
//! punch holes, and then reads zeros out of its own protocol violation. Only a memfd can carry these seals: the kernel
//! closes the seals of every other tmpfs file.
//!
//! References: memfd_create(2), fcntl(2) "File sealing", wire.md 6.

use crate::os::error::{last_errno, retry};
use crate::os::map::round_to_pages;
use crate::os::{Bytes, Mapping, OsError};
use core::ffi::{CStr, c_int, c_uint};
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::{error, fmt};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// What a segment's seals must hold at least.
const SEALS: c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
/// Seals that would make our writable mapping impossible.
const SEALS_WRITE: c_int = libc::F_SEAL_WRITE | libc::F_SEAL_FUTURE_WRITE;
const TMPFS_MAGIC: u64 = 0x0102_1994;
const HUGETLBFS_MAGIC: u64 = 0x9584_58F6;

/// A piece of memory that a peer maps too.
#[derive(Debug)]
pub struct Segment {
    mapping: Mapping,
    fd: OwnedFd,
}

/// Why a descriptor that a peer sent was not mapped: each names one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SegmentError {
    /// It is no regular file: a pipe, a socket, a directory, a device.
    NotAFile,
    /// It lies on huge pages, which run out at the moment of the access.
    HugePages,
    /// It is a file of a disk or of another file system, not memory.
    NotMemory {
        /// the file system's magic number
        magic: u64,
    },
    /// It is not open for reading and writing.
    NotWritable,
    /// Its size can still change.
    Unsealed {
        /// the seals that are missing, as fcntl numbers them
        missing: c_int,
    },
    /// It has another size than was agreed.
    WrongSize {
        /// the agreed bytes
        agreed: u64,
        /// the file's bytes
        found: u64,
    },
    /// Its rules hold, and this machine refused.
    Os(OsError),
}

impl Segment {
    /// Makes a segment of `bytes`, rounded up to pages, all of them resident and zero. The name shows in /proc only.
    ///
    /// # Errors
    /// When the kernel refuses: too little memory, or too many open files.
    pub fn create(name: &CStr, bytes: usize) -> Result<Self, OsError> {
        let doing = || format!("cannot make a shared segment of {}", Bytes(bytes as u64));
        let len = round_to_pages(bytes).ok_or_else(|| OsError::new(libc::ENOMEM, doing()))?;
        let size = i64::try_from(len).map_err(|_| OsError::new(libc::ENOMEM, doing()))?;
        let fd = memfd(name)?;
        // SAFETY: the descriptor is ours; the call takes integers only.
        if retry(|| unsafe { libc::ftruncate(fd.as_raw_fd(), size) }) != 0 {
            return Err(OsError::last(doing()));
        }
        reserve(fd.as_fd(), size)?;
        // SAFETY: the descriptor is ours; the call takes integers only.
        if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, SEALS) } != 0 {
            return Err(OsError::last("cannot seal a shared segment"));
        }
        Self::map(fd, len)
    }

    /// Maps a segment that a peer made, once it has passed every rule. The descriptor is closed when it fails.
    ///
    /// # Errors
    /// The first rule that it breaks, or this machine's refusal.
    pub fn adopt(fd: OwnedFd, agreed_bytes: u64) -> Result<Self, SegmentError> {
        check_kind(fd.as_fd())?;
        check_writable(fd.as_fd())?;
        check_size(fd.as_fd(), agreed_bytes)?;
        let too_large = || SegmentError::Os(OsError::new(libc::ENOMEM, "cannot map a peer's segment"));
        let size = i64::try_from(agreed_bytes).map_err(|_| too_large())?;
        let len = usize::try_from(agreed_bytes).map_err(|_| too_large())?;
        reserve(fd.as_fd(), size)?;
        Ok(Self::map(fd, len)?)
    }

    /// The first byte, valid for `len` bytes until the segment is dropped. The peer may write there at any time.
    #[must_use]
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.mapping.as_ptr()
    }

    /// Bytes mapped, whole pages.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a segment is never empty")]
    pub fn len(&self) -> usize {
        self.mapping.len()
    }

    /// The descriptor to hand to the peer.
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
            Self::NotAFile => f.write_str("is no memory: its descriptor is not a regular file"),
            Self::HugePages => f.write_str("lies on huge pages, which cannot be reserved; expected a memfd"),
            Self::NotMemory { magic } => {
                write!(f, "is a file of another file system ({magic:#x}); expected a memfd")
            }
            Self::NotWritable => f.write_str("is not open for reading and writing"),
            Self::Unsealed { missing } => {
                f.write_str("can still change its size: it lacks")?;
                let names = [
                    (libc::F_SEAL_SHRINK, " F_SEAL_SHRINK"),
                    (libc::F_SEAL_GROW, " F_SEAL_GROW"),
                    (libc::F_SEAL_SEAL, " F_SEAL_SEAL"),
                ];
                names
                    .iter()
                    .filter(|(seal, _)| missing & seal != 0)
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

fn memfd(name: &CStr) -> Result<OwnedFd, OsError> {
    const FLAGS: c_uint = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    let make = |flags| {
        // SAFETY: the name is a C string that outlives the call.
        unsafe { libc::memfd_create(name.as_ptr(), flags) }
    };
    let mut fd = make(FLAGS | libc::MFD_NOEXEC_SEAL);
    if fd < 0 && last_errno() == libc::EINVAL {
        // Before Linux 6.3 no memfd could say that it is no program.
        fd = make(FLAGS);
    }
    if fd < 0 {
        return Err(
            OsError::last("cannot make a memfd").with_remedy("raise the limit of open files (ulimit -n)")
        );
    }
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Gives every page of the file its memory, or fails without having touched it. A memfd knows no limit of its own:
/// what is more than the machine has would end in the OOM killer, and is refused before.
fn reserve(fd: BorrowedFd<'_>, size: i64) -> Result<(), OsError> {
    let refused = |errno| {
        OsError::new(errno, format!("cannot reserve {} of shared memory", Bytes(size.unsigned_abs())))
            .with_remedy("free memory, or raise the container's memory limit")
    };
    if size.unsigned_abs() > machine_bytes() {
        return Err(refused(libc::ENOMEM));
    }
    // SAFETY: the descriptor is borrowed, hence open; the call takes integers only.
    let answer = retry(|| unsafe { libc::fallocate(fd.as_raw_fd(), 0, 0, size) });
    if answer == 0 { Ok(()) } else { Err(refused(last_errno())) }
}

/// Bytes of memory that this machine has, used or not.
fn machine_bytes() -> u64 {
    let mut info = MaybeUninit::<libc::sysinfo>::uninit();
    // SAFETY: the pointer is to a sysinfo of ours.
    if unsafe { libc::sysinfo(info.as_mut_ptr()) } != 0 {
        return u64::MAX;
    }
    // SAFETY: sysinfo has filled it: it answered 0.
    let info = unsafe { info.assume_init() };
    info.totalram.saturating_mul(u64::from(info.mem_unit))
}

fn check_kind(fd: BorrowedFd<'_>) -> Result<(), SegmentError> {
    if stat(fd)?.st_mode & libc::S_IFMT != libc::S_IFREG {
        return Err(SegmentError::NotAFile);
    }
    let mut fs = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the descriptor is borrowed, hence open, and the pointer is to a statfs of ours.
    if retry(|| unsafe { libc::fstatfs(fd.as_raw_fd(), fs.as_mut_ptr()) }) != 0 {
        return Err(OsError::last("cannot tell a descriptor's file system").into());
    }
    // SAFETY: fstatfs has filled it: it answered 0.
    let magic = unsafe { fs.assume_init() }.f_type.cast_unsigned() & 0xFFFF_FFFF;
    match magic {
        TMPFS_MAGIC => Ok(()),
        HUGETLBFS_MAGIC => Err(SegmentError::HugePages),
        magic => Err(SegmentError::NotMemory { magic }),
    }
}

fn check_writable(fd: BorrowedFd<'_>) -> Result<(), SegmentError> {
    let flags = fcntl(fd, libc::F_GETFL)?;
    let seals = fcntl(fd, libc::F_GET_SEALS)?;
    if flags & libc::O_ACCMODE != libc::O_RDWR || seals & SEALS_WRITE != 0 {
        return Err(SegmentError::NotWritable);
    }
    match SEALS & !seals {
        0 => Ok(()),
        missing => Err(SegmentError::Unsealed { missing }),
    }
}

/// Only of a sealed file: before that, the answer may change.
fn check_size(fd: BorrowedFd<'_>, agreed: u64) -> Result<(), SegmentError> {
    let found = stat(fd)?.st_size.cast_unsigned();
    if found == agreed && agreed > 0 { Ok(()) } else { Err(SegmentError::WrongSize { agreed, found }) }
}

fn stat(fd: BorrowedFd<'_>) -> Result<libc::stat, OsError> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the descriptor is borrowed, hence open, and the pointer is to a stat of ours.
    if unsafe { libc::fstat(fd.as_raw_fd(), stat.as_mut_ptr()) } != 0 {
        return Err(OsError::last("cannot tell what a descriptor is"));
    }
    // SAFETY: fstat has filled it: it answered 0.
    Ok(unsafe { stat.assume_init() })
}

fn fcntl(fd: BorrowedFd<'_>, command: c_int) -> Result<c_int, OsError> {
    // SAFETY: the descriptor is borrowed, hence open; the commands used here take no argument.
    let answer = unsafe { libc::fcntl(fd.as_raw_fd(), command) };
    if answer < 0 { Err(OsError::last("cannot tell a descriptor's flags and seals")) } else { Ok(answer) }
}

#[cfg(test)]
#[path = "segment_tests.rs"]
mod tests;
