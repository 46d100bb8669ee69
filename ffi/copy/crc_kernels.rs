//! Checksum kernels, the fastest of which is kept.
//!
//! An instruction that a CPU has is not always fast: an emulated CPU may compute it bit by bit. So each kernel is
//! timed before the first checksum, which takes some microseconds, and one with wrong results is never used.

use super::crc_tables;
use crate::os::monotonic_ns;
use core::hint::black_box;
use crc_fast::{CrcAlgorithm, Digest};
use spin::Once;

/// Bytes that a kernel is timed with: in the first-level cache, as those of a checked block are.
const TIMED_BYTES: usize = 8192;
/// Rounds per kernel, of which the best counts: an interrupt may spoil one, and the first call waits for all.
const ROUNDS: usize = 5;

/// An implementation of CRC-32C.
#[derive(Debug)]
pub struct CrcKernel {
    name: &'static str,
    run: fn(u32, &[u8]) -> u32,
}

/// Every kernel, the portable one first: the others must agree with it.
static KERNELS: [CrcKernel; 2] =
    [CrcKernel { name: "tables", run: crc_tables::crc32c }, CrcKernel { name: "crc-fast", run: by_crc_fast }];

/// Computes CRC-32C by crc-fast, with the instructions that it chooses for this CPU.
fn by_crc_fast(seed: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!seed));
    digest.update(bytes);
    #[expect(clippy::cast_possible_truncation, reason = "a 32-bit checksum in a 64-bit register")]
    let checksum = digest.finalize() as u32;
    checksum
}

/// The chosen kernel, and its rate.
#[derive(Debug, Clone, Copy)]
struct Kept {
    kernel: &'static CrcKernel,
    bytes_per_s: u64,
}

impl CrcKernel {
    /// Returns the fastest kernel on this CPU, timed once.
    #[must_use]
    #[inline]
    pub fn get() -> &'static Self {
        kept().kernel
    }

    /// Iterates over the kernels that compute CRC-32C correctly on this CPU: for tests and measurements.
    pub fn available() -> impl Iterator<Item = &'static Self> {
        KERNELS.iter().filter(|kernel| kernel.agrees())
    }

    /// Returns the name for reports.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the checksum of the bytes that `seed` stands for, then `bytes`.
    #[must_use]
    #[inline]
    pub fn crc32c(&self, seed: u32, bytes: &[u8]) -> u32 {
        (self.run)(seed, bytes)
    }

    /// Returns true if it is correct at lengths around vectors, steps and pieces, where kernels change their code path.
    fn agrees(&self) -> bool {
        const LENGTHS: [usize; 12] = [0, 1, 7, 8, 15, 56, 255, 256, 1023, 1025, 4088, 4097];
        let data = timed_bytes();
        LENGTHS.iter().all(|&length| {
            // not aligned
            let bytes = &data[3..3 + length];
            self.crc32c(0x1234_5678, bytes) == crc_tables::crc32c(0x1234_5678, bytes)
        })
    }

    /// Returns its best rate of a few rounds.
    fn timed_bytes_per_s(&self, data: &[u8]) -> u64 {
        let best_ns = (0..ROUNDS).map(|_| {
            let from = monotonic_ns();
            black_box(self.crc32c(0, black_box(data)));
            monotonic_ns() - from
        });
        rate(data.len(), best_ns.min().unwrap_or(u64::MAX))
    }
}

/// Returns the rate in bytes per second.
pub(super) fn rate(bytes: usize, ns: u64) -> u64 {
    (bytes as u64).saturating_mul(1_000_000_000) / ns.max(1)
}

/// Returns the rate of the chosen kernel, as timed then.
pub(super) fn kept_bytes_per_s() -> u64 {
    kept().bytes_per_s
}

#[inline]
fn kept() -> Kept {
    static KEPT: Once<Kept> = Once::new();
    *KEPT.call_once(choose)
}

/// Chooses a kernel. The first of [`KERNELS`] is correct by definition, so there is always one.
fn choose() -> Kept {
    let data = timed_bytes();
    let timed = |kernel: &'static CrcKernel| Kept { kernel, bytes_per_s: kernel.timed_bytes_per_s(&data) };
    let portable = timed(&KERNELS[0]);
    KERNELS[1..]
        .iter()
        .filter(|kernel| kernel.agrees())
        .map(timed)
        .fold(portable, |best, next| if next.bytes_per_s > best.bytes_per_s { next } else { best })
}

fn timed_bytes() -> [u8; TIMED_BYTES] {
    core::array::from_fn(|index| (index.wrapping_mul(0x9E37_79B9) >> 9).to_le_bytes()[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_is_right_at_every_length() {
        let data = timed_bytes();
        for kernel in &KERNELS {
            assert_eq!(kernel.crc32c(0, b"123456789"), 0xE306_9283, "{}", kernel.name());
            for length in (0..700).chain([1023, 1024, 1025, 4095, 4096, 4097, 8192 - 7]) {
                let bytes = &data[length % 7..length % 7 + length];
                let expected = bytes.iter().fold(!7u32, |crc, &byte| {
                    (0..8).fold(crc ^ u32::from(byte), |crc, _| {
                        (crc >> 1) ^ (0x82F6_3B78 & (crc & 1).wrapping_neg())
                    })
                });
                assert_eq!(kernel.crc32c(7, bytes), !expected, "{} {length}", kernel.name());
            }
        }
    }

    #[test]
    fn the_chosen_kernel_is_right_and_none_is_twice_as_fast() {
        assert!(CrcKernel::available().any(|kernel| core::ptr::eq(kernel, CrcKernel::get())));
        assert!(kept_bytes_per_s() > 0);
        // Another process may hold the CPU in one measurement, not in all.
        let data = timed_bytes();
        let beaten = || {
            let kept = CrcKernel::get().timed_bytes_per_s(&data);
            CrcKernel::available().any(|other| other.timed_bytes_per_s(&data) / 2 > kept)
        };
        assert!((0..20).any(|_| !beaten()), "{} is not the fastest", CrcKernel::get().name());
    }

    #[test]
    fn a_wrong_kernel_is_not_available() {
        fn wrong_above_a_page(seed: u32, bytes: &[u8]) -> u32 {
            crc_tables::crc32c(seed, &bytes[..bytes.len().min(4096)])
        }
        assert!(!CrcKernel { name: "wrong", run: wrong_above_a_page }.agrees());
        assert!(KERNELS.iter().all(CrcKernel::agrees));
    }
}
