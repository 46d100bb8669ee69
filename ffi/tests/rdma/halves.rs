//! The two halves of a connection over RDMA, one thread per half: both ends send and receive at once.

use crate::api::{DEADLINE, Draw, pair, pattern};
use crate::devices;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::io::{Read, Write};
use std::thread;
use std::time::Instant;
use superpipe::{
    Drive, ErrorKind, Options, Reason, RecvHalf, RecvOperation, SendHalf, SendOperation, TryRecv, TrySend,
    WaitStrategy,
};

/// Kinds of calls that take turns.
const KINDS: u64 = 4;
/// Transfers each way: each kind with short and long ones; four threads that spin on two emulated CPUs advance a time slice at a
/// time.
const TRANSFERS: u64 = 20;
const SPINNING: u64 = 8;

/// Sends transfers of these sizes, by all kinds of calls. Their contents are the pattern of the tag.
fn send_all(mut half: SendHalf, first_tag: u64, sizes: &[usize]) -> SendHalf {
    for (tag, bytes) in (first_tag..).zip(sizes) {
        let message = pattern(*bytes, tag);
        match tag % KINDS {
            0 => {
                let mut stream = half.open_stream(tag, DEADLINE).unwrap();
                message.chunks(100_000).for_each(|part| stream.write_all(part).unwrap());
                stream.finish(DEADLINE).unwrap();
            }
            1 => {
                let mut send = SendOperation::new(tag, message.len());
                while half.drive_send(&mut send, &[&message]).unwrap() != Drive::Done(()) {
                    thread::yield_now();
                }
            }
            2 => loop {
                match half.try_send(tag, &[&message]).unwrap() {
                    TrySend::Sent => break,
                    TrySend::Full => thread::yield_now(),
                    TrySend::TooLong => break half.send(tag, &[&message], DEADLINE).unwrap(),
                }
            },
            _ => {
                let (head, tail) = message.split_at(bytes / 3);
                half.send(tag, &[head, tail], DEADLINE).unwrap();
            }
        }
    }
    half
}

/// Makes progress until both ends have flushed: an end acknowledges only while one of its halves is called.
fn progress_until_flushed(half: &mut RecvHalf, flushed: &AtomicUsize) {
    let until = Instant::now() + DEADLINE;
    // Pairs with the Release of each end after its flush.
    while flushed.load(Ordering::Acquire) < 2 && Instant::now() < until {
        half.progress();
        thread::yield_now();
    }
}

/// Receives what [`send_all`] sends, by the calls that go with it.
fn receive_all(mut half: RecvHalf, first_tag: u64, sizes: &[usize]) -> RecvHalf {
    let mut room = vec![0; *sizes.iter().max().unwrap()];
    for (tag, bytes) in (first_tag..).zip(sizes) {
        let (got_tag, got) = match tag % KINDS {
            0 => {
                let mut stream = half.accept_stream(DEADLINE).unwrap();
                let mut got = Vec::new();
                stream.read_to_end(&mut got).unwrap();
                room[..got.len()].copy_from_slice(&got);
                (stream.tag(), got.len())
            }
            1 => {
                let mut receive = RecvOperation::new();
                loop {
                    if let Drive::Done(received) = half.drive_recv(&mut receive, &mut [&mut room]).unwrap() {
                        break (received.tag, received.bytes);
                    }
                    thread::yield_now();
                }
            }
            2 => loop {
                let received = match half.try_recv(&mut [&mut room]).unwrap() {
                    TryRecv::Received(received) => received,
                    TryRecv::Nothing => {
                        thread::yield_now();
                        continue;
                    }
                    TryRecv::Incomplete(_) => half.recv_into(&mut [&mut room], DEADLINE).unwrap(),
                    TryRecv::TooSmall(incoming) => panic!("{incoming:?}"),
                };
                break (received.tag, received.bytes);
            },
            _ => {
                let received = half.recv_into(&mut [&mut room], DEADLINE).unwrap();
                (received.tag, received.bytes)
            }
        };
        assert_eq!((got_tag, got), (tag, *bytes));
        assert!(room[..got] == pattern(got, tag), "transfer {tag} of {bytes} bytes arrived wrong");
    }
    half
}

#[test]
fn messages_and_streams_go_both_ways_at_once_between_halves() {
    let mut draw = Draw::new();
    for ip in devices() {
        for wait in WaitStrategy::ALL {
            let count = if wait == WaitStrategy::Spin { SPINNING } else { TRANSFERS };
            let [there, back] = [0, 1].map(|_| (0..count).map(|_| draw.size()).collect::<Vec<_>>());
            let (one, other) = pair(ip, Options { wait, ..Options::default() });
            let [(one_sends, one_receives), (other_sends, other_receives)] = [one.split(), other.split()];
            let flushed = AtomicUsize::new(0);
            let send = |half, first_tag, sizes| {
                let mut half = send_all(half, first_tag, sizes);
                half.flush(DEADLINE).unwrap();
                flushed.fetch_add(1, Ordering::Release);
                half
            };
            let receive = |half, first_tag, sizes| {
                let mut half = receive_all(half, first_tag, sizes);
                progress_until_flushed(&mut half, &flushed);
                half
            };
            let [mut one, mut other] = thread::scope(|scope| {
                let (send, receive, there, back) = (&send, &receive, &there[..], &back[..]);
                let sending = [
                    scope.spawn(move || send(one_sends, 0, there)),
                    scope.spawn(move || send(other_sends, 1000, back)),
                ];
                let receiving = [
                    scope.spawn(move || receive(one_receives, 1000, back)),
                    scope.spawn(move || receive(other_receives, 0, there)),
                ];
                let mut halves = sending.into_iter().zip(receiving).map(|(sending, receiving)| {
                    sending.join().unwrap().reunite(receiving.join().unwrap()).ok().unwrap()
                });
                [halves.next().unwrap(), halves.next().unwrap()]
            });
            // The reunited connection continues.
            one.send(7, &[b"one"], DEADLINE).unwrap();
            assert_eq!(other.recv_into(&mut [&mut [0; 3]], DEADLINE).unwrap().tag, 7);
            thread::scope(|scope| {
                scope.spawn(|| other.close(Reason(9), DEADLINE).unwrap());
                let end = one.recv_into(&mut [&mut [0; 3]], DEADLINE).unwrap_err();
                assert_eq!(end.kind(), ErrorKind::Closed(Reason(9)));
                drop(one);
            });
        }
    }
}
