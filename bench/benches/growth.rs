//! Landing buffers that grow from the page, over shared memory and over the in-memory fabric of the tests; and messages out of memory that
//! is registered already, beside those whose memory has to be registered.

use core::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use superpipe::os::Bytes;
use superpipe::{LandingMode, Options, Tuning, WaitStrategy};
use superpipe_bench::connection::{DEADLINE, connect_pair};
use superpipe_bench::pattern;
use superpipe_core::driver::{Drive, RecvOperation, SendOperation, WaitStrategy as CoreWait};
use superpipe_core::{
    Arrival, Config, Driver, End, Endpoint, FlagPlace, Layout, Length, Nanos, Origin, Protocol, RecvMemory,
    SendMemory, TransferId,
};
use superpipe_testkit::{Direct, GrowthSetup, Posted, Setup, TestFabric};

mod common;
#[path = "common/side_by_side.rs"]
mod side_by_side;

/// What a landing buffer grows to.
const LARGEST_BYTES: u64 = 512 << 10;
const MESSAGE_BYTES: usize = 1 << 20;
/// More than the landing buffer needs to grow completely, also where the jobs get little time.
const MESSAGES_MAX: u32 = 1000;
const TAG: u64 = 7;

/// Measures messages of 1 MiB on a new connection, each answered, until its landing buffer has grown to the largest size.
fn shared_memory(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("growth/shm");
    let [from, mut to] = common::buffers(MESSAGE_BYTES);
    let (from, to) = (&from[..MESSAGE_BYTES], &mut to[..MESSAGE_BYTES]);
    let tuning = Tuning { landing: Some(LandingMode::OnDemand), ..Tuning::default() };
    let options = Options { wait: WaitStrategy::Yield, tuning, ..Options::default() };
    let visit = |to: &mut [u8]| {
        let [mut a, mut b] = connect_pair(options).unwrap_or_else(|failure| panic!("{failure}"));
        let [client, server] = side_by_side::cores();
        let mut has_grown = false;
        let send = || {
            let mut answer = [0];
            for _ in 0..MESSAGES_MAX {
                a.send(TAG, &[from], DEADLINE)?;
                a.recv_into(&mut [&mut answer], DEADLINE)?;
                if answer == [1] {
                    break;
                }
            }
            Ok(())
        };
        let receive = || {
            for _ in 0..MESSAGES_MAX {
                b.recv_into(&mut [&mut *to], DEADLINE)?;
                let [in_use, ..] = b.counters().landing_bytes;
                has_grown = in_use >= LARGEST_BYTES;
                b.send(TAG, &[&[u8::from(has_grown)]], DEADLINE)?;
                if has_grown {
                    break;
                }
            }
            Ok(())
        };
        let took = side_by_side::side_by_side(vec![(client, Box::new(send)), (server, Box::new(receive))]);
        assert!(has_grown, "after {MESSAGES_MAX} messages");
        took
    };
    visit(to);
    assert_eq!(pattern::find_wrong_byte(1, to), None);
    group.bench_function(BenchmarkId::new("on-demand", Bytes(LARGEST_BYTES)), |bencher| {
        bencher.iter_custom(|count| (0..count).map(|_| visit(&mut *to)).sum::<Duration>());
    });
    group.finish();
}

/// Two ends over a fabric in memory, whose jobs never fail.
struct Ends<F: TestFabric> {
    fabric: F,
    ends: [Driver<F>; 2],
}

impl<F: TestFabric> Ends<F> {
    fn new(setup: &Setup, protocol: Protocol) -> Self {
        let fabric = F::new(setup);
        let config = Config { protocol, arrival: Arrival::Flag, folds: 1, ..Config::default() };
        let ends = [0, 1].map(|side| {
            let endpoint = Endpoint::new(&fabric, fabric.attachment(side), config, Origin::default())
                .unwrap_or_else(|error| panic!("{error}"));
            Driver::new(endpoint, 1 + side as u64, CoreWait::Yield, 2_000_000_000, Nanos(0))
        });
        Self { fabric, ends }
    }

    fn turn(&mut self) {
        for end in &mut self.ends {
            end.progress(&mut self.fabric);
            end.endpoint_mut().poll_acknowledgements(&mut self.fabric);
        }
        self.fabric.step();
    }

    /// Carries a message in blocks.
    fn carry(&mut self, from: &[u8], to: &mut [u8]) {
        let length = Length::Exact(from.len() as u64);
        let id: TransferId =
            self.ends[0].endpoint_mut().start(TAG, length).unwrap_or_else(|error| panic!("{error}"));
        let (mut sent, mut received) = (0, 0);
        loop {
            if sent < from.len() {
                let pushed = self.ends[0].endpoint_mut().push_from(&mut self.fabric, id, &[from], sent);
                sent += pushed.unwrap_or_else(|error| panic!("{error}"));
            }
            let pulled = self.ends[1].endpoint_mut().pull_from(&mut self.fabric, &mut [&mut *to], received);
            received += pulled.bytes;
            if pulled.end == End::Fin {
                return;
            }
            self.turn();
        }
    }
}

/// Measures core's part of growth, over the fabric of the tests: control messages, jobs and moves, from the page to 512 KiB.
fn in_core(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("growth/core");
    let [from, mut to] = common::buffers(MESSAGE_BYTES);
    let (from, to) = (&from[..MESSAGE_BYTES], &mut to[..MESSAGE_BYTES]);
    let base = Layout { block_bytes: 256, block_count: 11, flags: FlagPlace::Inside };
    let largest = Layout { block_bytes: 16 << 10, block_count: 32, flags: FlagPlace::Inside };
    let setup = Setup { growth: Some(GrowthSetup::new(largest, 64 << 10)), ..Setup::new(base, 1) };
    let grow = |mut ends: Ends<Direct>, to: &mut [u8]| {
        for _ in 0..MESSAGES_MAX {
            ends.carry(from, to);
            if ends.ends[1].counters().landing_bytes[0] >= LARGEST_BYTES {
                return ends;
            }
        }
        panic!("it does not grow");
    };
    let new = || Ends::new(&setup, Protocol::Superpipeline);
    grow(new(), to);
    assert_eq!(pattern::find_wrong_byte(1, to), None);
    group.bench_function(BenchmarkId::new("direct", Bytes(LARGEST_BYTES)), |bencher| {
        bencher.iter_batched(new, |ends| grow(ends, &mut *to), BatchSize::LargeInput);
    });
    group.finish();
}

/// Measures a message by remote writes over the fabric of the tests: out of memory that is registered already (hit), and out of memory that
/// is registered and deregistered for it (missed).
fn registrations(criterion: &mut Criterion) {
    const BYTES: usize = 128 << 10;
    let mut group = criterion.benchmark_group("registration");
    group.throughput(Throughput::Bytes(BYTES as u64));
    let layout = Layout { block_bytes: 8 << 10, block_count: 16, flags: FlagPlace::Inside };
    let [from, mut to] = common::buffers(BYTES);
    let (from, to) = (&from[..BYTES], &mut to[..BYTES]);
    for is_hit in [true, false] {
        let mut ends = Ends::<Posted>::new(&Setup::new(layout, 1), Protocol::RegisterCached);
        let [source, place] = [0, 1].map(|side| ends.fabric.lend(side, from.to_vec()));
        let memories = if is_hit {
            let (source, _) = ends.fabric.register(0, source, false);
            let (_, claim) = ends.fabric.register(1, place, true);
            (SendMemory::Registered(source), RecvMemory::Registered(claim))
        } else {
            (SendMemory::Lent(source), RecvMemory::Lent(place))
        };
        let mut carry = |to: &mut [u8]| {
            let mut send = SendOperation::new(TAG, BYTES).with_memory(memories.0);
            let mut receive = RecvOperation::new().with_memory(memories.1);
            let mut done = [false; 2];
            while done != [true; 2] {
                let Ends { fabric, ends: [one, other] } = &mut ends;
                if !done[0]
                    && let Drive::Done(sent) = one.drive_send(fabric, &mut send, &[from])
                {
                    assert!(sent.is_ok(), "{sent:?}");
                    done[0] = true;
                }
                if !done[1]
                    && let Drive::Done(received) = other.drive_recv(fabric, &mut receive, &mut [to])
                {
                    assert!(received.is_ok(), "{received:?}");
                    done[1] = true;
                }
                ends.turn();
            }
        };
        carry(to);
        let name = if is_hit { "hit" } else { "missed" };
        group.bench_function(BenchmarkId::new(name, Bytes(BYTES as u64)), |bencher| {
            bencher.iter(|| carry(&mut *to));
        });
        let counters = ends.ends[0].counters();
        assert_eq!((counters.registrations_hit > 0, counters.registrations_missed > 0), (is_hit, !is_hit));
        assert!(counters.remote_bytes_sent > 0);
    }
    group.finish();
}

criterion_group! { name = benches; config = common::quick(); targets = shared_memory, in_core, registrations }
criterion_main!(benches);
