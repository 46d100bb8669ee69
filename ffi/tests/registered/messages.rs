//! Messages out of registered buffers and into them: every length around C0 and around that of the shortest by one copy, by every call.

use std::io::Read;
use std::thread;
use std::time::Instant;

use superpipe::{Drive, Length, Protocol, Reason, RecvOperation, Registered, RegisteredBuf, TryRecv};

use crate::{
    C0, DEADLINE, LANDINGS, ONE_COPY, alone, buffer, bytes, options, pair, pair_with, receive, register,
    settle,
};

#[test]
fn messages_of_every_length_arrive_and_long_ones_by_one_copy() {
    let _alone = alone();
    for landing in LANDINGS {
        let (mut a, mut b) = pair_with(options(Protocol::RegisterCached, landing));
        let lengths = [
            0,
            1,
            40,
            41,
            ONE_COPY - 1,
            ONE_COPY,
            ONE_COPY + 1,
            C0 - 1,
            C0,
            C0 + 1,
            C0 + 4095,
            1 << 20,
            (3 << 20) + 17,
        ];
        let source = buffer(1, 4 << 20);
        assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
        for length in lengths {
            for start in [0, 1, 63, 4096, (4 << 20) - length].into_iter().filter(|at| at + length <= 4 << 20)
            {
                let before = [a.counters().exposed_bytes_sent, b.counters().exposed_bytes_received];
                let part = start..start + length;
                thread::scope(|scope| {
                    scope.spawn(|| a.send_registered(7, &source, part.clone(), DEADLINE).unwrap());
                    receive(&mut b, &source[part.clone()]);
                });
                let after = [a.counters().exposed_bytes_sent, b.counters().exposed_bytes_received];
                let copied_once = if length >= ONE_COPY { length as u64 } else { 0 };
                assert_eq!(after, before.map(|bytes| bytes + copied_once), "{length} from {start}");
            }
        }
    }
}

#[test]
fn a_message_of_64_mib_is_copied_once_into_a_registered_buffer() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let source = buffer(2, 64 << 20);
    let mut sink = RegisteredBuf::new(64 << 20).unwrap();
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
    a.send_registered(7, &source, 0..64 << 20, DEADLINE).unwrap();
    let received = b.recv_registered(&mut sink, DEADLINE).unwrap();
    assert_eq!((received.tag, received.bytes), (7, 64 << 20));
    assert!(sink[..] == source[..]);
    assert_eq!(b.counters().exposed_bytes_received, 64 << 20);
}

#[test]
fn a_buffer_that_is_not_registered_yet_goes_through_the_ring() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let source = buffer(3, 1 << 20);
    let send = |a: &mut superpipe::Connection, b: &mut superpipe::Connection| {
        thread::scope(|scope| {
            scope.spawn(|| a.send_registered(7, &source, 0..1 << 20, DEADLINE).unwrap());
            receive(b, &source);
        });
    };
    send(&mut a, &mut b);
    assert_eq!(a.counters().exposed_bytes_sent, 0, "the first message begins to register it");
    let until = Instant::now() + DEADLINE;
    while a.counters().exposed_bytes_sent == 0 {
        assert!(Instant::now() < until, "it is never registered");
        settle(&mut a, &mut b);
        send(&mut a, &mut b);
    }
    assert_eq!(a.counters().exposed_bytes_sent, 1 << 20);
}

#[test]
fn several_messages_are_on_the_way_beside_others() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let source = buffer(4, 1 << 20);
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
    let parts = [0..1 << 20, 5..300_000, 0..100, 70_000..1 << 20];
    for part in &parts {
        a.send_registered(7, &source, part.clone(), DEADLINE).unwrap();
        a.send(7, &[b"between"], DEADLINE).unwrap();
    }
    for part in parts {
        receive(&mut b, &source[part]);
        receive(&mut b, b"between");
    }
    assert!(!a.is_shared(&source));
}

#[test]
fn both_ends_may_send_out_of_buffers_at_once() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let [one, two] = [buffer(5, 300_000), buffer(6, 200_000)];
    assert_eq!(register(&mut a, &mut b, &one), Registered::Ready);
    assert_eq!(register(&mut b, &mut a, &two), Registered::Ready);
    for _ in 0..20 {
        a.send_registered(7, &one, 0..300_000, DEADLINE).unwrap();
        b.send_registered(7, &two, 0..200_000, DEADLINE).unwrap();
        receive(&mut a, &two);
        receive(&mut b, &one);
    }
    assert_eq!(a.counters().exposed_bytes_received, 20 * 200_000);
    assert_eq!(b.counters().exposed_bytes_received, 20 * 300_000);
}

#[test]
fn calls_that_never_wait_send_and_receive_it() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let source = buffer(7, 200_000);
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
    let mut place = vec![0; 200_000];
    a.send_registered(7, &source, 0..200_000, core::time::Duration::ZERO).unwrap();
    let incoming = b.peek(DEADLINE).unwrap();
    assert_eq!((incoming.tag, incoming.length), (7, Length::Exact(200_000)));
    assert_eq!(b.try_peek().unwrap(), Some(incoming));
    match b.try_recv(&mut [&mut place]).unwrap() {
        TryRecv::Received(received) => assert_eq!(received.bytes, 200_000),
        TryRecv::Incomplete(_) => {
            let mut receive = RecvOperation::new();
            while !matches!(b.drive_recv(&mut receive, &mut [&mut place]).unwrap(), Drive::Done(_)) {}
        }
        other => panic!("{other:?}"),
    }
    assert!(place == source[..]);
}

#[test]
fn a_full_ring_refuses_a_call_that_may_not_wait() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let source = buffer(11, 100_000);
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
    let mut sent = 0;
    let error = loop {
        match a.send_registered(7, &source, 0..100_000, core::time::Duration::ZERO) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
        assert!(sent < 1000, "a message takes a block of the ring");
    };
    assert_eq!(error.kind(), superpipe::ErrorKind::Timeout, "{error}");
    assert!(error.to_string().starts_with("the deadline passed"), "{error}");
    for _ in 0..sent {
        receive(&mut b, &source);
    }
    a.send_registered(7, &source, 0..100_000, DEADLINE).unwrap();
    receive(&mut b, &source);
}

#[test]
fn streams_accept_such_a_message() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let source = buffer(8, 5_000_000);
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
    a.send_registered(7, &source, 0..5_000_000, DEADLINE).unwrap();
    let mut all = Vec::new();
    b.accept_stream(DEADLINE).unwrap().read_to_end(&mut all).unwrap();
    assert!(all == source[..]);
    assert_eq!(b.counters().exposed_bytes_received, 5_000_000);
}

#[test]
fn a_message_that_is_rejected_or_too_long_is_left_alone() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let source = buffer(9, 100_000);
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
    a.send_registered(7, &source, 0..100_000, DEADLINE).unwrap();
    assert!(b.recv_into(&mut [&mut [0; 100]], DEADLINE).is_err(), "it does not fit");
    assert!(a.is_shared(&source));
    assert!(b.reject(Reason(3)));
    a.send_registered(7, &source, 1..100_000, DEADLINE).unwrap();
    receive(&mut b, &source[1..]);
    assert!(!a.is_shared(&source));
}

#[test]
fn halves_on_two_threads_send_and_receive_it() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let source = buffer(10, 1 << 20);
    assert_eq!(register(&mut a, &mut b, &source), Registered::Ready);
    let ((mut a_send, _a_recv), (_b_send, mut b_recv)) = (a.split(), b.split());
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..50 {
                a_send.send_registered(7, &source, 0..1 << 20, DEADLINE).unwrap();
                a_send.wait_unshared(&source, DEADLINE).unwrap();
                assert!(!a_send.is_shared(&source));
            }
        });
        let mut sink = RegisteredBuf::new(1 << 20).unwrap();
        for _ in 0..50 {
            sink.fill(0);
            b_recv.recv_registered(&mut sink, DEADLINE).unwrap();
            assert!(sink[..] == source[..]);
        }
    });
    assert!(a_send.counters().exposed_bytes_sent >= 50 << 20);
}

/// Sleeping ends, and what wakes them: a buffer that the peer sends comes over the same socket.
#[test]
fn sleeping_ends_register_and_receive() {
    let _alone = alone();
    let mut asleep = options(Protocol::RegisterCached, LANDINGS[0]);
    asleep.wait = superpipe::WaitStrategy::Sleep;
    let (mut a, mut b) = pair_with(asleep);
    b.set_wait(superpipe::WaitStrategy::Sleep);
    thread::scope(|scope| {
        scope.spawn(|| {
            for seed in 0..20 {
                let source = buffer(seed, 150_000);
                thread::sleep(core::time::Duration::from_millis(2));
                assert_eq!(a.register(&source, DEADLINE).unwrap(), Registered::Ready);
                a.send_registered(7, &source, 0..150_000, DEADLINE).unwrap();
            }
            a.flush(DEADLINE).unwrap();
        });
        for seed in 0..20 {
            receive(&mut b, &bytes(seed, 150_000));
        }
    });
    assert_eq!(b.counters().exposed_bytes_received, 20 * 150_000);
}
