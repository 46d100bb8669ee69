//! One budget for all connections: each gets its share where others have more, and nobody starves beside a connection that gives
//! nothing back.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::thread;
use std::time::Instant;

use superpipe::{Budget, Connection, Drive, SendOperation};

use crate::attempts::one_of;
use crate::{DEADLINE, SHARED_MAX, alone, await_that, bytes, carry, pair};

const KIB: u64 = 1 << 10;
/// More than the largest landing buffer holds.
const LONG: usize = 1 << 20;
/// Bytes of landing buffers with rings of 64 KiB, 128 KiB and 512 KiB, and their slot lines.
const SMALL: u64 = 68 * KIB;
const MEDIUM: u64 = 132 * KIB;
const LARGE: u64 = 528 * KIB;

/// Bytes of the landing buffers of an end.
fn landing_bytes(end: &mut Connection) -> u64 {
    end.counters().landing_bytes.iter().sum()
}

/// Sends messages one way until the receiver has the largest landing buffer, and nothing but that.
fn grow(from: &mut Connection, to: &mut Connection) {
    let begun = Instant::now();
    while to.counters().landing_bytes != [LARGE, 0, 0] {
        assert!(begun.elapsed() < DEADLINE, "{:?}", to.counters());
        carry(from, to, &bytes(1, LONG));
        from.progress();
        to.progress();
    }
}

/// Stops threads, also where an assertion fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn each_of_four_gets_the_lesser_of_demand_and_share() {
    let _alone = alone();
    let mut connections: Vec<_> = (0..4).map(|_| pair()).collect();
    // The first has all, before the others have any demand.
    let (from, to) = &mut connections[0];
    grow(from, to);
    // Both ends count in this process: eight shares of 200 KiB at least. A ring of 128 KiB is provisioned beside one of 64 KiB.
    let limit = 2200 * KIB;
    assert!(limit * 3 / 4 / 8 >= SMALL + MEDIUM && limit * 3 / 4 / 8 < LARGE / 2);
    Budget::set_shared_max(limit);
    let demands = [LONG, LONG, LONG, 10_000];
    let expected = [MEDIUM, MEDIUM, MEDIUM, SMALL];
    let (is_over, has) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 4]);
    let begun = Instant::now();
    thread::scope(|scope| {
        let (is_over, has) = (&is_over, &has);
        let _stop = Stop(is_over);
        for (number, (mut from, mut to)) in connections.into_iter().enumerate() {
            scope.spawn(move || {
                let message = bytes(number as u64, demands[number]);
                while !is_over.load(Ordering::Relaxed) {
                    carry(&mut from, &mut to, &message);
                    assert!(Budget::shared_bytes() <= limit, "{:?}", Budget::shared_use());
                    has[number].store(to.counters().landing_bytes[0], Ordering::Relaxed);
                }
            });
        }
        await_that("each has its share", || {
            let now = has.each_ref().map(|bytes| bytes.load(Ordering::Relaxed));
            now.iter().zip(expected).all(|(now, expected)| *now >= expected)
        });
        assert!(has[3].load(Ordering::Relaxed) == SMALL, "no more than its demand");
    });
    println!("each of four has its share after {:?}", begun.elapsed());
    await_that("the budget has all back", || Budget::shared_bytes() == 0);
}

/// Which end of the hog nobody drives any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hog {
    /// The receiver, which reads nothing.
    Receiver,
    /// The sender, which ignores SHRINK.
    Sender,
}

/// Drives the end of the hog that is left until `is_over`, and says when it has asked its peer to shrink.
fn drive(hog: Hog, end: &mut Connection, is_over: &AtomicBool, has_asked: &AtomicBool) {
    let (message, mut send) = (vec![1; 4 * LONG], SendOperation::new(1, 4 * LONG));
    while !is_over.load(Ordering::Relaxed) {
        if hog == Hog::Receiver {
            // It fills the ring, and waits.
            assert!(!matches!(end.drive_send(&mut send, &[&message]), Ok(Drive::Done(())) | Err(_)));
        }
        end.progress();
        if end.counters().shrinks > 0 {
            has_asked.store(true, Ordering::Relaxed);
        }
        thread::sleep(Duration::from_micros(200));
    }
}

/// Seven connections move their messages, and grow, beside a hog that keeps its landing buffers although they are asked for.
fn seven_beside(hog: Hog) {
    let _alone = alone();
    let (mut from, mut to) = pair();
    grow(&mut from, &mut to);
    grow(&mut to, &mut from);
    // Both ends of all eight have a fair share of two rings. Without what the hog withholds there is one for each of the others.
    let (limit, withheld) = (4288 * KIB, 4 * LARGE);
    let lendable = limit * 3 / 4;
    assert!(lendable / 16 >= SMALL + MEDIUM);
    assert!(lendable - withheld < 14 * MEDIUM && lendable - withheld >= 14 * SMALL);
    Budget::set_shared_max(limit);
    let (is_over, has_asked, served) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let (is_over, has_asked, served) = (&is_over, &has_asked, &served);
        let stop = Stop(is_over);
        let driving = scope.spawn(move || {
            let driven = if hog == Hog::Receiver { &mut from } else { &mut to };
            drive(hog, driven, is_over, has_asked);
            (from, to)
        });
        // Each gets its minimum.
        let others: Vec<_> = (0..7).map(|_| pair()).collect();
        let begin = |(number, (mut from, mut to)): (u64, (Connection, Connection))| {
            scope.spawn(move || {
                let (message, begun, mut count, mut is_served) =
                    (bytes(number, LONG), Instant::now(), 0, false);
                // One that has its share goes on: only connections that both ends drive give memory back.
                while served.load(Ordering::Relaxed) < 7 {
                    assert!(begun.elapsed() < DEADLINE, "{number}: {has_asked:?} {:?}", from.counters());
                    carry(&mut from, &mut to, &message);
                    assert!(Budget::shared_bytes() <= limit, "{:?}", Budget::shared_use());
                    count += 1;
                    let has_all =
                        count >= 20 && from.counters().moves > 0 && has_asked.load(Ordering::Relaxed);
                    if has_all && !is_served {
                        is_served = true;
                        served.fetch_add(1, Ordering::Relaxed);
                    }
                }
                (from, to)
            })
        };
        let others: Vec<_> = (0..).zip(others).map(begin).collect();
        let others: Vec<_> = others.into_iter().map(|other| other.join().unwrap()).collect();
        drop(stop);
        let (mut from, mut to) = driving.join().unwrap();
        let kept = [&mut from, &mut to].map(landing_bytes);
        assert_eq!(kept, [LARGE; 2], "{hog:?} has given nothing back");
        drop((from, to, others));
    });
    await_that("the budget has all back", || Budget::shared_bytes() == 0);
}

#[test]
fn a_hog_that_reads_nothing_starves_none_of_seven() {
    seven_beside(Hog::Receiver);
}

#[test]
fn a_peer_that_ignores_shrink_starves_none_of_seven() {
    seven_beside(Hog::Sender);
}

/// That it is reclaimed before what a busy one has is shown where time stands still (`core/src/budget/pool/tests.rs`): here an end that is not
/// scheduled for 20 ms counts as one that withholds. If that happens, the busy one may have been asked alone, and the attempt shows nothing.
#[test]
fn idle_memory_is_reclaimed_for_one_that_lacks_it() {
    let _alone = alone();
    one_of(5, reclaim_idle_memory);
}

/// Fails unless the idle one has been asked, once, and has given all back.
fn reclaim_idle_memory() -> Result<(), String> {
    /// An idle one that was asked gives back in a millisecond or two, once it is scheduled. One that was not does so after 10 s.
    const PATIENCE: Duration = Duration::from_secs(3);
    Budget::set_shared_max(SHARED_MAX);
    let (mut idle, mut busy, mut third) = (pair(), pair(), pair());
    grow(&mut idle.0, &mut idle.1);
    grow(&mut busy.0, &mut busy.1);
    let is_over = AtomicBool::new(false);
    let reclaimed = thread::scope(|scope| {
        let is_over = &is_over;
        let stop = Stop(is_over);
        let busy = scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                carry(&mut busy.0, &mut busy.1, &bytes(2, LONG));
            }
            busy
        });
        let idle = scope.spawn(move || {
            let mut last = None;
            loop {
                // Waits send keepalives, and each of them looks for use.
                let _ = idle.1.recv_into(&mut [&mut [0; 8]], Duration::from_millis(20));
                idle.0.progress();
                if is_over.load(Ordering::Relaxed) {
                    let since = last.get_or_insert_with(Instant::now);
                    let counters = idle.1.counters();
                    let is_reclaimed = (counters.shrinks, landing_bytes(&mut idle.1)) == (1, 0);
                    if is_reclaimed || since.elapsed() > PATIENCE {
                        let reclaimed = if is_reclaimed { Ok(()) } else { Err(format!("{counters:?}")) };
                        return (idle, reclaimed);
                    }
                }
            }
        });
        // Two keepalive periods, after which the idle one knows that it is.
        thread::sleep(Duration::from_millis(600));
        // The lendable part is lent.
        let used = Budget::shared_use();
        Budget::set_shared_max(used.grown_bytes * 4 / 3 + 4);
        let begun = Instant::now();
        while third.0.counters().moves == 0 {
            assert!(begun.elapsed() < DEADLINE, "{:?}", Budget::shared_use());
            carry(&mut third.0, &mut third.1, &bytes(3, 60_000));
        }
        drop(stop);
        // The busy one has its connection while the idle one is awaited.
        let (_idle, reclaimed) = idle.join().unwrap();
        drop(busy.join().unwrap());
        reclaimed
    });
    drop(third);
    await_that("the budget has all back", || Budget::shared_bytes() == 0);
    reclaimed
}
