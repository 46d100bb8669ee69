//! Messages of which a call moves a part only, however much there is room for.

use superpipe_core::driver::{Drive, RecvOperation, SendOperation, WaitStrategy};
use superpipe_core::{Arrival, Config, Driver, Endpoint, FlagPlace, Layout, Origin, Protocol};
use superpipe_testkit::{Setup, TestFabric};

use crate::driver::{BEGIN, IDLE_NS, ROUNDS, payload, taken};

tables! {
    a_whole_message_is_taken_all_at_once
    a_call_moves_a_part
}

const LAYOUT: Layout = Layout { block_bytes: 256 << 10, block_count: 16, flags: FlagPlace::Inside };
const BYTES: usize = 3 << 20;
/// A call moves about as many.
const CALL_BYTES: usize = 1 << 20;

fn ends<F: TestFabric>(c0_bytes: u32, arrival: Arrival) -> (F, [Driver<F>; 2]) {
    let fabric = F::new(&Setup::new(LAYOUT, 1));
    // All of the ring, which is larger than the window that a choice starts with.
    let window_bytes = Some(u32::MAX);
    let config =
        Config { protocol: Protocol::Eager, arrival, c0_bytes, folds: 1, window_bytes, ..Config::default() };
    let ends = [0, 1].map(|side| {
        let endpoint = Endpoint::new(&fabric, fabric.attachment(side), config, Origin::default()).unwrap();
        Driver::new(endpoint, 1 + side as u64, WaitStrategy::Sleep, IDLE_NS, BEGIN)
    });
    (fabric, ends)
}

fn arrive<F: TestFabric>(fabric: &mut F, end: &mut Driver<F>) {
    for _ in 0..ROUNDS {
        end.progress(fabric);
        fabric.step();
    }
}

/// None of it, or all.
fn a_whole_message_is_taken_all_at_once<F: TestFabric>() {
    let sent = payload(BYTES);
    for arrival in [Arrival::Flag, Arrival::CheckedFlag] {
        for cut in [0, 1, BYTES / 2] {
            let (mut fabric, [mut from, mut to]) = ends::<F>(3 << 20, arrival);
            from.try_send(&mut fabric, 3, &[&sent]).unwrap();
            arrive(&mut fabric, &mut from);
            let mut place = vec![0; BYTES];
            let (a, b) = place.split_at_mut(cut);
            assert_eq!(to.try_recv(&mut fabric, &mut [a, b]), Ok(Some(taken(3, BYTES))));
            assert!(place == sent);
        }
    }
}

fn a_call_moves_a_part<F: TestFabric>() {
    let sent = payload(BYTES);
    let (mut fabric, [mut from, mut to]) = ends::<F>(1, Arrival::Flag);
    let (mut send, mut receive) = (SendOperation::new(3, BYTES), RecvOperation::new());
    let mut place = vec![0; BYTES];
    let mut calls = 0;
    while send.sent() < BYTES {
        let before = send.sent();
        let driven = from.drive_send(&mut fabric, &mut send, &[&sent]);
        assert!(!matches!(driven, Drive::Done(Err(_))) && send.sent() - before <= CALL_BYTES);
        arrive(&mut fabric, &mut from);
        calls += 1;
        assert!(calls < 100, "stuck");
    }
    assert!(calls >= 3);
    let mut takes = 0;
    let received = loop {
        let before = receive.taken();
        let driven = to.drive_recv(&mut fabric, &mut receive, &mut [&mut place]);
        assert!(receive.taken() - before <= CALL_BYTES + LAYOUT.block_bytes as usize);
        takes += 1;
        if let Drive::Done(received) = driven {
            break received;
        }
        assert!(takes < 100, "stuck");
    };
    assert!(takes >= 3);
    assert_eq!(received, Ok(taken(3, BYTES)));
    assert!(place == sent);
}
