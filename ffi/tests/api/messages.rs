//! Messages and streams of every size, both ways, with every wait strategy.

use core::time::Duration;
use std::io::{Read, Write};
use std::thread;
use std::time::Instant;

use superpipe::{
    Arrival, Description, ErrorKind, FirstChunk, Options, Protocol, Reason, Tuning, WaitStrategy,
};

use crate::support::{DEADLINE, bytes, pair, pair_with, undisturbed};

/// Around every boundary of lines, blocks (4 KiB) and groups (16 KiB), and C0 (64 KiB) and the landing buffer (512 KiB).
fn sizes() -> Vec<usize> {
    let mut sizes = vec![0, 1, 2, 7, 8, 9, 63, 64, 65];
    for edge in [40, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 512 << 10, 1 << 20] {
        sizes.extend([edge - 1, edge, edge + 1]);
    }
    sizes.extend([12_345, 777_777, 3_000_017]);
    sizes
}

#[test]
fn messages_of_every_size_arrive_whole_and_in_order() {
    for (wait, arrival) in [
        (WaitStrategy::Sleep, Arrival::Flag),
        (WaitStrategy::Yield, Arrival::Flag),
        (WaitStrategy::Sleep, Arrival::CheckedFlag),
    ] {
        let tuning = Tuning { arrival: Some(arrival), ..Tuning::default() };
        let (mut a, mut b) =
            pair_with(Options { wait, ..Options::default() }, Options { wait, tuning, ..Options::default() });
        let sender = thread::spawn(move || {
            for (i, protocol) in Protocol::ALL.into_iter().enumerate() {
                a.set_protocol(protocol);
                for (j, size) in sizes().into_iter().enumerate() {
                    let message = bytes((i * 100 + j) as u64, size);
                    let (x, y) = message.split_at(size / 3);
                    a.send(j as u64, &[x, &[], y], DEADLINE).unwrap();
                }
            }
            a.flush(DEADLINE).unwrap();
        });
        for i in 0..Protocol::ALL.len() {
            for (j, size) in sizes().into_iter().enumerate() {
                let mut message = vec![0xaa; size + 3];
                let (x, y) = message.split_at_mut(size / 2);
                let received = b.recv_into(&mut [x, &mut [], y], DEADLINE).unwrap();
                assert_eq!((received.tag, received.bytes), (j as u64, size));
                assert!(message[..size] == bytes((i * 100 + j) as u64, size), "{size} {wait}");
                assert_eq!(message[size..], [0xaa; 3]);
            }
        }
        sender.join().unwrap();
    }
}

#[test]
fn both_directions_at_once() {
    let (mut a, mut b) = pair();
    let echo = thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        for _ in 0..sizes().len() {
            let received = b.recv_into(&mut [&mut buffer[..]], DEADLINE);
            let Ok(received) = received else { return b.reject(Reason(3)) };
            b.send(received.tag, &[&buffer[..received.bytes]], DEADLINE).unwrap();
        }
        false
    });
    for (i, size) in sizes().into_iter().filter(|size| *size <= 1 << 20).enumerate() {
        let message = bytes(i as u64, size);
        a.send(i as u64, &[&message], DEADLINE).unwrap();
        let mut back = vec![0; size];
        assert_eq!(a.recv_into(&mut [&mut back], DEADLINE).unwrap().tag, i as u64);
        assert!(back == message);
    }
    let error = a.send(1, &[&bytes(1, 3_000_017)], DEADLINE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected(Reason(3)));
    assert!(echo.join().unwrap());
}

#[test]
fn a_blocked_receiver_of_a_stream_sends_keepalives() {
    let _undisturbed = undisturbed();
    let impatient = Options { idle_timeout: Duration::from_secs(2), ..Options::default() };
    let (mut a, mut b) = pair_with(impatient, impatient);
    let sender = thread::spawn(move || {
        let mut stream = a.open_stream(0, DEADLINE).unwrap();
        // More than the landing buffer holds: the sender waits.
        stream.write_all(&bytes(6, 2_000_003)).unwrap();
        stream.finish(DEADLINE).unwrap();
        a
    });
    let mut stream = b.accept_stream(DEADLINE).unwrap();
    stream.keep_alive_while(|| thread::sleep(Duration::from_secs(5)));
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    drop(stream);
    assert!(got == bytes(6, 2_000_003));
    sender.join().unwrap();
}

#[test]
fn a_stream_survives_pauses_longer_than_the_idle_timeout() {
    let _undisturbed = undisturbed();
    let impatient = Options { idle_timeout: Duration::from_secs(2), ..Options::default() };
    let (mut a, mut b) = pair_with(impatient, impatient);
    let data = bytes(5, 2_000_003);
    let copy = data.clone();
    let sender = thread::spawn(move || {
        let mut stream = a.open_stream(77, DEADLINE).unwrap();
        stream.write_all(&copy[..1_000_000]).unwrap();
        assert_eq!(stream.write(&[]).unwrap(), 0);
        // No call for longer than the idle timeout: the helper sends keepalives.
        let mut rest = copy[1_000_000..].chunks(77_777);
        stream.write_all(rest.next().unwrap()).unwrap();
        stream.finish(DEADLINE).unwrap();
        a.keep_alive_while(|| thread::sleep(Duration::from_secs(5)));
        let mut stream = a.open_stream(78, DEADLINE).unwrap();
        for chunk in rest {
            stream.write_all(chunk).unwrap();
        }
        stream.finish(DEADLINE).unwrap();
        a.flush(DEADLINE).unwrap();
    });
    let mut got = Vec::new();
    for tag in [77, 78] {
        let mut stream = b.accept_stream(DEADLINE).unwrap();
        assert_eq!(stream.tag(), tag);
        stream.read_to_end(&mut got).unwrap();
    }
    assert!(got == data);
    sender.join().unwrap();
}

#[test]
fn what_was_sent_before_a_close_is_received_after_it() {
    let (mut a, mut b) = pair();
    a.send(1, &[b"one"], DEADLINE).unwrap();
    a.send(2, &[&bytes(2, 50_000)], DEADLINE).unwrap();
    a.close(Reason::DONE, DEADLINE).unwrap();
    thread::sleep(Duration::from_millis(20));
    let mut buffer = vec![0; 50_000];
    assert_eq!(b.recv_into(&mut [&mut buffer], DEADLINE).unwrap().bytes, 3);
    assert_eq!(b.recv_into(&mut [&mut buffer], DEADLINE).unwrap().bytes, 50_000);
    assert!(buffer == bytes(2, 50_000));
    let error = b.recv_into(&mut [&mut buffer], DEADLINE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed(Reason::DONE));
}

#[test]
fn a_flush_waits_for_no_further_call_of_the_receiver() {
    let (mut a, mut b) = pair();
    for size in [105, 1000, 16 << 10, 50_001, 777_777, 3_000_017] {
        let message = bytes(1, size);
        thread::scope(|scope| {
            scope.spawn(|| a.send(0, &[&message], DEADLINE).unwrap());
            assert_eq!(b.recv_into(&mut [&mut vec![0; size]], DEADLINE).unwrap().bytes, size);
        });
        a.flush(DEADLINE).unwrap();
    }
}

#[test]
fn one_side_tunes_for_both() {
    let tuning = Tuning {
        block_bytes: Some(2048),
        group_blocks: Some(2),
        landing_bytes: Some(32 << 10),
        folds: Some(2),
        ..Tuning::default()
    };
    let (mut a, mut b) = pair_with(Options { tuning, ..Options::default() }, Options::default());
    for end in [&a, &b] {
        let Description { folds, block_bytes, group_blocks, landing_bytes, chunk_bytes, .. } =
            end.description();
        assert_eq!(
            (folds, block_bytes, group_blocks, landing_bytes, chunk_bytes),
            (2, 2048, 2, 32 << 10, None)
        );
    }
    let message = bytes(9, 1_000_001);
    let copy = message.clone();
    let sender = thread::spawn(move || a.send(0, &[&copy], DEADLINE).map(|()| a));
    let mut got = vec![0; message.len()];
    b.recv_into(&mut [&mut got], DEADLINE).unwrap();
    assert!(got == message);
    sender.join().unwrap().unwrap();
}

#[test]
fn one_side_sets_the_superpipeline_of_both() {
    for (first_chunk, sub_blocks, triple_buffer) in [
        (FirstChunk::WithRts, false, true),
        (FirstChunk::DuringRendezvous, true, true),
        (FirstChunk::AfterCts, false, false),
        (FirstChunk::WithoutCts, true, false),
    ] {
        let tuning = Tuning {
            c0_bytes: Some(5000),
            growth_q8: Some(512),
            first_chunk: Some(first_chunk),
            sub_blocks: Some(sub_blocks),
            triple_buffer: Some(triple_buffer),
            ..Tuning::default()
        };
        let (mut a, mut b) = pair_with(Options { tuning, ..Options::default() }, Options::default());
        for end in [&a, &b] {
            let of = end.description();
            assert_eq!((of.c0_bytes, of.growth_q8, of.first_chunk), (5000, 512, first_chunk));
            assert_eq!((of.sub_blocks, of.triple_buffer), (sub_blocks, triple_buffer));
        }
        for size in [8, 5000, 5001, 1_000_001] {
            let message = bytes(9, size);
            let mut got = vec![0; size];
            for is_back in [false, true] {
                let (sender, receiver) = if is_back { (&mut b, &mut a) } else { (&mut a, &mut b) };
                got.fill(0);
                thread::scope(|scope| {
                    scope.spawn(|| sender.send(0, &[&message], DEADLINE).unwrap());
                    receiver.recv_into(&mut [&mut got], DEADLINE).unwrap();
                });
                assert!(got == message, "{size} bytes, {first_chunk}");
            }
        }
    }
}

/// A flush that does not wait makes a round: it is late until the peer has acknowledged, and tells the connection's end.
#[test]
fn a_flush_without_a_wait_tells_what_is_so() {
    let (mut a, mut b) = pair();
    a.send(1, &[&[7; 5000]], DEADLINE).unwrap();
    for _ in 0..100 {
        assert_eq!(a.flush(Duration::ZERO).unwrap_err().kind(), ErrorKind::Timeout);
    }
    assert_eq!(b.recv_into(&mut [&mut [0; 5000]], DEADLINE).unwrap().bytes, 5000);
    let begun = Instant::now();
    while a.flush(Duration::ZERO).is_err() {
        b.progress();
        assert!(begun.elapsed() < DEADLINE);
    }
    a.send(1, &[b"more"], DEADLINE).unwrap();
    b.close(Reason(9), DEADLINE).unwrap();
    let kind = loop {
        match a.flush(Duration::ZERO).map_err(|error| error.kind()) {
            Err(ErrorKind::Timeout) => assert!(begun.elapsed() < DEADLINE),
            other => break other,
        }
    };
    assert_eq!(kind, Err(ErrorKind::Closed(Reason(9))));
}
