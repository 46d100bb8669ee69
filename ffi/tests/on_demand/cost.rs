//! What connections with landing on demand cost, by the budget and by the kernel.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{Read, Write, pipe};
use std::thread;
use std::time::Instant;

use superpipe::io::{Digest, DigestKind, Source};
use superpipe::{Budget, ErrorKind, LandingMode, Options, Tuning};

use crate::descriptors::{open_memory, settled_descriptors};
use crate::{DEADLINE, PAGE, alone, await_that, bytes, carry, mapped, options, pair, pairs};

#[test]
fn idle_connections_cost_a_page_a_side() {
    let _alone = alone();
    const COUNT: usize = 200;
    let connections = pairs(COUNT, options(LandingMode::OnDemand));
    // The warm-up has provisioned nothing.
    let description = connections[0].0.description();
    assert_eq!((description.landing, description.provisioned_bytes), (LandingMode::OnDemand, 2 * PAGE));
    assert_eq!(Budget::shared_bytes(), COUNT as u64 * 2 * 2 * PAGE, "each end counts both");
    let mapped = mapped();
    assert_eq!(mapped.count, 4 * COUNT, "each segment at both ends");
    assert!(mapped.resident_bytes <= COUNT as u64 * 2 * PAGE, "{}", mapped.resident_bytes);
}

#[test]
fn an_end_has_two_descriptors() {
    let _alone = alone();
    for landing in [LandingMode::OnDemand, LandingMode::AtConnect] {
        // The process's own: the helper thread of jobs has none.
        let (mut a, mut b) = pairs(1, options(landing)).remove(0);
        carry(&mut a, &mut b, &bytes(1, 1_000_000));
        await_that("no segment is open", || open_memory() == 0);
        let before = settled_descriptors();
        let mut more = pairs(10, options(landing));
        for (a, b) in &mut more {
            carry(a, b, &bytes(2, 1_000_000));
        }
        await_that("no segment is open", || open_memory() == 0);
        assert_eq!(settled_descriptors() - before, 10 * 2 * 2, "{}: a socket and a pidfd", landing.name());
        drop(more);
        assert_eq!(settled_descriptors(), before);
    }
}

#[test]
fn nothing_is_left_after_a_close() {
    let _alone = alone();
    let mut connections = pairs(10, options(LandingMode::OnDemand));
    for (a, b) in &mut connections {
        carry(a, b, &bytes(1, 1_000_000));
        carry(b, a, &bytes(2, 100_000));
    }
    assert!(mapped().resident_bytes > 10 * 2 * PAGE);
    assert!(Budget::shared_bytes() > 10 * 4 * PAGE);
    drop(connections);
    // A job that was under way is dropped by the helper thread.
    await_that("no segment is mapped", || mapped().count == 0);
    await_that("the budget has all back", || Budget::shared_bytes() == 0);
}

#[test]
fn a_spent_budget_makes_transfers_slower_and_never_fails() {
    let _alone = alone();
    for room in [0, 100 << 10, 300 << 10] {
        let (mut a, mut b) = pair();
        Budget::set_shared_max(Budget::shared_bytes() + room);
        for seed in 0..10 {
            let message = bytes(seed, 300_000);
            carry(&mut a, &mut b, &message);
            carry(&mut b, &mut a, &message);
            assert!(Budget::shared_bytes() <= 4 * PAGE + room, "{}", Budget::shared_bytes());
        }
        assert_eq!(a.counters().moves > 0, room > 200 << 10, "{room}: both ends count a landing buffer");
        Budget::set_shared_max(1 << 30);
        // A transfer of 100 us can be over before its larger buffer is there.
        let begun = Instant::now();
        while a.counters().moves == 0 {
            assert!(begun.elapsed() < DEADLINE, "it grows once there is room");
            carry(&mut a, &mut b, &bytes(11, 300_000));
        }
        drop((a, b));
        await_that("the budget has all back", || Budget::shared_bytes() == 0);
    }
}

#[test]
fn a_budget_for_pages_admits_connections_that_grow_later() {
    let _alone = alone();
    Budget::set_shared_max(4 * PAGE);
    let (mut a, mut b) = pair();
    carry(&mut a, &mut b, &bytes(1, 100_000));
    let address = superpipe::Address::Shm(crate::path());
    let mut listener = superpipe::Listener::bind(&address, Options::default()).unwrap();
    let error = thread::scope(|scope| {
        scope.spawn(move || listener.accept(DEADLINE).map(drop));
        superpipe::Connection::connect(&address, options(LandingMode::OnDemand), DEADLINE).unwrap_err()
    });
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
}

#[test]
fn the_ends_must_agree_on_the_landing_mode() {
    let _alone = alone();
    let address = superpipe::Address::Shm(crate::path());
    let mut listener = superpipe::Listener::bind(&address, options(LandingMode::AtConnect)).unwrap();
    let error = thread::scope(|scope| {
        scope.spawn(move || listener.accept(DEADLINE).map(drop));
        superpipe::Connection::connect(&address, options(LandingMode::OnDemand), DEADLINE).unwrap_err()
    });
    assert!(error.to_string().contains("landing is at-connect at the listening end"), "{error}");
    let tuning = Tuning { landing: Some(LandingMode::AtConnect), ..Tuning::default() };
    let (one, other) = pairs(1, Options { tuning, ..Options::default() }).remove(0);
    assert_eq!(one.description().provisioned_bytes, 2 * (532 << 10));
    assert_eq!(other.description().landing, LandingMode::AtConnect);
}

#[test]
fn a_busy_connection_gives_back_what_another_waits_for() {
    let _alone = alone();
    let (mut hog, mut hog_peer) = pair();
    let (mut other, mut other_peer) = pair();
    // Room for what one connection grows to at both ends, and not for two.
    Budget::set_shared_max(3 << 19);
    let message = bytes(1, 3 << 20);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (message, is_over) = (&message, &is_over);
        let hogging = scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                carry(&mut hog, &mut hog_peer, message);
            }
            hog.counters()
        });
        await_that("the hog has grown", || Budget::shared_use().grown_bytes >= 1 << 20);
        let begun = Instant::now();
        while other.counters().moves == 0 && begun.elapsed() < DEADLINE {
            carry(&mut other, &mut other_peer, &message[..100_000]);
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(other.counters().moves > 0, "the other connection never grew");
        assert!(hogging.join().unwrap().moves > 0);
    });
    assert!(Budget::shared_bytes() <= 3 << 19);
}

#[test]
fn a_stream_that_waits_for_its_source_gives_back_what_it_has() {
    let _alone = alone();
    let (mut waiting, mut waiting_peer) = pair();
    let (mut other, mut other_peer) = pair();
    let message = bytes(1, 3 << 20);
    let (reader, writer) = pipe().unwrap();
    let is_idle = &AtomicBool::new(false);
    thread::scope(|scope| {
        let message = &message;
        // A test that fails ends the stream, so that nothing waits for it.
        let mut writer = writer;
        scope.spawn(move || {
            let mut source = Source::new(reader.into()).unwrap();
            let mut stream = waiting.open_stream(1, DEADLINE).unwrap();
            // How fast the landing buffer grows depends on the threads' turns.
            await_that("the landing buffer has grown", || {
                stream.write_all(message).unwrap();
                Budget::shared_use().grown_bytes >= 1 << 20
            });
            is_idle.store(true, Ordering::Relaxed);
            let sent = stream.read_from(&mut source, 100, &mut Digest::new(DigestKind::None)).unwrap();
            assert_eq!(sent, 4);
            stream.finish(DEADLINE).unwrap();
        });
        scope.spawn(move || {
            let mut got = Vec::new();
            let mut stream = waiting_peer.accept_stream(DEADLINE).unwrap();
            stream.read_to_end(&mut got).unwrap();
            let (sent, late) = got.split_at(got.len() - 4);
            assert!(late == b"late" && sent.chunks(message.len()).all(|part| part == *message));
        });
        await_that("the stream waits", || is_idle.load(Ordering::Relaxed));
        thread::sleep(Duration::from_millis(100));
        // No room for another.
        Budget::set_shared_max(Budget::shared_bytes());
        let begun = Instant::now();
        while other.counters().moves == 0 && begun.elapsed() < DEADLINE {
            carry(&mut other, &mut other_peer, &message[..100_000]);
        }
        writer.write_all(b"late").unwrap();
        assert!(other.counters().moves > 0, "the other connection never grew");
    });
}
