//! The checksum kernels, the fastest of which is kept.
//!
//! That a CPU has an instruction does not say that it is fast: an emulated CPU may do it bit by bit. So each kernel is
//! timed when the first checksum is asked for, which takes some microseconds, and one that is wrong is never used.

use super::crc_tables;
use crate::os::monotonic_ns;
use core::hint::black_box;
use crc_fast::{CrcAlgorithm, Digest};
use spin::Once;

/// Bytes that a kernel is timed with: in the first cache, as those of a copy with a checksum are.
const TIMED_BYTES: usize = 8192;
/// Times that each is timed; the best counts.
const ROUNDS: usize = 5;

/// One way to compute CRC-32C.
#[derive(Debug)]
pub struct CrcKernel {
    name: &'static str,
    run: fn(u32, &[u8]) -> u32,
}

/// Every kernel, the portable one first: the others have to agree with it.
static KERNELS: [CrcKernel; 2] =
    [CrcKernel { name: "tables", run: crc_tables::crc32c }, CrcKernel { name: "crc-fast", run: by_crc_fast }];

/// The instructions that crc-fast takes for this CPU.
fn by_crc_fast(seed: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!seed));
    digest.update(bytes);
    #[expect(clippy::cast_possible_truncation, reason = "a 32-bit checksum in a 64-bit register")]
    let checksum = digest.finalize() as u32;
    checksum
}

/// The kernel that was kept, and its rate.
#[derive(Debug, Clone, Copy)]
struct Kept {
    kernel: &'static CrcKernel,
    bytes_per_s: u64,
}

impl CrcKernel {
    /// The fastest on this CPU, timed once.
    #[must_use]
    #[inline]
    pub fn get() -> &'static Self {
        kept().kernel
    }

    /// Every kernel that computes CRC-32C on this CPU: for tests and measurements.
    pub fn available() -> impl Iterator<Item = &'static Self> {
        KERNELS.iter().filter(|kernel| kernel.agrees())
    }

    /// What to call it in a report.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The checksum of what `seed` stands for, then `bytes`.
    #[must_use]
    #[inline]
    pub fn crc32c(&self, seed: u32, bytes: &[u8]) -> u32 {
        (self.run)(seed, bytes)
    }

    /// Is it right where kernels change their ways: around vectors, steps and pieces?
    fn agrees(&self) -> bool {
        const LENGTHS: [usize; 12] = [0, 1, 7, 8, 15, 56, 255, 256, 1023, 1025, 4088, 4097];
        let data = timed_bytes();
        LENGTHS.iter().all(|&length| {
            // not aligned
            let bytes = &data[3..3 + length];
            self.crc32c(0x1234_5678, bytes) == crc_tables::crc32c(0x1234_5678, bytes)
        })
    }

    /// Its best rate of a few rounds.
    fn timed_bytes_per_s(&self, data: &[u8]) -> u64 {
        let best_ns = (0..ROUNDS).map(|_| {
            let from = monotonic_ns();
            black_box(self.crc32c(0, black_box(data)));
            monotonic_ns() - from
        });
        rate(data.len(), best_ns.min().unwrap_or(u64::MAX))
    }
}

/// Bytes a second, of so many in so long.
pub(super) fn rate(bytes: usize, ns: u64) -> u64 {
    (bytes as u64).saturating_mul(1_000_000_000) / ns.max(1)
}

/// Bytes of the kernel that was kept, as timed when it was chosen.
pub(super) fn kept_bytes_per_s() -> u64 {
    kept().bytes_per_s
}

#[inline]
fn kept() -> Kept {
    static KEPT: Once<Kept> = Once::new();
    *KEPT.call_once(choose)
}

/// The first of [`KERNELS`] is right by definition, so there is always one.
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
    fn the_one_that_is_kept_is_right_and_no_other_is_twice_as_fast() {
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
    fn one_that_is_wrong_is_not_available() {
        fn wrong_above_a_page(seed: u32, bytes: &[u8]) -> u32 {
            crc_tables::crc32c(seed, &bytes[..bytes.len().min(4096)])
        }
        assert!(!CrcKernel { name: "wrong", run: wrong_above_a_page }.agrees());
        assert!(KERNELS.iter().all(CrcKernel::agrees));
    }
}
