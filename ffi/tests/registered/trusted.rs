//! Trusted buffers: messages that both ends copy, and all others that come into such a buffer.

use core::time::Duration;
use std::io::{Read, Write};
use std::thread;

use superpipe::{
    Connection, Drive, ErrorKind, LandingMode, Options, Protocol, Reason, RecvOperation, Registered,
    RegisteredBuf, TrustedBuf, TryRecv,
};

use crate::{
    C0, DEADLINE, LANDINGS, ONE_COPY, alone, buffer, bytes, contents, mapped, offer, options, pair, receive,
    register, settle, trusting, trusting_pair, trusting_pair_with,
};

pub(crate) const MIB: usize = 1 << 20;

/// Bytes that the receiver copies of a message that both ends copy.
pub(crate) const fn head(bytes: usize) -> usize {
    bytes / 2 / 64 * 64
}

/// Sends a message out of a buffer, and receives it into another one, which must have its bytes then.
pub(crate) fn carry(
    a: &mut Connection,
    b: &mut Connection,
    source: &RegisteredBuf,
    len: usize,
    sink: &mut TrustedBuf,
) {
    a.send_registered(7, source, 0..len, DEADLINE).unwrap();
    let received = b.recv_trusted(sink, DEADLINE).unwrap();
    assert_eq!((received.tag, received.bytes), (7, len));
    assert!(contents(sink, len) == source[..len], "{len}");
}

/// A registered source at one end, and a buffer that the other end has offered.
pub(crate) fn offered(a: &mut Connection, b: &mut Connection, len: usize) -> (RegisteredBuf, TrustedBuf) {
    let (source, mut sink) = (buffer(len as u64, len), TrustedBuf::new(len).unwrap());
    assert_eq!(register(a, b, &source), Registered::Ready);
    offer(b, a, &mut sink);
    (source, sink)
}

pub(crate) fn split_bytes(connection: &mut Connection) -> [u64; 2] {
    let counters = connection.counters();
    [counters.split_bytes_sent, counters.split_bytes_received]
}

#[test]
fn both_ends_copy_a_part_of_each_length_in_both_directions() {
    let _alone = alone();
    for landing in LANDINGS {
        let (mut a, mut b) = trusting_pair_with(landing);
        for len in [
            ONE_COPY,
            ONE_COPY + 63,
            2 * ONE_COPY - 1,
            C0,
            C0 + 63,
            C0 + 64,
            C0 + 127,
            200_001,
            MIB,
            3 * MIB + 5,
            64 * MIB,
        ] {
            for _ in 0..2 {
                let (before, other_before) = (split_bytes(&mut a), split_bytes(&mut b));
                let copied = b.counters().exposed_bytes_received;
                let (source, mut sink) = offered(&mut a, &mut b, len);
                carry(&mut a, &mut b, &source, len, &mut sink);
                let (after, other_after) = (split_bytes(&mut a), split_bytes(&mut b));
                assert_eq!(after[0] - before[0], (len - head(len)) as u64, "{len}");
                assert_eq!(other_after[1] - other_before[1], (len - head(len)) as u64, "{len}");
                assert_eq!(b.counters().exposed_bytes_received - copied, head(len) as u64, "{len}");
                core::mem::swap(&mut a, &mut b);
            }
        }
    }
}

#[test]
fn messages_in_turn_over_the_same_buffers_are_all_split() {
    let _alone = alone();
    let (mut a, mut b) = trusting_pair();
    let (mut source, mut sink) = offered(&mut a, &mut b, MIB);
    for round in 0..50_u64 {
        source.copy_from_slice(&bytes(round, MIB));
        let len = MIB - usize::try_from(round).unwrap() * 1001;
        carry(&mut a, &mut b, &source, len, &mut sink);
        a.wait_unshared(&source, DEADLINE).unwrap();
        assert_eq!(split_bytes(&mut a)[0], split_bytes(&mut b)[1]);
        offer(&mut b, &mut a, &mut sink);
    }
    let all: usize = (0..50).map(|round| MIB - round * 1001).map(|len| len - head(len)).sum();
    assert_eq!(split_bytes(&mut b), [0, all as u64]);
}

#[test]
fn every_message_comes_into_it_whatever_is_ready() {
    let _alone = alone();
    for protocol in Protocol::ALL.into_iter().filter(|protocol| *protocol != Protocol::Register) {
        for landing in LANDINGS {
            if protocol == Protocol::Provision && landing == LandingMode::AtConnect {
                continue;
            }
            let accepting = trusting(Options::default());
            let (mut a, mut b) = crate::pair_of(options(protocol, landing), accepting);
            let mut sink = TrustedBuf::new(MIB).unwrap();
            for len in [0, 1, 40, 41, 5000, C0, C0 + 1, 300_000, MIB] {
                let message = bytes(len as u64, len);
                thread::scope(|scope| {
                    scope.spawn(|| a.send(7, &[&message], DEADLINE).unwrap());
                    let received = b.recv_trusted(&mut sink, DEADLINE).unwrap();
                    assert_eq!((received.tag, received.bytes), (7, len));
                });
                assert!(contents(&sink, len) == message, "{protocol} {len}");
            }
            assert_eq!(split_bytes(&mut b), [0; 2]);
        }
    }
}

#[test]
fn without_an_offer_in_time_the_receiver_copies_all() {
    let _alone = alone();
    let (mut a, mut b) = trusting_pair();
    let source = buffer(1, MIB);
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
    let mut sink = TrustedBuf::new(MIB).unwrap();
    for _ in 0..3 {
        carry(&mut a, &mut b, &source, MIB, &mut sink);
        settle(&mut a, &mut b);
    }
    assert_eq!((split_bytes(&mut b), b.counters().exposed_bytes_received), ([0; 2], 3 * MIB as u64));
    // A message that was sent before it knew of the buffer is not split either. The offer is over with it.
    a.send_registered(7, &source, 0..MIB, DEADLINE).unwrap();
    assert!(!b.offer(&mut sink).unwrap());
    receive(&mut b, &source);
    offer(&mut b, &mut a, &mut sink);
    carry(&mut a, &mut b, &source, MIB, &mut sink);
    assert_eq!(split_bytes(&mut b)[1], (MIB - head(MIB)) as u64);
}

#[test]
fn a_message_that_does_not_fit_is_not_written_into_the_buffer() {
    let _alone = alone();
    let (mut a, mut b) = trusting_pair();
    let (source, mut other) = (buffer(1, 300_000), TrustedBuf::new(300_000).unwrap());
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
    let mut sink = TrustedBuf::new(200_000).unwrap();
    offer(&mut b, &mut a, &mut sink);
    a.send_registered(7, &source, 0..300_000, DEADLINE).unwrap();
    let error = b.recv_trusted(&mut sink, DEADLINE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooSmall, "{error}");
    assert!(error.to_string().contains("300000 bytes and the buffer 200000"), "{error}");
    let received = b.recv_trusted(&mut other, DEADLINE).unwrap();
    assert_eq!((received.bytes, split_bytes(&mut b)), (300_000, [0; 2]));
    assert!(contents(&other, 300_000) == source[..]);
    assert!(contents(&sink, 200_000).iter().all(|byte| *byte == 0));
}

/// A message whose second half has come into one buffer, received by every other call.
#[test]
fn a_split_message_can_be_received_into_other_memory() {
    let _alone = alone();
    type Take = fn(&mut Connection, &mut [u8]);
    let calls: [Take; 7] = [
        |b, to| _ = b.recv_into(&mut [to], DEADLINE).unwrap(),
        |b, to| {
            let (one, other) = to.split_at_mut(70_000);
            b.recv_into(&mut [one, other], DEADLINE).unwrap();
        },
        |b, to| _ = b.recv_into_cold(&mut [to], DEADLINE).unwrap(),
        |b, to| {
            let mut sink = RegisteredBuf::new(to.len()).unwrap();
            b.recv_registered(&mut sink, DEADLINE).unwrap();
            to.copy_from_slice(&sink);
        },
        |b, to| {
            let mut sink = TrustedBuf::new(to.len()).unwrap();
            b.recv_trusted(&mut sink, DEADLINE).unwrap();
            sink.read(0, to).unwrap();
        },
        |b, to| b.accept_stream(DEADLINE).unwrap().read_exact(to).unwrap(),
        |b, to| {
            let mut receive = RecvOperation::new();
            while !matches!(b.drive_recv(&mut receive, &mut [to]).unwrap(), Drive::Done(_)) {}
        },
    ];
    for (index, take) in calls.into_iter().enumerate() {
        let (mut a, mut b) = trusting_pair();
        let (source, sink) = offered(&mut a, &mut b, 400_001);
        // The second message finds no offer.
        for offered in [400_001 - head(400_001), 0] {
            let (mut to, before) = (vec![0; 400_001], split_bytes(&mut b)[1]);
            a.send_registered(7, &source, 0..400_001, DEADLINE).unwrap();
            take(&mut b, &mut to);
            assert!(to == source[..], "{index}");
            assert_eq!(split_bytes(&mut b)[1] - before, offered as u64, "{index}");
        }
        drop(sink);
    }
}

#[test]
fn a_try_takes_a_split_message_once_it_is_complete() {
    let _alone = alone();
    let (mut a, mut b) = trusting_pair();
    let (source, mut sink) = offered(&mut a, &mut b, 300_000);
    let error = b.recv_trusted(&mut sink, Duration::ZERO).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    a.send_registered(7, &source, 0..300_000, Duration::ZERO).unwrap();
    let received = b.recv_trusted(&mut sink, Duration::ZERO).unwrap();
    assert_eq!((received.bytes, split_bytes(&mut b)[1]), (300_000, (300_000 - head(300_000)) as u64));
    assert!(contents(&sink, 300_000) == source[..]);
    offer(&mut b, &mut a, &mut sink);
    a.send_registered(7, &source, 0..300_000, Duration::ZERO).unwrap();
    let mut place = vec![0; 300_000];
    assert!(matches!(b.try_recv(&mut [&mut place]).unwrap(), TryRecv::Received(_)));
    assert!(place == source[..]);
}

#[test]
fn an_offer_outlives_a_timeout_until_a_message_comes() {
    let _alone = alone();
    let (mut a, mut b) = trusting_pair();
    let (source, mut sink) = offered(&mut a, &mut b, 300_000);
    for _ in 0..3 {
        let error = b.recv_trusted(&mut sink, Duration::from_millis(2)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert!(b.offer(&mut sink).unwrap(), "it is offered still");
    }
    let mut other = TrustedBuf::new(300_000).unwrap();
    assert!(!b.offer(&mut other).unwrap(), "another one is offered");
    carry(&mut a, &mut b, &source, 300_000, &mut sink);
    assert_eq!(split_bytes(&mut b)[1], (300_000 - head(300_000)) as u64);
    // Any message ends it, and comes through the ring into ordinary memory.
    offer(&mut b, &mut a, &mut sink);
    a.send(7, &[b"short"], DEADLINE).unwrap();
    receive(&mut b, b"short");
    carry(&mut a, &mut b, &source, 300_000, &mut sink);
    assert_eq!(split_bytes(&mut b)[1], (300_000 - head(300_000)) as u64);
}

#[test]
fn a_call_that_waits_offers_its_buffer() {
    let _alone = alone();
    let (mut a, mut b) = trusting_pair();
    let (source, mut sink) = offered(&mut a, &mut b, 300_000);
    a.send(7, &[b"short"], DEADLINE).unwrap();
    receive(&mut b, b"short");
    for limit in [Duration::from_millis(2), Duration::ZERO] {
        let before = split_bytes(&mut b)[1];
        let error = b.recv_trusted(&mut sink, limit).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        carry(&mut a, &mut b, &source, 300_000, &mut sink);
        assert_eq!(split_bytes(&mut b)[1] - before, (300_000 - head(300_000)) as u64, "{limit:?}");
        settle(&mut a, &mut b);
    }
}

#[test]
fn a_split_message_can_be_rejected() {
    let _alone = alone();
    let (mut a, mut b) = trusting_pair();
    let (source, mut sink) = offered(&mut a, &mut b, 300_000);
    a.send_registered(7, &source, 0..300_000, DEADLINE).unwrap();
    b.peek(DEADLINE).unwrap();
    assert!(b.reject(Reason(3)));
    a.send(7, &[b"next"], DEADLINE).unwrap();
    receive(&mut b, b"next");
    settle(&mut a, &mut b);
    assert!(!a.is_shared(&source));
    offer(&mut b, &mut a, &mut sink);
    carry(&mut a, &mut b, &source, 300_000, &mut sink);
}

#[test]
fn streams_and_short_messages_go_between_split_ones() {
    let _alone = alone();
    let (mut a, mut b) = trusting_pair();
    let (source, mut sink) = offered(&mut a, &mut b, MIB);
    for round in 0..10 {
        carry(&mut a, &mut b, &source, MIB - round, &mut sink);
        if round % 2 == 0 {
            offer(&mut b, &mut a, &mut sink);
        }
        let streamed = bytes(9, 3 * MIB);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut stream = a.open_stream(5, DEADLINE).unwrap();
                stream.write_all(&streamed).unwrap();
                stream.finish(DEADLINE).unwrap();
                a.send(7, &[b"short"], DEADLINE).unwrap();
            });
            let mut all = Vec::new();
            b.accept_stream(DEADLINE).unwrap().read_to_end(&mut all).unwrap();
            assert!(all == streamed);
        });
        receive(&mut b, b"short");
        offer(&mut b, &mut a, &mut sink);
    }
    assert!(split_bytes(&mut b)[1] > 10 * (MIB as u64 / 2 - 64));
}

#[test]
fn a_split_message_arrives_after_its_sender_closed() {
    let _alone = alone();
    let (mut a, mut b) = trusting_pair();
    let (source, mut sink) = offered(&mut a, &mut b, 300_000);
    a.send_registered(7, &source, 0..300_000, DEADLINE).unwrap();
    let message = source.to_vec();
    drop(source);
    drop(a);
    assert_eq!(b.recv_trusted(&mut sink, DEADLINE).unwrap().bytes, 300_000);
    assert!(contents(&sink, 300_000) == message);
    let error = b.recv_trusted(&mut sink, DEADLINE).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Closed(_)), "{error}");
    assert!(!b.offer(&mut sink).unwrap());
}

#[test]
fn halves_on_four_threads_split_both_ways() {
    let _alone = alone();
    let (mut a, mut b) = trusting_pair();
    let (one, mut to_one) = offered(&mut a, &mut b, MIB);
    let (other, mut to_other) = offered(&mut b, &mut a, MIB);
    let ((mut a_send, mut a_recv), (mut b_send, mut b_recv)) = (a.split(), b.split());
    thread::scope(|scope| {
        for (send, source) in [(&mut a_send, &one), (&mut b_send, &other)] {
            scope.spawn(|| {
                for _ in 0..100 {
                    send.send_registered(7, source, 0..MIB, DEADLINE).unwrap();
                    send.wait_unshared(source, DEADLINE).unwrap();
                }
            });
        }
        for (recv, sink, source) in [(&mut b_recv, &mut to_one, &one), (&mut a_recv, &mut to_other, &other)] {
            scope.spawn(move || {
                for _ in 0..100 {
                    assert_eq!(recv.recv_trusted(sink, DEADLINE).unwrap().bytes, MIB);
                    assert!(contents(sink, MIB) == source[..]);
                    sink.write(0, &vec![0; MIB]).unwrap();
                    recv.offer(sink).unwrap();
                }
            });
        }
    });
    for half in [a_recv.counters(), b_recv.counters()] {
        assert!(half.split_bytes_received >= MIB as u64 / 2, "{half:?}");
    }
}

#[test]
fn sleeping_ends_split_messages() {
    let _alone = alone();
    let (mut a, mut b) = trusting_pair();
    let (source, mut sink) = offered(&mut a, &mut b, 300_000);
    a.set_wait(superpipe::WaitStrategy::Sleep);
    b.set_wait(superpipe::WaitStrategy::Sleep);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..10 {
                thread::sleep(Duration::from_millis(3));
                a.send_registered(7, &source, 0..300_000, DEADLINE).unwrap();
                a.wait_unshared(&source, DEADLINE).unwrap();
                a.progress();
            }
        });
        for _ in 0..10 {
            assert_eq!(b.recv_trusted(&mut sink, DEADLINE).unwrap().bytes, 300_000);
            assert!(contents(&sink, 300_000) == source[..]);
        }
    });
    assert!(split_bytes(&mut b)[1] > 0);
}

#[test]
fn a_peer_that_is_not_trusted_gets_no_buffer() {
    let _alone = alone();
    let (_a, mut b) = pair();
    let mut sink = TrustedBuf::new(100_000).unwrap();
    let errors = [b.offer(&mut sink).unwrap_err(), b.recv_trusted(&mut sink, DEADLINE).unwrap_err()];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
        assert!(error.to_string().contains("declare that it is trusted, in Options::peer_trust"), "{error}");
    }
}

#[test]
fn another_protocol_offers_nothing() {
    let _alone = alone();
    let (_a, mut b) = crate::pair_of(trusting(Options::default()), trusting(Options::default()));
    let mut sink = TrustedBuf::new(100_000).unwrap();
    assert!(!b.offer(&mut sink).unwrap());
    assert_eq!(mapped("superpipe-trusted"), 1);
}
