//! How fast this CPU copies and checksums, measured once.

use super::CopyKernels;
use super::crc_kernels::{kept_bytes_per_s, rate};
use crate::os::monotonic_ns;
use core::hint::black_box;
use spin::Once;

/// Bytes of a copy that is timed: more than two buffers of them leave room for in the second cache, as with the memory
/// of a large transfer.
const COPIED_BYTES: usize = 1 << 20;
/// Times that it is timed; the best counts.
const ROUNDS: usize = 3;
/// A checksum that is computed at this many times the copy's rate leaves two thirds of it to a copy with a checksum.
const FAST_TIMES: u64 = 2;

/// Bytes a second of CRC-32C by the fastest kernel, in the first cache, as timed once in this process.
#[must_use]
pub fn crc_bytes_per_s() -> u64 {
    kept_bytes_per_s()
}

/// Bytes a second of a plain copy beyond the second cache, as timed once in this process. The first call takes a
/// millisecond or less.
#[must_use]
pub fn copy_bytes_per_s() -> u64 {
    static COPIED: Once<u64> = Once::new();
    *COPIED.call_once(|| {
        // other than zero, so that the pages are there before the first round
        let from = vec![1; COPIED_BYTES];
        let mut to = vec![2; COPIED_BYTES];
        let best_ns = (0..ROUNDS).map(|_| {
            let start = monotonic_ns();
            // SAFETY: both are slices of so many bytes, of two buffers.
            unsafe {
                CopyKernels::get().copy(black_box(to.as_mut_ptr()), black_box(from.as_ptr()), COPIED_BYTES)
            };
            monotonic_ns() - start
        });
        rate(COPIED_BYTES, best_ns.min().unwrap_or(u64::MAX))
    })
}

/// May a checksum over everything that arrives be the default? It may where it is at least twice as fast as the copy
/// that it goes with, so that both together run at two thirds of the copy's rate or better.
#[must_use]
pub fn crc_is_fast() -> bool {
    is_fast(crc_bytes_per_s(), copy_bytes_per_s())
}

fn is_fast(crc_bytes_per_s: u64, copy_bytes_per_s: u64) -> bool {
    crc_bytes_per_s / FAST_TIMES >= copy_bytes_per_s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_as_fast_is_fast() {
        assert!(is_fast(20_000_000_000, 10_000_000_000));
        assert!(!is_fast(19_999_999_999, 10_000_000_000));
        // an emulated CPU: a checksum bit by bit, and a copy at some gigabytes a second
        assert!(!is_fast(167_000_000, 4_000_000_000));
    }

    #[test]
    fn rates_are_measured_once() {
        let (copy, crc) = (copy_bytes_per_s(), crc_bytes_per_s());
        assert!(copy > 1_000_000 && crc > 1_000_000, "{copy} {crc}");
        assert_eq!((copy_bytes_per_s(), crc_bytes_per_s()), (copy, crc));
        assert_eq!(crc_is_fast(), is_fast(crc, copy));
    }
}
