//! Memory of a trusted buffer: one mapping, which peers map for writing. It is never behind a reference.

use core::ffi::CStr;
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::copy::CopyKernels;
use crate::os::{ExposedMemory, MemoryPlacement, OsError, PeerAccess};

/// Name in /proc.
const NAME: &CStr = c"superpipe-trusted";

/// Memory of a [`TrustedBuf`](crate::TrustedBuf). A connection keeps it while its peer may write it.
#[derive(Debug)]
pub struct TrustedMemory {
    exposed: ExposedMemory,
    placement: MemoryPlacement,
    is_dropped: AtomicBool,
    /// Number of the connection that has offered the memory, and has received no message into it since. 0: none.
    offered_by: AtomicU64,
}

impl TrustedMemory {
    /// Makes `bytes` zeros of a memory node, all of them resident.
    ///
    /// # Errors
    /// The kernel refuses: too little memory, or too many open files.
    pub(crate) fn new(bytes: usize, placement: MemoryPlacement) -> Result<Self, OsError> {
        let exposed = ExposedMemory::create_at(NAME, bytes, PeerAccess::ReadWrite, placement)?;
        Ok(Self { exposed, placement, is_dropped: AtomicBool::new(false), offered_by: AtomicU64::new(0) })
    }

    /// Makes memory with the first `bytes` bytes of this one, which no peer has mapped.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    ///
    /// # Safety
    /// 1. This memory has these bytes.
    /// 2. No reference to them lives.
    pub(crate) unsafe fn copied(&self, bytes: usize) -> Result<Self, OsError> {
        let copy = Self::new(bytes, self.placement)?;
        // SAFETY: the caller promises that the bytes are there, without a reference. They are not in the copy, which is another mapping.
        unsafe { copy.place(0, self.as_ptr().as_ptr(), bytes, false) };
        Ok(copy)
    }

    /// Notes that a connection has offered the memory.
    pub(crate) fn note_offered(&self, connection: u64) {
        self.offered_by.store(connection, Ordering::Relaxed);
    }

    /// Notes that no offer of the memory by this connection lives.
    pub(crate) fn note_unoffered(&self, connection: u64) {
        let _ = self.offered_by.compare_exchange(connection, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns true if another connection has offered the memory, so that the peer of that one may write it.
    pub(crate) fn is_offered_beside(&self, connection: u64) -> bool {
        ![0, connection].contains(&self.offered_by.load(Ordering::Relaxed))
    }

    /// Returns the address of the first byte, valid until the value is dropped.
    pub(crate) fn as_ptr(&self) -> NonNull<u8> {
        self.exposed.as_ptr()
    }

    /// Returns the memory as a peer on this host can map it.
    pub(crate) const fn exposed(&self) -> &ExposedMemory {
        &self.exposed
    }

    /// Notes that the buffer was dropped.
    pub(crate) fn note_dropped(&self) {
        self.is_dropped.store(true, Ordering::Relaxed);
    }

    /// Returns true once the buffer was dropped.
    pub(crate) fn is_dropped(&self) -> bool {
        self.is_dropped.load(Ordering::Relaxed)
    }

    /// Copies bytes out, from the offset `at` on.
    pub(crate) fn read(&self, at: usize, to: &mut [u8]) {
        let source = self.part(at..at + to.len());
        // SAFETY: `part` has checked that the mapping has these bytes; `to` is private memory, so it does not overlap; and this memory is
        // never behind a reference.
        unsafe { CopyKernels::get().copy(to.as_mut_ptr(), source, to.len()) }
    }

    /// Copies bytes in, from the offset `at` on.
    pub(crate) fn write(&self, at: usize, from: &[u8]) {
        let destination = self.part(at..at + from.len());
        // SAFETY: `part` has checked that the mapping has these bytes; `from` is private memory, so it does not overlap; and this memory is
        // never behind a reference.
        unsafe { CopyKernels::get().copy(destination, from.as_ptr(), from.len()) }
    }

    /// Copies payload of a fabric in, from the offset `at` on: with stores that bypass the caches if it `is_streaming`. Bytes that are in
    /// place already stay there.
    ///
    /// # Safety
    /// 1. `source` is valid for reads of `bytes` bytes.
    /// 2. No reference to them lives.
    /// 3. They are in no part of this memory but the one that they are copied to.
    pub(crate) unsafe fn place(&self, at: usize, source: *const u8, bytes: usize, is_streaming: bool) {
        let destination = self.part(at..at + bytes);
        if core::ptr::eq(source, destination) {
            return;
        }
        let kernels = CopyKernels::get();
        // SAFETY: `part` has checked that the mapping has these bytes, which are never behind a reference. The caller promises the same of
        // the source, and that both do not overlap: they are not the same part.
        unsafe {
            if is_streaming {
                kernels.copy_streaming(destination, source, bytes);
            } else {
                kernels.copy(destination, source, bytes);
            }
        }
    }

    /// Returns the address of a part, which must be inside.
    fn part(&self, part: Range<usize>) -> *mut u8 {
        assert!(part.start <= part.end && part.end <= self.exposed.bytes(), "a part is inside its buffer");
        // SAFETY: the assertion keeps the part inside the mapping.
        unsafe { self.as_ptr().as_ptr().add(part.start) }
    }
}
