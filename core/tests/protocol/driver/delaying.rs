//! Ends that make do with the base for a while: growth after some rings, for a message of that many, or because the peer takes nothing.

use super::*;
use superpipe_core::driver::{Next, Rest};
use superpipe_core::{GrowthDelay, Length};
use superpipe_testkit::GrowthSetup;

const LARGEST: Layout = Layout { block_bytes: 1024, block_count: 16, flags: FlagPlace::Inside };
const BASE: Layout = Layout { block_bytes: 128, block_count: 4, flags: FlagPlace::Inside };
const RINGS: u32 = 6;
const TRIES: u32 = 5;

tables! {
    short_messages_grow_nothing_until_they_are_some_rings
    a_message_of_some_rings_asks_before_it_is_sent
    a_peer_that_takes_nothing_is_asked_after_some_tries
    blocks_that_come_back_begin_the_tries_anew
    an_end_asks_before_it_rests
    an_end_whose_tries_are_far_apart_asks_after_some_time
    a_message_that_fits_the_base_never_asks
}

fn pair<F: TestFabric>(delay: GrowthDelay) -> Two<F> {
    let growth = GrowthSetup { delay, ..GrowthSetup::new(LARGEST, 4096) };
    let fabric = F::new(&Setup { growth: Some(growth), ..Setup::new(BASE, 7) });
    let ends = [0, 1].map(|side| driver(&fabric, side, Arrival::Flag));
    Two { fabric, ends }
}

const fn ring_bytes() -> usize {
    BASE.capacity(BASE.block_count) as usize
}

fn asked<F: TestFabric>(two: &mut Two<F>) -> u64 {
    two.ends[0].progress(&mut two.fabric);
    two.ends[0].counters().growths_asked
}

fn carry<F: TestFabric>(two: &mut Two<F>, bytes: usize) {
    let (message, mut place) = (vec![7; bytes], vec![0; bytes]);
    let (mut send, mut receive) = (SendOperation::new(1, bytes), RecvOperation::new());
    let (sent, received) = two.carry(0, (&mut send, &[&message]), (&mut receive, &mut [&mut place]));
    assert_eq!((sent, received.map(|received| received.bytes)), (Ok(()), Ok(bytes)));
    assert!(place == message);
    two.settle();
}

fn short_messages_grow_nothing_until_they_are_some_rings<F: TestFabric>() {
    let mut two = pair::<F>(GrowthDelay { rings: RINGS, tries: 10_000 });
    let bytes = 2 * ring_bytes();
    for _ in 0..2 {
        carry(&mut two, bytes);
        assert_eq!(asked(&mut two), 0, "fewer than {RINGS} rings");
    }
    while asked(&mut two) == 0 {
        carry(&mut two, bytes);
        assert!(two.ends[0].counters().bytes_sent < (2 * RINGS as usize * ring_bytes()) as u64);
    }
    assert_eq!(two.ends[0].counters().moves, 1);
    let counters = two.ends[0].counters();
    carry(&mut two, bytes);
    assert_eq!(two.ends[0].counters().credit_waits, counters.credit_waits, "it fits now");
}

fn a_message_of_some_rings_asks_before_it_is_sent<F: TestFabric>() {
    for (bytes, expected) in [(RINGS as usize * ring_bytes() - 1, 0), (RINGS as usize * ring_bytes(), 1)] {
        let mut two = pair::<F>(GrowthDelay { rings: RINGS, tries: 10_000 });
        two.ends[0].endpoint_mut().start(1, Length::Exact(bytes as u64)).unwrap();
        assert_eq!(asked(&mut two), expected, "{bytes}");
    }
}

/// Drives a message that nobody takes. Returns the tries after which this end has asked.
fn tries_until_asked<F: TestFabric>(two: &mut Two<F>, bytes: usize) -> usize {
    let (message, mut send) = (vec![7; bytes], SendOperation::new(1, bytes));
    // The first one fills the ring.
    assert_eq!(two.ends[0].drive_send(&mut two.fabric, &mut send, &[&message]), Drive::Moved);
    for tries in 0..ROUNDS {
        if asked(two) > 0 {
            return tries;
        }
        assert_eq!(two.ends[0].drive_send(&mut two.fabric, &mut send, &[&message]), Drive::Idle);
    }
    0
}

/// Also of a message of which less than a ring is left.
fn a_peer_that_takes_nothing_is_asked_after_some_tries<F: TestFabric>() {
    for bytes in [ring_bytes() + 1, 2 * ring_bytes()] {
        let mut two = pair::<F>(GrowthDelay { rings: RINGS, tries: TRIES });
        let tries = tries_until_asked(&mut two, bytes);
        assert!((TRIES as usize - 2..=TRIES as usize).contains(&tries), "{tries}");
        two.settle();
        let [of_sender, of_receiver] = [0, 1].map(|side| two.ends[side].counters());
        assert_eq!((of_sender.moves, of_receiver.growths), (1, 1), "the peer grants it, and takes nothing");
    }
}

fn blocks_that_come_back_begin_the_tries_anew<F: TestFabric>() {
    let mut two = pair::<F>(GrowthDelay { rings: 1000, tries: TRIES });
    let bytes = 20 * ring_bytes();
    let (message, mut send) = (vec![7; bytes], SendOperation::new(1, bytes));
    let (mut place, mut receive) = (vec![0; bytes], RecvOperation::new());
    let mut sent = false;
    while !sent {
        // Fewer tries than are allowed in turn.
        for _ in 0..2 {
            sent = sent
                || two.ends[0].drive_send(&mut two.fabric, &mut send, &[&message]) == Drive::Done(Ok(()));
        }
        let _ = two.ends[1].drive_recv(&mut two.fabric, &mut receive, &mut [&mut place]);
        two.settle();
    }
    assert!(two.ends[0].counters().credit_waits > u64::from(TRIES), "it was held back more often");
    assert_eq!(asked(&mut two), 0);
}

/// Nothing but the peer wakes an end that sleeps.
fn an_end_asks_before_it_rests<F: TestFabric>() {
    let mut two = pair::<F>(GrowthDelay { rings: RINGS, tries: 1 << 20 });
    let bytes = 2 * ring_bytes();
    let (message, mut send) = (vec![7; bytes], SendOperation::new(1, bytes));
    let mut wait = two.ends[0].begin_wait();
    loop {
        let driven = two.ends[0].drive_send(&mut two.fabric, &mut send, &[&message]);
        match two.ends[0].round(&mut two.fabric, &mut wait, driven == Drive::Moved) {
            Next::Rest(Rest::Yield { .. } | Rest::Sleep) => break,
            next => assert!(!matches!(next, Next::Ended(_))),
        }
    }
    assert_eq!(two.ends[0].counters().growths_asked, 1);
}

/// A program with a loop of its own may try once in a while, and tick in between.
fn an_end_whose_tries_are_far_apart_asks_after_some_time<F: TestFabric>() {
    let bytes = 20 * ring_bytes();
    let (message, mut send) = (vec![7; bytes], SendOperation::new(1, bytes));
    let (mut place, mut receive) = (vec![0; bytes], RecvOperation::new());
    let mut two = pair::<F>(GrowthDelay { rings: 1000, tries: 1 << 20 });
    let tick = |two: &mut Two<F>, ns| two.ends[0].tick(&mut two.fabric, Nanos(ns));
    let drive = |two: &mut Two<F>, send: &mut _| {
        let driven = two.ends[0].drive_send(&mut two.fabric, send, &[&message]);
        (driven, asked(two))
    };
    assert_eq!(drive(&mut two, &mut send), (Drive::Moved, 0));
    for ns in [1_000_000, 1_009_999] {
        assert_eq!(drive(&mut two, &mut send), (Drive::Idle, 0));
        tick(&mut two, ns);
    }
    // Blocks come back, so the time begins anew.
    two.settle();
    while drive(&mut two, &mut send) != (Drive::Moved, 0) {
        let _ = two.ends[1].drive_recv(&mut two.fabric, &mut receive, &mut [&mut place]);
        two.settle();
    }
    while drive(&mut two, &mut send) == (Drive::Moved, 0) {}
    for ns in [1_010_000, 1_019_999, 1_020_000] {
        assert_eq!(drive(&mut two, &mut send), (Drive::Idle, 0), "at {ns}");
        tick(&mut two, ns);
    }
    assert_eq!(drive(&mut two, &mut send).0, Drive::Idle);
    two.settle();
    assert_eq!(asked(&mut two), 1);
}

fn a_message_that_fits_the_base_never_asks<F: TestFabric>() {
    let mut two = pair::<F>(GrowthDelay { rings: 1, tries: 1 });
    let bytes = ring_bytes() / 2;
    for _ in 0..4 {
        let (message, mut send) = (vec![7; bytes], SendOperation::new(1, bytes));
        for _ in 0..20 {
            let _ = two.ends[0].drive_send(&mut two.fabric, &mut send, &[&message]);
        }
    }
    assert_eq!(asked(&mut two), 0);
}
