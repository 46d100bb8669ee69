//! Memory that was never written.
//!
//! The first write to a page costs a fault and a page of zeros: with pages of 4 KiB that, and not the copy, is what is
//! measured (docs/performance.md, "Cold memory"). Two remedies, and neither changes a byte: huge pages, one fault for 512
//! pages; and residency, many faults in one call. Both are advice. A kernel that is too old, or an administrator who
//! wants no huge pages, costs the advantage and nothing else. Only pages that lie inside what is named are ever touched,
//! since the others hold somebody else's bytes too.

use core::ops::Range;

use super::error::retry;
use super::map::HUGE_PAGE_BYTES;
use super::page::page_bytes;

/// Asks for huge pages where they fit inside `memory`. Nothing is made resident: that is what the first write does.
/// Whether the kernel agreed; false as well where none fits.
///
/// The kernel keeps the advice as long as the mapping. Where the memory lies inside a larger mapping, that is split in
/// up to three, of which a process can have 65,530 unless told otherwise.
pub fn advise_huge_pages(memory: &mut [u8]) -> bool {
    advise(memory, HUGE_PAGE_BYTES, libc::MADV_HUGEPAGE)
}

/// Makes the pages inside `memory` resident and writable, in one call. False if the kernel refused (before Linux 5.14,
/// no memory, no such mapping) or there is no whole page: then each first write does it.
pub fn make_resident(memory: &mut [u8]) -> bool {
    advise(memory, page_bytes(), libc::MADV_POPULATE_WRITE)
}

/// Bytes from the start of `memory` to the end of the huge page that it begins in, or to its own end.
#[must_use]
pub fn to_huge_page_end(memory: &[u8]) -> usize {
    let offset = memory.as_ptr().addr() % HUGE_PAGE_BYTES;
    memory.len().min(HUGE_PAGE_BYTES - offset)
}

fn advise(memory: &mut [u8], page: usize, advice: libc::c_int) -> bool {
    let inside = pages_inside(memory.as_ptr().addr(), memory.len(), page);
    let whole = memory.get_mut(inside).unwrap_or_default();
    // SAFETY: the range is whole pages of a slice that is borrowed mutably, so nobody else's bytes are in it, and neither
    // of the two advices changes contents.
    !whole.is_empty()
        && retry(|| unsafe { libc::madvise(whole.as_mut_ptr().cast(), whole.len(), advice) }) == 0
}

/// The offsets of the whole pages in `len` bytes at `address`.
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

    /// Bytes of a mapping that nobody else knows.
    fn bytes_of(mapping: &mut Mapping) -> &mut [u8] {
        // SAFETY: the mapping is borrowed mutably, private, and zeros where nothing was written.
        unsafe { slice::from_raw_parts_mut(mapping.as_ptr().as_ptr(), mapping.len()) }
    }

    /// Which of the pages are resident.
    fn resident(memory: &[u8]) -> Vec<bool> {
        let mut answers = vec![0; memory.len() / page_bytes()];
        // SAFETY: the memory is whole pages of a mapping, and there is a byte for each.
        let status =
            unsafe { libc::mincore(memory.as_ptr().cast_mut().cast(), memory.len(), answers.as_mut_ptr()) };
        assert_eq!(status, 0);
        answers.iter().map(|answer| answer & 1 == 1).collect()
    }

    #[test]
    fn only_whole_pages_inside_count() {
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
    fn a_refusal_is_told_and_does_no_harm() {
        let mut memory = vec![7_u8; 3 * page_bytes()];
        // No kernel knows this one.
        assert!(!advise(&mut memory, page_bytes(), 9999));
        assert!(memory.iter().all(|&byte| byte == 7));
    }
}
