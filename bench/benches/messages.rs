//! The cost of messages and streams besides the wire: sent and received in one thread, between the two ends of a connection over
//! shared memory. No end waits, and no cache line changes its core.

use std::io::{Read, Write};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use superpipe::os::Bytes;
use superpipe::{Arrival, Connection, Options, Tuning, WaitStrategy};
use superpipe_bench::connection::DEADLINE;
use superpipe_bench::connection::connect_pair;
use superpipe_bench::pattern;

mod common;

const BYTES: [usize; 6] = [0, 8, 40, 1 << 10, 16 << 10, 64 << 10];
/// At most C0: no end answers while a part is being written.
const PART_BYTES: [usize; 4] = [64, 4 << 10, 16 << 10, 64 << 10];
const ARRIVALS: [(&str, Arrival); 2] = [("flag", Arrival::Flag), ("checked-flag", Arrival::CheckedFlag)];

fn connected(arrival: Arrival) -> [Connection; 2] {
    let tuning = Tuning { arrival: Some(arrival), ..Tuning::default() };
    let options = Options { wait: WaitStrategy::Spin, tuning, ..Options::default() };
    connect_pair(options).unwrap_or_else(|failure| panic!("{failure}"))
}

fn messages(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("message");
    for (name, arrival) in ARRIVALS {
        let [mut a, mut b] = connected(arrival);
        for bytes in BYTES {
            let [from, mut to] = common::buffers(bytes);
            let (from, to) = (&from[..bytes], &mut to[..bytes]);
            let mut exchange = |to: &mut [u8]| {
                let sent = a.send(7, &[from], DEADLINE);
                let received = b.recv_into(&mut [to], DEADLINE);
                sent.and(received).unwrap_or_else(|error| panic!("{error}"))
            };
            exchange(to);
            assert_eq!(pattern::find_wrong_byte(1, to), None, "{name}, {bytes} bytes");
            group.throughput(Throughput::Bytes(bytes as u64));
            group.bench_function(BenchmarkId::new(name, Bytes(bytes as u64)), |bencher| {
                bencher.iter(|| exchange(to));
            });
        }
    }
    group.finish();
}

/// Measures a message and its answer: twice the cost of a message, and the cost of an end that both sends and receives.
fn pingpong(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pingpong");
    let [mut a, mut b] = connected(Arrival::Flag);
    for bytes in BYTES {
        let [from, mut to] = common::buffers(bytes);
        let [_, mut middle] = common::buffers(bytes);
        let (from, to) = (&from[..bytes], &mut to[..bytes]);
        let middle = &mut middle[..bytes];
        let mut exchange = |to: &mut [u8]| {
            a.send(7, &[from], DEADLINE)
                .and_then(|()| b.recv_into(&mut [middle], DEADLINE))
                .and_then(|_| b.send(8, &[middle], DEADLINE))
                .and_then(|()| a.recv_into(&mut [to], DEADLINE))
                .unwrap_or_else(|error| panic!("{error}"))
        };
        exchange(to);
        assert_eq!(pattern::find_wrong_byte(1, to), None, "{bytes} bytes");
        group.throughput(Throughput::Bytes(2 * bytes as u64));
        group.bench_function(BenchmarkId::new("there-and-back", Bytes(bytes as u64)), |bencher| {
            bencher.iter(|| exchange(to));
        });
    }
    group.finish();
}

/// Measures parts of a stream, written and read in turn.
fn streaming(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("stream");
    for bytes in PART_BYTES {
        let [mut a, mut b] = connected(Arrival::Flag);
        let [from, mut to] = common::buffers(bytes);
        let (from, to) = (&from[..bytes], &mut to[..bytes]);
        let mut sending = a.open_stream(7, DEADLINE).unwrap_or_else(|error| panic!("{error}"));
        // There is no stream to receive before its first part.
        sending.write_all(from).unwrap_or_else(|error| panic!("{error}"));
        let mut receiving = b.accept_stream(DEADLINE).unwrap_or_else(|error| panic!("{error}"));
        receiving.read_exact(to).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(pattern::find_wrong_byte(1, to), None, "{bytes} bytes");
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(BenchmarkId::new("write-and-read", Bytes(bytes as u64)), |bencher| {
            bencher.iter(|| {
                let written = sending.write_all(from);
                written.and_then(|()| receiving.read_exact(to)).unwrap_or_else(|error| panic!("{error}"));
            });
        });
    }
    group.finish();
}

criterion_group! { name = benches; config = common::quick(); targets = messages, pingpong, streaming }
criterion_main!(benches);
