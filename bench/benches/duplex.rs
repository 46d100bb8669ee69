//! Messages both ways at once over shared memory: an end that one thread drives, beside an end that was split between two. The
//! threads of an end share a core, as far as there are two, and yield.

use core::time::Duration;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use superpipe::os::{allowed_cores, pin_current_thread};
use superpipe::{
    Connection, Drive, Error, Options, ReceiveOperation, RecvHalf, SendHalf, SendOperation, WaitStrategy,
};
use superpipe_bench::map::Buffer;
use superpipe_bench::meeting::DEADLINE;
use superpipe_bench::pair;
use superpipe_bench::pattern;
use superpipe_bench::size::format_bytes;

mod common;

const BYTES: [usize; 2] = [64 << 10, 1 << 20];
/// Rounds without work before the core is given to others.
const IDLE_ROUNDS: u32 = 64;

/// What an end sends, and where it receives.
struct Buffers {
    from: Buffer,
    to: Buffer,
    bytes: usize,
}

impl Buffers {
    fn new(bytes: usize) -> Self {
        let [from, to] = common::buffers(bytes);
        Self { from, to, bytes }
    }

    fn split(&mut self) -> (&[u8], &mut [u8]) {
        (&self.from.bytes()[..self.bytes], &mut self.to.bytes_mut()[..self.bytes])
    }

    fn check(&mut self) {
        let (_, to) = self.split();
        assert_eq!(pattern::find_wrong_byte(1, to), None, "{} bytes", to.len());
        to.fill(0);
    }
}

fn connected() -> [Connection; 2] {
    let options = Options { wait: WaitStrategy::Yield, ..Options::default() };
    pair::connect(options).unwrap_or_else(|failure| panic!("{failure}"))
}

/// The core of each end.
fn cores() -> [usize; 2] {
    let cores: Vec<usize> = allowed_cores().iter().collect();
    [cores[0], cores[1 % cores.len()]]
}

/// One thread sends and receives so many messages.
fn both(connection: &mut Connection, from: &[u8], to: &mut [u8], count: u64) -> Result<(), Error> {
    let (mut to_send, mut to_receive, mut idle) = (count, count, 0);
    let mut send = SendOperation::new(7, from.len());
    let mut receive = ReceiveOperation::new();
    while to_send > 0 || to_receive > 0 {
        let sent = if to_send > 0 { connection.drive_send(&mut send, &[from])? } else { Drive::Idle };
        if sent == Drive::Done(()) {
            to_send -= 1;
            send = SendOperation::new(7, from.len());
        }
        let received = if to_receive > 0 {
            connection.drive_receive(&mut receive, &mut [&mut *to])?.map(|_| ())
        } else {
            Drive::Idle
        };
        if received == Drive::Done(()) {
            to_receive -= 1;
            receive = ReceiveOperation::new();
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

/// Work of one thread.
type Work<'a> = Box<dyn FnOnce() -> Result<(), Error> + Send + 'a>;

/// Runs all of this side by side, each on its core, and returns how long it took from the first that began to the last that
/// ended.
fn side_by_side<'a>(works: Vec<(usize, Work<'a>)>) -> Duration {
    let barrier = Barrier::new(works.len());
    let times: Vec<(Instant, Instant)> = thread::scope(|scope| {
        let run = |(core, work): (usize, Box<dyn FnOnce() -> Result<(), Error> + Send + 'a>)| {
            let barrier = &barrier;
            scope.spawn(move || {
                pin_current_thread(core).unwrap_or_else(|error| panic!("{error}"));
                barrier.wait();
                let begin = Instant::now();
                work().unwrap_or_else(|error| panic!("{error}"));
                (begin, Instant::now())
            })
        };
        let threads: Vec<_> = works.into_iter().map(run).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| panic!("a thread failed")))
            .collect()
    });
    let begin = times.iter().map(|time| time.0).min();
    let end = times.iter().map(|time| time.1).max();
    end.zip(begin).map_or(Duration::ZERO, |(end, begin)| end - begin)
}

fn exchange(ends: &mut [Connection; 2], buffers: &mut [Buffers; 2], count: u64) -> Duration {
    let works = cores().into_iter().zip(ends).zip(buffers).map(|((core, end), buffers)| {
        let (from, to) = buffers.split();
        let work = move || both(end, from, to, count);
        (core, Box::new(work) as Box<dyn FnOnce() -> Result<(), Error> + Send>)
    });
    side_by_side(works.collect())
}

fn exchange_split(ends: &mut [(SendHalf, RecvHalf); 2], buffers: &mut [Buffers; 2], count: u64) -> Duration {
    let works = cores().into_iter().zip(ends).zip(buffers).flat_map(|((core, end), buffers)| {
        let ((sends, receives), (from, to)) = (end, buffers.split());
        let sending = move || send(sends, from, count);
        let receiving = move || receive(receives, to, count);
        [
            (core, Box::new(sending) as Box<dyn FnOnce() -> Result<(), Error> + Send>),
            (core, Box::new(receiving)),
        ]
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
        group.bench_function(BenchmarkId::new("whole", format_bytes(bytes)), |bencher| {
            bencher.iter_custom(|count| exchange(&mut ends, &mut buffers, count));
        });
        let mut ends = ends.map(Connection::split);
        exchange_split(&mut ends, &mut buffers, 3);
        buffers.iter_mut().for_each(Buffers::check);
        group.bench_function(BenchmarkId::new("split", format_bytes(bytes)), |bencher| {
            bencher.iter_custom(|count| exchange_split(&mut ends, &mut buffers, count));
        });
    }
    group.finish();
}

criterion_group! { name = benches; config = common::quick(); targets = duplex }
criterion_main!(benches);
