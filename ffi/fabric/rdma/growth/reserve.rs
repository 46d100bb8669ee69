//! Address space for what a connection provisions on demand: two landing buffers and two images of the peer's, each of the largest layout.
//!
//! All of it is mapped for the life of the connection, so that spans and addresses stay valid. Pages are resident only where something is
//! provisioned.

use crate::os::map::HUGE_PAGE_BYTES;
use crate::os::page::round_to_pages;
use crate::os::{Bytes, Mapping, OsError};
use core::ops::Range;
use core::ptr::NonNull;
use std::sync::Arc;
use superpipe_verbs::Memory;

/// Landing buffers and images.
pub(super) const PLACES: usize = 4;

/// The address space.
#[derive(Debug)]
pub(super) struct Reserve {
    mapping: Mapping,
    place_bytes: usize,
}

/// A part of a [`Reserve`] whose pages are given back when it is dropped.
#[derive(Debug)]
pub(super) struct Part {
    reserve: Arc<Reserve>,
    range: Range<usize>,
}

impl Reserve {
    /// Reserves places of `bytes` each.
    ///
    /// # Errors
    /// The kernel refuses: RLIMIT_AS, or strict overcommit.
    pub(super) fn new(bytes: usize) -> Result<Arc<Self>, OsError> {
        let too_large = || OsError::new(libc::ENOMEM, format!("cannot map {}", Bytes(bytes as u64)));
        let place_bytes = round_to_pages(bytes).ok_or_else(too_large)?;
        // Huge pages begin where the place does.
        let whole = if place_bytes < HUGE_PAGE_BYTES { 1 } else { HUGE_PAGE_BYTES };
        let place_bytes = place_bytes.checked_next_multiple_of(whole).ok_or_else(too_large)?;
        let mapping = Mapping::reserved(place_bytes.checked_mul(PLACES).ok_or_else(too_large)?)?;
        Ok(Arc::new(Self { mapping, place_bytes }))
    }

    /// Returns the first `bytes` of a place, rounded up to pages. None if it is too small.
    pub(super) fn part(self: &Arc<Self>, place: usize, bytes: usize) -> Option<Part> {
        let len = round_to_pages(bytes).filter(|len| place < PLACES && *len <= self.place_bytes)?;
        let start = place * self.place_bytes;
        Some(Part { reserve: Arc::clone(self), range: start..start + len })
    }

    /// Returns the place that this address is in.
    pub(super) fn place_of(&self, address: *const u8) -> Option<usize> {
        let offset = address.addr().checked_sub(self.mapping.as_ptr().addr().get())?;
        Some(offset / self.place_bytes).filter(|place| *place < PLACES)
    }
}

impl Part {
    /// Asks for huge pages where they lie completely inside, and for none elsewhere.
    pub(super) fn advise(&self) {
        let Range { start, end } = self.range;
        let huge = start.next_multiple_of(HUGE_PAGE_BYTES)..end / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
        self.reserve.mapping.advise_huge(self.range.clone(), false);
        if !huge.is_empty() {
            self.reserve.mapping.advise_huge(huge, true);
        }
    }

    /// Makes bytes of this part resident, which read as zero if the part was just taken or discarded.
    pub(super) fn populate(&self, bytes: Range<usize>) -> Result<(), OsError> {
        let range = self.inside(&bytes);
        self.reserve.mapping.try_populate(range.clone()).unwrap_or_else(|| {
            self.reserve.mapping.touch(range);
            Ok(())
        })
    }

    /// Gives the pages of these bytes back.
    pub(super) fn discard(&self, bytes: &Range<usize>) -> Result<(), OsError> {
        self.reserve.mapping.discard(self.inside(bytes))
    }

    fn inside(&self, bytes: &Range<usize>) -> Range<usize> {
        assert!(bytes.start <= bytes.end && bytes.end <= self.range.len(), "a slab is inside its part");
        self.range.start + bytes.start..self.range.start + bytes.end
    }
}

// SAFETY: 1. The mapping lives as long as this does, and its pages are there or come when they are used. 2. The range never changes.
// 3. A mapping gives out raw pointers only.
unsafe impl Memory for Part {
    fn as_ptr(&self) -> NonNull<u8> {
        // SAFETY: the range is inside the mapping.
        unsafe { self.reserve.mapping.as_ptr().add(self.range.start) }
    }

    fn len(&self) -> usize {
        self.range.len()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // A child of fork does not have the mapping. What cannot be given back now goes with the connection.
        if self.reserve.mapping.is_here() {
            let _ = self.discard(&(0..self.range.len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::page::page_bytes;

    #[test]
    fn places_do_not_overlap_and_have_their_bytes() {
        for bytes in [1, 64 << 10, HUGE_PAGE_BYTES, HUGE_PAGE_BYTES + 1] {
            let reserve = Reserve::new(bytes).unwrap();
            let mut free = reserve.mapping.as_ptr().as_ptr();
            for place in 0..PLACES {
                let part = reserve.part(place, bytes).unwrap();
                assert!(part.as_ptr().as_ptr() >= free && part.len() >= bytes);
                assert_eq!(reserve.place_of(part.as_ptr().as_ptr()), Some(place));
                assert!(
                    bytes < HUGE_PAGE_BYTES || part.as_ptr().as_ptr().addr().is_multiple_of(HUGE_PAGE_BYTES)
                );
                free = part.as_ptr().as_ptr().wrapping_add(part.len());
                assert_eq!(reserve.place_of(free.wrapping_sub(1)), Some(place));
            }
            assert!(reserve.part(PLACES, 1).is_none());
            assert!(reserve.part(0, bytes + 2 * HUGE_PAGE_BYTES).is_none());
        }
        assert!(Reserve::new(usize::MAX / 2).is_err());
    }

    #[test]
    fn a_part_that_is_dropped_reads_as_zero_next() {
        let reserve = Reserve::new(4 * page_bytes()).unwrap();
        let written = reserve.part(1, 4 * page_bytes()).unwrap();
        written.populate(0..written.len()).unwrap();
        // SAFETY: the byte is inside the part, of which nobody else has the address.
        unsafe { written.as_ptr().write(7) };
        drop(written);
        let part = reserve.part(1, 1).unwrap();
        // SAFETY: likewise.
        assert_eq!(unsafe { part.as_ptr().read() }, 0);
    }
}
