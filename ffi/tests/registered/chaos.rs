//! All ways to send and to receive at once, in both directions, with buffers that come and go and a budget that changes.

use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::thread;
use std::time::Instant;

use superpipe::{
    Arrival, Budget, Connection, ErrorKind, LandingMode, Length, Options, Protocol, Reason, RecvHalf,
    RegisteredBuf, SendHalf, TrustedBuf,
};
use superpipe_testkit::Rng;

use crate::{DEADLINE, alone, await_that, bytes, mapped, open_memory, options, pair_of, trusting};

const ALL: usize = 1 << 20;

fn tag(index: usize, part: &Range<usize>) -> u64 {
    (index as u64) << 42 | (part.start as u64) << 21 | part.len() as u64
}

fn untag(tag: u64) -> (usize, Range<usize>) {
    let low = |value: u64| usize::try_from(value & 0x1f_ffff).unwrap();
    let start = low(tag >> 21);
    (usize::try_from(tag >> 42).unwrap(), start..start + low(tag))
}

/// Sends messages of every kind. Returns the indices that were sent, and those of calls that failed.
fn send_all(
    half: &mut SendHalf,
    all: &[u8],
    (count, seed): (usize, u64),
    is_over: &AtomicBool,
) -> [BTreeSet<usize>; 2] {
    let mut r = Rng::new(seed);
    let make = || {
        let mut buffer = RegisteredBuf::new(ALL).unwrap();
        buffer.copy_from_slice(all);
        buffer
    };
    let mut buffers: Vec<_> = (0..3).map(|_| make()).collect();
    let [mut sent, mut failed] = [BTreeSet::new(), BTreeSet::new()];
    for index in 0..count {
        let len = match r.below(8) {
            0 => r.below(41),
            1 => r.below(4096),
            2 => 4096 + r.below(130),
            3 | 4 => r.below(70_000),
            5 => 65_536 + r.below(10),
            _ => r.below(ALL / 2),
        };
        let start = r.below(ALL - len);
        let part = start..start + len;
        let tag = tag(index, &part);
        let deadline = match r.below(6) {
            0 => Duration::ZERO,
            1 => Duration::from_micros(r.below(300) as u64),
            _ => DEADLINE,
        };
        let result = match r.below(10) {
            0 | 1 => half.send(
                tag,
                &[&all[part.start..part.start + len / 3], &all[part.start + len / 3..part.end]],
                deadline,
            ),
            2 => half.open_stream(tag, DEADLINE).and_then(|mut stream| {
                stream.set_deadline(DEADLINE);
                match stream.write_all(&all[part.clone()]) {
                    Ok(()) => stream.finish(DEADLINE),
                    // The receiver has rejected it.
                    Err(_) => {
                        stream.cancel(Reason(9));
                        Ok(())
                    }
                }
            }),
            _ => {
                let at = r.below(buffers.len());
                half.send_registered(tag, &buffers[at], part, deadline)
            }
        };
        match result {
            Ok(()) => _ = sent.insert(index),
            Err(error) => {
                let is_expected = matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Rejected(_));
                assert!(is_expected, "{index}: {error}");
                failed.insert(index);
            }
        }
        match r.below(60) {
            0 => {
                let at = r.below(buffers.len());
                buffers[at] = make();
            }
            1 => _ = half.register(&buffers[0], Duration::from_micros(200)),
            2 => _ = half.wait_unshared(&buffers[0], Duration::from_micros(200)),
            _ => {}
        }
    }
    half.send(u64::MAX, &[b"end"], DEADLINE).unwrap();
    // The other end rejects, and waits for acknowledgements of that.
    while !is_over.load(Ordering::Relaxed) {
        half.progress();
        thread::sleep(Duration::from_micros(50));
    }
    [sent, failed]
}

/// Receives by every call. Returns the indices that came completely, and those that were rejected or cancelled. If it `is_patient`, no
/// deadline passes in the middle of a message.
fn receive_all(half: &mut RecvHalf, all: &[u8], seed: u64, is_patient: bool) -> [BTreeSet<usize>; 2] {
    let mut r = Rng::new(seed);
    let mut sinks: Vec<_> = (0..3).map(|_| TrustedBuf::new(ALL).unwrap()).collect();
    let mut place = vec![0; ALL];
    let [mut came, mut other] = [BTreeSet::new(), BTreeSet::new()];
    let mut last = None;
    loop {
        if r.below(2) == 0 {
            let at = r.below(sinks.len());
            half.offer(&mut sinks[at]).unwrap();
        }
        let is_short = r.below(4) == 0 && !is_patient;
        let deadline = if is_short { Duration::from_micros(r.below(300) as u64) } else { DEADLINE };
        let mut ending = None;
        let at = r.below(sinks.len());
        let result = match r.below(10) {
            0..5 => half.recv_trusted(&mut sinks[at], deadline).map(|received| {
                let mut copy = vec![0; received.bytes];
                sinks[at].read(0, &mut copy).unwrap();
                place[..received.bytes].copy_from_slice(&copy);
                (received.tag, received.bytes)
            }),
            5 => half.recv_into_cold(&mut [&mut place], deadline).map(|it| (it.tag, it.bytes)),
            6 | 7 => {
                let (one, two) = place.split_at_mut(5000);
                half.recv_into(&mut [one, two], deadline).map(|it| (it.tag, it.bytes))
            }
            8 => half.peek(deadline).and_then(|incoming| {
                let mut stream = half.accept_stream(DEADLINE)?;
                let mut got = Vec::new();
                if stream.read_to_end(&mut got).is_err() {
                    ending = Some(incoming.tag);
                }
                place[..got.len()].copy_from_slice(&got);
                Ok((incoming.tag, got.len()))
            }),
            _ => half.peek(deadline).map(|incoming| {
                if incoming.tag != u64::MAX && half.reject(Reason(5)) {
                    ending = Some(incoming.tag);
                }
                (incoming.tag, 0)
            }),
        };
        let (tag, count) = match result {
            Ok((u64::MAX, 3)) => break,
            Ok((u64::MAX, _)) => continue,
            Ok(it) => it,
            Err(error) => {
                match error.kind() {
                    ErrorKind::Timeout | ErrorKind::Cancelled(_) => {}
                    // A stream comes next.
                    ErrorKind::TooSmall => {
                        let incoming = half.peek(DEADLINE).unwrap();
                        assert_eq!(incoming.length, Length::Stream);
                        let mut stream = half.accept_stream(DEADLINE).unwrap();
                        let mut got = Vec::new();
                        let (index, part) = untag(incoming.tag);
                        if stream.read_to_end(&mut got).is_ok() {
                            assert!(got == all[part], "stream {index}");
                            came.insert(index);
                        } else {
                            other.insert(index);
                        }
                    }
                    _ => panic!("{error}"),
                }
                continue;
            }
        };
        let (index, part) = untag(tag);
        if ending.is_some() {
            other.insert(index);
            continue;
        }
        assert!(last.is_none_or(|last| last < index), "{index} after {last:?}");
        last = Some(index);
        assert_eq!(count, part.len(), "{index}");
        assert!(place[..count] == all[part], "message {index} has other bytes");
        came.insert(index);
    }
    [came, other]
}

/// A trusting connection with blocks and flags of several kinds.
fn pair_of_kind(seed: u64, landing: LandingMode) -> (Connection, Connection) {
    let mut connecting = trusting(options(Protocol::RegisterCached, landing));
    let tuning = &mut connecting.tuning;
    tuning.arrival = [None, Some(Arrival::CheckedFlag), None][usize::try_from(seed % 3).unwrap()];
    if seed % 4 == 3 {
        (tuning.block_bytes, tuning.landing_bytes) = (Some(4096), Some(16 << 10));
    }
    if seed % 4 == 2 {
        (tuning.block_bytes, tuning.landing_bytes) = (Some(128), Some(1024));
    }
    pair_of(connecting, trusting(Options::default()))
}

fn chaos(seed: u64, landing: LandingMode, count: usize) {
    let all = bytes(seed, ALL);
    let (a, b) = pair_of_kind(seed, landing);
    let ((mut a_send, mut a_recv), (mut b_send, mut b_recv)) = (a.split(), b.split());
    let (is_over, is_patient) = (AtomicBool::new(false), seed.is_multiple_of(2));
    let (forth, back, came_b, came_a) = thread::scope(|scope| {
        let forth = scope.spawn(|| send_all(&mut a_send, &all, (count, seed), &is_over));
        let back = scope.spawn(|| send_all(&mut b_send, &all, (count, seed + 100), &is_over));
        let came_b = scope.spawn(|| receive_all(&mut b_recv, &all, seed + 200, is_patient));
        let came_a = scope.spawn(|| receive_all(&mut a_recv, &all, seed + 300, is_patient));
        scope.spawn(|| {
            let mut r = Rng::new(seed);
            while !is_over.load(Ordering::Relaxed) {
                Budget::set_shared_max(
                    (3 + r.below(if seed.is_multiple_of(2) { 14 } else { 60 }) as u64) << 20,
                );
                thread::sleep(Duration::from_millis(2));
            }
            Budget::set_shared_max(1 << 30);
        });
        let ended = [came_b.join(), came_a.join()];
        is_over.store(true, Ordering::Relaxed);
        let [came_b, came_a] = ended.map(Result::unwrap);
        (forth.join().unwrap(), back.join().unwrap(), came_b, came_a)
    });
    for ([sent, failed], [came, other]) in [(forth, came_b), (back, came_a)] {
        let lost: Vec<_> = sent.iter().filter(|it| !came.contains(it) && !other.contains(it)).collect();
        // A message that its receiver has rejected after it was begun, since a deadline passed, is in neither.
        let twice: Vec<_> = failed.intersection(&came).collect();
        println!(
            "sent {} failed {} came {} other {} lost {}",
            sent.len(),
            failed.len(),
            came.len(),
            other.len(),
            lost.len()
        );
        assert!(twice.is_empty(), "failed, and came: {twice:?}");
        assert!(lost.is_empty() || !is_patient, "sent, and neither received nor rejected: {lost:?}");
    }
    let counters = [a_send.counters(), b_send.counters()];
    for (one, two) in [(0, 1), (1, 0)] {
        assert_eq!(counters[one].chunks_sent, counters[two].chunks_received);
        assert_eq!(counters[one].inline_sent, counters[two].inline_received);
    }
    println!("{counters:?}");
}

#[test]
fn everything_at_once() {
    let _alone = alone();
    let seeds: u64 = std::env::var("CHAOS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let first: u64 = std::env::var("CHAOS_FROM").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let begun = Instant::now();
    for seed in first..first + seeds {
        for landing in crate::LANDINGS {
            println!("seed {seed} {landing:?} after {:?}", begun.elapsed());
            chaos(seed, landing, 1500);
        }
    }
}

/// Connections that end in the middle of everything, at either end, leave neither memory nor descriptors nor a part of the budget.
#[test]
fn ends_in_the_middle_leave_nothing() {
    let _alone = alone();
    let all = &bytes(7, ALL);
    let rounds: u64 = std::env::var("CHAOS_ENDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let before = open_memory();
    for seed in 1..=rounds {
        for landing in crate::LANDINGS {
            if seed % 5 == 0 {
                Budget::set_shared_max((4 + seed % 9) << 20);
            }
            let (a, b) = pair_of_kind(seed, landing);
            thread::scope(|scope| {
                for (number, end) in [a, b].into_iter().enumerate() {
                    scope.spawn(move || end_in_the_middle(end, all, seed * 2 + number as u64));
                }
            });
            Budget::set_shared_max(1 << 30);
            let left = || {
                (
                    Budget::shared_bytes(),
                    Budget::shared_use().cached_bytes,
                    mapped("superpipe-buffer"),
                    mapped("superpipe-trusted"),
                    open_memory() - before,
                )
            };
            await_that(&format!("{:?} is all gone, seed {seed} {landing:?}", left()), || {
                left() == (0, 0, 0, 0, 0)
            });
        }
    }
}

/// Sends and receives for some time, then drops halves and buffers in some order.
fn end_in_the_middle(end: Connection, all: &[u8], seed: u64) {
    let mut r = Rng::new(seed);
    let until = Instant::now() + Duration::from_micros(500 + r.below(8000) as u64);
    let (mut sending, mut receiving) = end.split();
    thread::scope(|scope| {
        let mut mine = Rng::new(seed + 1_000_000);
        scope.spawn(move || {
            let mut source = RegisteredBuf::new(ALL).unwrap();
            source.copy_from_slice(all);
            let mut index = 0;
            while Instant::now() < until {
                let len = [40, 5000, 70_000, 500_000][mine.below(4)];
                let result = match mine.below(5) {
                    0 => sending.send(0, &[&all[..len]], until),
                    _ => sending.send_registered(0, &source, 0..len, until),
                };
                if result
                    .is_err_and(|error| !matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Rejected(_)))
                {
                    break;
                }
                index += 1;
                if index % 16 == 0 {
                    source = RegisteredBuf::new(ALL).unwrap();
                    source.copy_from_slice(all);
                }
            }
            if mine.below(2) == 0 {
                drop(source);
                drop(sending);
            } else {
                drop(sending);
                drop(source);
            }
        });
        let mut sinks: Vec<_> = (0..3).map(|_| TrustedBuf::new(ALL).unwrap()).collect();
        while Instant::now() < until {
            let at = r.below(sinks.len());
            let result = receiving.recv_trusted(&mut sinks[at], until);
            match result {
                Ok(received) => {
                    let mut copy = vec![0; received.bytes];
                    sinks[at].read(0, &mut copy).unwrap();
                    assert!(copy == all[..received.bytes], "other bytes");
                }
                Err(error) if matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Cancelled(_)) => {}
                Err(_) => break,
            }
            if r.below(12) == 0 {
                sinks[at] = TrustedBuf::new(ALL).unwrap();
            }
        }
        if r.below(2) == 0 {
            drop(receiving);
        }
    });
}
