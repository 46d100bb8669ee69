//! Sleep and wake.

use crate::devices;
use crate::end::{End, deadline, meet};
use core::net::IpAddr;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;
use superpipe::fabric::{HostFabric, SleepEnd};
use superpipe::os::monotonic_ns;
use superpipe::{Arrival, Tuning};
use superpipe_core::{End as Ended, Fabric, TryRecv};

const QUIET: Duration = Duration::from_millis(400);
/// Longer than a third of the deadline: only a wake ends it in time.
const LONG_SLEEP_NS: u64 = 10_000_000_000;
const SLEEP_MAX_NS: u64 = 50_000_000;
const KEEPALIVES: u32 = 50;
/// Sleeps that something ends: the answer to SLEEP, its event, the message, its WAKE.
const WOKEN_MAX: u32 = 12;

/// Makes two ends with this arrival mode.
fn ends(ip: IpAddr, arrival: Arrival) -> [End; 2] {
    let tuning = Tuning { arrival: Some(arrival), ..Tuning::default() };
    let (there, here) = meet(ip, tuning, tuning);
    [there, here].map(|end| End::of(end.unwrap()))
}

/// Sleeps until a message is there, and counts the sleeps that it begins.
fn sleep_until_message(end: &mut End, place: &mut [u8], sleeps: &AtomicU32) {
    let deadline = deadline();
    loop {
        match end.endpoint.try_recv(&mut end.fabric, &mut [&mut *place], 4) {
            TryRecv::Taken { .. } => return,
            // Not by the fast path of plain flags.
            TryRecv::Other if end.endpoint.incoming(&mut end.fabric).is_some() => {
                let pulled = end.endpoint.pull_from(&mut end.fabric, &mut [&mut *place], 0);
                assert_eq!(pulled.end, Ended::Fin, "a few bytes come in one piece");
                return;
            }
            _ => {}
        }
        assert!(monotonic_ns() < deadline && end.endpoint.closed().is_none(), "{:?}", end.endpoint.closed());
        if end.endpoint.progress(&mut end.fabric) == 0 {
            sleeps.fetch_add(1, Ordering::Relaxed);
            assert_ne!(end.fabric.sleep(&mut end.endpoint, LONG_SLEEP_NS), SleepEnd::PeerGone);
        }
    }
}

/// Makes progress for as long as the peer is to sleep.
fn idle(end: &mut End, time: Duration) {
    idle_until(end, time, || true);
}

/// Makes progress for this time, and until the peer has come so far: a busy host may run it late.
fn idle_until(end: &mut End, time: Duration, is_so: impl Fn() -> bool) {
    let (from, until) = (Instant::now(), deadline());
    while from.elapsed() < time || !is_so() {
        assert!(monotonic_ns() < until, "the peer does not sleep");
        end.endpoint.progress(&mut end.fabric);
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_sleeper_sleeps_and_each_message_wakes_it() {
    for ip in devices() {
        for arrival in [Arrival::Flag, Arrival::CheckedFlag, Arrival::Notify] {
            let [mut there, mut here] = ends(ip, arrival);
            let done = &AtomicBool::new(false);
            let sleeps = &[const { AtomicU32::new(0) }; 3];
            thread::scope(|scope| {
                scope.spawn(move || {
                    for (round, sleeps) in (0_u64..).zip(sleeps) {
                        idle_until(&mut there, QUIET, || sleeps.load(Ordering::Relaxed) > 0);
                        let message = round.to_le_bytes();
                        there.drive(|endpoint, fabric| endpoint.try_send(fabric, round, &[&message]).is_ok());
                    }
                    there.drive(|endpoint, _| endpoint.poll_delivered());
                    done.store(true, Ordering::Release); // pairs with the Acquire below
                });
                for (round, sleeps) in (0..).zip(sleeps) {
                    let mut message = [0; 8];
                    sleep_until_message(&mut here, &mut message, sleeps);
                    assert_eq!(u64::from_le_bytes(message), round);
                    let sleeps = sleeps.load(Ordering::Relaxed);
                    // Polling ten thousand times per second would be some 4000.
                    assert!((1..400).contains(&sleeps), "{ip} {arrival:?}: {sleeps} sleeps");
                }
                let deadline = deadline();
                // Pairs with the Release above.
                while !done.load(Ordering::Acquire) && monotonic_ns() < deadline {
                    idle(&mut here, Duration::from_millis(1));
                }
            });
        }
    }
}

#[test]
fn both_ends_can_sleep_at_once() {
    for ip in devices() {
        let ends = ends(ip, Arrival::Flag);
        let both = &Barrier::new(2);
        thread::scope(|scope| {
            for mut end in ends {
                scope.spawn(move || {
                    let (from, mut sleeps) = (Instant::now(), 0);
                    while from.elapsed() < QUIET {
                        end.endpoint.progress(&mut end.fabric);
                        assert_ne!(end.fabric.sleep(&mut end.endpoint, SLEEP_MAX_NS), SleepEnd::PeerGone);
                        sleeps += 1;
                    }
                    both.wait();
                    assert!((1..100).contains(&sleeps), "{ip}: {sleeps} sleeps");
                });
            }
        });
    }
}

/// Sends keepalives, as quietly as the API does: so many since the peer has begun to sleep.
fn send_keepalives(end: &mut End, sleeps: &AtomicU32) {
    let (mut sent, until) = (0, deadline());
    while sent < KEEPALIVES {
        assert!(monotonic_ns() < until, "the peer does not sleep");
        sent += u32::from(sleeps.load(Ordering::Relaxed) > 0);
        end.endpoint.progress(&mut end.fabric);
        end.fabric.set_quiet(end.endpoint.link_mut(), true);
        end.endpoint.send_keepalive(&mut end.fabric);
        end.fabric.set_quiet(end.endpoint.link_mut(), false);
        thread::sleep(Duration::from_millis(4));
    }
}

#[test]
fn keepalives_are_seen_and_wake_nobody() {
    for ip in devices() {
        for arrival in [Arrival::Flag, Arrival::CheckedFlag] {
            let [mut there, mut here] = ends(ip, arrival);
            let (done, sleeps) = (&AtomicBool::new(false), &AtomicU32::new(0));
            thread::scope(|scope| {
                scope.spawn(move || {
                    send_keepalives(&mut there, sleeps);
                    // Not a keepalive: this wakes.
                    there.drive(|endpoint, fabric| endpoint.try_send(fabric, 0, &[b"up"]).is_ok());
                    there.drive(|endpoint, _| endpoint.poll_delivered());
                    done.store(true, Ordering::Release); // pairs with the Acquire below
                });
                let (heard, mut woken, until) = (here.endpoint.activity(), 0, deadline());
                while !here.endpoint.has_arrivals(&here.fabric) {
                    assert!(monotonic_ns() < until, "{ip} {arrival:?}: nothing came");
                    here.endpoint.progress(&mut here.fabric);
                    sleeps.fetch_add(1, Ordering::Relaxed);
                    match here.fabric.sleep(&mut here.endpoint, LONG_SLEEP_NS) {
                        SleepEnd::TimedOut => {}
                        SleepEnd::Poll => woken += 1,
                        SleepEnd::PeerGone => panic!("{ip} {arrival:?}: the peer is gone"),
                    }
                }
                assert!((1..=WOKEN_MAX).contains(&woken), "{ip} {arrival:?}: woken {woken} times");
                here.endpoint.poll_acknowledgements(&mut here.fabric);
                assert_ne!(here.endpoint.activity(), heard);
                sleep_until_message(&mut here, &mut [0; 8], sleeps);
                let deadline = deadline();
                // Pairs with the Release above.
                while !done.load(Ordering::Acquire) && monotonic_ns() < deadline {
                    idle(&mut here, Duration::from_millis(1));
                }
            });
        }
    }
}
