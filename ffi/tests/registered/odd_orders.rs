//! Calls in odd orders: tries that fail, ends that have sent nothing yet, and buffers that wait for a place.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use superpipe::{Budget, ErrorKind, LandingMode, Protocol, Registered, TrustedBuf};

use crate::trusted::{MIB, head, split_bytes};
use crate::{
    C0, DEADLINE, ONE_COPY, alone, await_that, buffer, bytes, offer, options, pair, pair_with, receive,
    register, settle, trusting_pair,
};

/// The first message of a connection whose landing buffers come on demand.
#[test]
fn the_first_message_may_be_out_of_a_buffer() {
    let _alone = alone();
    for bytes in [ONE_COPY, C0, 300_000] {
        for limit in [Duration::ZERO, DEADLINE] {
            let (mut a, mut b) = pair_with(options(Protocol::RegisterCached, LandingMode::OnDemand));
            let source = buffer(1, 300_000);
            assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
            if limit.is_zero() {
                await_that("it is sent by a try", || {
                    let sent = a.send_registered(7, &source, 0..bytes, limit);
                    b.progress();
                    sent.is_ok()
                });
                receive(&mut b, &source[..bytes]);
            } else {
                thread::scope(|scope| {
                    scope.spawn(|| a.send_registered(7, &source, 0..bytes, limit).unwrap());
                    receive(&mut b, &source[..bytes]);
                });
            }
            assert_eq!(b.counters().exposed_bytes_received, bytes as u64);
        }
    }
}

/// Long messages out of buffers, short ones, those of the ring and streams keep their order in a ring that is full most of the time.
#[test]
fn messages_of_all_ways_keep_their_order_under_load() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let source = buffer(1, 200_000);
    let all = source.to_vec();
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
    let length =
        |number: usize| [ONE_COPY, 13, 100_000, ONE_COPY - 1, C0, 40, 5000, C0 + 1, 41, 0][number * 7 % 10];
    let ((mut a_send, _a_recv), (_b_send, mut b_recv)) = (a.split(), b.split());
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut failed = 0;
            for number in 0..4000 {
                let part = number % 64..number % 64 + length(number);
                if number % 3 == 0 {
                    a_send.send(7, &[&source[part]], DEADLINE).unwrap();
                } else if number % 3 == 1 {
                    a_send.send_registered(7, &source, part, DEADLINE).unwrap();
                } else {
                    // A try that fails leaves nothing.
                    let begun = Instant::now();
                    while let Err(error) = a_send.send_registered(7, &source, part.clone(), Duration::ZERO) {
                        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
                        assert!(begun.elapsed() < DEADLINE);
                        failed += 1;
                        // Longer ones are not sent at once unless the buffer is mapped, which it is.
                        thread::yield_now();
                    }
                }
            }
            println!("{failed} tries failed");
        });
        let mut place = vec![0; 200_000];
        for number in 0..4000 {
            let received = b_recv.recv_into(&mut [&mut place], DEADLINE).unwrap();
            let part = number % 64..number % 64 + length(number);
            assert_eq!(received.bytes, part.len(), "{number}");
            assert!(place[..part.len()] == all[part], "{number}");
        }
    });
    a_send.wait_unshared(&source, DEADLINE).unwrap();
    let [sent, received] = [a_send.counters(), b_recv.counters()];
    assert_eq!(sent.exposed_bytes_sent, received.exposed_bytes_received);
    assert_eq!(sent.chunks_sent, received.chunks_received);
}

/// A call whose deadline is now, and that sends nothing, is no message out of the buffer.
#[test]
fn tries_that_fail_are_not_counted_as_messages() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let source = buffer(1, 10_000);
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
    let mut sent = 0;
    while a.send_registered(7, &source, 0..10_000, Duration::ZERO).is_ok() {
        sent += 1;
    }
    for _ in 0..100 {
        assert!(a.send_registered(7, &source, 0..10_000, Duration::ZERO).is_err());
    }
    let counters = a.counters();
    assert_eq!(counters.exposed_bytes_sent, sent * 10_000);
    assert_eq!((counters.registrations_hit, counters.registrations_missed), (sent, 0));
    for _ in 0..sent {
        receive(&mut b, &source);
    }
}

/// A buffer loses its place only if none of the last 16 messages used it: tries that send nothing are none.
#[test]
fn tries_that_fail_take_no_place_from_a_buffer_in_use() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let sources: Vec<_> = (0..8).map(|seed| buffer(seed, 10_000)).collect();
    for source in &sources {
        assert_eq!(register(&mut a, &mut b, source), Registered::Ready);
        a.send_registered(7, source, 0..10_000, DEADLINE).unwrap();
        receive(&mut b, source);
    }
    // The newest 8 messages used all of them. The ring is filled by messages out of other memory.
    while a.send(7, &[b"line"], Duration::ZERO).is_ok() {}
    for _ in 0..32 {
        assert!(a.send_registered(7, &sources[7], 0..10_000, Duration::ZERO).is_err());
    }
    let ninth = buffer(9, 10_000);
    assert!(a.send_registered(7, &ninth, 0..10_000, Duration::ZERO).is_err());
    let mut place = [0; 4];
    while b.recv_into(&mut [&mut place], Duration::ZERO).is_ok() {
        b.progress();
    }
    settle(&mut a, &mut b);
    for source in &sources {
        let before = b.counters().exposed_bytes_received;
        a.send_registered(7, source, 0..10_000, DEADLINE).unwrap();
        receive(&mut b, source);
        assert_eq!(b.counters().exposed_bytes_received - before, 10_000, "its place was taken");
    }
}

/// A call that waits offers its buffer once the peer has mapped it.
#[test]
fn a_call_that_waits_offers_a_buffer_that_was_never_mapped() {
    let _alone = alone();
    let (mut a, mut b) = trusting_pair();
    let source = buffer(1, 300_000);
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
    let mut sink = TrustedBuf::new(300_000).unwrap();
    let before = a.counters().controls_received;
    thread::scope(|scope| {
        let receiving = scope.spawn(|| b.recv_trusted(&mut sink, DEADLINE).unwrap());
        let begun = Instant::now();
        // EXPOSE, and then OFFER.
        while a.counters().controls_received < before + 2 && begun.elapsed() < Duration::from_secs(5) {
            a.progress();
            thread::yield_now();
        }
        a.send_registered(7, &source, 0..300_000, DEADLINE).unwrap();
        assert_eq!(receiving.join().unwrap().bytes, 300_000);
    });
    assert_eq!(split_bytes(&mut b)[1], (300_000 - head(300_000)) as u64);
    assert!(crate::contents(&sink, 300_000) == source[..]);
}

/// "What was refused is not counted any more": refused by this end, and by the peer.
#[test]
fn a_refused_trusted_buffer_is_not_counted() {
    let _alone = alone();
    for is_dropped in [false, true] {
        let (mut a, mut b) = trusting_pair();
        let mut sink = TrustedBuf::new(4 * MIB).unwrap();
        for room in [7, 10] {
            Budget::set_shared_max(room << 20);
            assert!(!b.offer(&mut sink).unwrap());
            settle(&mut a, &mut b);
            for _ in 0..3 {
                assert!(!b.offer(&mut sink).unwrap());
                settle(&mut a, &mut b);
            }
            assert_eq!(Budget::shared_use().cached_bytes, 0, "{room}");
        }
        if is_dropped {
            drop(sink);
        }
        settle(&mut a, &mut b);
        assert_eq!(Budget::shared_use().cached_bytes, 0);
        Budget::set_shared_max(1 << 30);
    }
}

#[test]
fn a_refused_registered_buffer_is_not_counted() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let source = buffer(1, 4 * MIB);
    for room in [5, 8, 10] {
        Budget::set_shared_max(room << 20);
        assert_eq!(register(&mut a, &mut b, &source), Registered::Refused, "{room}");
        await_that("it is given back", || {
            settle(&mut a, &mut b);
            thread::sleep(Duration::from_millis(2));
            Budget::shared_use().cached_bytes == 0
        });
    }
}

/// A trusted buffer that was dropped while it is offered has its place still: `register` takes that of a source.
#[test]
fn register_counts_the_place_of_a_buffer_that_leaves() {
    let _alone = alone();
    let (mut a, mut b) = trusting_pair();
    let sources: Vec<_> = (0..6).map(|seed| buffer(seed, 100_000)).collect();
    for source in &sources {
        assert_eq!(register(&mut b, &mut a, source), Registered::Ready);
    }
    let [mut offered, mut other] = [(), ()].map(|()| TrustedBuf::new(100_000).unwrap());
    offer(&mut b, &mut a, &mut offered);
    for _ in 0..3 {
        assert!(!b.offer(&mut other).unwrap(), "one is offered already");
        settle(&mut a, &mut b);
    }
    drop(offered);
    assert!(!b.offer(&mut other).unwrap(), "the peer has mapped it: the call withdraws the other");
    let ninth = buffer(9, 100_000);
    let registered = crate::driven(&mut a, || b.register(&ninth, Duration::from_secs(5)));
    assert_eq!(registered.ok(), Some(Registered::Ready), "one of the six sources gives its place up");
    let message = bytes(9, 50_000);
    thread::scope(|scope| {
        scope.spawn(|| a.send(7, &[&message], DEADLINE).unwrap());
        receive(&mut b, &message);
    });
}
