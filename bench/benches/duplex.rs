//! Messages both ways at once over shared memory: an end that one thread drives, beside an end that was split between two. The
//! threads of an end share a core, as far as there are two, and yield.

use core::time::Duration;
use std::thread;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use memmap2::MmapMut;
use superpipe::os::Bytes;
use superpipe::{
    Connection, Drive, Error, Options, RecvHalf, RecvOperation, SendHalf, SendOperation, WaitStrategy,
};
use superpipe_bench::connection::DEADLINE;
use superpipe_bench::connection::connect_pair;
use superpipe_bench::pattern;

mod common;
#[path = "common/side_by_side.rs"]
mod side_by_side;

use side_by_side::{Work, cores, side_by_side};

const BYTES: [usize; 2] = [64 << 10, 1 << 20];
/// Rounds without work before the thread yields its core.
const IDLE_ROUNDS: u32 = 64;

/// The buffers that an end sends from and receives into.
struct Buffers {
    from: MmapMut,
    to: MmapMut,
    bytes: usize,
}

impl Buffers {
    fn new(bytes: usize) -> Self {
        let [from, to] = common::buffers(bytes);
        Self { from, to, bytes }
    }

    fn split(&mut self) -> (&[u8], &mut [u8]) {
        (&self.from[..self.bytes], &mut self.to[..self.bytes])
    }

    fn check(&mut self) {
        let (_, to) = self.split();
        assert_eq!(pattern::find_wrong_byte(1, to), None, "{} bytes", to.len());
        to.fill(0);
    }
}

fn connected() -> [Connection; 2] {
    let options = Options { wait: WaitStrategy::Yield, ..Options::default() };
    connect_pair(options).unwrap_or_else(|failure| panic!("{failure}"))
}

/// Sends and receives `count` messages in one thread.
fn both(connection: &mut Connection, from: &[u8], to: &mut [u8], count: u64) -> Result<(), Error> {
    let (mut to_send, mut to_receive, mut idle) = (count, count, 0);
    let mut send = SendOperation::new(7, from.len());
    let mut receive = RecvOperation::new();
    while to_send > 0 || to_receive > 0 {
        let sent = if to_send > 0 { connection.drive_send(&mut send, &[from])? } else { Drive::Idle };
        if sent == Drive::Done(()) {
            to_send -= 1;
            send = SendOperation::new(7, from.len());
        }
        let received = if to_receive > 0 {
            connection.drive_recv(&mut receive, &mut [&mut *to])?.map(|_| ())
        } else {
            Drive::Idle
        };
        if received == Drive::Done(()) {
            to_receive -= 1;
            receive = RecvOperation::new();
        }
        if sent != Drive::Idle || received != Drive::Idle || connection.progress() {
            idle = 0;
            continue;
        }
        idle += 1;
        if idle >= IDLE_ROUNDS {
            thread::yield_now();
        }
    }
    Ok(())
}

fn send(half: &mut SendHalf, from: &[u8], count: u64) -> Result<(), Error> {
    (0..count).try_for_each(|_| half.send(7, &[from], DEADLINE))
}

fn receive(half: &mut RecvHalf, to: &mut [u8], count: u64) -> Result<(), Error> {
    (0..count).try_for_each(|_| half.recv_into(&mut [&mut *to], DEADLINE).map(|_| ()))
}

fn exchange(ends: &mut [Connection; 2], buffers: &mut [Buffers; 2], count: u64) -> Duration {
    let works = cores().into_iter().zip(ends).zip(buffers).map(|((core, end), buffers)| {
        let (from, to) = buffers.split();
        let work = move || both(end, from, to, count);
        (core, Box::new(work) as Work<'_>)
    });
    side_by_side(works.collect())
}

fn exchange_split(ends: &mut [(SendHalf, RecvHalf); 2], buffers: &mut [Buffers; 2], count: u64) -> Duration {
    let works = cores().into_iter().zip(ends).zip(buffers).flat_map(|((core, end), buffers)| {
        let ((sends, receives), (from, to)) = (end, buffers.split());
        let sending = move || send(sends, from, count);
        let receiving = move || receive(receives, to, count);
        [(core, Box::new(sending) as Work<'_>), (core, Box::new(receiving))]
    });
    side_by_side(works.collect())
}

fn duplex(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("duplex");
    for bytes in BYTES {
        let mut buffers = [Buffers::new(bytes), Buffers::new(bytes)];
        group.throughput(Throughput::Bytes(2 * bytes as u64));
        let mut ends = connected();
        exchange(&mut ends, &mut buffers, 3);
        buffers.iter_mut().for_each(Buffers::check);
        group.bench_function(BenchmarkId::new("unsplit", Bytes(bytes as u64)), |bencher| {
            bencher.iter_custom(|count| exchange(&mut ends, &mut buffers, count));
        });
        let mut ends = ends.map(Connection::split);
        exchange_split(&mut ends, &mut buffers, 3);
        buffers.iter_mut().for_each(Buffers::check);
        group.bench_function(BenchmarkId::new("split", Bytes(bytes as u64)), |bencher| {
            bencher.iter_custom(|count| exchange_split(&mut ends, &mut buffers, count));
        });
    }
    group.finish();
}

criterion_group! { name = benches; config = common::quick(); targets = duplex }
criterion_main!(benches);
