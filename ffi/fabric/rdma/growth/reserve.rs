//! Address space for what a connection provisions on demand: two landing buffers and two images of the peer's, each of the largest layout;
//! and for the small buffer of the provision protocol and its image, which are there from the beginning.
//!
//! All of it is mapped for the life of the connection, so that spans and addresses stay valid. Pages are resident only where something is
//! provisioned.

use crate::os::map::HUGE_PAGE_BYTES;
use crate::os::page::round_to_pages;
use crate::os::{Bytes, Mapping, MemoryPlacement, OsError};
use core::ops::Range;
use core::ptr::NonNull;
use std::sync::Arc;
use superpipe_verbs::Memory;

/// Landing buffers 0 and 1, and the small one; then the image of each.
pub(super) const PLACES: usize = 6;
/// Large places of landing buffers, or of images. The small one is behind them.
const LARGE: usize = 2;

/// The address space: the large places, then the small ones.
#[derive(Debug)]
pub(super) struct Reserve {
    mapping: Mapping,
    large_bytes: usize,
    /// 0: there are none.
    small_bytes: usize,
}

/// A part of a [`Reserve`] whose pages are given back when it is dropped.
#[derive(Debug)]
pub(super) struct Part {
    reserve: Arc<Reserve>,
    range: Range<usize>,
}

impl Reserve {
    /// Reserves large places of `bytes` each, and small ones of `small_bytes`.
    ///
    /// # Errors
    /// The kernel refuses: RLIMIT_AS, or strict overcommit.
    pub(super) fn new(
        bytes: usize,
        small_bytes: usize,
        placement: MemoryPlacement,
    ) -> Result<Arc<Self>, OsError> {
        let too_large = || OsError::new(libc::ENOMEM, format!("cannot map {}", Bytes(bytes as u64)));
        let large_bytes = round_to_pages(bytes).ok_or_else(too_large)?;
        // Huge pages begin where the place does.
        let whole = if large_bytes < HUGE_PAGE_BYTES { 1 } else { HUGE_PAGE_BYTES };
        let large_bytes = large_bytes.checked_next_multiple_of(whole).ok_or_else(too_large)?;
        // A place has a page at least.
        let small_bytes =
            if small_bytes == 0 { 0 } else { round_to_pages(small_bytes).ok_or_else(too_large)? };
        let all_bytes = large_bytes.checked_mul(2 * LARGE).and_then(|all| all.checked_add(2 * small_bytes));
        let mapping = Mapping::reserved(all_bytes.ok_or_else(too_large)?)?;
        placement.place(&mapping)?;
        Ok(Arc::new(Self { mapping, large_bytes, small_bytes }))
    }

    /// Returns the first `bytes` of a place, rounded up to pages. None if it is too small.
    pub(super) fn part(self: &Arc<Self>, place: usize, bytes: usize) -> Option<Part> {
        let range = (place < PLACES).then(|| self.range_of(place))?;
        let len = round_to_pages(bytes).filter(|len| *len <= range.len())?;
        Some(Part { reserve: Arc::clone(self), range: range.start..range.start + len })
    }

    /// Returns the place that this address is in.
    pub(super) fn place_of(&self, address: *const u8) -> Option<usize> {
        let offset = address.addr().checked_sub(self.mapping.as_ptr().addr().get())?;
        (0..PLACES).find(|place| self.range_of(*place).contains(&offset))
    }

    fn range_of(&self, place: usize) -> Range<usize> {
        let (half, number) = (place / (LARGE + 1), place % (LARGE + 1));
        let (start, bytes) = if number < LARGE {
            ((half * LARGE + number) * self.large_bytes, self.large_bytes)
        } else {
            (2 * LARGE * self.large_bytes + half * self.small_bytes, self.small_bytes)
        };
        start..start + bytes
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
    use crate::os::memory_node::some_placement;
    use crate::os::page::page_bytes;

    #[test]
    fn places_do_not_overlap_and_have_their_bytes() {
        for bytes in [1, 64 << 10, HUGE_PAGE_BYTES, HUGE_PAGE_BYTES + 1] {
            let reserve = Reserve::new(bytes, 1, MemoryPlacement::default()).unwrap();
            let mut free = reserve.mapping.as_ptr().as_ptr();
            for (place, bytes) in [0, 1, 3, 4].map(|place| (place, bytes)).into_iter().chain([(2, 1), (5, 1)])
            {
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
            assert!(reserve.part(2, page_bytes() + 1).is_none());
            assert_eq!(reserve.place_of(free), None);
        }
        assert!(Reserve::new(usize::MAX / 2, 0, MemoryPlacement::default()).is_err());
        let without = Reserve::new(1, 0, MemoryPlacement::default()).unwrap();
        assert!(without.part(2, 1).is_none() && without.part(4, 1).is_some());
    }

    #[test]
    fn all_places_are_of_the_node_that_is_asked_for() {
        let Some(placement) = some_placement() else { return };
        let reserve = Reserve::new(2 * HUGE_PAGE_BYTES, 1, placement).unwrap();
        assert_eq!(reserve.mapping.preferred_node(), placement.node());
        let part = reserve.part(1, HUGE_PAGE_BYTES).unwrap();
        part.advise();
        part.populate(0..page_bytes()).unwrap();
        assert_eq!(reserve.mapping.node_at(part.range.start), placement.node());
    }

    #[test]
    fn a_part_that_is_dropped_reads_as_zero_next() {
        let reserve = Reserve::new(4 * page_bytes(), 0, MemoryPlacement::default()).unwrap();
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
