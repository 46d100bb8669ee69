//! Messages and streams of every size arrive whole, however the memory for them comes and goes.

use core::time::Duration;
use std::io::{PipeReader, Read, Write, pipe};
use std::thread;

use superpipe::io::{Digest, DigestKind, Source};
use superpipe::{
    Arrival, Budget, Connection, Drive, LandingMode, Options, Protocol, RecvOperation, TryRecv, TrySend,
    Tuning, WaitStrategy,
};

use crate::attempts::one_of;
use crate::{DEADLINE, PAGE, alone, await_that, bytes, carry, mapped, options, pair, pairs};

/// Around the edges of the base (a block holds 192 bytes, and all of them 2672), of the sizes that double from 64 KiB, and beyond.
fn sizes() -> Vec<usize> {
    let mut sizes = vec![0, 1, 8, 40, 41, 64 << 20];
    for edge in [192, 2672, 16 << 10, 64 << 10, 128 << 10, 512 << 10, 3 << 20] {
        sizes.extend([edge - 1, edge, edge + 1]);
    }
    sizes
}

#[test]
fn messages_of_every_size_arrive_both_ways() {
    let _alone = alone();
    for wait in WaitStrategy::ALL {
        let (mut a, mut b) = pairs(1, Options { wait, ..options(LandingMode::OnDemand) }).remove(0);
        for (seed, size) in sizes().into_iter().enumerate() {
            let message = bytes(seed as u64, size);
            carry(&mut a, &mut b, &message);
            carry(&mut b, &mut a, &message);
        }
        assert!(a.counters().moves > 0 && b.counters().moves > 0, "{wait}");
    }
}

#[test]
fn checked_flags_and_small_landing_buffers_grow_as_well() {
    let _alone = alone();
    for (arrival, landing_bytes) in [
        (Arrival::CheckedFlag, 512 << 10),
        (Arrival::Flag, 4 << 10),
        (Arrival::Flag, 96 << 10),
        (Arrival::Flag, 8 << 20),
    ] {
        let tuning = Tuning {
            landing: Some(LandingMode::OnDemand),
            arrival: Some(arrival),
            block_bytes: Some(1 << 10),
            landing_bytes: Some(landing_bytes),
            ..Tuning::default()
        };
        let (mut a, mut b) = pairs(1, Options { tuning, ..Options::default() }).remove(0);
        for seed in 0..20 {
            let message = bytes(seed, 1_000_003);
            carry(&mut a, &mut b, &message);
            carry(&mut b, &mut a, &message);
        }
        assert!(a.counters().moves > 0, "{landing_bytes}");
    }
}

#[test]
fn a_stream_moves_over_in_the_middle() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let data = bytes(3, 40_000_000);
    thread::scope(|scope| {
        let data = &data;
        let a = &mut a;
        scope.spawn(move || {
            let mut stream = a.open_stream(5, DEADLINE).unwrap();
            for (part, size) in data.chunks(3000).zip([1, 10, 3000].into_iter().cycle()) {
                let (head, tail) = part.split_at(size.min(part.len()));
                stream.write_all(head).unwrap();
                stream.write_all(tail).unwrap();
            }
            stream.finish(DEADLINE).unwrap();
        });
        let mut got = Vec::new();
        let mut stream = b.accept_stream(DEADLINE).unwrap();
        assert_eq!(stream.tag(), 5);
        stream.read_to_end(&mut got).unwrap();
        assert!(got == *data);
    });
    assert!(a.counters().moves > 0);
}

#[test]
fn halves_of_both_ends_send_and_receive_at_once() {
    let _alone = alone();
    let (a, b) = pair();
    let halves = [a.split(), b.split()];
    let threads = halves.into_iter().enumerate().flat_map(|(side, (mut sends, mut receives))| {
        let seed = move |side: usize, number: u64| 1000 * side as u64 + number;
        let size = |number: u64| [8, 2000, 100_000, 3_000_000][usize::try_from(number % 4).unwrap()];
        let sending = thread::spawn(move || {
            for number in 0..60 {
                let message = bytes(seed(side, number), size(number));
                sends.send(number, &[&message], DEADLINE).unwrap();
            }
            sends.flush(DEADLINE).unwrap();
            // The connection is there until both directions are done.
            Box::new(sends) as Box<dyn Send>
        });
        let receiving = thread::spawn(move || {
            let mut place = vec![0; 3_000_000];
            for number in 0..60 {
                let received = receives.recv_into(&mut [&mut place], DEADLINE).unwrap();
                assert_eq!((received.tag, received.bytes), (number, size(number)));
                assert!(place[..received.bytes] == bytes(seed(1 - side, number), size(number)));
            }
            Box::new(receives) as Box<dyn Send>
        });
        [sending, receiving]
    });
    let ended: Vec<_> =
        threads.collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).collect();
    drop(ended);
}

#[test]
fn many_connections_grow_at_the_same_time() {
    let _alone = alone();
    // More jobs than the process has places for.
    let connections = pairs(50, options(LandingMode::OnDemand));
    thread::scope(|scope| {
        for (number, (mut a, mut b)) in connections.into_iter().enumerate() {
            scope.spawn(move || {
                let message = bytes(number as u64, 1_000_000);
                carry(&mut a, &mut b, &message);
                carry(&mut b, &mut a, &message);
                assert!(a.counters().moves > 0);
            });
        }
    });
}

/// By the provision protocol a connection begins with small buffers, which are memory of their own.
#[test]
fn small_buffers_come_with_the_connection_and_go_with_growth() {
    let _alone = alone();
    let tuning = Tuning { protocol: Some(Protocol::Provision), ..Tuning::default() };
    let (mut a, mut b) = pairs(1, Options { tuning, ..Options::default() }).remove(0);
    // Each end counts the pages of both: a control page and a small buffer.
    let small = PAGE;
    for end in [&a, &b] {
        assert_eq!(end.description().provisioned_bytes, 2 * (PAGE + small));
    }
    let (first, pages) = (Budget::shared_bytes(), mapped().resident_bytes);
    assert_eq!((first, pages), (4 * (PAGE + small), 2 * (PAGE + small)), "warmed up by the small buffers");
    for size in [0, 8, 40, 41, 200, 904] {
        carry(&mut a, &mut b, &bytes(1, size));
        carry(&mut b, &mut a, &bytes(2, size));
    }
    assert_eq!((Budget::shared_bytes(), mapped().resident_bytes), (first, pages), "up to the threshold");
    carry(&mut a, &mut b, &bytes(3, 5000));
    // RETIRED is taken, and what was left released, while both ends drive.
    await_that("the receiver's small buffer is gone", || {
        a.progress();
        b.progress();
        let landing_bytes = b.counters().landing_bytes;
        a.counters().moves == 1
            && landing_bytes[1..] == [0, 0]
            && Budget::shared_bytes() == 2 * mapped().resident_bytes
    });
    let grown = b.counters().landing_bytes[0].next_multiple_of(PAGE);
    assert_eq!(mapped().resident_bytes, pages - small + grown);
    for size in sizes() {
        carry(&mut a, &mut b, &bytes(4, size));
        carry(&mut b, &mut a, &bytes(5, size));
    }
    drop((a, b));
    await_that("nothing is left", || (Budget::shared_bytes(), mapped().count) == (0, 0));
}

/// Has an end make a job for its peer's GROW while `work` waits there for the end of a pipe, which comes once the job was used. It takes 0.1 ms.
fn make_job(work: impl FnOnce(Connection, PipeReader) -> Connection + Send) -> Result<(), String> {
    const HANG_NS: u64 = 30_000_000;
    let (mut a, b) = pair();
    a.set_protocol(Protocol::Provision);
    let (reader, writer) = pipe().unwrap();
    let jobs_ns = thread::scope(|scope| {
        let working = scope.spawn(move || work(b, reader));
        // It goes out once the larger landing buffer is there, and is never received.
        let sent = a.send(1, &[&[1; 50_000]], DEADLINE);
        drop(writer);
        let mut b = working.join().unwrap();
        sent.unwrap();
        b.counters().jobs_ns
    });
    assert!(jobs_ns > 0, "no job was made");
    if jobs_ns < HANG_NS { Ok(()) } else { Err(format!("{jobs_ns} ns")) }
}

#[test]
fn a_job_is_made_while_its_end_waits_for_its_own_source() {
    let _alone = alone();
    one_of(10, || {
        make_job(|mut end, reader| {
            let mut source = Source::new(reader.into()).unwrap();
            let mut stream = end.open_stream(2, DEADLINE).unwrap();
            stream.set_deadline(2 * DEADLINE);
            let read = stream.read_from(&mut source, 100, &mut Digest::new(DigestKind::None));
            assert_eq!(read.unwrap(), 0);
            drop(stream);
            end
        })
    });
    one_of(10, || {
        make_job(|mut end, mut reader| {
            assert_eq!(end.keep_alive_while(|| reader.read(&mut [0])).unwrap(), 0);
            end
        })
    });
}

#[test]
fn a_message_longer_than_the_page_is_for_an_operation() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    let message = bytes(4, 10_000);
    assert_eq!(a.try_send(1, &[&message]).unwrap(), TrySend::TooLong);
    thread::scope(|scope| {
        // All of it is in the two landing buffers.
        let sending = scope.spawn(|| a.send(1, &[&message], DEADLINE).unwrap());
        let (mut place, mut receive) = (vec![0; 10_000], RecvOperation::new());
        while !sending.is_finished() {
            b.progress();
            assert!(!matches!(b.try_recv(&mut [&mut place]).unwrap(), TryRecv::Received(_)));
        }
        assert!(matches!(b.try_recv(&mut [&mut place]).unwrap(), TryRecv::Incomplete(_)));
        while !matches!(b.drive_recv(&mut receive, &mut [&mut place]).unwrap(), Drive::Done(_)) {}
        assert!(place == message);
    });
}

#[test]
fn messages_that_are_sent_at_once_grow_nothing() {
    let _alone = alone();
    let (mut a, mut b) = pair();
    for _ in 0..10_000 {
        let _ = a.try_send(1, &[&[1; 1000]]).unwrap();
        a.progress();
        b.progress();
    }
    assert_eq!((a.try_send(1, &[&[1; 1000]]).unwrap(), a.counters().growths_asked), (TrySend::Full, 0));
}

/// A loop of its own tries, makes progress, and does something else for a millisecond. It grows after a few rounds: blocking calls take
/// 256 tries for that.
#[test]
fn loops_of_their_own_that_try_seldom_grow_soon() {
    let _alone = alone();
    for length in [10_000, 60_000] {
        let (mut a, mut b) = pairs(1, options(LandingMode::OnDemand)).remove(0);
        let messages = [bytes(1, length), bytes(2, length)];
        let mut sends = [(); 2].map(|()| superpipe::SendOperation::new(7, length));
        let mut is_sent = [false; 2];
        let mut rounds = 0;
        while is_sent != [true; 2] {
            for (index, end) in [&mut a, &mut b].into_iter().enumerate() {
                while !is_sent[index] {
                    match end.drive_send(&mut sends[index], &[&messages[index]]).unwrap() {
                        Drive::Done(()) => is_sent[index] = true,
                        Drive::Moved => {}
                        Drive::Idle => break,
                    }
                }
                end.progress();
            }
            thread::sleep(Duration::from_millis(1));
            rounds += 1;
            assert!(rounds < 100, "no end receives before it has sent");
        }
        for (end, message) in [(&mut a, &messages[1]), (&mut b, &messages[0])] {
            let mut place = vec![0; length];
            end.recv_into(&mut [&mut place], DEADLINE).unwrap();
            assert!(place == *message);
        }
    }
}

/// Such messages cannot go through the page while the peer takes nothing: each end holds that of the other in its first slab.
#[test]
fn both_ends_may_send_a_long_message_before_they_receive() {
    let _alone = alone();
    for wait in [WaitStrategy::Spin, WaitStrategy::Yield, WaitStrategy::Sleep] {
        for length in [3000, 10_000, 60_000] {
            let connecting = Options { wait, ..options(LandingMode::OnDemand) };
            let ends = pairs(1, connecting).remove(0);
            let exchange = |mut end: Connection, seed| {
                end.send(seed, &[&bytes(seed, length)], DEADLINE).unwrap();
                let mut place = vec![0; length];
                end.recv_into(&mut [&mut place], DEADLINE).unwrap();
                assert!(place == bytes(3 - seed, length));
            };
            thread::scope(|scope| {
                scope.spawn(|| exchange(ends.0, 1));
                exchange(ends.1, 2);
            });
        }
    }
}
