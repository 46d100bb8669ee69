//! Plain copies whose destination is fetched for writing some pieces ahead.

use core::ptr;

use super::prefetch_for_write;

/// A multiple of a line. Twice as many bytes ahead are what a core can request at once.
const PIECE_BYTES: usize = 512;

/// Copies in pieces, the lines of which are fetched for writing two pieces ahead.
///
/// # Safety
/// 1. `src` is valid for reads and `dst` for writes of `len` bytes.
/// 2. They do not overlap.
pub(crate) unsafe fn copy_fetching(dst: *mut u8, src: *const u8, len: usize) {
    prefetch_for_write(dst, len.min(2 * PIECE_BYTES));
    for at in (0..len).step_by(PIECE_BYTES) {
        let ahead = (at + 2 * PIECE_BYTES).min(len);
        prefetch_for_write(dst.wrapping_add(ahead), (len - ahead).min(PIECE_BYTES));
        // SAFETY: `at` is less than `len`, inside the caller's source.
        let from = unsafe { src.add(at) };
        // SAFETY: `at` is less than `len`, inside the caller's destination.
        let to = unsafe { dst.add(at) };
        // SAFETY: the piece ends with the caller's ranges at the latest, which do not overlap.
        unsafe { ptr::copy_nonoverlapping(from, to, (len - at).min(PIECE_BYTES)) };
    }
}
