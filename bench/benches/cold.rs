//! Copies into memory that was never written, with different requests to the kernel: the choices behind `RecvBuf` and
//! `recv_into_cold`. The source stays in the cache, as a landing buffer does.

use core::hint::black_box;
use core::ops::Range;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use memmap2::MmapMut;
use superpipe::copy::CopyKernels;
use superpipe::os::Bytes;
use superpipe::os::cold::{advise_huge_pages, make_resident};
use superpipe_bench::map;

mod common;

const SIZES: [usize; 5] = [64 << 10, 512 << 10, 1 << 20, 4 << 20, 64 << 20];
const SOURCE_BYTES: usize = 512 << 10;
const BLOCK_BYTES: usize = 16 << 10;
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The treatment of a destination.
#[derive(Clone, Copy)]
struct Treatment {
    name: &'static str,
    huge: bool,
    /// bytes made resident ahead of the copy; 0 for none
    window_bytes: usize,
    streaming: bool,
}

const fn treatment(name: &'static str, huge: bool, window_bytes: usize, streaming: bool) -> Treatment {
    Treatment { name, huge, window_bytes, streaming }
}

const TREATMENTS: [Treatment; 8] = [
    treatment("small-pages", false, 0, false),
    treatment("small-pages-streaming", false, 0, true),
    treatment("resident-256K-ahead", false, 256 << 10, false),
    treatment("resident-1M-ahead", false, 1 << 20, false),
    treatment("resident-first", false, usize::MAX, false),
    treatment("huge-pages", true, 0, false),
    treatment("huge-pages-streaming", true, 0, true),
    treatment("huge-pages-resident-2M-ahead", true, 2 << 20, false),
];

/// Makes memory that was never written, with room for complete huge pages.
fn untouched(bytes: usize) -> (MmapMut, Range<usize>) {
    let room = bytes.next_multiple_of(HUGE_PAGE_BYTES) + HUGE_PAGE_BYTES;
    let buffer = map::untouched(room).unwrap_or_else(|failure| panic!("{failure}"));
    let start = buffer.as_ptr().align_offset(HUGE_PAGE_BYTES);
    (buffer, start..start + bytes)
}

/// Fills the destination from a source that repeats, block by block.
fn fill(treatment: Treatment, buffer: &mut MmapMut, range: Range<usize>, source: &[u8]) {
    let kernels = CopyKernels::get();
    let pages = range.start..range.start + range.len().next_multiple_of(HUGE_PAGE_BYTES);
    if treatment.huge {
        advise_huge_pages(&mut buffer[pages]);
    }
    let to = &mut buffer[range];
    let mut resident = if treatment.window_bytes == 0 { to.len() } else { 0 };
    for at in (0..to.len()).step_by(BLOCK_BYTES) {
        if at >= resident {
            let end = resident.saturating_add(treatment.window_bytes).min(to.len());
            make_resident(&mut to[resident..end]);
            resident = end;
        }
        let from = &source[at % source.len()..][..BLOCK_BYTES];
        let block = &mut to[at..at + BLOCK_BYTES];
        // SAFETY: both are slices of a block's length, of two mappings.
        unsafe {
            if treatment.streaming {
                kernels.copy_streaming(block.as_mut_ptr(), black_box(from).as_ptr(), BLOCK_BYTES);
            } else {
                kernels.copy(block.as_mut_ptr(), black_box(from).as_ptr(), BLOCK_BYTES);
            }
        }
    }
}

fn cold(criterion: &mut Criterion) {
    let [source, _] = common::buffers(SOURCE_BYTES);
    let source = &source[..];
    let mut group = criterion.benchmark_group("cold");
    for bytes in SIZES {
        group.throughput(Throughput::Bytes(bytes as u64));
        for treatment in TREATMENTS {
            let (mut buffer, range) = untouched(bytes);
            fill(treatment, &mut buffer, range.clone(), source);
            let mut parts = buffer[range].chunks(SOURCE_BYTES);
            assert!(parts.all(|part| *part == source[..part.len()]), "{}", treatment.name);
            group.bench_function(BenchmarkId::new(treatment.name, Bytes(bytes as u64)), |bencher| {
                bencher.iter_batched(
                    || untouched(bytes),
                    |(mut buffer, range)| {
                        fill(treatment, &mut buffer, range, source);
                        buffer
                    },
                    BatchSize::PerIteration,
                );
            });
        }
    }
    group.finish();
}

criterion_group! { name = benches; config = common::quick(); targets = cold }
criterion_main!(benches);
