//! Messages of which a call moves a part only, however much there is room for.

use superpipe_core::driver::{
    DescriptorWait, DescriptorWaitNext, Drive, RecvOperation, RefusedRecv, SendOperation, WaitStrategy,
};
use superpipe_core::{
    Arrival, Config, Driver, Endpoint, FlagPlace, Layout, Length, Origin, Protocol, Readable, Reason,
};
use superpipe_testkit::wire::{self, kind};
use superpipe_testkit::{Memory, Setup, TestFabric};

use crate::driver::{BEGIN, IDLE_NS, ROUNDS, payload, taken};

tables! {
    a_whole_message_is_taken_all_at_once
    a_call_moves_a_part
    a_call_takes_a_bounded_number_of_blocks
    a_call_shows_a_bounded_number_of_blocks
    an_attempt_that_discards_has_moved
    a_wait_for_a_descriptor_discards_without_a_pause
    the_end_of_many_blocks_is_found
    a_try_takes_a_message_behind_an_empty_chunk
}

const LAYOUT: Layout = Layout { block_bytes: 256 << 10, block_count: 16, flags: FlagPlace::Inside };
const BYTES: usize = 3 << 20;
/// A call moves about as many.
const CALL_BYTES: usize = 1 << 20;
/// Blocks so short that their number bounds a call.
const SHORT: Layout = Layout { block_bytes: 128, block_count: 4096, flags: FlagPlace::Inside };
const CALL_BLOCKS: u64 = 1024;
/// Other activity of the peer in a call: an acknowledgement, a control message.
const OTHER_ACTIVITY: u64 = 4;

fn ends<F: TestFabric>(c0_bytes: u32, arrival: Arrival) -> (F, [Driver<F>; 2]) {
    ends_of(LAYOUT, c0_bytes, arrival)
}

fn ends_of<F: TestFabric>(layout: Layout, c0_bytes: u32, arrival: Arrival) -> (F, [Driver<F>; 2]) {
    let fabric = F::new(&Setup::new(layout, 1));
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

/// Each block costs a line from the peer, however short it is: also of a transfer that is discarded.
fn a_call_takes_a_bounded_number_of_blocks<F: TestFabric>() {
    let bytes = (SHORT.block_bytes * SHORT.block_count / 2) as usize;
    let sent = payload(bytes);
    // The fast path, which takes a message of one chunk, fills one slice.
    for (discards, slices) in [(false, 1), (false, 2), (true, 2)] {
        let (mut fabric, [mut from, mut to]) = ends_of::<F>(SHORT, 1 << 20, Arrival::Flag);
        let mut send = SendOperation::new(3, bytes);
        while !matches!(from.drive_send(&mut fabric, &mut send, &[&sent]), Drive::Done(Ok(()))) {
            arrive(&mut fabric, &mut from);
        }
        arrive(&mut fabric, &mut from);
        let (mut receive, mut place) = (RecvOperation::new(), vec![0; bytes]);
        let mut calls = 0;
        if discards {
            assert!(to.try_peek(&mut fabric).is_some());
            assert!(to.reject(&mut fabric, Reason(7)));
        }
        let mut has_ended = false;
        while !has_ended {
            let before = to.endpoint().activity();
            has_ended = if discards {
                !to.progress(&mut fabric)
            } else {
                let (a, b) = place.split_at_mut(bytes / slices);
                matches!(to.drive_recv(&mut fabric, &mut receive, &mut [a, b][..slices]), Drive::Done(Ok(_)))
            };
            let blocks = to.endpoint().activity() - before;
            assert!(blocks <= CALL_BLOCKS + OTHER_ACTIVITY, "{blocks} blocks in a call");
            calls += 1;
            assert!(calls < 1000, "stuck");
        }
        assert!(to.endpoint().activity() > 2 * CALL_BLOCKS);
        assert!(discards || place == sent);
    }
}

fn a_call_shows_a_bounded_number_of_blocks<F: TestFabric>() {
    let bytes = (SHORT.block_bytes * SHORT.block_count / 2) as usize;
    let (mut fabric, [mut from, mut to]) = ends_of::<F>(SHORT, 1 << 20, Arrival::Flag);
    let (mut send, sent) = (SendOperation::new(3, bytes), payload(bytes));
    while !matches!(from.drive_send(&mut fabric, &mut send, &[&sent]), Drive::Done(Ok(()))) {
        arrive(&mut fabric, &mut from);
    }
    arrive(&mut fabric, &mut from);
    let mut shown = 0;
    while shown < bytes {
        let Readable::Run(run) = to.endpoint_mut().readable(&mut fabric, u32::MAX) else { panic!("{shown}") };
        assert!(u64::from(run.bytes) <= CALL_BLOCKS * u64::from(SHORT.block_bytes));
        to.endpoint_mut().consume(&mut fabric, run.bytes);
        shown += run.bytes as usize;
    }
}

/// The peer has left a whole message, in more chunks than a try takes and more blocks than a call passes.
fn the_end_of_many_blocks_is_found<F: TestFabric>() {
    let (mut fabric, [mut from, mut to]) = ends_of::<F>(SHORT, 1, Arrival::Flag);
    let part = payload(60_000);
    let bytes = 4 * part.len();
    let id = from.endpoint_mut().start(3, Length::Exact(bytes as u64)).unwrap();
    for _ in 0..4 {
        assert_eq!(from.endpoint_mut().push(&mut fabric, id, &[&part]), Ok(part.len()));
        arrive(&mut fabric, &mut from);
    }
    let mut place = vec![0; bytes];
    to.note_peer_gone();
    let tried = to.try_recv(&mut fabric, &mut [&mut place]);
    assert!(matches!(tried, Err(RefusedRecv::Long(_))), "{tried:?}");
    assert_eq!(to.ended_in_message(&fabric), None, "it is all here");
    let mut receive = RecvOperation::new();
    let received = (0..100).find_map(|_| match to.drive_recv(&mut fabric, &mut receive, &mut [&mut place]) {
        Drive::Done(received) => Some(received),
        _ => None,
    });
    assert_eq!(received, Some(Ok(taken(3, bytes))));
}

/// Blocks of which a call takes one.
fn a_try_takes_a_message_behind_an_empty_chunk<F: TestFabric>() {
    let layout = Layout { block_bytes: 1 << 20, block_count: 4, flags: FlagPlace::Inside };
    let (mut fabric, [_, mut to]) = ends_of::<F>(layout, 1 << 20, Arrival::Flag);
    let lines = [wire::chunk(kind::RTS, 7, 600, 0, 1, 1), wire::chunk(kind::FIN, 0, 0, 600, 1, 2)];
    for (block, line) in (0..).zip(lines) {
        fabric.forge(Memory::landing(1), layout.line_at(block), &line);
    }
    let (mut a, mut b) = ([9; 300], [9; 300]);
    assert_eq!(to.try_recv(&mut fabric, &mut [&mut a, &mut b]), Ok(Some(taken(7, 600))));
}

/// Returns ends, to one of which a message of many blocks was sent, and one behind it; it has rejected the first.
fn rejected<F: TestFabric>() -> (F, [Driver<F>; 2]) {
    let bytes = (SHORT.block_bytes * SHORT.block_count / 2) as usize;
    let (mut fabric, [mut from, mut to]) = ends_of::<F>(SHORT, 1 << 20, Arrival::Flag);
    let sent = payload(bytes);
    from.try_send(&mut fabric, 3, &[&sent]).unwrap();
    from.try_send(&mut fabric, 4, &[b"behind"]).unwrap();
    arrive(&mut fabric, &mut from);
    assert!(to.reject(&mut fabric, Reason(7)));
    (fabric, [from, to])
}

/// Attempts of a wait find what is behind a rejected transfer, without a pause between them.
fn an_attempt_that_discards_has_moved<F: TestFabric>() {
    let (mut fabric, [_, mut to]) = rejected::<F>();
    let found: Vec<_> = (0..4)
        .map(|_| {
            to.attempt(&mut fabric, |to, fabric| to.try_peek(fabric).into()).map(|incoming| incoming.tag)
        })
        .collect();
    let moved = found.iter().take_while(|driven| **driven == Drive::Moved).count();
    assert!((1..=3).contains(&moved) && found[moved] == Drive::Done(4), "{found:?}");
}

fn a_wait_for_a_descriptor_discards_without_a_pause<F: TestFabric>() {
    let (mut fabric, [_, mut to]) = rejected::<F>();
    let mut wait = DescriptorWait::sink();
    let mut round = |fabric: &mut F| to.descriptor_round(fabric, &mut wait, false, BEGIN);
    assert_eq!(round(&mut fabric), DescriptorWaitNext::Poll);
    assert!((0..3).any(|_| round(&mut fabric) == DescriptorWaitNext::Wait));
    assert_eq!(to.try_peek(&mut fabric).map(|incoming| incoming.tag), Some(4));
}
