//! Memory for measurements: a mapping that a forked process shares, and private buffers.
//!
//! The shared mapping gives out atomic words, which need no further promise, and copies payloads in and out, which does: the
//! caller holds the block that the payload lies in, by a flag or a counter.

use core::slice;
use core::sync::atomic::AtomicU64;
use std::io;

use memmap2::{Advice, MmapMut, MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use crate::failure::Failure;
use crate::kernels::Kernel;

/// The page size that offsets in this crate are rounded to.
pub const PAGE_BYTES: usize = 4096;

/// Resident memory that stays shared with a process forked after it was made. `superpipe::os::Mapping` is not
/// inherited by a fork.
pub struct SharedMapping(MmapRaw);

impl SharedMapping {
    /// Maps `bytes` of zeros, resident; with `huge` in huge pages, if the kernel has them for shared memory.
    ///
    /// # Errors
    /// [`Failure::Os`] when there is no memory.
    pub fn new(bytes: usize, huge: bool) -> Result<Self, Failure> {
        let map = || -> io::Result<MmapRaw> {
            let file = memfd_create("superpipe-bench", MemfdFlags::CLOEXEC)?;
            ftruncate(&file, whole_pages(bytes) as u64)?;
            let map = MmapOptions::new().len(whole_pages(bytes)).map_raw(&file)?;
            if huge {
                // Advice: without huge pages the measurement is made without, as superpipe's would be.
                let _ = map.advise(Advice::HugePage);
            }
            Ok(map)
        };
        let shared = Self(map().map_err(fail)?);
        // SAFETY: the whole mapping is writable and nobody else has it yet. Writing makes its pages resident.
        unsafe { shared.0.as_mut_ptr().write_bytes(0, shared.0.len()) };
        Ok(shared)
    }

    /// The 64-bit words from byte `at` on.
    ///
    /// # Panics
    /// If `at` is not a multiple of 8 or the range is not inside the mapping.
    #[must_use]
    pub fn words(&self, at: usize, bytes: usize) -> &[AtomicU64] {
        assert!(at.is_multiple_of(8));
        let start = self.at(at, bytes).cast::<AtomicU64>();
        // SAFETY: `at()` checked the range, `at` is aligned, and AtomicU64 may be written by anyone at any time.
        // Payload copies over the same bytes never run at the same time: see `copy_in` and `copy_out`.
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
        let to = self.at(at, payload.len());
        // SAFETY: in range by `at()`; a borrowed slice of private memory doesn't overlap the mapping;
        // nobody else touches the bytes by the caller's 1.
        unsafe { kernel.copy(to, payload.as_ptr(), payload.len()) }
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
        let from = self.at(at, payload.len());
        // SAFETY: in range by `at()`; a borrowed slice of private memory doesn't overlap the mapping;
        // nobody writes the bytes by the caller's 1.
        unsafe { kernel.copy(payload.as_mut_ptr(), from, payload.len()) }
    }

    /// Copies a payload from one place of the mapping to another.
    ///
    /// # Safety
    /// 1. An Acquire load before this call paired with the Release store after the payload was written, and
    ///    nobody writes the bytes from `from` on before the caller gives them back.
    /// 2. Until a Release store after this call and the Acquire load that pairs with it, no other process
    ///    touches the bytes from `to` on.
    ///
    /// # Panics
    /// If a range is not inside the mapping, or the two overlap.
    pub unsafe fn copy_across(&self, from: usize, to: usize, bytes: usize, kernel: Kernel) {
        assert!(from.abs_diff(to) >= bytes, "{bytes} bytes from {from} to {to} overlap");
        let (source, destination) = (self.at(from, bytes), self.at(to, bytes));
        // SAFETY: in range by `at()` and apart by the assertion; nobody writes the source by the caller's 1, and nobody
        // else touches the destination by the caller's 2.
        unsafe { kernel.copy(destination, source, bytes) }
    }

    /// Returns bytes of the mapping, to write a message in place.
    ///
    /// # Safety
    /// 1. While the slice lives, and until a Release store after it and the Acquire load that pairs with that, no other process touches
    ///    these bytes.
    /// 2. This process makes no other reference to them while the slice lives.
    ///
    /// # Panics
    /// If the range is not inside the mapping.
    #[expect(
        clippy::mut_from_ref,
        reason = "the mapping is memory that processes share; the caller's 2 keeps references apart"
    )]
    #[must_use]
    pub unsafe fn slice_mut(&self, at: usize, bytes: usize) -> &mut [u8] {
        let start = self.at(at, bytes);
        // SAFETY: in range by `at()`, and mapped for writing as long as `self` lives; bytes need no alignment and are initialized; nobody else
        // touches them by the caller's 1 and 2.
        unsafe { slice::from_raw_parts_mut(start, bytes) }
    }

    /// Returns bytes of the mapping, to read a message in place.
    ///
    /// # Safety
    /// 1. An Acquire load before this call paired with the Release store after the bytes were written, and nobody writes them while the
    ///    slice lives.
    ///
    /// # Panics
    /// If the range is not inside the mapping.
    #[must_use]
    pub unsafe fn slice(&self, at: usize, bytes: usize) -> &[u8] {
        let start = self.at(at, bytes);
        // SAFETY: in range by `at()`, and mapped as long as `self` lives; bytes need no alignment and are initialized; nobody writes them by the
        // caller's 1.
        unsafe { slice::from_raw_parts(start, bytes) }
    }

    fn at(&self, at: usize, bytes: usize) -> *mut u8 {
        let len = self.0.len();
        assert!(at <= len && bytes <= len - at, "{at} + {bytes} is outside of {len}");
        // SAFETY: at <= len, so the pointer stays inside the mapping or one past it.
        unsafe { self.0.as_mut_ptr().add(at) }
    }
}

/// Maps a private, page-aligned buffer of at least `bytes` zeros, resident; with `huge` in huge pages, if the kernel has them.
///
/// # Errors
/// [`Failure::Os`] when there is no memory.
pub fn resident(bytes: usize, huge: bool) -> Result<MmapMut, Failure> {
    let mut map = untouched(bytes)?;
    if huge {
        // Advice, as in `SharedMapping::new`.
        let _ = map.advise(Advice::HugePage);
    }
    map.fill(0);
    Ok(map)
}

/// Maps a private, page-aligned buffer of at least `bytes` zeros of which nothing is resident, and asks the kernel for nothing.
///
/// # Errors
/// [`Failure::Os`] when there is no address space.
pub fn untouched(bytes: usize) -> Result<MmapMut, Failure> {
    MmapMut::map_anon(whole_pages(bytes)).map_err(fail)
}

fn whole_pages(bytes: usize) -> usize {
    bytes.next_multiple_of(PAGE_BYTES).max(PAGE_BYTES)
}

fn fail(error: io::Error) -> Failure {
    Failure::Os("map memory", error)
}
