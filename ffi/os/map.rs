//! Mapped memory: owned, and never behind a reference.
//!
//! Another process or a NIC may write a mapping at any time, so it gives out a raw pointer only. Lengths are rounded
//! up to pages. Children of fork never get it (MADV_DONTFORK): copy-on-write would separate a NIC's or a peer's pages
//! from ours. From 2 MiB on a mapping begins at a huge page's boundary and asks for huge pages.

use super::bytes::Bytes;
use super::error::{OsError, last_errno, retry};
use super::owner::Owner;
use super::page::{page_bytes, round_up};
use core::ffi::{c_int, c_void};
use core::hint;
use core::ops::Range;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU8, Ordering};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Bytes of a huge page: mappings that have room for one begin at its boundary.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// An owned mapping, readable and writable, unmapped when dropped.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
    owner: Owner,
}

// SAFETY: `start` and `len` never change, and name memory that belongs to the process, not to a thread: any thread may
// use or unmap it.
unsafe impl Send for Mapping {}
// SAFETY: methods of `&Mapping` read the two fields, or ask the kernel to make pages resident, which is atomic towards
// other threads. Access to the memory itself is unsafe, and its users' responsibility.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps private memory that reads as zero, `bytes` rounded up to pages.
    ///
    /// # Errors
    /// The kernel refuses: too little memory, or RLIMIT_AS.
    pub fn anonymous(bytes: usize) -> Result<Self, OsError> {
        Self::new(bytes, PROT_READ_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
    }

    /// Reserves address space for private memory that reads as zero, `bytes` rounded up to pages. A page becomes resident when it is
    /// populated or first written. Asks for no huge pages.
    ///
    /// # Errors
    /// The kernel refuses: RLIMIT_AS, or strict overcommit.
    #[cfg(any(test, feature = "verbs"))]
    pub(crate) fn reserved(bytes: usize) -> Result<Self, OsError> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let mapping = Self::new(bytes, PROT_READ_WRITE, flags, -1)?;
        mapping.advise_huge(0..mapping.len, false);
        // A program that called mlockall has the kernel make each new mapping resident.
        mapping.discard(0..mapping.len)?;
        Ok(mapping)
    }

    /// Maps the first `bytes` of a file, rounded up to pages, shared with others that map it. An access beyond its end is a
    /// SIGBUS: the caller has checked that it cannot shrink.
    ///
    /// # Errors
    /// The kernel refuses: too little memory, RLIMIT_AS, or a descriptor that is not open for both.
    pub fn shared(fd: BorrowedFd<'_>, bytes: usize) -> Result<Self, OsError> {
        Self::new(bytes, PROT_READ_WRITE, libc::MAP_SHARED, fd.as_raw_fd())
    }

    /// Maps the first `bytes` of a file as [`shared`](Self::shared) does, for reading only.
    pub(super) fn shared_for_reading(fd: BorrowedFd<'_>, bytes: usize) -> Result<Self, OsError> {
        Self::new(bytes, libc::PROT_READ, libc::MAP_SHARED, fd.as_raw_fd())
    }

    /// Returns the address of the first byte: page-aligned, valid for `len` bytes until the mapping is dropped.
    #[must_use]
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the bytes mapped, a multiple of the page size.
    #[must_use]
    #[cfg_attr(
        feature = "internals",
        expect(clippy::len_without_is_empty, reason = "a mapping is never empty")
    )]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Makes every page resident and writable, so that lack of memory is an error here and not a signal later. Changes no
    /// byte.
    ///
    /// # Errors
    /// There is too little memory.
    pub fn populate(&self) -> Result<(), OsError> {
        self.try_populate(0..self.len).unwrap_or_else(|| {
            self.touch(0..self.len);
            Ok(())
        })
    }

    /// Maps the pages of a part for reading, so that reading them has no page fault. Before Linux 5.14 there is no call for that, and
    /// the faults come later.
    pub(super) fn populate_for_reading(&self, part: Range<usize>) {
        let _ = retry(|| self.advise(part.clone(), libc::MADV_POPULATE_READ));
    }

    /// Unmaps the pages of a part of a shared file for this process. They stay in the file, and the next access maps them again.
    pub(crate) fn forget(&self, part: Range<usize>) {
        // Locked pages, as those of a program that called mlockall, stay until the mapping is dropped.
        let _ = self.advise(part, libc::MADV_DONTNEED);
    }

    /// Makes a part resident and writable, as [`populate`](Self::populate) does. None before Linux 5.14, which has no call for that: then
    /// nothing was done.
    pub(crate) fn try_populate(&self, part: Range<usize>) -> Option<Result<(), OsError>> {
        let bytes = Bytes(part.len() as u64);
        if retry(|| self.advise(part.clone(), libc::MADV_POPULATE_WRITE)) == 0 {
            return Some(Ok(()));
        }
        let errno = match last_errno() {
            libc::EINVAL => return None,
            // The kernel's word for a page whose access would be a SIGBUS, such as one that strict overcommit does not allow.
            libc::EFAULT => libc::ENOMEM,
            errno => errno,
        };
        let error = OsError::new(errno, format!("cannot make {bytes} resident"));
        Some(Err(error.with_remedy("free memory, or raise the container's memory limit")))
    }

    /// Removes the pages of a part from a shared file, for all who map it: they read as zero afterwards, and the next write allocates
    /// them again. The kernel refuses private memory and files that are sealed against writing.
    pub(crate) fn remove(&self, part: Range<usize>) -> Result<(), OsError> {
        let advise = || retry(|| self.advise(part.clone(), libc::MADV_REMOVE)) == 0;
        // A program that called mlockall has locked these pages, too, and locked pages are not removed.
        let is_removed = advise() || (last_errno() == libc::EINVAL && self.unlock(part.clone()) && advise());
        let bytes = Bytes(part.len() as u64);
        if is_removed { Ok(()) } else { Err(OsError::last(format!("cannot release {bytes} of memory"))) }
    }

    /// Gives the pages of a part of private memory back: it reads as zero afterwards, and the next write allocates them again.
    ///
    /// # Errors
    /// The pages are locked, and cannot be unlocked.
    #[cfg(any(test, feature = "verbs"))]
    pub(crate) fn discard(&self, part: Range<usize>) -> Result<(), OsError> {
        let advise = || retry(|| self.advise(part.clone(), libc::MADV_DONTNEED)) == 0;
        // Locked pages, as those of a program that called mlockall, are not discarded.
        let is_discarded =
            advise() || (last_errno() == libc::EINVAL && self.unlock(part.clone()) && advise());
        let bytes = Bytes(part.len() as u64);
        if is_discarded { Ok(()) } else { Err(OsError::last(format!("cannot release {bytes} of memory"))) }
    }

    /// Asks for huge pages in a part, or for none. A kernel without huge pages has none in any case.
    pub(crate) fn advise_huge(&self, part: Range<usize>, wanted: bool) {
        let _ = self.advise(part, if wanted { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE });
    }

    /// Returns false in a child of fork, which has no such mapping, and may have another one at its address.
    pub(crate) fn is_here(&self) -> bool {
        self.owner.is_current()
    }

    fn new(bytes: usize, protection: c_int, flags: c_int, fd: c_int) -> Result<Self, OsError> {
        let refused = || {
            OsError::last(format!("cannot map {}", Bytes(bytes as u64)))
                .with_remedy("free memory, or raise RLIMIT_AS (ulimit -v)")
        };
        let len = round_up(bytes, page_bytes()).ok_or_else(too_much(bytes))?;
        let mapping = if len < HUGE_PAGE_BYTES {
            // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
            let start = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, fd, 0) };
            Self::own(start, len).ok_or_else(refused)?
        } else {
            Self::aligned(len, protection, flags, fd).ok_or_else(refused)?
        };
        if mapping.advise(0..len, libc::MADV_DONTFORK) != 0 {
            let doing = format!("cannot keep {} from child processes", Bytes(len as u64));
            return Err(OsError::last(doing));
        }
        if len >= HUGE_PAGE_BYTES {
            // A kernel without huge pages, or one that has them switched off, is no error.
            mapping.advise_huge(0..len, true);
        }
        Ok(mapping)
    }

    /// Reserves more address space than needed, maps at its first huge page boundary, and unmaps the rest.
    fn aligned(len: usize, protection: c_int, flags: c_int, fd: c_int) -> Option<Self> {
        let reserve_flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let reserve_len = len.checked_add(HUGE_PAGE_BYTES)?;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let reserved =
            unsafe { libc::mmap(ptr::null_mut(), reserve_len, libc::PROT_NONE, reserve_flags, -1, 0) };
        let reserve = Self::own(reserved, reserve_len)?;
        let before = reserve.start.as_ptr().align_offset(HUGE_PAGE_BYTES);
        let place = reserve.keep_only(before, len);
        let wanted = place.start.as_ptr().cast();
        // A failure may have left the place ours or not: it is never unmapped again, since another thread may have it.
        core::mem::forget(place);
        // SAFETY: it replaces the part of the reservation that was kept, which is ours and unused.
        let start = unsafe { libc::mmap(wanted, len, protection, flags | libc::MAP_FIXED, fd, 0) };
        Self::own(start, len)
    }

    /// Unmaps all but the `len` bytes from `before` on, which the caller knows to be in here.
    fn keep_only(self, before: usize, len: usize) -> Self {
        let after = before + len;
        assert!(after <= self.len, "a part is not larger than the whole");
        let part = |from: usize, to: usize| {
            // SAFETY: `from` is at most this mapping's length.
            Self { start: unsafe { self.start.add(from) }, len: to - from, owner: self.owner }
        };
        let (head, kept, tail) = (part(0, before), part(before, after), part(after, self.len));
        core::mem::forget(self);
        // Unmapping no bytes is refused by the kernel and does nothing.
        drop((head, tail));
        kept
    }

    fn own(start: *mut c_void, len: usize) -> Option<Self> {
        if start == libc::MAP_FAILED {
            return None;
        }
        NonNull::new(start.cast()).map(|start| Self { start, len, owner: Owner::current() })
    }

    fn advise(&self, part: Range<usize>, advice: c_int) -> c_int {
        let start = self.address_of(&part);
        // SAFETY: `address_of` has checked that the range is this mapping's own. Of the advices used here only MADV_REMOVE and MADV_DONTNEED
        // discard contents: of memory that others or a NIC may write, too, so no reference to it exists.
        unsafe { libc::madvise(start.as_ptr().cast(), part.len(), advice) }
    }

    fn unlock(&self, part: Range<usize>) -> bool {
        let start = self.address_of(&part);
        // SAFETY: `address_of` has checked that the range is this mapping's own; unlocking changes no byte.
        unsafe { libc::munlock(start.as_ptr().cast(), part.len()) == 0 }
    }

    fn address_of(&self, part: &Range<usize>) -> NonNull<u8> {
        assert!(part.start <= part.end && part.end <= self.len, "a part is inside its mapping");
        assert!(self.is_here(), "a child of fork does not have the mapping");
        // SAFETY: the offset is at most this mapping's length.
        unsafe { self.start.add(part.start) }
    }

    /// Populates on kernels before 5.14, without MADV_POPULATE_WRITE: writes to each page without changing it, atomically
    /// because a peer may be writing there too. The compiler must not know the operand: it would remove a change by zero.
    pub(crate) fn touch(&self, part: Range<usize>) {
        self.address_of(&part);
        for offset in part.step_by(page_bytes()) {
            // SAFETY: `offset` is below `len`, so this byte is mapped, and bytes have no alignment.
            let byte = unsafe { AtomicU8::from_ptr(self.start.as_ptr().add(offset)) };
            byte.fetch_or(hint::black_box(0), Ordering::Relaxed);
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if !self.owner.is_current() {
            return; // a child of fork does not have the mapping, and may have another one there
        }
        // SAFETY: the range is ours from mmap, nobody has unmapped it, and its users promised not to use its address
        // after the mapping. The call can only fail for a range that is no multiple of the page size; then it leaks.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

const PROT_READ_WRITE: c_int = libc::PROT_READ | libc::PROT_WRITE;

fn too_much(bytes: usize) -> impl Fn() -> OsError {
    move || OsError::new(libc::ENOMEM, format!("cannot map {}", Bytes(bytes as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::slice;

    /// A copy of what is mapped, of which nobody else has the address.
    fn contents(mapping: &Mapping) -> Vec<u8> {
        // SAFETY: these tests share their mappings with nobody while this reference lives.
        unsafe { slice::from_raw_parts(mapping.as_ptr().as_ptr(), mapping.len()) }.to_vec()
    }

    #[test]
    fn lengths_are_multiples_of_the_page_size() {
        let page = page_bytes();
        for (asked, got) in [(0, page), (1, page), (page, page), (page + 1, 2 * page)] {
            assert_eq!(Mapping::anonymous(asked).unwrap().len(), got);
        }
    }

    #[test]
    fn anonymous_memory_is_zero_and_keeps_writes() {
        let mapping = Mapping::anonymous(10_000).unwrap();
        assert!(contents(&mapping).iter().all(|&byte| byte == 0));
        // SAFETY: the last byte is inside the mapping.
        unsafe { mapping.as_ptr().add(mapping.len() - 1).write(0xA5) };
        mapping.populate().unwrap();
        mapping.touch(0..mapping.len());
        let bytes = contents(&mapping);
        assert_eq!(bytes.last(), Some(&0xA5));
        assert!(bytes[..bytes.len() - 1].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn large_mappings_begin_at_a_huge_page() {
        for extra in [0, 1, HUGE_PAGE_BYTES] {
            let mapping = Mapping::anonymous(HUGE_PAGE_BYTES + extra).unwrap();
            assert_eq!(mapping.as_ptr().addr().get() % HUGE_PAGE_BYTES, 0);
            mapping.populate().unwrap();
            assert!(contents(&mapping).iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn a_dropped_mapping_is_unmapped() {
        for bytes in [1, HUGE_PAGE_BYTES, HUGE_PAGE_BYTES + 1] {
            // Another test's thread may map there in between, but not every time.
            let unmapped = (0..100).any(|_| {
                let mapping = Mapping::anonymous(bytes).unwrap();
                let (start, len) = (mapping.as_ptr(), mapping.len());
                drop(mapping);
                // SAFETY: msync of a range that is not mapped fails with ENOMEM; of one that is, it changes no byte.
                let result = unsafe { libc::msync(start.as_ptr().cast(), len, libc::MS_ASYNC) };
                result == -1
            });
            assert!(unmapped, "{bytes}");
        }
    }

    #[test]
    fn a_child_that_drops_one_unmaps_nothing_of_its_own() {
        let mapping = Mapping::anonymous(4096).unwrap();
        let (start, len) = (mapping.as_ptr().as_ptr(), mapping.len());
        // SAFETY: the child makes system calls only, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            // SAFETY: the child does not have the mapping (MADV_DONTFORK), so nothing is replaced; and it uses its own only.
            unsafe {
                let place = libc::mmap(start.cast(), len, PROT_READ_WRITE, flags, -1, 0);
                drop(ptr::read(&raw const mapping));
                libc::_exit(i32::from(libc::msync(place, len, libc::MS_ASYNC) != 0));
            }
        }
        let mut status = -1;
        // SAFETY: the pointer is to a local.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }

    #[test]
    fn touching_a_part_makes_its_pages_resident() {
        let page = page_bytes();
        let mapping = Mapping::anonymous(8 * page).unwrap();
        mapping.touch(2 * page..5 * page);
        let mut resident = [0_u8; 8];
        // SAFETY: the range is the mapping's, and the vector has a byte for each of its 8 pages.
        let answer =
            unsafe { libc::mincore(mapping.as_ptr().as_ptr().cast(), 8 * page, resident.as_mut_ptr()) };
        assert_eq!((answer, resident.map(|page| page & 1)), (0, [0, 0, 1, 1, 1, 0, 0, 0]));
    }

    #[test]
    fn reserved_memory_comes_goes_and_reads_as_zero() {
        let page = page_bytes();
        let mapping = Mapping::reserved(2 * HUGE_PAGE_BYTES).unwrap();
        let resident = || {
            let mut pages = vec![0_u8; mapping.len() / page];
            // SAFETY: the range is the mapping's, and the vector has a byte for each of its pages.
            let answer =
                unsafe { libc::mincore(mapping.as_ptr().as_ptr().cast(), mapping.len(), pages.as_mut_ptr()) };
            assert_eq!(answer, 0);
            pages.iter().filter(|page| **page & 1 == 1).count()
        };
        assert_eq!(resident(), 0);
        mapping.touch(page..3 * page);
        assert_eq!(resident(), 2, "no huge page comes");
        // SAFETY: the byte is inside the mapping.
        unsafe { mapping.as_ptr().add(page).write(7) };
        mapping.discard(page..2 * page).unwrap();
        assert_eq!(resident(), 1);
        assert!(contents(&mapping).iter().all(|byte| *byte == 0));
    }

    #[test]
    fn private_memory_is_not_removed() {
        let mapping = Mapping::anonymous(4096).unwrap();
        // SAFETY: the byte is inside the mapping.
        unsafe { mapping.as_ptr().write(7) };
        let error = mapping.remove(0..4096).unwrap_err();
        assert!(error.to_string().starts_with("cannot release 4 KiB of memory: "), "{error}");
        assert_eq!(contents(&mapping)[0], 7);
    }

    #[test]
    fn alignment_leaves_no_address_space_behind() {
        // In pages; other tests' threads take some as well, but not this much.
        let taken = || -> usize {
            let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
            statm.split(' ').next().unwrap().parse().unwrap()
        };
        let before = taken();
        for _ in 0..4096 {
            drop(Mapping::anonymous(HUGE_PAGE_BYTES).unwrap());
        }
        let leaked = taken().saturating_sub(before) * page_bytes();
        assert!(leaked < 2048 * HUGE_PAGE_BYTES, "{leaked}");
    }

    #[test]
    fn too_large_a_mapping_is_refused_with_its_size() {
        let error = Mapping::anonymous(1 << 60).unwrap_err();
        assert_eq!(error.errno(), libc::ENOMEM);
        assert_eq!(
            error.to_string(),
            "cannot map 1048576 TiB: cannot allocate memory; free memory, or raise RLIMIT_AS (ulimit -v)"
        );
        assert_eq!(Mapping::anonymous(usize::MAX).unwrap_err().errno(), libc::ENOMEM);
    }

    #[test]
    fn a_bad_descriptor_is_refused_for_small_and_large() {
        let (reader, _writer) = std::io::pipe().unwrap();
        for bytes in [1, HUGE_PAGE_BYTES] {
            let error = Mapping::shared(std::os::fd::AsFd::as_fd(&reader), bytes).unwrap_err();
            assert_eq!(error.errno(), libc::EACCES, "{error}");
        }
    }
}
