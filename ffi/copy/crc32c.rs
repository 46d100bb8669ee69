//! CRC-32C (Castagnoli, as in iSCSI), by the kernel that was the fastest here.
//!
//! Checksums chain: that of `a` then `b` is `crc32c(crc32c(0, a), b)`. A seed that is no checksum works as well: it stands
//! for bytes that came before. Memory that a peer may write is checksummed through a copy that it cannot change, so that
//! what was checked is what is used.

use super::CrcKernel;
use core::mem::MaybeUninit;
use core::{ptr, slice};

/// Bytes that are copied and then checksummed while the first cache holds them.
const PIECE_BYTES: usize = 4096;

/// The checksum of what `seed` stands for, then `bytes`. The checksum of nothing is 0.
#[must_use]
#[inline]
pub fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    CrcKernel::get().crc32c(seed, bytes)
}

/// The checksum of what `seed` stands for, then `len` bytes that a peer may be writing.
///
/// # Safety
/// 1. `src` is valid for reads of `len` bytes.
/// 2. No `&mut` of this process to any of them lives.
#[must_use]
pub unsafe fn crc32c_of_shared(seed: u32, src: *const u8, len: usize) -> u32 {
    let mut piece = [MaybeUninit::<u8>::uninit(); PIECE_BYTES];
    let mut checksum = seed;
    for from in (0..len).step_by(PIECE_BYTES) {
        let bytes = PIECE_BYTES.min(len - from);
        // SAFETY: `from + bytes` is at most `len`, inside the caller's range; `piece` has room for `bytes`.
        unsafe { ptr::copy_nonoverlapping(src.add(from), piece.as_mut_ptr().cast(), bytes) };
        // SAFETY: these `bytes` of `piece` were just written, and nobody else has its address.
        checksum = crc32c(checksum, unsafe { slice::from_raw_parts(piece.as_ptr().cast(), bytes) });
    }
    checksum
}

/// Copies from memory that a peer may be writing into `dst`, and checksums what arrived there.
///
/// # Safety
/// 1. `src` is valid for reads of `dst.len()` bytes.
/// 2. It does not overlap `dst`, and no `&mut` of this process to any of it lives.
#[must_use]
pub unsafe fn copy_out_crc32c(seed: u32, dst: &mut [u8], src: *const u8) -> u32 {
    let mut checksum = seed;
    let mut from = src;
    for piece in dst.chunks_mut(PIECE_BYTES) {
        // SAFETY: the pieces before and this one are inside `dst`, so as many bytes are inside the caller's range.
        unsafe { ptr::copy_nonoverlapping(from, piece.as_mut_ptr(), piece.len()) };
        // SAFETY: as above; at most one past the end.
        from = unsafe { from.add(piece.len()) };
        checksum = crc32c(checksum, piece);
    }
    checksum
}

/// Copies `src` into memory that a peer may read or write, and checksums what was sent.
///
/// # Safety
/// 1. `dst` is valid for writes of `src.len()` bytes.
/// 2. It does not overlap `src`, and no reference of this process to any of it lives.
#[must_use]
pub unsafe fn copy_in_crc32c(seed: u32, dst: *mut u8, src: &[u8]) -> u32 {
    let mut checksum = seed;
    let mut to = dst;
    for piece in src.chunks(PIECE_BYTES) {
        checksum = crc32c(checksum, piece);
        // SAFETY: the pieces before and this one are inside `src`, so as many bytes are inside the caller's range.
        unsafe { ptr::copy_nonoverlapping(piece.as_ptr(), to, piece.len()) };
        // SAFETY: as above; at most one past the end.
        to = unsafe { to.add(piece.len()) };
    }
    checksum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit by bit, as the polynomial says.
    fn naive(seed: u32, bytes: &[u8]) -> u32 {
        let step = |crc: u32, &byte: &u8| {
            (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0x82F6_3B78 & (crc & 1).wrapping_neg()))
        };
        !bytes.iter().fold(!seed, step)
    }

    fn bytes(count: usize) -> Vec<u8> {
        (0..count).map(|index| (index.wrapping_mul(0x9E37_79B9) >> 9).to_le_bytes()[0]).collect()
    }

    #[test]
    fn is_the_standard_one() {
        assert_eq!(crc32c(0, b"123456789"), 0xE306_9283);
        assert_eq!(naive(0, b"123456789"), 0xE306_9283);
        // RFC 3720, appendix B.4
        assert_eq!(crc32c(0, &[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(0, &[0xFF; 32]), 0x62A8_AB43);
        assert_eq!(crc32c(0, &[]), 0);
        assert_eq!(crc32c(0xDEAD_BEEF, &[]), 0xDEAD_BEEF);
    }

    #[test]
    fn every_length_and_any_seed_agrees_with_the_polynomial() {
        let data = bytes(9000);
        let lengths = (0..700).chain([1023, 1024, 1025, 4095, 4096, 4097, 8192, 9000 - 7]);
        for (round, len) in lengths.enumerate() {
            let (seed, from) = ([0, 1, u32::MAX, 0x1234_5678][round % 4], round % 8);
            assert_eq!(crc32c(seed, &data[from..from + len]), naive(seed, &data[from..from + len]), "{len}");
        }
    }

    #[test]
    fn chains_wherever_it_is_cut() {
        let data = bytes(700);
        let whole = crc32c(7, &data);
        for cut in 0..=data.len() {
            assert_eq!(crc32c(crc32c(7, &data[..cut]), &data[cut..]), whole, "{cut}");
        }
    }

    #[test]
    fn shared_memory_and_fused_copies_give_the_same() {
        let data = bytes(3 * PIECE_BYTES + 1);
        for len in [0, 1, 63, 64, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 2 * PIECE_BYTES, data.len()]
        {
            let src = &data[data.len() - len..];
            let expected = naive(42, src);
            // SAFETY: the pointer and length are those of `src`.
            assert_eq!(unsafe { crc32c_of_shared(42, src.as_ptr(), len) }, expected);
            let mut dst = vec![0xEE; len + 2];
            // SAFETY: `src` is as long as this part of `dst`, and another buffer.
            assert_eq!(unsafe { copy_out_crc32c(42, &mut dst[1..=len], src.as_ptr()) }, expected);
            assert_eq!((&dst[1..=len], dst[0], dst[len + 1]), (src, 0xEE, 0xEE));
            dst.fill(0xEE);
            // SAFETY: `dst` has room for `src` from 1 on, and is another buffer.
            assert_eq!(unsafe { copy_in_crc32c(42, dst.as_mut_ptr().add(1), src) }, expected);
            assert_eq!((&dst[1..=len], dst[0], dst[len + 1]), (src, 0xEE, 0xEE));
        }
    }
}
