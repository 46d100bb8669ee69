//! The parts of a message in one thread: a line with its flag, and a block with its flag. No line changes its core, so this
//! is the cost of the instructions.

use core::array;
use core::hint::black_box;
use core::sync::atomic::AtomicU64;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use superpipe::os::Bytes;
use superpipe_bench::kernels::Kernel;
use superpipe_bench::map::SharedMapping;
use superpipe_core::{Line, word};

mod common;

const BLOCK_BYTES: [usize; 5] = [1 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10];
/// Bytes of all blocks, which stay in the cache.
const RING_BYTES: usize = 512 << 10;
const LINE_STRIDE_BYTES: usize = 128;

fn lines(criterion: &mut Criterion) {
    let words: [AtomicU64; 8] = array::from_fn(|_| AtomicU64::new(0));
    let mut sent = Line([1, 2, 3, 4, 5, 6, 7, 0]);
    let mut group = criterion.benchmark_group("line");
    group.bench_function("write-and-take", |bencher| {
        bencher.iter(|| {
            sent.0[7] += 1;
            word::write_line(words.each_ref(), &sent);
            assert_eq!(word::observe(&words[7]), sent.flag());
            let taken = word::take_line(black_box(&words).each_ref());
            assert_eq!(taken, sent);
            taken
        });
    });
    group.finish();
}

fn blocks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("block");
    for bytes in BLOCK_BYTES {
        let [from, mut to] = common::buffers(bytes);
        let (from, to) = (&from[..bytes], &mut to[..bytes]);
        let count = RING_BYTES / bytes;
        let flags_bytes = count * LINE_STRIDE_BYTES;
        let map =
            SharedMapping::new(flags_bytes + RING_BYTES, false).unwrap_or_else(|failure| panic!("{failure}"));
        let (mut index, mut sequence) = (0, 0);
        let mut carry = |to: &mut [u8]| {
            (index, sequence) = ((index + 1) % count, sequence + 1);
            let flag = &map.words(index * LINE_STRIDE_BYTES, 8)[0];
            let at = flags_bytes + index * bytes;
            // SAFETY: nobody but this thread has the mapping.
            unsafe { map.copy_in(at, black_box(from), Kernel::Plain) };
            word::publish(flag, sequence);
            assert_eq!(word::observe(flag), sequence);
            // SAFETY: only this thread has the mapping.
            unsafe { map.copy_out(at, to, Kernel::Plain) };
        };
        carry(to);
        assert_eq!(from, to, "{bytes}");
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(BenchmarkId::new("in-flag-out", Bytes(bytes as u64)), |bencher| {
            bencher.iter(|| carry(black_box(&mut *to)));
        });
    }
    group.finish();
}

criterion_group! { name = benches; config = common::quick(); targets = lines, blocks }
criterion_main!(benches);
