//! Costs of copies: nanoseconds for 64 KiB.
//!
//! The margins keep the series of the check of distances (docs/testing.md, Distance) within its limits. None is tuned to a machine.

/// What takes more than this of another one's time, in sixteenths, does not replace it.
pub(super) const BETTER_Q4: u64 = 15;

/// What takes less than this of another one's time in a single copy, in sixteenths, is better, whatever the noise.
pub(super) const CLEARLY_BETTER_Q4: u64 = 11;

/// What takes more than this of another one's time, in whole sixteenths, is worse, whatever the noise.
pub(super) const MUCH_WORSE_Q4: u64 = 24;

/// Longest time of a copy that counts, 1 s: a longer one includes an interruption of the thread.
pub(crate) const NS_MAX: u64 = 1_000_000_000;

/// Returns what copying `bytes` bytes in `ns` nanoseconds costs. `None` for an absurd time.
pub(crate) fn cost_of(bytes: u32, ns: u64) -> Option<u32> {
    if bytes == 0 || ns == 0 || ns > NS_MAX {
        return None;
    }
    Some(u32::try_from((ns << 16) / u64::from(bytes)).unwrap_or(u32::MAX).max(1))
}

/// Returns `cost` in sixteenths of `of`.
pub(super) const fn parts(cost: u32, of: u32) -> u64 {
    cost as u64 * 16 / if of == 0 { 1 } else { of as u64 }
}
