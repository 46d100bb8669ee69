//! Times of rates, which are bytes per microsecond.

/// Returns the time, rounded up so that only 0 bytes take no time.
pub(crate) const fn time_ns(bytes: u64, bytes_per_us: u64) -> u64 {
    (bytes * 1000).div_ceil(bytes_per_us)
}
