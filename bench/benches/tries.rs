//! Half round trips of 8 bytes between two threads on two cores: by calls that block, and by tries in a loop of the program's own.

use core::hint;

use criterion::{Criterion, criterion_group, criterion_main};
use superpipe::{Connection, Error, Options, TryRecv, TrySend, WaitStrategy};
use superpipe_bench::connection::DEADLINE;
use superpipe_bench::connection::connect_pair;

mod common;
#[path = "common/side_by_side.rs"]
mod side_by_side;

use side_by_side::{Work, cores, side_by_side};

const BYTES: usize = 8;
/// Tries without a message before the program's loop makes progress, which sends keepalives.
const PROGRESS_TRIES: u32 = 1024;

/// The calls that an end sends and receives with.
trait Calls: Send + Sync {
    fn send(&self, connection: &mut Connection, from: &[u8]) -> Result<(), Error>;
    fn receive(&self, connection: &mut Connection, to: &mut [u8]) -> Result<(), Error>;
}

struct Blocking;

impl Calls for Blocking {
    fn send(&self, connection: &mut Connection, from: &[u8]) -> Result<(), Error> {
        connection.send(7, &[from], DEADLINE)
    }

    fn receive(&self, connection: &mut Connection, to: &mut [u8]) -> Result<(), Error> {
        connection.recv_into(&mut [to], DEADLINE).map(|_| ())
    }
}

struct Tries;

impl Calls for Tries {
    fn send(&self, connection: &mut Connection, from: &[u8]) -> Result<(), Error> {
        while connection.try_send(7, &[from])? != TrySend::Sent {
            connection.progress();
        }
        Ok(())
    }

    fn receive(&self, connection: &mut Connection, to: &mut [u8]) -> Result<(), Error> {
        let mut tries = 0;
        while connection.try_recv(&mut [&mut *to])? == TryRecv::Nothing {
            tries += 1;
            if tries % PROGRESS_TRIES == 0 {
                connection.progress();
            }
            hint::spin_loop();
        }
        Ok(())
    }
}

/// Runs one end of `count` round trips, which compares the answers.
fn ask(end: &mut Connection, calls: &dyn Calls, from: &[u8], to: &mut [u8], count: u64) -> Result<(), Error> {
    for _ in 0..count {
        to.fill(0);
        calls.send(end, from)?;
        calls.receive(end, to)?;
        assert_eq!(from, to, "what comes back");
    }
    Ok(())
}

/// Runs the other end.
fn answer(end: &mut Connection, calls: &dyn Calls, count: u64) -> Result<(), Error> {
    let mut here = [0; BYTES];
    for _ in 0..count {
        calls.receive(end, &mut here)?;
        calls.send(end, &here)?;
    }
    Ok(())
}

fn tries(criterion: &mut Criterion) {
    let options = Options { wait: WaitStrategy::Spin, ..Options::default() };
    let [mut a, mut b] = connect_pair(options).unwrap_or_else(|failure| panic!("{failure}"));
    let [from, mut to] = common::buffers(BYTES);
    let (from, to) = (&from[..BYTES], &mut to[..BYTES]);
    let mut group = criterion.benchmark_group("8 B there and back");
    let all: [(&str, &dyn Calls); 2] = [("blocking", &Blocking), ("tries", &Tries)];
    for (name, calls) in all {
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|count| {
                let [first, second] = cores();
                let asking: Work<'_> = Box::new(|| ask(&mut a, calls, from, to, count));
                let answering: Work<'_> = Box::new(|| answer(&mut b, calls, count));
                side_by_side(vec![(first, asking), (second, answering)])
            });
        });
    }
    group.finish();
}

criterion_group! { name = benches; config = common::quick(); targets = tries }
criterion_main!(benches);
