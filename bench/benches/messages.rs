//! What a message costs besides the wire: sent and received in one thread, between the two ends of a connection over
//! shared memory. Nobody waits, and no cache line changes its core.

use core::time::Duration;
use std::env;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use superpipe::{Arrival, Connection, Options, Tuning, WaitStrategy};
use superpipe_bench::map::Buffer;
use superpipe_bench::pair::{self, DEADLINE};
use superpipe_bench::pattern;
use superpipe_bench::size::format_bytes;

const BYTES: [usize; 6] = [0, 8, 40, 1 << 10, 16 << 10, 64 << 10];
const ARRIVALS: [(&str, Arrival); 2] = [("flag", Arrival::Flag), ("checked-flag", Arrival::CheckedFlag)];

fn connected(arrival: Arrival) -> [Connection; 2] {
    let directory = env::temp_dir().join(format!("superpipe-messages-{}", std::process::id()));
    let tuning = Tuning { arrival: Some(arrival), ..Tuning::default() };
    let options = Options { wait: WaitStrategy::Spin, tuning, ..Options::default() };
    pair::connect(&directory, options).unwrap_or_else(|error| panic!("{error}"))
}

fn messages(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("message");
    for (name, arrival) in ARRIVALS {
        let [mut a, mut b] = connected(arrival);
        for bytes in BYTES {
            let buffer = || Buffer::new(bytes, false).unwrap_or_else(|failure| panic!("{failure}"));
            let (mut from, mut to) = (buffer(), buffer());
            let (from, to) = (&mut from.bytes_mut()[..bytes], &mut to.bytes_mut()[..bytes]);
            pattern::fill(1, from);
            group.throughput(Throughput::Bytes(bytes as u64));
            group.bench_function(BenchmarkId::new(name, format_bytes(bytes)), |bencher| {
                bencher.iter(|| {
                    let sent = a.send(7, &[from], DEADLINE);
                    let received = b.recv_into(&mut [to], DEADLINE);
                    sent.and(received).unwrap_or_else(|error| panic!("{error}"))
                });
            });
            assert_eq!(pattern::find_wrong_byte(1, to), None, "{name}, {bytes} bytes");
        }
    }
    group.finish();
}

fn quick() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(30)
}

criterion_group! { name = benches; config = quick(); targets = messages }
criterion_main!(benches);
