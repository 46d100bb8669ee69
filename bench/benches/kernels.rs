//! Copies by size and alignment, and checksums by size, out of resident buffers.

use core::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use superpipe::copy::{CopyKernels, CrcKernel, crc32c, crc32c_of_shared};
use superpipe::os::Bytes;
use superpipe_bench::map::PAGE_BYTES;

mod common;

const COPY_BYTES: [usize; 6] = [64, 1 << 10, 4 << 10, 64 << 10, 1 << 20, 64 << 20];
const ALIGNMENT_BYTES: [usize; 2] = [4 << 10, 64 << 10];
/// Offsets of destination and source from a page: none, a byte, half a line, and different ones.
const ALIGNMENTS: [(usize, usize); 6] = [(0, 0), (1, 0), (0, 1), (1, 1), (32, 0), (0, 32)];
const CHECKSUM_BYTES: [usize; 5] = [56, 1 << 10, 16 << 10, 64 << 10, 1 << 20];

/// Copies once, and compares.
fn check(to: &mut [u8], from: &[u8], name: &str, copy: impl Fn(&mut [u8], &[u8])) {
    to.fill(0);
    copy(to, from);
    assert!(from == to, "{name}, {} bytes", from.len());
}

fn plain(to: &mut [u8], from: &[u8]) {
    assert_eq!(to.len(), from.len());
    // SAFETY: the two slices have the same length, and one of them is borrowed mutably.
    unsafe { CopyKernels::get().copy(to.as_mut_ptr(), from.as_ptr(), from.len()) }
}

fn copies(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("copy");
    for bytes in COPY_BYTES {
        let [from, mut to] = common::buffers(bytes);
        let (from, to) = (&from[..bytes], &mut to[..bytes]);
        group.throughput(Throughput::Bytes(bytes as u64));
        check(to, from, "plain", plain);
        group.bench_function(BenchmarkId::new("plain", Bytes(bytes as u64)), |bencher| {
            bencher.iter(|| plain(black_box(&mut *to), black_box(from)));
        });
        for kernels in CopyKernels::available() {
            let name = format!("streaming-{}", kernels.name());
            let streaming = |to: &mut [u8], from: &[u8]| {
                assert_eq!(to.len(), from.len());
                // SAFETY: as in `plain`.
                unsafe { kernels.copy_streaming(to.as_mut_ptr(), from.as_ptr(), from.len()) }
            };
            check(to, from, &name, streaming);
            group.bench_function(BenchmarkId::new(name, Bytes(bytes as u64)), |bencher| {
                bencher.iter(|| streaming(black_box(&mut *to), black_box(from)));
            });
        }
    }
    group.finish();
}

fn alignments(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("alignment");
    for bytes in ALIGNMENT_BYTES {
        let [from, mut to] = common::buffers(bytes + PAGE_BYTES);
        group.throughput(Throughput::Bytes(bytes as u64));
        for (to_offset, from_offset) in ALIGNMENTS {
            let from = &from[from_offset..from_offset + bytes];
            let to = &mut to[to_offset..to_offset + bytes];
            let name = format!("to+{to_offset}-from+{from_offset}");
            check(to, from, &name, plain);
            group.bench_function(BenchmarkId::new(name, Bytes(bytes as u64)), |bencher| {
                bencher.iter(|| plain(black_box(&mut *to), black_box(from)));
            });
        }
    }
    group.finish();
}

fn checksums(criterion: &mut Criterion) {
    assert_eq!(crc32c(0, b"123456789"), 0xE306_9283, "the check value of CRC-32C");
    let mut group = criterion.benchmark_group("crc32c");
    for bytes in CHECKSUM_BYTES {
        let [from, _] = common::buffers(bytes);
        let from = &from[..bytes];
        // SAFETY: the pointer and length are those of a slice, which nobody writes.
        let shared = |from: &[u8]| unsafe { crc32c_of_shared(0, from.as_ptr(), from.len()) };
        assert_eq!(shared(from), crc32c(0, from), "{bytes} bytes");
        group.throughput(Throughput::Bytes(bytes as u64));
        for kernel in CrcKernel::available() {
            assert_eq!(kernel.crc32c(0, from), crc32c(0, from), "{} {bytes} bytes", kernel.name());
            group.bench_function(BenchmarkId::new(kernel.name(), Bytes(bytes as u64)), |bencher| {
                bencher.iter(|| kernel.crc32c(0, black_box(from)));
            });
        }
        group.bench_function(BenchmarkId::new("shared", Bytes(bytes as u64)), |bencher| {
            bencher.iter(|| shared(black_box(from)));
        });
    }
    group.finish();
}

criterion_group! { name = benches; config = common::quick(); targets = copies, alignments, checksums }
criterion_main!(benches);
