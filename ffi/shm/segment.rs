//! Memory that two processes share by descriptor: a sealed memfd, reserved and mapped.
//!
//! The maker seals its size (SHRINK, GROW) and maps it before it hands it over; the taker maps nothing that is not so, and
//! then seals it against everything else (FUTURE_WRITE, SEAL). From there on nobody can punch a hole into it, map it anew
//! for writing, or change a seal. Pages that are reserved after that stay, so no access can end in SIGBUS, whatever the
//! peer does: [`Segment::hold`]. Only a memfd can carry these seals: the kernel closes the seals of every other tmpfs file.
//!
//! Before Linux 5.1 there is no FUTURE_WRITE. There a peer can punch holes later. An access fills such a hole with zeros
//! out of this process's memory limits, and ends in SIGBUS or the OOM killer where these are used up.
//!
//! References: memfd_create(2), fcntl(2) "File sealing", wire.md 6.4.

use super::ancillary::SentFd;
use crate::os::error::{last_errno, retry};
use crate::os::page::{page_bytes, round_to_pages};
use crate::os::{Bytes, Mapping, OsError};
use core::ffi::{CStr, c_int, c_uint};
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::{error, fmt};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Seals of a segment that is handed over.
const SEALS: c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
/// Seals of one that both ends have mapped.
const SEALS_HELD: c_int = libc::F_SEAL_FUTURE_WRITE | libc::F_SEAL_SEAL;
/// Seals that would make our writable mapping impossible.
const SEALS_WRITE: c_int = libc::F_SEAL_WRITE | libc::F_SEAL_FUTURE_WRITE;
/// Bytes that are reserved at once. Before Linux 6.10 a signal undoes all of a call, so each call is short.
const SLAB_BYTES: u64 = 2 << 20;
/// Signals in a row, without a page between them, after which reserving fails.
const INTERRUPTS_MAX: u32 = 10_000;
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
    /// It lies on huge pages, which run out at the moment of the access.
    HugePages,
    /// It is something else: a pipe, a socket, a directory, a device, a file of another file system.
    NotMemory,
    /// It is not open for reading and writing.
    NotWritable,
    /// Its size can still change, or its pages can still be taken away.
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
        check_file_size(size)?;
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

    /// Maps a segment that a peer made and has mapped, once it has passed every rule, and holds its pages. The descriptor is
    /// closed when it fails.
    ///
    /// # Errors
    /// The first rule that it breaks, or this machine's refusal.
    pub fn adopt(fd: impl Into<SentFd>, agreed_bytes: u64) -> Result<Self, SegmentError> {
        let fd = fd.into();
        // Seals before all else: what has seals is memory, and no later call enters a file system that need not answer.
        check_seals(fd.as_fd())?;
        check_kind(fd.as_fd())?;
        check_size(fd.as_fd(), agreed_bytes)?;
        let too_large = || SegmentError::Os(OsError::new(libc::ENOMEM, "cannot map a peer's segment"));
        let size = i64::try_from(agreed_bytes).map_err(|_| too_large())?;
        let len = usize::try_from(agreed_bytes).map_err(|_| too_large())?;
        check_machine(size)?;
        // Mapped first: nobody can map it for writing once it is sealed.
        let mapping = Mapping::shared(fd.as_fd(), len)?;
        seal(fd.as_fd())?;
        reserve(fd.as_fd(), size)?;
        mapping.populate()?;
        Ok(Self { mapping, fd: fd.into_owned() })
    }

    /// Keeps the pages of a segment of our own, once the peer has mapped it: whatever it did before, all are resident
    /// afterwards, and nobody can take one away.
    ///
    /// # Errors
    /// The peer made that impossible, or this machine refuses.
    pub fn hold(&self) -> Result<(), SegmentError> {
        seal(self.fd.as_fd())?;
        reserve(self.fd.as_fd(), self.len() as i64)?;
        Ok(self.mapping.populate()?)
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
            Self::HugePages => f.write_str("lies on huge pages, which cannot be reserved; expected a memfd"),
            Self::NotMemory => f.write_str("is no memory: its descriptor has no seals; expected a memfd"),
            Self::NotWritable => f.write_str("is not open for reading and writing"),
            Self::Unsealed { missing } => {
                f.write_str("can still lose its pages: it lacks")?;
                let names = [
                    (libc::F_SEAL_SHRINK, " F_SEAL_SHRINK"),
                    (libc::F_SEAL_GROW, " F_SEAL_GROW"),
                    (libc::F_SEAL_FUTURE_WRITE, " F_SEAL_FUTURE_WRITE"),
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

const FLAGS: c_uint = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;

fn memfd(name: &CStr) -> Result<OwnedFd, OsError> {
    let fd = call_memfd(|flags| {
        // SAFETY: the name is a C string that outlives the call.
        unsafe { libc::memfd_create(name.as_ptr(), flags) }
    });
    if fd < 0 {
        return Err(
            OsError::last("cannot make a memfd").with_remedy("raise the limit of open files (ulimit -n)")
        );
    }
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes a memfd that says that it is no program; before Linux 6.3 none could.
fn call_memfd(make: impl Fn(c_uint) -> c_int) -> c_int {
    let fd = make(FLAGS | libc::MFD_NOEXEC_SEAL);
    if fd < 0 && last_errno() == libc::EINVAL { make(FLAGS) } else { fd }
}

/// A memfd is a file to the limit of file sizes, beyond which the kernel ends the process by SIGXFSZ.
fn check_file_size(size: i64) -> Result<(), OsError> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a local.
    if unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } != 0
        || limit.rlim_cur >= size.unsigned_abs()
    {
        return Ok(());
    }
    let (size, limit) = (Bytes(size.unsigned_abs()), Bytes(limit.rlim_cur));
    Err(OsError::new(libc::EFBIG, format!("cannot make a shared segment of {size}: RLIMIT_FSIZE is {limit}"))
        .with_remedy("raise it (ulimit -f)"))
}

/// A memfd knows no limit of its own: what is more than the machine has would end in the OOM killer, and is refused before.
fn check_machine(size: i64) -> Result<(), OsError> {
    if size.unsigned_abs() > machine_bytes() { Err(not_reserved(libc::ENOMEM, size)) } else { Ok(()) }
}

fn not_reserved(errno: c_int, size: i64) -> OsError {
    let remedy = if errno == libc::EINTR {
        "let signals come less often"
    } else {
        "free memory, or raise the container's memory limit"
    };
    OsError::new(errno, format!("cannot reserve {} of shared memory", Bytes(size.unsigned_abs())))
        .with_remedy(remedy)
}

/// Gives every page of the file its memory, or fails without having touched it.
fn reserve(fd: BorrowedFd<'_>, size: i64) -> Result<(), OsError> {
    check_machine(size)?;
    let allocate = |at: u64, len: u64| {
        // SAFETY: the descriptor is borrowed, hence open; the call takes integers only.
        match unsafe { libc::fallocate(fd.as_raw_fd(), 0, at.cast_signed(), len.cast_signed()) } {
            0 => Ok(()),
            _ => Err(last_errno()),
        }
    };
    fill(size.unsigned_abs(), allocate).map_err(|errno| not_reserved(errno, size))
}

/// Allocates `bytes` in slabs. A slab that a signal interrupts may have been undone, so the next is half as long, down to a
/// page, which no kernel interrupts once it has begun.
fn fill(bytes: u64, mut allocate: impl FnMut(u64, u64) -> Result<(), c_int>) -> Result<(), c_int> {
    let (mut at, mut slab, mut interrupts) = (0, SLAB_BYTES, 0);
    while at < bytes {
        let len = slab.min(bytes - at);
        match allocate(at, len) {
            Ok(()) => {
                at += len;
                slab = (slab * 2).min(SLAB_BYTES);
                interrupts = 0;
            }
            Err(libc::EINTR) if interrupts < INTERRUPTS_MAX => {
                slab = (slab / 2).max(page_bytes() as u64);
                interrupts += 1;
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
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

/// Enters no file system: what is no memfd, the kernel refuses by itself.
fn check_seals(fd: BorrowedFd<'_>) -> Result<(), SegmentError> {
    let flags = fcntl(fd, libc::F_GETFL)?;
    let seals = match fcntl(fd, libc::F_GET_SEALS) {
        Err(error) if matches!(error.errno(), libc::EINVAL | libc::EBADF) => {
            return Err(SegmentError::NotMemory);
        }
        seals => seals?,
    };
    if flags & libc::O_ACCMODE != libc::O_RDWR || seals & SEALS_WRITE != 0 {
        return Err(SegmentError::NotWritable);
    }
    match SEALS & !seals {
        0 => Ok(()),
        missing => Err(SegmentError::Unsealed { missing }),
    }
}

/// Of what has seals, which is memory.
fn check_kind(fd: BorrowedFd<'_>) -> Result<(), SegmentError> {
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
        _ => Err(SegmentError::NotMemory),
    }
}

/// Seals against everything that could take a page away. Another holder may have done so before.
fn seal(fd: BorrowedFd<'_>) -> Result<(), SegmentError> {
    // SAFETY: the descriptor is borrowed, hence open; the call takes integers only.
    let add = |seals: c_int| match unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) } {
        0 => 0,
        _ => last_errno(),
    };
    let mut wanted = SEALS | SEALS_HELD;
    let mut errno = add(SEALS_HELD);
    if errno == libc::EINVAL {
        // Before Linux 5.1.
        wanted &= !libc::F_SEAL_FUTURE_WRITE;
        errno = add(libc::F_SEAL_SEAL);
    }
    // EPERM: it has F_SEAL_SEAL, and whatever came before that.
    if errno != 0 && errno != libc::EPERM {
        return Err(OsError::new(errno, "cannot seal a shared segment").into());
    }
    match wanted & !fcntl(fd, libc::F_GET_SEALS)? {
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
