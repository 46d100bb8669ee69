//! Mapped memory that this process reads and another one writes.

use core::ops::Range;
use core::ptr::NonNull;
use std::os::fd::BorrowedFd;

use super::error::OsError;
use super::map::Mapping;

/// An owned mapping of a file, readable only, unmapped when dropped. Its owner may write it at any time, so it is never behind a reference.
/// Everything else is as with [`Mapping`].
#[derive(Debug)]
pub struct ReadOnlyMapping(Mapping);

impl ReadOnlyMapping {
    /// Maps the first `bytes` of a file, rounded up to pages. An access beyond its end is a SIGBUS: the caller has checked that it cannot
    /// shrink. The first access to each page has a page fault, unless it was populated.
    ///
    /// # Errors
    /// The kernel refuses: too little memory, RLIMIT_AS, or a descriptor that is not open for reading.
    pub fn shared(fd: BorrowedFd<'_>, bytes: usize) -> Result<Self, OsError> {
        Ok(Self(Mapping::shared_for_reading(fd, bytes)?))
    }

    /// Maps the pages of a part that are allocated.
    pub(crate) fn populate(&self, part: Range<usize>) {
        self.0.populate_for_reading(part);
    }

    /// Unmaps the pages of a part, so that dropping the mapping takes less time.
    pub(crate) fn forget(&self, part: Range<usize>) {
        self.0.forget(part);
    }

    /// Returns false in a child of fork, which has no such mapping.
    pub(crate) fn is_here(&self) -> bool {
        self.0.is_here()
    }

    /// Returns the address of the first byte: page-aligned, valid for reads of `len` bytes until the mapping is dropped.
    #[must_use]
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.0.as_ptr()
    }

    /// Returns the bytes mapped, a multiple of the page size.
    #[must_use]
    #[cfg_attr(
        feature = "internals",
        expect(clippy::len_without_is_empty, reason = "a mapping is never empty")
    )]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}
