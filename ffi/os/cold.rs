//! Cold memory: pages that were never written.
//!
//! The first write to a page costs a page fault and a page of zeros. With pages of 4 KiB this takes longer than the copy
//! (docs/performance.md, "Cold memory"). There are two remedies, and neither changes a byte: huge pages, which take one fault
//! per 512 pages, and populating, which takes many faults in one call. Both are advice: a kernel that is too old, or one without
//! huge pages, only costs the advantage. Only pages that lie entirely inside the given memory are touched, since others hold
//! bytes of other owners, too.

use core::ops::Range;

use super::error::retry;
use super::map::HUGE_PAGE_BYTES;
use super::page::page_bytes;

/// Asks for huge pages inside `memory`. Makes nothing resident: the first write does. Returns true if the kernel agreed, and
/// false also if no huge page fits.
///
/// The kernel keeps the advice as long as the mapping. If the memory lies inside a larger mapping, that is split into
/// up to three; a process can have 65,530 mappings by default.
pub fn advise_huge_pages(memory: &mut [u8]) -> bool {
    advise(memory, HUGE_PAGE_BYTES, libc::MADV_HUGEPAGE)
}

/// Makes the pages inside `memory` resident and writable, in one call. Returns false if the kernel refused (before Linux 5.14,
/// no memory, no such mapping) or there is no entire page: then each first write does it.
pub fn make_resident(memory: &mut [u8]) -> bool {
    advise(memory, page_bytes(), libc::MADV_POPULATE_WRITE)
}

/// Returns the bytes from the start of `memory` to the end of the huge page that it begins in, or to its own end.
#[must_use]
pub fn to_huge_page_end(memory: &[u8]) -> usize {
    let offset = memory.as_ptr().addr() % HUGE_PAGE_BYTES;
    memory.len().min(HUGE_PAGE_BYTES - offset)
}

fn advise(memory: &mut [u8], page: usize, advice: libc::c_int) -> bool {
    let inside = pages_inside(memory.as_ptr().addr(), memory.len(), page);
    let whole = memory.get_mut(inside).unwrap_or_default();
    // SAFETY: the range is entire pages of a slice that is borrowed mutably, so nobody else's bytes are in it, and neither
    // of the two advices changes contents.
    !whole.is_empty()
        && retry(|| unsafe { libc::madvise(whole.as_mut_ptr().cast(), whole.len(), advice) }) == 0
}

/// Returns the offsets of the entire pages in `len` bytes at `address`.
fn pages_inside(address: usize, len: usize, page: usize) -> Range<usize> {
    let start = (page - address % page) % page;
    let whole = len.saturating_sub(start) / page * page;
    start.min(len)..start.min(len) + whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::Mapping;
    use core::slice;

    const HUGE: usize = HUGE_PAGE_BYTES;

    /// Returns the bytes of a mapping that nobody else knows.
    fn bytes_of(mapping: &mut Mapping) -> &mut [u8] {
        // SAFETY: the mapping is borrowed mutably, private, and zeros where nothing was written.
        unsafe { slice::from_raw_parts_mut(mapping.as_ptr().as_ptr(), mapping.len()) }
    }

    /// Returns for each page whether it is resident.
    fn resident(memory: &[u8]) -> Vec<bool> {
        let mut states = vec![0; memory.len() / page_bytes()];
        // SAFETY: the memory is entire pages of a mapping, and there is a byte for each.
        let status =
            unsafe { libc::mincore(memory.as_ptr().cast_mut().cast(), memory.len(), states.as_mut_ptr()) };
        assert_eq!(status, 0);
        states.iter().map(|state| state & 1 == 1).collect()
    }

    #[test]
    fn only_entire_pages_inside_count() {
        for (address, len, range) in [
            (0, 0, 0..0),
            (0, 4095, 0..0),
            (0, 4096, 0..4096),
            (0, 8191, 0..4096),
            (1, 4096, 4095..4095),
            (1, 8190, 4095..4095),
            (1, 8191, 4095..8191),
            (4095, 4096, 1..1),
            (4095, 4097, 1..4097),
            (4095, 1, 1..1),
            (4096 + 7, 3, 3..3),
            (usize::MAX - 4095, 4095, 0..0),
            (usize::MAX - 4096, 4096, 1..1),
            (usize::MAX - 4096 - 4095, 8191, 0..4096),
        ] {
            assert_eq!(pages_inside(address, len, 4096), range, "{len} bytes at {address:#x}");
        }
        assert_eq!(pages_inside(HUGE + 1, 3 * HUGE, HUGE), HUGE - 1..3 * HUGE - 1);
    }

    #[test]
    fn windows_end_with_huge_pages() {
        let mut mapping = Mapping::anonymous(3 * HUGE).unwrap();
        let bytes = bytes_of(&mut mapping);
        for (range, window) in [
            (0..3 * HUGE, HUGE),
            (1..3 * HUGE, HUGE - 1),
            (HUGE - 1..3 * HUGE, 1),
            (HUGE..HUGE + 5, 5),
            (HUGE..HUGE, 0),
        ] {
            assert_eq!(to_huge_page_end(&bytes[range.clone()]), window, "{range:?}");
        }
    }

    #[test]
    fn neighbours_stay_as_they_are() {
        let page = page_bytes();
        let mut mapping = Mapping::anonymous(8 * page).unwrap();
        let memory = bytes_of(&mut mapping);
        // Two pages and parts of two others.
        let made = make_resident(&mut memory[page + 1..4 * page + 100]);
        let seen = resident(memory);
        assert_eq!(seen, [false, false, made, made, false, false, false, false]);
        assert!(memory.iter().all(|&byte| byte == 0));
    }

    #[test]
    fn contents_stay_as_they_are() {
        let mut mapping = Mapping::anonymous(2 * HUGE).unwrap();
        let memory = bytes_of(&mut mapping);
        for at in [0, 1, HUGE - 1, HUGE, 2 * HUGE - 1] {
            memory[at] = 0xA5;
        }
        advise_huge_pages(memory);
        make_resident(memory);
        for (at, &byte) in memory.iter().enumerate() {
            let written = [0, 1, HUGE - 1, HUGE, 2 * HUGE - 1].contains(&at);
            assert_eq!(byte, if written { 0xA5 } else { 0 }, "{at}");
        }
    }

    #[test]
    fn advice_alone_makes_nothing_resident() {
        let mut mapping = Mapping::anonymous(2 * HUGE).unwrap();
        let memory = bytes_of(&mut mapping);
        advise_huge_pages(memory);
        assert!(resident(memory).iter().all(|&resident| !resident));
    }

    #[test]
    fn nothing_to_advise_is_no_error() {
        let mut few = [1_u8; 100];
        assert!(!advise_huge_pages(&mut few));
        assert!(!make_resident(&mut few));
        assert!(!make_resident(&mut []));
        assert_eq!(few, [1; 100]);
    }

    #[test]
    fn a_refusal_is_reported_and_does_no_harm() {
        let mut memory = vec![7_u8; 3 * page_bytes()];
        // No kernel knows this one.
        assert!(!advise(&mut memory, page_bytes(), 9999));
        assert!(memory.iter().all(|&byte| byte == 7));
    }
}
