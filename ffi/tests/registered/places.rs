//! The eight places of a connection: which buffers have them.

use core::iter;
use core::time::Duration;

use superpipe::{Budget, Connection, LandingMode, Protocol, Registered, RegisteredBuf, TrustedBuf};

use crate::{
    DEADLINE, alone, await_helpers, await_that, buffer, mapped, mapped_buffers, offer, options, pair,
    pair_with, receive, register, settle, trusting_pair,
};

const LONG: usize = 100_000;

fn buffers(count: u64) -> Vec<RegisteredBuf> {
    (0..count).map(|seed| buffer(seed, LONG)).collect()
}

/// Sends a message out of a buffer. Returns true if it was copied once.
fn carry(a: &mut Connection, b: &mut Connection, source: &RegisteredBuf) -> bool {
    let before = b.counters().exposed_bytes_received;
    std::thread::scope(|scope| {
        scope.spawn(|| a.send_registered(7, source, 0..LONG, DEADLINE).unwrap());
        receive(b, source);
    });
    settle(a, b);
    b.counters().exposed_bytes_received > before
}

#[test]
fn the_least_recently_used_buffer_gives_its_place_up() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let all = buffers(9);
    for source in &all[..8] {
        assert_eq!(register(&mut a, &mut b, source), Registered::Ready);
    }
    for source in all[..8].iter().rev() {
        assert!(carry(&mut a, &mut b, source));
    }
    assert_eq!(register(&mut a, &mut b, &all[8]), Registered::Ready);
    assert_eq!(mapped_buffers(), 9 + 8);
    // The other seven are used once more, so that the newest 16 messages have used all.
    for source in &all[..7] {
        assert!(carry(&mut a, &mut b, source));
    }
    assert!(carry(&mut a, &mut b, &all[8]));
    assert!(!carry(&mut a, &mut b, &all[7]), "it was used first");
    for source in all[..7].iter().chain(&all[8..]) {
        assert!(carry(&mut a, &mut b, source));
    }
}

#[test]
fn a_buffer_that_is_shared_keeps_its_place() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let all = buffers(10);
    for source in &all[..8] {
        assert_eq!(register(&mut a, &mut b, source), Registered::Ready);
    }
    for source in &all[..8] {
        assert!(carry(&mut a, &mut b, source));
    }
    a.send_registered(7, &all[0], 0..LONG, DEADLINE).unwrap();
    for source in &all[1..8] {
        a.send_registered(7, source, 0..LONG, DEADLINE).unwrap();
    }
    assert!(all[..8].iter().all(|source| a.is_shared(source)));
    let error = a.register(&all[8], Duration::from_millis(20)).unwrap_err();
    assert_eq!(error.kind(), superpipe::ErrorKind::Timeout, "{error}");
    for source in &all[..3] {
        receive(&mut b, source);
    }
    assert_eq!(register(&mut a, &mut b, &all[8]), Registered::Ready);
    for source in &all[3..8] {
        receive(&mut b, source);
    }
    assert!(carry(&mut a, &mut b, &all[8]) && carry(&mut a, &mut b, &all[7]));
    assert!(!carry(&mut a, &mut b, &all[0]), "the first was not shared, and used least recently");
}

#[test]
fn nine_buffers_in_turn_leave_eight_mapped() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let all = buffers(9);
    let mut round = || all.iter().filter(|source| carry(&mut a, &mut b, source)).count();
    for number in 0..10 {
        await_helpers(number > 1);
        if round() == 8 {
            break;
        }
    }
    for number in 0..5 {
        assert_eq!(round(), 8, "round {number}");
    }
    // Once another has not been used for a while, the ninth gets its place.
    for number in 0..10 {
        await_helpers(number > 2);
        let hits = all[1..].iter().filter(|source| carry(&mut a, &mut b, source)).count();
        if number >= 2 && hits == 8 {
            break;
        }
    }
    assert!(carry(&mut a, &mut b, &all[8]));
    assert!(!carry(&mut a, &mut b, &all[0]));
}

/// Tries once to send each of these buffers, and then each again that was not sent, in the same order or back and forth, until all are.
fn try_until_all_are_sent(a: &mut Connection, b: &mut Connection, all: &[RegisteredBuf], zigzag: bool) {
    let mut left: Vec<_> = all.iter().collect();
    await_that("all are sent", || {
        left.retain(|source| {
            let is_sent = try_to_send(a, b, source);
            for _ in 0..100 {
                a.progress();
                b.progress();
            }
            !is_sent
        });
        if zigzag {
            left.reverse();
        }
        left.is_empty()
    });
}

/// Tries to send a message out of a buffer, which the other end then receives. Returns true if it was sent.
fn try_to_send(a: &mut Connection, b: &mut Connection, source: &RegisteredBuf) -> bool {
    let is_sent = a.send_registered(7, source, 0..source.len(), Duration::ZERO).is_ok();
    if is_sent {
        receive(b, source);
    }
    is_sent
}

/// A message of more than 64 KiB can be sent by a try only out of a buffer that has a place.
#[test]
fn tries_out_of_many_buffers_in_turn_all_send() {
    let _alone = alone();
    for (count, zigzag) in [(9, false), (20, false), (65, false), (64, true), (600, false)] {
        let (mut a, mut b) = pair();
        try_until_all_are_sent(&mut a, &mut b, &buffers(count), zigzag);
    }
}

/// In the page of an idle connection a try has less room still.
#[test]
fn tries_of_messages_longer_than_the_page_all_send() {
    let _alone = alone();
    let (mut a, mut b) = pair_with(options(Protocol::RegisterCached, LandingMode::OnDemand));
    let all: Vec<_> = (0..9).map(|seed| buffer(seed, 20_000)).collect();
    try_until_all_are_sent(&mut a, &mut b, &all, false);
}

/// Eight that are sent out of all the time do not keep out one that is tried now and then.
#[test]
fn a_ninth_buffer_is_sent_by_tries_beside_eight_in_use() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    try_beside(&mut a, &mut b, 8, 1);
    let (mut a, mut b) = pair();
    try_beside(&mut a, &mut b, 8, 3);
}

/// Tries to send out of a buffer until that succeeds, while so many others are registered. Before each try, messages are sent out of them
/// all, so many times.
fn try_beside(a: &mut Connection, b: &mut Connection, others: u64, times: usize) {
    let (source, others) = (buffer(others, LONG), buffers(others));
    for other in &others {
        assert_eq!(register(a, b, other), Registered::Ready);
    }
    await_that("it is sent", || {
        for other in iter::repeat_n(&others, times).flatten() {
            carry(a, b, other);
        }
        let is_sent = try_to_send(a, b, &source);
        settle(a, b);
        is_sent
    });
}

/// Nor do four, where trusted buffers have the other four places.
#[test]
fn a_fifth_is_sent_by_tries_beside_four_and_four_trusted() {
    let _alone = alone();
    for times in [1, 5] {
        let (mut a, mut b) = trusting_pair();
        let mut sinks: Vec<_> = (0..4).map(|_| TrustedBuf::new(LONG).unwrap()).collect();
        for sink in &mut sinks {
            offer(&mut a, &mut b, sink);
            b.send(7, &[b"x"], DEADLINE).unwrap();
            receive(&mut a, b"x");
        }
        try_beside(&mut a, &mut b, 4, times);
        assert_eq!(mapped("superpipe-trusted"), 4 + 4, "all trusted buffers stay mapped by both ends");
    }
}

/// A try of a short message waits for the receiver, and not for a place.
#[test]
fn tries_that_wait_for_the_receiver_take_no_place() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let all = buffers(8);
    for source in &all {
        assert_eq!(register(&mut a, &mut b, source), Registered::Ready);
    }
    let mut sent = 0;
    while a.send(7, &[&[1; 5_000]], Duration::ZERO).is_ok() {
        sent += 1;
    }
    let short = buffer(9, 5_000);
    for _ in 0..200 {
        assert!(a.send_registered(7, &short, 0..5_000, Duration::ZERO).is_err(), "the ring is full");
    }
    for _ in 0..sent {
        receive(&mut b, &[1; 5_000]);
    }
    settle(&mut a, &mut b);
    for source in &all {
        assert!(carry(&mut a, &mut b, source));
    }
}

/// A program may call nothing but tries.
#[test]
fn tries_that_are_all_the_program_calls_send() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let source = buffer(1, LONG);
    await_that("it is sent", || {
        b.progress();
        try_to_send(&mut a, &mut b, &source)
    });
}

/// Tries alone bring a refused buffer back, once there is room for it.
#[test]
fn tries_expose_again_a_buffer_that_was_refused() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let source = buffer(1, 4 << 20);
    Budget::set_shared_max(5 << 20);
    for _ in 0..10 {
        assert!(!try_to_send(&mut a, &mut b, &source), "both ends count 4 MiB");
        settle(&mut a, &mut b);
    }
    Budget::set_shared_max(1 << 30);
    await_that("it is sent", || {
        settle(&mut a, &mut b);
        try_to_send(&mut a, &mut b, &source)
    });
}

/// One that is tried again and again, until it is sent, makes its place.
#[test]
fn a_ninth_buffer_that_alone_is_left_is_sent_by_tries() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let all = buffers(9);
    for source in all.iter().chain(&all) {
        await_that("it is sent", || {
            settle(&mut a, &mut b);
            try_to_send(&mut a, &mut b, source)
        });
    }
}

#[test]
fn a_buffer_that_is_dropped_leaves_its_place() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    for seed in 0..30 {
        let source = buffer(seed, LONG);
        assert_eq!(register(&mut a, &mut b, &source), Registered::Ready, "{seed}");
        assert!(carry(&mut a, &mut b, &source));
    }
    await_that("all are unmapped", || {
        settle(&mut a, &mut b);
        mapped_buffers() == 0
    });
}
