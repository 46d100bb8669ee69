//! Closing, until the peer was told.

use core::hash::Hasher;
use std::hash::DefaultHasher;

use superpipe_core::driver::{BUSY_ROUNDS_PER_CHECK, Drive, Ended, Next, Rest, SPIN_ROUNDS, WaitFailed};
use superpipe_core::{Arrival, Closed, Length, Reason, RefusedSend};
use superpipe_testkit::{Direct, Posted, TestFabric, wire};

use crate::driver::{BEFORE_FIRST, IDLE_NS, One, Two, payload};

tables! {
    the_peer_is_told_at_once
    the_first_reason_counts
    a_close_waits_for_its_cancel
    nothing_is_sent_to_a_peer_that_is_gone
    a_close_waits_as_any_wait_does
    both_ends_close
    what_decides_is_in_the_fingerprint
}

fn the_peer_is_told_at_once<F: TestFabric>() {
    for reason in [Reason::DONE, Reason(7)] {
        let mut t = One::<F>::new();
        assert!(!t.driver.is_closing());
        t.driver.close(&mut t.fabric, reason);
        assert!(t.driver.is_closing());
        assert_eq!(t.driver.ended(&t.fabric), Some(Ended::Closed(Closed::Here(reason))));
        assert_eq!(t.driver.drive_close(&mut t.fabric), Drive::Done(Ok(())));
        assert_eq!(t.driver.drive_close(&mut t.fabric), Drive::Done(Ok(())));
        assert_eq!(t.said(0), wire::close(BEFORE_FIRST, u64::from(reason.0), 1));
    }
}

fn the_first_reason_counts<F: TestFabric>() {
    let mut t = One::<F>::new();
    t.driver.close(&mut t.fabric, Reason(1));
    t.driver.close(&mut t.fabric, Reason(2));
    assert_eq!(t.driver.endpoint().closed(), Some(Closed::Here(Reason(1))));
    assert_eq!(t.said(0), wire::close(BEFORE_FIRST, 1, 1));
    assert_eq!(t.said(1).0, [0; 8]);
}

/// The block that is kept for a CANCEL is all that there is: where writes are posted the device owns it for a while.
fn a_close_waits_for_its_cancel<F: TestFabric>() {
    let mut t = Two::<F>::new();
    let id = t.ends[0].endpoint_mut().start(1, Length::Stream).unwrap();
    assert!(t.ends[0].endpoint_mut().push(&mut t.fabric, id, &[&payload(4000)]).unwrap() > 0);
    t.ends[0].close(&mut t.fabric, Reason::DONE);
    assert_eq!(t.ends[0].endpoint_mut().push(&mut t.fabric, id, &[&[1]]), Err(RefusedSend::Closed));
    let mut driven = vec![];
    for _ in 0..20_000 {
        driven.push(t.ends[0].drive_close(&mut t.fabric));
        if matches!(driven.last(), Some(Drive::Done(_))) {
            break;
        }
        t.fabric.step();
    }
    assert_eq!(driven.last(), Some(&Drive::Done(Ok(()))));
    assert!(t.ends[0].endpoint().is_flushed() && t.ends[0].endpoint().is_quiescent());
    if !F::DIRECT {
        assert!(
            driven.contains(&Drive::Idle) && driven.contains(&Drive::Moved),
            "the device owned something"
        );
    }
    let mut room = [0; 4000];
    for _ in 0..50 {
        t.settle();
        let _ = t.ends[1].try_peek(&mut t.fabric);
        let _ = t.ends[1].endpoint_mut().pull(&mut t.fabric, &mut [&mut room]);
    }
    assert_eq!(t.ends[1].ended(&t.fabric), Some(Ended::Closed(Closed::ByPeer(Reason::DONE))));
}

/// A chunk whose write never completes, since nothing steps.
#[test]
fn a_device_that_owns_memory_is_waited_for() {
    let mut t = One::<Posted>::new();
    t.driver.try_send(&mut t.fabric, 1, &[&payload(100)]).unwrap();
    t.driver.close(&mut t.fabric, Reason::DONE);
    assert!(t.driver.endpoint().is_flushed());
    for _ in 0..1000 {
        assert_eq!(t.driver.drive_close(&mut t.fabric), Drive::Idle);
    }
    // A peer that is gone will not take it.
    let mut gone = One::<Posted>::new();
    gone.driver.try_send(&mut gone.fabric, 1, &[&payload(100)]).unwrap();
    gone.driver.close(&mut gone.fabric, Reason::DONE);
    gone.driver.note_peer_gone();
    assert_eq!(gone.driver.drive_close(&mut gone.fabric), Drive::Done(Err(Ended::Lost)));
    // It completes.
    let mut rounds = 0;
    while t.driver.drive_close(&mut t.fabric) != Drive::Done(Ok(())) {
        t.fabric.step();
        rounds += 1;
        assert!(rounds < 20_000, "stuck");
    }
}

/// A CLOSE that has to wait: where the send queue is full.
#[test]
fn a_close_that_is_not_sent_is_waited_for() {
    for is_gone in [false, true] {
        let mut t = One::<Posted>::new();
        for _ in 0..2 {
            t.driver.try_send(&mut t.fabric, 1, &[b"tiny"]).unwrap();
        }
        assert_eq!(t.driver.try_send(&mut t.fabric, 1, &[b"tiny"]), Err(RefusedSend::NoCredit));
        t.driver.close(&mut t.fabric, Reason::DONE);
        assert!(!t.driver.endpoint().is_flushed() && t.driver.endpoint().is_quiescent());
        if is_gone {
            t.driver.note_peer_gone();
            assert_eq!(t.driver.drive_close(&mut t.fabric), Drive::Done(Err(Ended::Lost)));
            continue;
        }
        assert_eq!(t.driver.drive_close(&mut t.fabric), Drive::Idle);
        let mut moved = 0;
        for _ in 0..20_000 {
            match t.driver.drive_close(&mut t.fabric) {
                Drive::Done(done) => {
                    assert_eq!((done, moved), (Ok(()), 1), "the round that told it was one");
                    break;
                }
                Drive::Moved => moved += 1,
                Drive::Idle => t.fabric.step(),
            }
        }
        assert_eq!(moved, 1);
        assert_eq!(t.said(0), wire::close(2, 0, 1));
    }
}

fn nothing_is_sent_to_a_peer_that_is_gone<F: TestFabric>() {
    // It was told before it went: that is no error.
    let mut t = One::<F>::new();
    t.driver.close(&mut t.fabric, Reason::DONE);
    t.driver.note_peer_gone();
    assert_eq!(t.driver.drive_close(&mut t.fabric), Drive::Done(Ok(())));
}

fn a_close_waits_as_any_wait_does<F: TestFabric>() {
    let mut t = One::<F>::new();
    t.driver.close(&mut t.fabric, Reason::DONE);
    let mut wait = t.driver.begin_wait();
    for _ in 1..SPIN_ROUNDS {
        assert_eq!(t.driver.close_round(&mut wait, false), Next::Rest(Rest::Spin));
    }
    assert_ne!(t.driver.close_round(&mut wait, false), Next::Rest(Rest::Spin));
    let mut wait = t.driver.begin_wait();
    for _ in 1..BUSY_ROUNDS_PER_CHECK {
        assert_eq!(t.driver.close_round(&mut wait, false), Next::Rest(Rest::Spin));
        assert_eq!(t.driver.close_round(&mut wait, true), Next::Again);
    }
    for _ in 1..SPIN_ROUNDS {
        assert_eq!(t.driver.close_round(&mut wait, false), Next::Rest(Rest::Spin));
    }
    assert_eq!(t.driver.close_round(&mut wait, true), Next::CheckTime);
    assert_eq!(t.driver.close_round(&mut wait, false), Next::Rest(Rest::Spin), "work begins the rests anew");
}

fn both_ends_close<F: TestFabric>() {
    let mut t = Two::<F>::new();
    t.send(0, 1, b"before");
    for side in 0..2 {
        t.ends[side].close(&mut t.fabric, Reason::DONE);
    }
    t.settle();
    for side in 0..2 {
        assert_eq!(t.ends[side].drive_close(&mut t.fabric), Drive::Done(Ok(())));
        assert_eq!(t.ends[side].ended(&t.fabric), Some(Ended::Closed(Closed::Here(Reason::DONE))));
    }
    assert_eq!(t.ends[1].try_recv(&mut t.fabric, &mut [&mut [0; 9]]).unwrap().unwrap().bytes, 6);
}

fn fingerprint<F: TestFabric>(t: &One<F>) -> u64 {
    let mut hasher = DefaultHasher::new();
    t.driver.fingerprint(&mut hasher);
    hasher.finish()
}

fn what_decides_is_in_the_fingerprint<F: TestFabric>() {
    let mut t = One::<F>::with(Arrival::Flag);
    let first = fingerprint(&t);
    assert_eq!(first, fingerprint(&One::<F>::new()));
    // Timers decide when, and not what.
    assert!(
        !t.driver.count_empty()
            && !t.driver.is_tick_due()
            && t.driver.is_liveness_check_due(crate::driver::after(IDLE_NS))
    );
    let mut wait = t.driver.begin_wait();
    assert_eq!(t.driver.close_round(&mut wait, false), Next::Rest(Rest::Spin));
    assert_eq!(fingerprint(&t), first);
    t.driver.note_peer_gone();
    let gone = fingerprint(&t);
    assert_ne!(gone, first);
    t.driver.close(&mut t.fabric, Reason::DONE);
    let closed = fingerprint(&t);
    assert!(closed != gone && closed != first);
    let mut t = One::<F>::new();
    t.driver.try_send(&mut t.fabric, 1, &[b"tiny"]).unwrap();
    assert_ne!(fingerprint(&t), first, "what the endpoint does is in it");
}

type Ours = superpipe_core::Driver<Direct>;

/// A driver that is cloned goes on as the first would.
#[test]
fn a_clone_is_in_the_same_state() {
    let mut t = One::<Direct>::new();
    let same = |a: &Ours, b: &Ours| {
        let print = |driver: &Ours| {
            let mut hasher = DefaultHasher::new();
            driver.fingerprint(&mut hasher);
            hasher.finish()
        };
        print(a) == print(b)
    };
    for _ in 1..1024 {
        let _ = t.driver.count_empty();
    }
    t.driver.tick(&mut t.fabric, crate::driver::after(IDLE_NS));
    let mut clone = t.driver.clone();
    assert!(same(&clone, &t.driver));
    assert_eq!(clone.next_tick(), t.driver.next_tick());
    assert_eq!(clone.wait_strategy(), t.driver.wait_strategy());
    let looked = clone.check_time(
        &mut t.fabric,
        &mut t.driver.begin_wait(),
        crate::driver::after(IDLE_NS),
        crate::driver::BEGIN,
    );
    assert_eq!(looked, Err(WaitFailed::Deadline), "the silence that it bears");
    assert!(clone.count_empty() && clone.is_tick_due(), "the tries are counted on");
    t.driver.note_peer_gone();
    assert!(!same(&clone, &t.driver), "they are two");
    let gone = t.driver.clone();
    assert!(gone.is_peer_gone() && same(&gone, &t.driver));
    t.driver.close(&mut t.fabric, Reason::DONE);
    assert!(!gone.is_closing() && t.driver.clone().is_closing());
}
