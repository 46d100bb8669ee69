//! A copy into memory that was never written, by what is asked of the kernel and when: the choices behind `RecvBuf` and
//! `recv_into_cold`. The source stays in the cache, as a landing buffer does.

use core::hint::black_box;
use core::ops::Range;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use superpipe::copy::CopyKernels;
use superpipe::os::cold::{advise_huge_pages, make_resident};
use superpipe_bench::map::Buffer;
use superpipe_bench::size::format_bytes;

mod common;

const SIZES: [usize; 5] = [64 << 10, 512 << 10, 1 << 20, 4 << 20, 64 << 20];
const SOURCE_BYTES: usize = 512 << 10;
const BLOCK_BYTES: usize = 16 << 10;
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// How a destination is treated.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    huge: bool,
    /// made resident so far ahead of the copy; 0 for not at all
    window_bytes: usize,
    streaming: bool,
}

const fn way(name: &'static str, huge: bool, window_bytes: usize, streaming: bool) -> Way {
    Way { name, huge, window_bytes, streaming }
}

const WAYS: [Way; 8] = [
    way("small-pages", false, 0, false),
    way("small-pages-streaming", false, 0, true),
    way("resident-256K-ahead", false, 256 << 10, false),
    way("resident-1M-ahead", false, 1 << 20, false),
    way("resident-first", false, usize::MAX, false),
    way("huge-pages", true, 0, false),
    way("huge-pages-streaming", true, 0, true),
    way("huge-pages-resident-2M-ahead", true, 2 << 20, false),
];

/// Memory that nobody has written, with room for a whole number of huge pages.
fn untouched(bytes: usize) -> (Buffer, Range<usize>) {
    let room = bytes.next_multiple_of(HUGE_PAGE_BYTES) + HUGE_PAGE_BYTES;
    let mut buffer = Buffer::untouched(room).unwrap_or_else(|failure| panic!("{failure}"));
    let start = buffer.bytes_mut().as_ptr().align_offset(HUGE_PAGE_BYTES);
    (buffer, start..start + bytes)
}

/// Fills the destination from a source that repeats, block by block.
fn fill(way: Way, buffer: &mut Buffer, range: Range<usize>, source: &[u8]) {
    let kernels = CopyKernels::get();
    let whole = range.start..range.start + range.len().next_multiple_of(HUGE_PAGE_BYTES);
    if way.huge {
        advise_huge_pages(&mut buffer.bytes_mut()[whole]);
    }
    let to = &mut buffer.bytes_mut()[range];
    let mut resident = if way.window_bytes == 0 { to.len() } else { 0 };
    for at in (0..to.len()).step_by(BLOCK_BYTES) {
        if at >= resident {
            let end = resident.saturating_add(way.window_bytes).min(to.len());
            make_resident(&mut to[resident..end]);
            resident = end;
        }
        let from = &source[at % source.len()..][..BLOCK_BYTES];
        let block = &mut to[at..at + BLOCK_BYTES];
        // SAFETY: both are slices of a block's length, of two mappings.
        unsafe {
            if way.streaming {
                kernels.copy_streaming(block.as_mut_ptr(), black_box(from).as_ptr(), BLOCK_BYTES);
            } else {
                kernels.copy(block.as_mut_ptr(), black_box(from).as_ptr(), BLOCK_BYTES);
            }
        }
    }
}

fn cold(criterion: &mut Criterion) {
    let [source, _] = common::buffers(SOURCE_BYTES);
    let source = source.bytes();
    let mut group = criterion.benchmark_group("cold");
    for bytes in SIZES {
        group.throughput(Throughput::Bytes(bytes as u64));
        for way in WAYS {
            let (mut buffer, range) = untouched(bytes);
            fill(way, &mut buffer, range.clone(), source);
            let mut parts = buffer.bytes()[range].chunks(SOURCE_BYTES);
            assert!(parts.all(|part| *part == source[..part.len()]), "{}", way.name);
            group.bench_function(BenchmarkId::new(way.name, format_bytes(bytes)), |bencher| {
                bencher.iter_batched(
                    || untouched(bytes),
                    |(mut buffer, range)| {
                        fill(way, &mut buffer, range, source);
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
