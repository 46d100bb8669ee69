//! Keepalives: when they are due, and what they repeat. wire.md 7.3

use superpipe_core::Nanos;
use superpipe_core::driver::KEEPALIVE_NS;
use superpipe_testkit::{TestFabric, wire};

use crate::driver::{BEFORE_FIRST, One, after};

tables! {
    life_is_shown_once_a_period
    an_idle_connection_sends_four_in_the_peers_timeout
    what_was_acknowledged_is_repeated_soon
    one_that_found_no_room_comes_again_soon
    acknowledgements_go_out_with_a_tick
}

const NEVER: Nanos = Nanos(u64::MAX);
const SECOND_NS: u64 = 1_000_000_000;

/// Returns the count of keepalives that the peer sees.
fn life<F: TestFabric>(t: &mut One<F>) -> u64 {
    t.acked().0[4]
}

fn life_is_shown_once_a_period<F: TestFabric>() {
    let mut t = One::<F>::new();
    assert_eq!(t.driver.next_tick(), after(KEEPALIVE_NS));
    for (at, shown) in [
        (0, 0),
        (KEEPALIVE_NS - 1, 0),
        (KEEPALIVE_NS, 1),
        (KEEPALIVE_NS, 1),
        (2 * KEEPALIVE_NS - 1, 1),
        (2 * KEEPALIVE_NS + 7, 2),
        (3 * KEEPALIVE_NS + 6, 2),
        (3 * KEEPALIVE_NS + 7, 3),
    ] {
        t.driver.tick(&mut t.fabric, after(at));
        assert_eq!(life(&mut t), shown, "{at}");
    }
    assert_eq!(t.driver.next_tick(), after(4 * KEEPALIVE_NS + 7));
    // A wait shows life, too; time that stands still or goes back shows none.
    let mut wait = t.driver.begin_wait();
    for (at, shown) in [(0, 3), (4 * KEEPALIVE_NS + 6, 3), (4 * KEEPALIVE_NS + 7, 4)] {
        let _ = t.driver.check_time(&mut t.fabric, &mut wait, after(at), NEVER);
        assert_eq!(life(&mut t), shown, "{at}");
    }
    assert_eq!(KEEPALIVE_NS, 200_000_000);
}

/// wire.md 7.3
fn an_idle_connection_sends_four_in_the_peers_timeout<F: TestFabric>() {
    for (timeout_ns, intervals_ns) in [
        (
            30 * SECOND_NS,
            [
                KEEPALIVE_NS,
                2 * KEEPALIVE_NS,
                4 * KEEPALIVE_NS,
                8 * KEEPALIVE_NS,
                16 * KEEPALIVE_NS,
                32 * KEEPALIVE_NS,
                7_500_000_000,
                7_500_000_000,
            ],
        ),
        (
            2 * SECOND_NS,
            [
                KEEPALIVE_NS,
                2 * KEEPALIVE_NS,
                500_000_000,
                500_000_000,
                500_000_000,
                500_000_000,
                500_000_000,
                500_000_000,
            ],
        ),
        (400_000_000, [100_000_000; 8]),
        // Waits look at the time every 50 ms.
        (1_000_000, [50_000_000; 8]),
    ] {
        let mut t = One::<F>::new();
        t.driver.set_peer_idle_timeout(Nanos(timeout_ns));
        let mut at = 0;
        for (sent, interval_ns) in (1..).zip(intervals_ns) {
            at += interval_ns;
            assert_eq!(t.driver.next_tick(), after(at), "{timeout_ns}: {sent}");
            t.driver.tick(&mut t.fabric, after(at - 1));
            assert_eq!(life(&mut t), sent - 1);
            t.driver.tick(&mut t.fabric, after(at));
            assert_eq!(life(&mut t), sent);
        }
    }
    let mut t = One::<F>::new();
    t.driver.set_peer_idle_timeout(Nanos(u64::MAX));
    let mut now = after(0);
    for _ in 0..20 {
        now = t.driver.next_tick();
        t.driver.tick(&mut t.fabric, now);
        t.settle();
    }
    assert_eq!(t.driver.next_tick(), Nanos(now.0 + 15 * SECOND_NS), "at most");
}

/// An acknowledgement may have been lost. wire.md 7.3
fn what_was_acknowledged_is_repeated_soon<F: TestFabric>() {
    let mut t = One::<F>::new();
    t.driver.set_peer_idle_timeout(Nanos(30_000_000_000));
    let mut now = after(0);
    for _ in 0..10 {
        now = t.driver.next_tick();
        t.driver.tick(&mut t.fabric, now);
        t.settle();
    }
    assert_eq!(t.driver.next_tick(), Nanos(now.0 + 7_500_000_000));
    t.slot(0, wire::inline(7, b"line", 1));
    assert!(t.driver.try_recv(&mut t.fabric, &mut [&mut [0; 9]]).unwrap().is_some());
    // With posted writes it is acknowledged by later rounds.
    let mut wait = t.driver.begin_wait();
    for _ in 0..200 {
        let _ = t.driver.round(&mut t.fabric, &mut wait, false);
    }
    assert_eq!(t.driver.next_tick(), Nanos(now.0 + KEEPALIVE_NS));
    let (sent, before) = (now.0 + SECOND_NS, life(&mut t));
    t.driver.tick(&mut t.fabric, Nanos(sent));
    assert_eq!(life(&mut t), before + 1);
    assert_eq!(t.driver.next_tick(), Nanos(sent + KEEPALIVE_NS), "once more");
    t.driver.tick(&mut t.fabric, Nanos(sent + KEEPALIVE_NS));
    assert_eq!(t.driver.next_tick(), Nanos(sent + 3 * KEEPALIVE_NS));
}

/// Completions of the device do not come, so the send queue is full.
fn one_that_found_no_room_comes_again_soon<F: TestFabric>() {
    let mut t = One::<F>::new();
    t.driver.set_peer_idle_timeout(Nanos(30 * SECOND_NS));
    let mut now = after(0);
    for _ in 0..10 {
        now = t.driver.next_tick();
        t.driver.tick(&mut t.fabric, now);
    }
    let interval_ns = if F::DIRECT { 7_500_000_000 } else { KEEPALIVE_NS };
    assert_eq!(t.driver.next_tick(), Nanos(now.0 + interval_ns));
}

fn acknowledgements_go_out_with_a_tick<F: TestFabric>() {
    let mut t = One::<F>::new();
    t.slot(0, wire::inline(7, b"line", 1));
    assert!(t.driver.try_recv(&mut t.fabric, &mut [&mut [0; 9]]).unwrap().is_some());
    let acks = t.driver.counters().acks_sent;
    t.driver.tick(&mut t.fabric, after(KEEPALIVE_NS - 1));
    assert_eq!(t.driver.counters().acks_sent, acks);
    t.driver.tick(&mut t.fabric, after(KEEPALIVE_NS));
    // Stores that go direct have acknowledged it at once.
    let due = u64::from(!F::DIRECT);
    assert_eq!(t.driver.counters().acks_sent, acks + due + 1, "what is due by itself, and the sign of life");
    assert_eq!(t.acked(), wire::ack(1, BEFORE_FIRST, 1));
}
