//! What all micro-benchmarks have in common: how long they run, and their buffers.

use core::time::Duration;

use criterion::Criterion;
use superpipe_bench::map::Buffer;
use superpipe_bench::pattern;

/// Short enough to run all of them while one waits.
pub(crate) fn quick() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(30)
}

/// A source with contents, and a destination.
pub(crate) fn buffers(bytes: usize) -> [Buffer; 2] {
    let buffer = || Buffer::new(bytes, false).unwrap_or_else(|failure| panic!("{failure}"));
    let mut from = buffer();
    pattern::fill(1, &mut from.bytes_mut()[..bytes]);
    [from, buffer()]
}
