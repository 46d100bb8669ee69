//! Memory that can be registered: what it promises, and pages from the kernel.

use crate::bytes::Bytes;
use crate::verb_error::VerbError;
use core::fmt;
use core::ptr::{self, NonNull};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Memory that an [`Mr`](crate::Mr) can own.
///
/// # Safety
/// The implementor promises that
/// 1. `len` bytes from `as_ptr` on are mapped, readable and writable until the value is dropped, whatever thread uses or drops it;
/// 2. both answers are always the same, also after the value was moved;
/// 3. no reference to these bytes exists while the value does, since a NIC writes them at any time.
#[expect(clippy::len_without_is_empty, reason = "a region is never empty")]
pub unsafe trait Memory: Send + Sync + 'static {
    /// Returns the address of the first byte.
    fn as_ptr(&self) -> NonNull<u8>;

    /// Returns its length in bytes.
    fn len(&self) -> usize;
}

/// Private anonymous pages, zero at first, which children of fork do not get.
pub struct Pages {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the fields never change, and name memory that belongs to the process, not to a thread.
unsafe impl Send for Pages {}
// SAFETY: `&Pages` gives out an address and a length only.
unsafe impl Sync for Pages {}

/// Returns the bytes of a page.
fn page_size() -> usize {
    // By libc: rustix reads /proc before Linux 6.4, and panics without.
    // SAFETY: sysconf takes an integer and touches no memory of ours.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

impl Pages {
    /// Maps `bytes`, rounded up to whole pages.
    ///
    /// # Errors
    /// The kernel refuses: too little memory, or RLIMIT_AS.
    pub fn map(bytes: usize) -> Result<Self, VerbError> {
        let refused = |errno: Errno| {
            VerbError::new(errno.raw_os_error(), format!("cannot map {}", Bytes(bytes as u64)))
                .with_remedy("free memory, or raise RLIMIT_AS (ulimit -v)")
        };
        let len = bytes.max(1).checked_next_multiple_of(page_size());
        let len = len.filter(|&len| isize::try_from(len).is_ok()).ok_or(Errno::NOMEM).map_err(refused)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), len, protection, MapFlags::PRIVATE) };
        let start = NonNull::new(start.map_err(refused)?.cast()).ok_or(Errno::NOMEM).map_err(refused)?;
        let pages = Self { start, len };
        // SAFETY: the range is ours, and this advice changes no contents: a copy-on-write page of a child would part our view
        // from the NIC's.
        unsafe { madvise(start.as_ptr().cast(), len, Advice::LinuxDontFork) }.map_err(refused)?;
        Ok(pages)
    }
}

// SAFETY: 1. The kernel mapped them, and only Drop unmaps. 2. The fields never change. 3. Nothing here makes a reference.
unsafe impl Memory for Pages {
    fn as_ptr(&self) -> NonNull<u8> {
        self.start
    }

    fn len(&self) -> usize {
        self.len
    }
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pages({:p}, {})", self.start, Bytes(self.len as u64))
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the range is ours from mmap, nobody has unmapped it, and who got its address through `Mr` or `as_ptr` may use it
        // only while this lives. Failure leaves it mapped.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_whole_zero_and_writable() {
        for bytes in [0, 1, page_size(), page_size() + 1] {
            let pages = Pages::map(bytes).unwrap();
            assert_eq!(pages.len(), bytes.max(1).next_multiple_of(page_size()));
            // SAFETY: the last byte is mapped, and nobody else has its address.
            unsafe {
                let last = pages.as_ptr().add(pages.len() - 1);
                assert_eq!(last.read(), 0);
                last.write(0xA5);
                assert_eq!(last.read(), 0xA5);
            }
        }
    }

    #[test]
    fn more_than_there_is_names_the_amount() {
        assert_eq!(
            Pages::map(1 << 60).unwrap_err().to_string(),
            "cannot map 1048576 TiB: cannot allocate memory; free memory, or raise RLIMIT_AS (ulimit -v)"
        );
        assert_eq!(Pages::map(usize::MAX).unwrap_err().errno(), libc::ENOMEM);
    }
}
