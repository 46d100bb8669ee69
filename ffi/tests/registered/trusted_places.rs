//! What trusted buffers cost, which of them have a place, and what becomes of those that are dropped.

use core::time::Duration;
use std::thread;

use superpipe::{Budget, ErrorKind, Registered, TrustedBuf};

use crate::cost::connect_beside;
use crate::trusted::{MIB, carry, head, offered, split_bytes};
use crate::{
    DEADLINE, alone, await_that, buffer, contents, descriptors, mapped, mapped_buffers, offer, open_memory,
    receive, register, settle, settled_descriptors, trusting_pair,
};

#[test]
fn a_buffer_can_be_dropped_in_every_state() {
    let _alone = alone();
    let trusted = || mapped("superpipe-trusted");
    let (mut a, mut b) = trusting_pair();
    let source = buffer(1, 300_000);
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
    for state in 0..5 {
        let mut sink = TrustedBuf::new(300_000).unwrap();
        match state {
            0 => {}
            // Begun to be exposed; mapped; offered; and with a message in it.
            1 => assert!(!b.offer(&mut sink).unwrap()),
            2 => {
                offer(&mut b, &mut a, &mut sink);
                carry(&mut a, &mut b, &source, 300_000, &mut sink);
            }
            3 => offer(&mut b, &mut a, &mut sink),
            _ => {
                offer(&mut b, &mut a, &mut sink);
                a.send_registered(7, &source, 0..300_000, DEADLINE).unwrap();
            }
        }
        drop(sink);
        settle(&mut a, &mut b);
        if state >= 3 {
            assert_eq!(trusted(), 2, "{state}: a message may come into it");
        }
        if state == 3 {
            a.send_registered(7, &source, 0..300_000, DEADLINE).unwrap();
        }
        if state >= 3 {
            receive(&mut b, &source);
        }
        await_that("both ends unmap it", || {
            settle(&mut a, &mut b);
            trusted() == 0
        });
    }
    let all = 3 * (300_000 - head(300_000)) as u64;
    assert_eq!(split_bytes(&mut b)[1], all, "into each of the last three");
}

#[test]
fn a_connection_that_ends_gives_all_of_it_back() {
    let _alone = alone();
    let before = settled_descriptors();
    for keeps_message in [false, true] {
        let (mut a, mut b) = trusting_pair();
        let (source, sink) = offered(&mut a, &mut b, 300_000);
        if keeps_message {
            a.send_registered(7, &source, 0..300_000, DEADLINE).unwrap();
        }
        drop(sink);
        drop(b);
        drop(a);
        await_that("nothing is mapped or counted", || {
            mapped("superpipe-trusted") == 0 && Budget::shared_bytes() == 0
        });
    }
    await_that("nothing is open", || open_memory() == 0 && descriptors() <= before);
}

#[test]
fn both_ends_count_a_buffer_while_it_is_exposed() {
    let _alone = alone();
    let (mut a, mut b) = trusting_pair();
    let before = Budget::shared_bytes();
    let mut sink = TrustedBuf::new(3 * MIB - 5).unwrap();
    assert_eq!(Budget::shared_bytes(), before, "memory of the program");
    offer(&mut b, &mut a, &mut sink);
    assert_eq!(Budget::shared_use().cached_bytes, 6 * MIB as u64, "ours, and the mapping of the peer");
    a.send(7, &[b"x"], DEADLINE).unwrap();
    receive(&mut b, b"x");
    drop(sink);
    await_that("both give it back", || {
        settle(&mut a, &mut b);
        Budget::shared_bytes() == before
    });
}

#[test]
fn without_room_in_the_budget_the_receiver_copies_all() {
    let _alone = alone();
    let (mut a, mut b) = trusting_pair();
    let source = buffer(1, MIB);
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
    let mut sink = TrustedBuf::new(4 * MIB).unwrap();
    for room in [7, 10] {
        Budget::set_shared_max(room << 20);
        for _ in 0..3 {
            assert!(!b.offer(&mut sink).unwrap());
            settle(&mut a, &mut b);
            carry(&mut a, &mut b, &source, MIB, &mut sink);
        }
        assert_eq!(split_bytes(&mut b), [0; 2], "{room}");
    }
    Budget::set_shared_max(1 << 30);
    let mut tries = 0;
    while !b.offer(&mut sink).unwrap() {
        settle(&mut a, &mut b);
        tries += 1;
        assert!(tries < 1000, "it is tried again");
    }
    assert!(tries > 10, "not at once: {tries}");
}

#[test]
fn others_get_no_more_buffers_back_than_they_need() {
    let _alone = alone();
    let (mut a, mut b) = trusting_pair();
    let source = buffer(1, MIB);
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
    let mut sinks: Vec<_> = (0..4).map(|_| TrustedBuf::new(MIB).unwrap()).collect();
    for sink in &mut sinks {
        offer(&mut b, &mut a, sink);
        carry(&mut a, &mut b, &source, MIB, sink);
    }
    // Another connection lacks less than a buffer has.
    Budget::set_shared_max(Budget::shared_bytes() + MIB as u64);
    connect_beside(&mut a, &mut b);
    Budget::set_shared_max(1 << 30);
    settle(&mut a, &mut b);
    let left = mapped("superpipe-trusted") - sinks.len();
    assert!((1..4).contains(&left), "the peer still maps {left}");
}

#[test]
fn five_buffers_share_four_places() {
    let _alone = alone();
    let (mut a, mut b) = trusting_pair();
    let source = buffer(1, 100_000);
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
    let mut sinks: Vec<_> = (0..5).map(|_| TrustedBuf::new(100_000).unwrap()).collect();
    for sink in &mut sinks {
        offer(&mut b, &mut a, sink);
        carry(&mut a, &mut b, &source, 100_000, sink);
    }
    await_that("the first one is unmapped by the peer", || {
        settle(&mut a, &mut b);
        mapped("superpipe-trusted") == 5 + 4
    });
    assert_eq!(split_bytes(&mut b)[1], 5 * (100_000 - head(100_000)) as u64);
    offer(&mut b, &mut a, &mut sinks[0]);
    carry(&mut a, &mut b, &source, 100_000, &mut sinks[0]);
}

/// Eight sources have all places. One that was not used lately gives its place up, and gets it again when it is needed.
#[test]
fn sources_and_destinations_share_the_places_of_an_end() {
    let _alone = alone();
    let (mut a, mut b) = trusting_pair();
    let sources: Vec<_> = (0..8).map(|seed| buffer(seed, 100_000)).collect();
    for source in &sources {
        assert_eq!(register(&mut b, &mut a, source), Registered::Ready);
    }
    for source in sources[1..].iter().cycle().take(20) {
        b.send_registered(7, source, 0..100_000, DEADLINE).unwrap();
        receive(&mut a, source);
        settle(&mut a, &mut b);
    }
    let (source, mut sink) = offered(&mut a, &mut b, 100_000);
    carry(&mut a, &mut b, &source, 100_000, &mut sink);
    assert_eq!(split_bytes(&mut b)[1], (100_000 - head(100_000)) as u64);
    for source in &sources {
        // The one that gave its place up goes through the ring.
        thread::scope(|scope| {
            scope.spawn(|| b.send_registered(7, source, 0..100_000, DEADLINE).unwrap());
            receive(&mut a, source);
        });
        settle(&mut a, &mut b);
    }
    assert!(a.counters().exposed_bytes_received >= (20 + 7) * 100_000);
}

/// Trusted buffers have four places, and sources in use the others.
#[test]
fn register_gets_a_place_beside_trusted_buffers() {
    let _alone = alone();
    let (mut a, mut b) = trusting_pair();
    let source = buffer(99, 100_000);
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
    let mut sinks: Vec<_> = (0..4).map(|_| TrustedBuf::new(100_000).unwrap()).collect();
    for sink in &mut sinks {
        offer(&mut b, &mut a, sink);
        carry(&mut a, &mut b, &source, 100_000, sink);
    }
    let sources: Vec<_> = (0..6).map(|seed| buffer(seed, 100_000)).collect();
    for source in &sources {
        assert_eq!(register(&mut b, &mut a, source), Registered::Ready);
        b.send_registered(7, source, 0..100_000, DEADLINE).unwrap();
        receive(&mut a, source);
        settle(&mut a, &mut b);
    }
    assert_eq!(a.counters().exposed_bytes_received, 6 * 100_000);
    assert_eq!(mapped_buffers(), 1 + 6 + 1 + 4, "one place is given up for each");
    assert_eq!(mapped("superpipe-trusted"), 4 + 4);
    // Messages that nobody takes keep the places of their sources: a trusted buffer gives its own up.
    for source in &sources[2..] {
        b.send_registered(7, source, 0..100_000, DEADLINE).unwrap();
    }
    assert_eq!(register(&mut b, &mut a, &sources[0]), Registered::Ready);
    settle(&mut a, &mut b);
    assert_eq!(mapped("superpipe-trusted"), 4 + 3);
}

#[test]
fn repeated_offers_take_the_place_of_one_source() {
    let _alone = alone();
    let (mut a, mut b) = trusting_pair();
    let sources: Vec<_> = (0..8).map(|seed| buffer(seed, 100_000)).collect();
    for source in &sources {
        assert_eq!(register(&mut b, &mut a, source), Registered::Ready);
    }
    for _ in 0..20 {
        b.send_registered(7, &sources[0], 0..100_000, DEADLINE).unwrap();
        receive(&mut a, &sources[0]);
        settle(&mut a, &mut b);
    }
    let mut sink = TrustedBuf::new(100_000).unwrap();
    for _ in 0..10 {
        // The other end does not answer meanwhile.
        assert!(!b.offer(&mut sink).unwrap());
    }
    offer(&mut b, &mut a, &mut sink);
    assert_eq!(mapped_buffers(), 8 + 7);
}

/// The peer of one connection writes while a message of another one is in the buffer.
#[test]
fn a_late_write_comes_into_no_message_of_another_one() {
    let _alone = alone();
    let ((mut a, mut b), (mut c, mut d)) = (trusting_pair(), trusting_pair());
    let (late, mut sink) = offered(&mut a, &mut b, 300_000);
    let source = buffer(2, 300_000);
    assert_eq!(register(&mut c, &mut d, &source), Registered::Ready);
    for by_offer in [false, true] {
        if by_offer {
            offer(&mut b, &mut a, &mut sink);
            offer(&mut d, &mut c, &mut sink);
        }
        carry(&mut c, &mut d, &source, 300_000, &mut sink);
        a.send_registered(7, &late, 0..300_000, DEADLINE).unwrap();
        assert!(contents(&sink, 300_000) == source[..]);
        receive(&mut b, &late);
        settle(&mut a, &mut b);
    }
    let tail = (300_000 - head(300_000)) as u64;
    assert_eq!((split_bytes(&mut b)[1], split_bytes(&mut d)[1]), (2 * tail, tail));
    drop(sink);
    await_that("the memory of before and the new one are unmapped", || {
        settle(&mut a, &mut b);
        settle(&mut c, &mut d);
        mapped("superpipe-trusted") == 0
    });
}

#[test]
fn a_buffer_of_an_ended_connection_gets_new_memory() {
    let _alone = alone();
    for is_dropped in [false, true] {
        let ((mut a, b), (mut c, mut d)) = (trusting_pair(), trusting_pair());
        let mut b = Some(b);
        let (_late, mut sink) = offered(&mut a, b.as_mut().unwrap(), 300_000);
        if is_dropped {
            b = None;
        } else {
            drop(a);
            let error = b.as_mut().unwrap().recv_trusted(&mut sink, DEADLINE).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Closed(_)), "{error}");
        }
        sink.write(0, &[7; 300_000]).unwrap();
        let before = sink.as_ptr();
        let error = d.recv_trusted(&mut sink, Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert_ne!(sink.as_ptr(), before);
        assert!(contents(&sink, 300_000) == [7; 300_000]);
        let source = buffer(2, 300_000);
        assert_eq!(register(&mut c, &mut d, &source), Registered::Ready);
        offer(&mut d, &mut c, &mut sink);
        carry(&mut c, &mut d, &source, 300_000, &mut sink);
        assert_eq!(split_bytes(&mut d)[1], (300_000 - head(300_000)) as u64);
        drop(b);
    }
}

#[test]
fn a_buffer_keeps_its_memory_between_whole_messages() {
    let _alone = alone();
    let ((mut a, mut b), (mut c, mut d)) = (trusting_pair(), trusting_pair());
    let (source, mut sink) = offered(&mut a, &mut b, 300_000);
    assert_eq!(register(&mut c, &mut d, &source), Registered::Ready);
    let before = sink.as_ptr();
    carry(&mut a, &mut b, &source, 300_000, &mut sink);
    for _ in 0..3 {
        offer(&mut d, &mut c, &mut sink);
        carry(&mut c, &mut d, &source, 300_000, &mut sink);
        offer(&mut b, &mut a, &mut sink);
        // An offer that ends with a short message, and one that a call makes that finds none.
        a.send(7, &[b"short"], DEADLINE).unwrap();
        receive(&mut b, b"short");
        let error = b.recv_trusted(&mut sink, Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        carry(&mut a, &mut b, &source, 300_000, &mut sink);
    }
    assert_eq!(sink.as_ptr(), before);
}

#[test]
fn a_call_that_waits_notes_that_it_has_offered() {
    let _alone = alone();
    let ((mut a, mut b), (_c, mut d)) = (trusting_pair(), trusting_pair());
    let (source, mut sink) = offered(&mut a, &mut b, 300_000);
    carry(&mut a, &mut b, &source, 300_000, &mut sink);
    let before = sink.as_ptr();
    for (connection, keeps_memory) in [(&mut b, true), (&mut d, false)] {
        let error = connection.recv_trusted(&mut sink, Duration::from_millis(2)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert_eq!(sink.as_ptr() == before, keeps_memory);
    }
}

/// A fifth buffer takes the place of the least recently used one of the others.
#[test]
fn a_buffer_that_is_offered_keeps_its_place() {
    let _alone = alone();
    let (mut a, mut b) = trusting_pair();
    let (source, mut sink) = offered(&mut a, &mut b, 100_000);
    carry(&mut a, &mut b, &source, 100_000, &mut sink);
    let mut others: Vec<_> = (0..4).map(|_| TrustedBuf::new(100_000).unwrap()).collect();
    for other in &mut others[..3] {
        offer(&mut b, &mut a, other);
        carry(&mut a, &mut b, &source, 100_000, other);
    }
    offer(&mut b, &mut a, &mut sink);
    for other in &mut others {
        // A use, although another buffer is offered.
        assert!(!b.offer(other).unwrap());
        settle(&mut a, &mut b);
    }
    assert!(b.offer(&mut sink).unwrap(), "it is offered still");
    carry(&mut a, &mut b, &source, 100_000, &mut sink);
    assert_eq!(split_bytes(&mut b)[1], 5 * (100_000 - head(100_000)) as u64);
}
