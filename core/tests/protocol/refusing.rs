//! Each transfer that is shown can be rejected, and its sender learns of each, however many wait for each other.

use superpipe_core::{Config, Endpoint, Event, FlagPlace, Layout, Origin, Reason};
use superpipe_testkit::{Direct, Posted, Setup, TestFabric};

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 16, flags: FlagPlace::Inside };
const TRANSFERS: u32 = 12;

fn every_reject_is_told<F: TestFabric>(seed: u64, send_queue: usize, bytes: usize, patience: usize) {
    let fabric = &mut F::new(&Setup { send_queue, ..Setup::new(LAYOUT, seed) });
    let [mut sender, mut receiver] = [0, 1].map(|side| {
        Endpoint::new(fabric, fabric.attachment(side), Config::default(), Origin::default()).unwrap()
    });
    let (mut sent, mut rejected, mut told) = (0, 0, 0);
    for round in 0..20_000 {
        if sent < TRANSFERS && sender.try_send(fabric, 1, &[&vec![7; bytes]]).is_ok() {
            sent += 1;
        }
        // The receiver is faster than the sender.
        if round % patience == 0 {
            sender.progress(fabric);
        }
        receiver.progress(fabric);
        fabric.step();
        if let Some(incoming) = receiver.incoming(fabric) {
            rejected += 1;
            assert_eq!(incoming.transfer, u64::from(rejected), "{} {seed}", F::NAME);
            assert!(receiver.reject(fabric, Reason(rejected)), "{} {seed}: it was shown", F::NAME);
        }
        while let Some(event) = sender.poll_event() {
            told += 1;
            let expected = Event::Rejected { transfer: u64::from(told), reason: Reason(told) };
            assert_eq!(event, expected, "{} {seed}", F::NAME);
        }
        if told == TRANSFERS {
            assert_eq!((sender.closed(), receiver.closed()), (None, None), "{} {seed}", F::NAME);
            return;
        }
    }
    panic!("{} {seed}: of {rejected} rejects {told} were told", F::NAME);
}

#[test]
fn direct() {
    for (bytes, patience) in [(8, 1), (100, 1), (8, 50), (100, 50)] {
        every_reject_is_told::<Direct>(1, 1, bytes, patience);
    }
}

#[test]
fn posted() {
    for seed in 0..20 {
        for (send_queue, bytes, patience) in [(1, 100, 1), (2, 8, 5), (8, 100, 5)] {
            every_reject_is_told::<Posted>(seed, send_queue, bytes, patience);
        }
    }
}
