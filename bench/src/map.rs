//! Memory for measurements: a mapping that a forked process shares, and private buffers; resident unless untouched.
//!
//! The shared mapping is handed out as atomic words, which need no further promise, and as raw payload, which
//! does: whoever copies it holds the block that it lies in, by a flag or a counter.

use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::AtomicU64;

use crate::failure::Failure;
use crate::kernels::Kernel;

/// The page size that offsets in this crate are rounded to.
pub const PAGE_BYTES: usize = 4096;

/// Memory that stays shared with a process forked after it was made.
pub struct SharedMapping(Mapping);

impl SharedMapping {
    /// Maps `bytes` of zeros, resident; in huge pages, if the kernel has that for shared memory, with `huge`.
    ///
    /// # Errors
    /// [`Failure::Os`] when there is no memory.
    pub fn new(bytes: usize, huge: bool) -> Result<Self, Failure> {
        Ok(Self(Mapping::new(bytes, libc::MAP_SHARED, huge)?.touched()))
    }

    /// The 64-bit words from byte `at` on.
    ///
    /// # Panics
    /// If `at` is not a multiple of 8 or the range is not inside the mapping.
    #[must_use]
    pub fn words(&self, at: usize, bytes: usize) -> &[AtomicU64] {
        assert!(at.is_multiple_of(8));
        let start = self.0.at(at, bytes).cast::<AtomicU64>();
        // SAFETY: `Mapping::at` checked the range, `at` is aligned, and AtomicU64 may be written by anyone at any
        // time. Payload copies over the same bytes never run at the same time: see `copy_in` and `copy_out`.
        unsafe { slice::from_raw_parts(start, bytes / 8) }
    }

    /// Copies a payload into the mapping.
    ///
    /// # Safety
    /// 1. Until a Release store after this call and the Acquire load that pairs with it, no other process
    ///    touches these bytes, as words or as payload.
    ///
    /// # Panics
    /// If the range is not inside the mapping.
    pub unsafe fn copy_in(&self, at: usize, payload: &[u8], kernel: Kernel) {
        let to = self.0.at(at, payload.len());
        // SAFETY: in range by `Mapping::at`; a borrowed slice of private memory doesn't overlap the mapping;
        // nobody else touches the bytes by the caller's 1.
        unsafe { kernel.inwards().copy(to, payload.as_ptr(), payload.len()) }
    }

    /// Copies a payload out of the mapping.
    ///
    /// # Safety
    /// 1. An Acquire load before this call paired with the Release store after the payload was written, and
    ///    nobody writes these bytes before the caller gives them back.
    ///
    /// # Panics
    /// If the range is not inside the mapping.
    pub unsafe fn copy_out(&self, at: usize, payload: &mut [u8], kernel: Kernel) {
        let from = self.0.at(at, payload.len());
        // SAFETY: in range by `Mapping::at`; a borrowed slice of private memory doesn't overlap the mapping;
        // nobody writes the bytes by the caller's 1.
        unsafe { kernel.copy(payload.as_mut_ptr(), from, payload.len()) }
    }
}

/// A buffer of one process, page-aligned: what an application would send from or receive into.
pub struct Buffer(Mapping);

impl Buffer {
    /// Maps `bytes` of zeros, resident; in huge pages, if the kernel has them, with `huge`.
    ///
    /// # Errors
    /// [`Failure::Os`] when there is no memory.
    pub fn new(bytes: usize, huge: bool) -> Result<Self, Failure> {
        Ok(Self(Mapping::new(bytes, libc::MAP_PRIVATE, huge)?.touched()))
    }

    /// Maps `bytes` of zeros of which nothing is resident, and asks the kernel for nothing.
    ///
    /// # Errors
    /// [`Failure::Os`] when there is no address space.
    pub fn untouched(bytes: usize) -> Result<Self, Failure> {
        Mapping::new(bytes, libc::MAP_PRIVATE, false).map(Self)
    }

    /// The whole buffer.
    #[must_use]
    pub const fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is private, initialised (zeros), and borrowed with self.
        unsafe { slice::from_raw_parts(self.0.start.as_ptr(), self.0.bytes) }
    }

    /// The whole buffer, to be written.
    pub const fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; the borrow of self is unique, and so is the mapping's owner.
        unsafe { slice::from_raw_parts_mut(self.0.start.as_ptr(), self.0.bytes) }
    }
}

struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    fn new(bytes: usize, sharing: libc::c_int, huge: bool) -> Result<Self, Failure> {
        let bytes = bytes.next_multiple_of(PAGE_BYTES).max(PAGE_BYTES);
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = sharing | libc::MAP_ANONYMOUS;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory of ours.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, rights, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(Failure::last_os("map memory"));
        }
        let start = NonNull::new(start.cast::<u8>()).ok_or_else(|| Failure::last_os("map memory"))?;
        let mapping = Self { start, bytes };
        if huge {
            // Advice: where there are no huge pages the measurement is made without, as superpipe's would be.
            // SAFETY: the range is the mapping just made.
            unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
        }
        Ok(mapping)
    }

    /// Resident.
    fn touched(self) -> Self {
        // SAFETY: the whole mapping is writable and ours alone; writing it makes its pages resident.
        unsafe { ptr::write_bytes(self.start.as_ptr(), 0, self.bytes) };
        self
    }

    fn at(&self, at: usize, bytes: usize) -> *mut u8 {
        assert!(at <= self.bytes && bytes <= self.bytes - at, "{at} + {bytes} is outside of {}", self.bytes);
        // SAFETY: at <= self.bytes, so the pointer stays inside the mapping or one past it.
        unsafe { self.start.as_ptr().add(at) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped in `new`, and every borrow of it has ended with self.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
