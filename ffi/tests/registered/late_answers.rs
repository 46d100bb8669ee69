//! Answers that come late: offers that have no room, deadlines, places.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use superpipe::{Budget, Registered, TrustedBuf};

use crate::trusted::{MIB, carry, head, offered, split_bytes};
use crate::{DEADLINE, alone, await_helpers, buffer, offer, pair, receive, register, settle, trusting_pair};

/// "`recv_trusted` offers its buffer, too: that is in time if the peer sends later": also if the mailbox had no room for the offer at first.
#[test]
fn a_call_that_waits_offers_once_the_mailbox_has_room() {
    let _alone = alone();
    let (mut a, mut b) = trusting_pair();
    let (source, mut sink) = offered(&mut a, &mut b, 300_000);
    carry(&mut a, &mut b, &source, 300_000, &mut sink);
    settle(&mut a, &mut b);
    // The sender sends lines, and takes no offer out of its mailbox.
    let mut offers = 0;
    while b.offer(&mut sink).unwrap() {
        offers += 1;
        assert!(offers < 100);
        a.send(7, &[b"line"], DEADLINE).unwrap();
        receive(&mut b, b"line");
    }
    assert!(offers > 0, "wire.md 5: five may be on the way");
    let before = split_bytes(&mut b)[1];
    thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let received = b.recv_trusted(&mut sink, DEADLINE).unwrap();
            (received.bytes, split_bytes(&mut b)[1] - before)
        });
        thread::sleep(Duration::from_millis(50));
        let begun = Instant::now();
        // The sender takes the offers, and acknowledges them. There is room now.
        while begun.elapsed() < Duration::from_secs(2) {
            a.progress();
            thread::sleep(Duration::from_millis(1));
        }
        a.send_registered(7, &source, 0..300_000, DEADLINE).unwrap();
        assert_eq!(receiving.join().unwrap(), (300_000, (300_000 - head(300_000)) as u64));
    });
}

/// "A connection exposes four such buffers at most": also if the owner has dropped the one that is offered.
#[test]
fn a_buffer_that_leaves_counts_among_the_four() {
    let _alone = alone();
    let (mut a, mut b) = trusting_pair();
    let mut first = TrustedBuf::new(MIB).unwrap();
    offer(&mut b, &mut a, &mut first);
    drop(first);
    let mut others: Vec<_> = (0..4).map(|_| TrustedBuf::new(MIB).unwrap()).collect();
    for _ in 0..10 {
        for other in &mut others {
            assert!(!b.offer(other).unwrap(), "another one is offered");
            settle(&mut a, &mut b);
        }
    }
    assert!(a.counters().mapped_bytes <= 4 << 20, "{} bytes are mapped", a.counters().mapped_bytes);
}

/// `a_message_that_does_not_fit_is_not_written_into_the_buffer` with a message that fits the pages of the buffer, and not the buffer.
#[test]
fn a_message_that_fits_only_the_pages_is_not_written() {
    let _alone = alone();
    let (mut a, mut b) = trusting_pair();
    let (source, mut sink) = (buffer(1, 8000), TrustedBuf::new(5000).unwrap());
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
    offer(&mut b, &mut a, &mut sink);
    a.send_registered(7, &source, 0..8000, DEADLINE).unwrap();
    let error = b.recv_trusted(&mut sink, DEADLINE).unwrap_err();
    assert_eq!(error.kind(), superpipe::ErrorKind::TooSmall, "{error}");
    receive(&mut b, &source);
    let written = crate::contents(&sink, 5000).iter().filter(|byte| **byte != 0).count();
    assert_eq!((written, split_bytes(&mut b)), (0, [0; 2]), "it does not fit the memory that was offered");
}

/// A deadline that passes in the middle of a split message cancels it, and leaves nothing behind.
#[test]
fn a_split_message_whose_deadline_passes_is_cancelled() {
    let _alone = alone();
    let len = 512 * MIB;
    Budget::set_shared_max(4 << 30);
    let (mut a, mut b) = trusting_pair();
    let source = superpipe::RegisteredBuf::new(len).unwrap();
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
    let mut sink = TrustedBuf::new(len).unwrap();
    for round in 0..3_u64 {
        offer(&mut b, &mut a, &mut sink);
        let error = a.send_registered(7, &source, 0..len, Duration::from_millis(2)).unwrap_err();
        assert_eq!(error.kind(), superpipe::ErrorKind::Timeout, "{error}");
        assert!(a.is_shared(&source), "the peer may copy the head");
        let mut sink_of_call = TrustedBuf::new(len).unwrap();
        let to = if round == 1 { &mut sink_of_call } else { &mut sink };
        let error = b.recv_trusted(to, DEADLINE).unwrap_err();
        assert!(matches!(error.kind(), superpipe::ErrorKind::Cancelled(_)), "{error}");
        a.wait_unshared(&source, DEADLINE).unwrap();
        let line = bytes_of(round);
        a.send(7, &[&line], DEADLINE).unwrap();
        receive(&mut b, &line);
        offer(&mut b, &mut a, &mut sink);
        carry(&mut a, &mut b, &source, 100_000, &mut sink);
        let [sent, received] = [a.counters(), b.counters()];
        assert_eq!(sent.chunks_sent, received.chunks_received);
        assert_eq!(sent.exposed_bytes_sent, received.exposed_bytes_received);
        assert_eq!(sent.registrations_hit, round + 1, "cancelled messages are none");
    }
}

fn bytes_of(seed: u64) -> Vec<u8> {
    crate::bytes(seed, 30)
}

/// "any part with another protocol, is sent as by `send`": that is no hit.
#[test]
fn with_another_protocol_a_message_is_no_hit() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let source = buffer(1, 300_000);
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
    a.set_protocol(superpipe::Protocol::Superpipeline);
    a.send_registered(7, &source, 0..10_000, DEADLINE).unwrap();
    receive(&mut b, &source[..10_000]);
    let counters = a.counters();
    assert_eq!((counters.exposed_bytes_sent, counters.registrations_hit), (0, 0));
}

/// A try of a message that needs a transfer sends nothing by `send`, and so by `send_registered`.
#[test]
fn with_another_protocol_a_try_leaves_nothing() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let source = buffer(1, 300_000);
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
    a.set_protocol(superpipe::Protocol::Superpipeline);
    assert!(a.send(7, &[&source], Duration::ZERO).is_err());
    let chunks = a.counters().chunks_sent;
    assert!(a.send_registered(7, &source, 0..300_000, Duration::ZERO).is_err());
    settle(&mut a, &mut b);
    assert_eq!(a.counters().chunks_sent, chunks, "a try that fails leaves nothing");
}

/// A source that no message has used yet keeps its place for 16 messages or offers: it was registered to be used.
#[test]
fn an_offer_takes_the_place_of_a_source_that_was_never_used() {
    let _alone = alone();
    let (mut a, mut b) = trusting_pair();
    let sources: Vec<_> = (0..8).map(|seed| buffer(seed, 100_000)).collect();
    for source in &sources {
        assert_eq!(register(&mut b, &mut a, source), Registered::Ready);
    }
    let mut sink = TrustedBuf::new(100_000).unwrap();
    let mut is_offered = false;
    for offer in 0..50 {
        await_helpers(offer >= 20 && !is_offered);
        is_offered |= b.offer(&mut sink).unwrap();
        settle(&mut a, &mut b);
        assert!(offer >= 14 || !is_offered, "after {offer} offers");
    }
    assert!(is_offered, "no message has used any of the eight");
}

/// "One that no message has used yet counts as used when it got its place."
#[test]
fn a_ninth_buffer_gets_the_place_of_one_that_was_never_used() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let sources: Vec<_> = (0..8).map(|seed| buffer(seed, 10_000)).collect();
    for source in &sources {
        assert_eq!(register(&mut a, &mut b, source), Registered::Ready);
    }
    let ninth = buffer(9, 10_000);
    for message in 0..20 {
        let is_exposed = a.counters().exposed_bytes_sent > 0;
        await_helpers(message >= 17 && !is_exposed);
        a.send_registered(7, &ninth, 0..10_000, DEADLINE).unwrap();
        receive(&mut b, &ninth);
        settle(&mut a, &mut b);
        assert!(message >= 14 || a.counters().exposed_bytes_sent == 0, "after {message} messages");
    }
    assert!(a.counters().exposed_bytes_sent > 0, "no message has used any of the eight");
}

/// An offer is in time if the peer sends later, also if nobody has looked at older ones, which lie before it in the sender's mailbox.
#[test]
fn an_offer_behind_older_ones_is_in_time() {
    let _alone = alone();
    for older in [0, 2] {
        let (mut a, mut b) = trusting_pair();
        let (source, mut sink) = offered(&mut a, &mut b, 300_000);
        carry(&mut a, &mut b, &source, 300_000, &mut sink);
        settle(&mut a, &mut b);
        let before = split_bytes(&mut b)[1];
        // Each message that the sender sends ends an offer.
        for _ in 0..older {
            assert!(b.offer(&mut sink).unwrap());
            a.send(7, &[b"line"], DEADLINE).unwrap();
            receive(&mut b, b"line");
        }
        assert!(b.offer(&mut sink).unwrap());
        carry(&mut a, &mut b, &source, 300_000, &mut sink);
        assert_eq!(split_bytes(&mut b)[1] - before, (300_000 - head(300_000)) as u64, "{older}");
    }
}
