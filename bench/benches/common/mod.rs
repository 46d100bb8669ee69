//! Shared parts of the micro-benchmarks: their configuration and their buffers.

use core::time::Duration;

use criterion::Criterion;
use memmap2::MmapMut;
use superpipe_bench::map;
use superpipe_bench::pattern;

/// Returns a configuration that is short enough to run all of them interactively.
pub(crate) fn quick() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(30)
}

/// Makes a source with contents, and a destination.
pub(crate) fn buffers(bytes: usize) -> [MmapMut; 2] {
    let buffer = || map::resident(bytes, false).unwrap_or_else(|failure| panic!("{failure}"));
    let mut from = buffer();
    pattern::fill(1, &mut from[..bytes]);
    [from, buffer()]
}
