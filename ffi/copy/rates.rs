//! Rates of copies and checksums of this CPU, measured once.

use super::CopyKernels;
use super::crc_kernels::{kept_bytes_per_s, rate};
use crate::os::monotonic_ns;
use core::hint::black_box;
use spin::Once;

/// Bytes of a copy that is timed: two buffers of that size exceed the second-level cache, as the memory of a large transfer does.
const COPIED_BYTES: usize = 1 << 20;
/// Rounds, of which the best counts: an interrupt may spoil one, and the first call waits for all.
const ROUNDS: usize = 3;
/// Ratio of the rates of checksum and copy from which a checksum is the default: with 2, both together run at two thirds of
/// the copy's rate.
const FAST_TIMES: u64 = 2;

/// Returns the bytes per second of CRC-32C by the fastest kernel, in the first-level cache, as timed once in this process.
#[must_use]
pub fn crc_bytes_per_s() -> u64 {
    kept_bytes_per_s()
}

/// Returns the bytes per second of a plain copy beyond the second-level cache, as timed once in this process. The first call
/// takes a millisecond or less.
#[must_use]
pub fn copy_bytes_per_s() -> u64 {
    static COPIED: Once<u64> = Once::new();
    *COPIED.call_once(|| {
        // Not zero, so that the pages are resident before the first round.
        let from = vec![1; COPIED_BYTES];
        let mut to = vec![2; COPIED_BYTES];
        let best_ns = (0..ROUNDS).map(|_| {
            let start = monotonic_ns();
            // SAFETY: both have that many bytes, and are two buffers.
            unsafe {
                CopyKernels::get().copy(black_box(to.as_mut_ptr()), black_box(from.as_ptr()), COPIED_BYTES)
            };
            monotonic_ns() - start
        });
        rate(COPIED_BYTES, best_ns.min().unwrap_or(u64::MAX))
    })
}

/// Returns true if a checksum over all data can be the default: if it is at least twice as fast as the copy
/// that it accompanies, so that both together run at two thirds of the copy's rate or better.
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
