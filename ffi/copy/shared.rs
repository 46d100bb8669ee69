//! Reads of memory that a peer may be writing, through copies that it cannot change.

use core::mem::MaybeUninit;
use core::{ptr, slice};

/// Bytes that are copied at a time, so that the first-level cache still holds them when they are used.
pub(super) const PIECE_BYTES: usize = 4096;

/// Calls `use_piece` with copies of `len` bytes at `src`, in order.
///
/// # Safety
/// 1. `src` is valid for reads of `len` bytes.
/// 2. No `&mut` of this process to any of them lives.
pub(crate) unsafe fn for_each_piece(src: *const u8, len: usize, mut use_piece: impl FnMut(&[u8])) {
    let mut piece = [MaybeUninit::<u8>::uninit(); PIECE_BYTES];
    for from in (0..len).step_by(PIECE_BYTES) {
        let bytes = PIECE_BYTES.min(len - from);
        // SAFETY: `from + bytes` is at most `len`, inside the caller's range; `piece` has room for `bytes`.
        unsafe { ptr::copy_nonoverlapping(src.add(from), piece.as_mut_ptr().cast(), bytes) };
        // SAFETY: these `bytes` of `piece` were just written, and nobody else has its address.
        use_piece(unsafe { slice::from_raw_parts(piece.as_ptr().cast(), bytes) });
    }
}
