//! Pages of memory.

/// Bytes of a page.
#[must_use]
pub fn page_bytes() -> usize {
    // SAFETY: sysconf takes an integer and touches no memory of ours.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// `bytes` rounded up to whole pages, at least one. None beyond what an address can say.
#[must_use]
pub fn round_to_pages(bytes: usize) -> Option<usize> {
    round_up(bytes, page_bytes())
}

pub(super) fn round_up(bytes: usize, page: usize) -> Option<usize> {
    bytes.max(1).checked_next_multiple_of(page).filter(|&len| isize::try_from(len).is_ok())
}
