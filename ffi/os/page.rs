//! Pages of memory.

/// Returns the bytes of a page.
#[must_use]
pub fn page_bytes() -> usize {
    // By libc: rustix reads /proc before Linux 6.4, and panics without.
    // SAFETY: sysconf takes an integer and touches no memory of ours.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Rounds up to a multiple of the page size, one page at least. None if an address cannot hold the result.
#[must_use]
pub fn round_to_pages(bytes: usize) -> Option<usize> {
    round_up(bytes, page_bytes())
}

pub(super) fn round_up(bytes: usize, page: usize) -> Option<usize> {
    bytes.max(1).checked_next_multiple_of(page).filter(|&len| isize::try_from(len).is_ok())
}
