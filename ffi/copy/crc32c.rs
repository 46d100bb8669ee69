//! CRC-32C (Castagnoli, as in iSCSI), by the fastest kernel of this CPU.
//!
//! Checksums chain: that of `a` then `b` is `crc32c(crc32c(0, a), b)`. A seed may be any number, which then stands
//! for bytes that came before.

use super::CrcKernel;
use super::shared::for_each_piece;

/// Returns the checksum of the bytes that `seed` stands for, then `bytes`. The checksum of no bytes is 0.
#[must_use]
#[inline]
pub fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    CrcKernel::get().crc32c(seed, bytes)
}

/// Returns the checksum of the bytes that `seed` stands for, then `len` bytes that a peer may be writing.
///
/// # Safety
/// 1. `src` is valid for reads of `len` bytes.
/// 2. No `&mut` of this process to any of them lives.
#[must_use]
pub unsafe fn crc32c_of_shared(seed: u32, src: *const u8, len: usize) -> u32 {
    let mut checksum = seed;
    // SAFETY: the caller promises that `src` is valid for reads of `len` bytes, and that no `&mut` to them lives.
    unsafe { for_each_piece(src, len, |piece| checksum = crc32c(checksum, piece)) };
    checksum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::shared::PIECE_BYTES;

    /// Computes the checksum bit by bit, by the polynomial.
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
    fn the_checksum_is_the_standard_one() {
        assert_eq!(crc32c(0, b"123456789"), 0xE306_9283);
        assert_eq!(naive(0, b"123456789"), 0xE306_9283);
        // RFC 3720, appendix B.4
        assert_eq!(crc32c(0, &[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(0, &[0xFF; 32]), 0x62A8_AB43);
        assert_eq!(crc32c(0, &[]), 0);
        assert_eq!(crc32c(0xDEAD_BEEF, &[]), 0xDEAD_BEEF);
    }

    #[test]
    fn every_length_and_seed_agrees_with_the_polynomial() {
        let data = bytes(9000);
        let lengths = (0..700).chain([1023, 1024, 1025, 4095, 4096, 4097, 8192, 9000 - 7]);
        for (round, len) in lengths.enumerate() {
            let (seed, from) = ([0, 1, u32::MAX, 0x1234_5678][round % 4], round % 8);
            assert_eq!(crc32c(seed, &data[from..from + len]), naive(seed, &data[from..from + len]), "{len}");
        }
    }

    #[test]
    fn checksums_chain_at_every_cut() {
        let data = bytes(700);
        let whole = crc32c(7, &data);
        for cut in 0..=data.len() {
            assert_eq!(crc32c(crc32c(7, &data[..cut]), &data[cut..]), whole, "{cut}");
        }
    }

    #[test]
    fn shared_memory_has_the_checksum_of_its_bytes() {
        let data = bytes(3 * PIECE_BYTES + 1);
        for len in [0, 1, 63, 64, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 2 * PIECE_BYTES, data.len()]
        {
            let src = &data[data.len() - len..];
            // SAFETY: the pointer and length are those of `src`.
            assert_eq!(unsafe { crc32c_of_shared(42, src.as_ptr(), len) }, naive(42, src));
        }
    }
}
