//! Tries and operations of the driver, where they refuse: nothing is lost, and nothing wrong is sent.

use superpipe_core::driver::{
    Drive, Driver, RecvFailed, RecvOperation, RefusedRecv, SendFailed, SendOperation, WaitStrategy, WarmUp,
    WarmUpPlan,
};
use superpipe_core::{Config, Endpoint, FlagPlace, Layout, Length, Nanos, Origin, Protocol, Reason};
use superpipe_testkit::{Direct, PairFabric, Setup, TestFabric};

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 16, flags: FlagPlace::Inside };

/// The first end sends up to so many bytes at once.
fn ends(c0_bytes: u32) -> (Direct, [Driver<Direct>; 2]) {
    let fabric = Direct::new(&Setup::new(LAYOUT, 1));
    let ends = [0, 1].map(|side| {
        let config = Config { c0_bytes: if side == 0 { c0_bytes } else { 1000 }, ..Config::default() };
        let end = Endpoint::new(&fabric, fabric.attachment(side), config, Origin::default()).unwrap();
        Driver::new(end, 1 + side as u64, WaitStrategy::Spin, 1_000_000_000, Nanos(0))
    });
    (fabric, ends)
}

fn settle(fabric: &mut Direct) {
    for _ in 0..4000 {
        fabric.step();
    }
}

#[test]
fn a_try_leaves_the_end_of_a_message_that_was_given_up() {
    let (mut fabric, [mut sender, mut receiver]) = ends(100);
    // The RTS goes alone, and waits for a CTS.
    sender.set_protocol(Protocol::Copy);
    let id = sender.endpoint_mut().start(7, Length::Exact(500)).unwrap();
    assert_eq!(sender.endpoint_mut().push(&mut fabric, id, &[&[1; 500]]), Ok(0));
    sender.cancel_stream(&mut fabric, id, Reason(9));
    settle(&mut fabric);
    let (mut place, mut receive) = ([0; 1000], RecvOperation::new());
    for _ in 0..2 {
        let tried = receiver.try_recv(&mut fabric, &mut [&mut place]);
        assert!(matches!(tried, Err(RefusedRecv::Long(_))), "{tried:?}");
    }
    let driven = receiver.drive_recv(&mut fabric, &mut receive, &mut [&mut place]);
    assert_eq!(driven, Drive::Done(Err(RecvFailed::Cancelled(Reason(9)))));
}

#[test]
fn slices_of_another_length_are_never_sent() {
    let (mut fabric, [mut sender, mut receiver]) = ends(1000);
    for (begun, given) in [(20, 18), (20, 30), (40, 41), (500, 400), (500, 600), (20, 0), (500, 30)] {
        let mut send = SendOperation::new(1, begun);
        let driven = sender.drive_send(&mut fabric, &mut send, &[&vec![5; given]]);
        assert_eq!(driven, Drive::Done(Err(SendFailed::WrongLength)), "{given} for {begun}");
    }
    settle(&mut fabric);
    assert_eq!(receiver.try_peek(&mut fabric), None);
    assert_eq!(sender.try_send(&mut fabric, 2, &[&[6; 8]]).map(|_| ()), Ok(()));
    settle(&mut fabric);
    let mut place = [0; 1000];
    let received = receiver.try_recv(&mut fabric, &mut [&mut place]).unwrap().unwrap();
    assert_eq!((received.tag, received.bytes), (2, 8));
}

#[test]
fn what_was_taken_is_acknowledged_on_either_path() {
    let (mut fabric, [mut sender, mut receiver]) = ends(1000);
    for bytes in [8, 40, 200, 900] {
        sender.try_send(&mut fabric, 1, &[&vec![5; bytes]]).unwrap();
        settle(&mut fabric);
        let (mut place, mut receive) = ([0; 1000], RecvOperation::new());
        while !matches!(receiver.drive_recv(&mut fabric, &mut receive, &mut [&mut place]), Drive::Done(Ok(_)))
        {
            settle(&mut fabric);
        }
        assert_eq!(receive.taken(), bytes);
    }
}

#[test]
fn a_connection_whose_messages_are_tiny_becomes_warm() {
    for c0_bytes in [1, 3, 4, 1000] {
        let (mut fabric, mut ends) = ends(c0_bytes);
        let plan = WarmUpPlan::new(LAYOUT, &Config { c0_bytes, ..Config::default() }, true);
        let mut rooms = [0, 1].map(|_| vec![0; plan.room_bytes()]);
        let mut warm_ups = [true, false].map(|is_first| WarmUp::new(plan, is_first));
        let mut is_warm = [false; 2];
        for _ in 0..100_000 {
            for (side, end) in ends.iter_mut().enumerate() {
                let driven = end.drive_warm_up(&mut fabric, &mut warm_ups[side], &mut rooms[side]);
                assert!(!matches!(driven, Drive::Done(Err(_))), "C0 of {c0_bytes} bytes: {driven:?}");
                is_warm[side] |= matches!(driven, Drive::Done(Ok(())));
                end.progress(&mut fabric);
                fabric.step();
            }
        }
        assert_eq!(is_warm, [true; 2], "C0 of {c0_bytes} bytes");
    }
}
