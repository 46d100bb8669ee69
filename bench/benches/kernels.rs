//! Copies by size and alignment, and checksums by size, out of resident buffers.

use core::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use superpipe::copy::{CopyKernels, CrcKernel, copy_out_crc32c, crc32c};
use superpipe_bench::map::PAGE_BYTES;
use superpipe_bench::size::format_bytes;

mod common;

const COPY_BYTES: [usize; 6] = [64, 1 << 10, 4 << 10, 64 << 10, 1 << 20, 64 << 20];
const ALIGNMENT_BYTES: [usize; 2] = [4 << 10, 64 << 10];
/// How far destination and source miss a page: not at all, by a byte, by half a line, and not alike.
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
        let (from, to) = (&from.bytes()[..bytes], &mut to.bytes_mut()[..bytes]);
        group.throughput(Throughput::Bytes(bytes as u64));
        check(to, from, "plain", plain);
        group.bench_function(BenchmarkId::new("plain", format_bytes(bytes)), |bencher| {
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
            group.bench_function(BenchmarkId::new(name, format_bytes(bytes)), |bencher| {
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
            let from = &from.bytes()[from_offset..from_offset + bytes];
            let to = &mut to.bytes_mut()[to_offset..to_offset + bytes];
            let name = format!("to+{to_offset}-from+{from_offset}");
            check(to, from, &name, plain);
            group.bench_function(BenchmarkId::new(name, format_bytes(bytes)), |bencher| {
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
        let [from, mut to] = common::buffers(bytes);
        let (from, to) = (&from.bytes()[..bytes], &mut to.bytes_mut()[..bytes]);
        let with_copy = |to: &mut [u8], from: &[u8]| {
            assert_eq!(to.len(), from.len());
            // SAFETY: as in `plain`.
            unsafe { copy_out_crc32c(0, to, from.as_ptr()) }
        };
        assert_eq!(with_copy(to, from), crc32c(0, from), "{bytes} bytes");
        check(to, from, "with-copy", |to, from| _ = with_copy(to, from));
        group.throughput(Throughput::Bytes(bytes as u64));
        for kernel in CrcKernel::available() {
            assert_eq!(kernel.crc32c(0, from), crc32c(0, from), "{} {bytes} bytes", kernel.name());
            group.bench_function(BenchmarkId::new(kernel.name(), format_bytes(bytes)), |bencher| {
                bencher.iter(|| kernel.crc32c(0, black_box(from)));
            });
        }
        group.bench_function(BenchmarkId::new("with-copy", format_bytes(bytes)), |bencher| {
            bencher.iter(|| with_copy(black_box(&mut *to), black_box(from)));
        });
    }
    group.finish();
}

criterion_group! { name = benches; config = common::quick(); targets = copies, alignments, checksums }
criterion_main!(benches);
