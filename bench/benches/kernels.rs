//! Copies and checksums by size, out of resident buffers.

use core::hint::black_box;
use core::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use superpipe::copy::{CopyKernels, copy_out_crc32c, crc32c};
use superpipe_bench::map::Buffer;
use superpipe_bench::pattern;
use superpipe_bench::size::format_bytes;

const COPY_BYTES: [usize; 6] = [64, 1 << 10, 4 << 10, 64 << 10, 1 << 20, 64 << 20];
const CHECKSUM_BYTES: [usize; 5] = [56, 1 << 10, 16 << 10, 64 << 10, 1 << 20];

/// A source with contents, and a destination.
fn buffers(bytes: usize) -> [Buffer; 2] {
    let buffer = || Buffer::new(bytes, false).unwrap_or_else(|failure| panic!("{failure}"));
    let mut from = buffer();
    pattern::fill(1, &mut from.bytes_mut()[..bytes]);
    [from, buffer()]
}

fn copies(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("copy");
    for bytes in COPY_BYTES {
        let [from, mut to] = buffers(bytes);
        let (from, to) = (&from.bytes()[..bytes], &mut to.bytes_mut()[..bytes]);
        group.throughput(Throughput::Bytes(bytes as u64));
        let plain = CopyKernels::get();
        group.bench_function(BenchmarkId::new("plain", format_bytes(bytes)), |bencher| {
            bencher.iter(|| {
                let (to, from) = black_box((to.as_mut_ptr(), from.as_ptr()));
                // SAFETY: both buffers have `bytes` bytes, and are two mappings.
                unsafe { plain.copy(to, from, bytes) }
            });
        });
        assert_eq!(from, to, "plain");
        for kernels in CopyKernels::available() {
            to.fill(0);
            group.bench_function(
                BenchmarkId::new(format!("streaming-{}", kernels.name()), format_bytes(bytes)),
                |bencher| {
                    bencher.iter(|| {
                        let (to, from) = black_box((to.as_mut_ptr(), from.as_ptr()));
                        // SAFETY: as above.
                        unsafe { kernels.copy_streaming(to, from, bytes) }
                    });
                },
            );
            assert_eq!(from, to, "{}", kernels.name());
        }
    }
    group.finish();
}

fn checksums(criterion: &mut Criterion) {
    assert_eq!(crc32c(0, b"123456789"), 0xE306_9283, "the check value of CRC-32C");
    let mut group = criterion.benchmark_group("crc32c");
    for bytes in CHECKSUM_BYTES {
        let [from, mut to] = buffers(bytes);
        let (from, to) = (&from.bytes()[..bytes], &mut to.bytes_mut()[..bytes]);
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(BenchmarkId::new("alone", format_bytes(bytes)), |bencher| {
            bencher.iter(|| crc32c(0, black_box(from)));
        });
        group.bench_function(BenchmarkId::new("with-copy", format_bytes(bytes)), |bencher| {
            bencher.iter(|| {
                // SAFETY: both buffers have `bytes` bytes, and are two mappings.
                unsafe { copy_out_crc32c(0, to, black_box(from).as_ptr()) }
            });
        });
        assert_eq!(from, to, "with-copy");
    }
    group.finish();
}

fn quick() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(30)
}

criterion_group! { name = benches; config = quick(); targets = copies, checksums }
criterion_main!(benches);
