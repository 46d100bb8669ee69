//! Waits: the next step after a round, checks of time, and keepalives.

use superpipe_core::driver::{
    BUSY_ROUNDS_PER_CHECK, Drive, Ended, Interest, LIVENESS_CHECK_NS, Next, RecvOperation, Rest,
    SLEEP_MAX_NS, SPIN_ROUNDS, Wait, WaitFailed, WaitStrategy,
};
use superpipe_core::{Closed, Failure, Length, Nanos, ProtocolError, Reason};
use superpipe_testkit::{TestFabric, wire};

use crate::driver::{BEFORE_FIRST, IDLE_NS, One, after, message, taken};

tables! {
    a_wait_rests_as_its_strategy_says
    rounds_with_work_look_every_so_often
    work_that_comes_slowly_is_looked_at
    a_moved_part_is_work
    a_flood_is_looked_at
    a_deadline_is_met_exactly
    silence_counts_from_the_first_look
    an_end_that_was_stopped_has_napped_once
    what_is_heard_ends_the_silence
    a_nap_is_as_long_as_the_nearest_end
    a_look_takes_acknowledgements
    the_last_look_before_a_sleep_finds_room
    a_peer_is_looked_at_once_a_period
    a_wait_ends_as_the_connection_did
    a_long_deadline_is_no_problem
    waits_of_two_halves_are_apart
}

const NEVER: Nanos = Nanos(u64::MAX);

fn round<F: TestFabric>(t: &mut One<F>, wait: &mut Wait, has_moved: bool) -> Next {
    t.driver.round(&mut t.fabric, wait, has_moved)
}

/// Rejects of nothing anyone knows are a broken rule; these are of a message that was sent.
fn flood<F: TestFabric>(t: &mut One<F>, nth: u64) {
    t.control(wire::cts(1, nth));
}

fn a_wait_rests_as_its_strategy_says<F: TestFabric>() {
    for strategy in WaitStrategy::ALL {
        let mut t = One::<F>::new();
        t.driver.set_wait(strategy);
        assert_eq!(t.driver.wait_strategy(), strategy);
        for _ in 0..2 {
            let mut wait = t.driver.begin_wait();
            for _ in 1..SPIN_ROUNDS {
                assert_eq!(round(&mut t, &mut wait, false), Next::Rest(Rest::Spin));
            }
            let first = match strategy {
                WaitStrategy::Spin => Rest::CheckTime,
                _ => Rest::Yield { is_first: true },
            };
            assert_eq!(round(&mut t, &mut wait, false), Next::Rest(first));
        }
        // A yield that is soon over shortens the next wait.
        let wait = t.driver.begin_wait();
        t.driver.note_yield(&wait, true, 0);
        let mut wait = t.driver.begin_wait();
        for _ in 1..SPIN_ROUNDS / 4 {
            assert_eq!(round(&mut t, &mut wait, false), Next::Rest(Rest::Spin));
        }
        assert_ne!(round(&mut t, &mut wait, false), Next::Rest(Rest::Spin));
        for yields in 1..16 {
            let rest = round(&mut t, &mut wait, false);
            let expected = match strategy {
                WaitStrategy::Spin => Rest::Spin,
                _ => Rest::Yield { is_first: false },
            };
            assert_eq!(rest, Next::Rest(expected), "{strategy} {yields}");
        }
    }
}

fn rounds_with_work_look_every_so_often<F: TestFabric>() {
    let mut t = One::<F>::new();
    let mut wait = t.driver.begin_wait();
    for _ in 0..3 {
        for _ in 1..BUSY_ROUNDS_PER_CHECK {
            assert_eq!(round(&mut t, &mut wait, true), Next::Again);
        }
        assert_eq!(round(&mut t, &mut wait, true), Next::CheckTime);
    }
    // Rounds without work between them do not put it off.
    for _ in 1..BUSY_ROUNDS_PER_CHECK {
        assert_eq!(round(&mut t, &mut wait, true), Next::Again);
        assert_eq!(round(&mut t, &mut wait, false), Next::Rest(Rest::Spin), "work begins the rests anew");
    }
    assert_eq!(round(&mut t, &mut wait, true), Next::CheckTime);
    // Another wait begins to count.
    for _ in 1..BUSY_ROUNDS_PER_CHECK {
        assert_eq!(round(&mut t, &mut wait, true), Next::Again);
    }
    let mut wait = t.driver.begin_wait();
    assert_eq!(round(&mut t, &mut wait, true), Next::Again);
    assert_eq!((BUSY_ROUNDS_PER_CHECK, SLEEP_MAX_NS), (64, 50_000_000));
}

/// Rounds without work between those with work count, too: a look is due before all are four times as many as busy rounds may be.
fn work_that_comes_slowly_is_looked_at<F: TestFabric>() {
    for pause in [0, 7, 8, 40, SPIN_ROUNDS - 2] {
        let mut t = One::<F>::new();
        let mut wait = t.driver.begin_wait();
        for _ in 0..3 {
            let mut rounds = 0;
            loop {
                for _ in 0..pause {
                    assert_eq!(round(&mut t, &mut wait, false), Next::Rest(Rest::Spin));
                }
                rounds += pause + 1;
                if round(&mut t, &mut wait, true) == Next::CheckTime {
                    break;
                }
            }
            assert!(rounds <= 4 * BUSY_ROUNDS_PER_CHECK, "{rounds} rounds, with pauses of {pause}");
        }
    }
}

/// A part that an attempt has moved, or that progress has, is work.
fn a_moved_part_is_work<F: TestFabric>() {
    let mut t = One::<F>::new();
    let mut wait = t.driver.begin_wait();
    for _ in 0..SPIN_ROUNDS - 1 {
        assert_eq!(round(&mut t, &mut wait, false), Next::Rest(Rest::Spin));
    }
    assert_eq!(round(&mut t, &mut wait, true), Next::Again);
    assert_eq!(round(&mut t, &mut wait, false), Next::Rest(Rest::Spin));
    let id = t.driver.endpoint_mut().start(1, Length::Stream).unwrap();
    assert_eq!(t.driver.endpoint_mut().push(&mut t.fabric, id, &[&[1; 50]]), Ok(50));
    t.settle();
    flood(&mut t, 1);
    assert_eq!(round(&mut t, &mut wait, false), Next::Again);
    assert_eq!(round(&mut t, &mut wait, false), Next::Rest(Rest::Spin));
    flood(&mut t, 2);
    assert!(t.driver.progress(&mut t.fabric));
    assert!(!t.driver.progress(&mut t.fabric));
}

/// A peer that sends one control message a round for ever is seen for what it is: the time is looked at.
fn a_flood_is_looked_at<F: TestFabric>() {
    let mut t = One::<F>::new();
    t.driver.try_send(&mut t.fabric, 1, &[b"tiny"]).unwrap();
    t.settle();
    let mut wait = t.driver.begin_wait();
    let mut looks = vec![];
    for nth in 1..=200 {
        flood(&mut t, nth);
        match round(&mut t, &mut wait, false) {
            Next::Again => {}
            next => looks.push((nth, next)),
        }
    }
    assert_eq!(looks, [(64, Next::CheckTime), (128, Next::CheckTime), (192, Next::CheckTime)]);
    assert_eq!(t.driver.check_time(&mut t.fabric, &mut wait, after(9), after(9)), Err(WaitFailed::Deadline));
}

fn a_deadline_is_met_exactly<F: TestFabric>() {
    let mut t = One::<F>::new();
    let mut wait = t.driver.begin_wait();
    assert_eq!(t.driver.check_time(&mut t.fabric, &mut wait, after(999), after(1000)), Ok(1));
    assert_eq!(
        t.driver.check_time(&mut t.fabric, &mut wait, after(1000), after(1000)),
        Err(WaitFailed::Deadline)
    );
    assert_eq!(
        t.driver.check_time(&mut t.fabric, &mut wait, after(1001), after(1000)),
        Err(WaitFailed::Deadline)
    );
    // The operation can be driven on.
    t.slot(0, wire::inline(7, b"late", 1));
    assert_eq!(t.receive(&mut RecvOperation::new(), &mut [0; 9]), Drive::Done(Ok(taken(7, 4))));
    assert_eq!(
        WaitFailed::Deadline.to_string(),
        "the deadline passed; set a later one, or find what the peer waits for"
    );
}

/// Looks after each nap, from a look at `begin` on, for so long.
fn nap<F: TestFabric>(t: &mut One<F>, wait: &mut Wait, begin: u64, ns: u64) {
    for at in (SLEEP_MAX_NS..ns).step_by(usize::try_from(SLEEP_MAX_NS).unwrap()) {
        assert!(t.driver.check_time(&mut t.fabric, wait, after(begin + at), NEVER).is_ok(), "{at}");
    }
}

/// An end that was stopped has not listened meanwhile, and its peer may have been stopped with it.
fn an_end_that_was_stopped_has_napped_once<F: TestFabric>() {
    let mut t = One::<F>::new();
    let mut wait = t.driver.begin_wait();
    let naps = IDLE_NS / SLEEP_MAX_NS;
    for stop in 0..naps {
        let looked = t.driver.check_time(&mut t.fabric, &mut wait, after(stop * 10 * IDLE_NS), NEVER);
        assert_eq!(looked, Ok(SLEEP_MAX_NS), "{stop}");
    }
    let looked = t.driver.check_time(&mut t.fabric, &mut wait, after(naps * 10 * IDLE_NS), NEVER);
    assert_eq!(
        looked,
        Err(WaitFailed::Silent(IDLE_NS)),
        "a peer that says nothing in between is silent all the same"
    );
}

fn silence_counts_from_the_first_look<F: TestFabric>() {
    let mut t = One::<F>::new();
    let silent = Err(WaitFailed::Silent(IDLE_NS));
    // The application was busy for a minute.
    let begin = 60_000_000_000;
    let mut wait = t.driver.begin_wait();
    assert_eq!(t.driver.check_time(&mut t.fabric, &mut wait, after(begin), NEVER), Ok(SLEEP_MAX_NS));
    nap(&mut t, &mut wait, begin, IDLE_NS - 1);
    for (at, expected) in [(IDLE_NS - 1, Ok(1)), (IDLE_NS, silent), (IDLE_NS + 5, silent)] {
        let looked = t.driver.check_time(&mut t.fabric, &mut wait, after(begin + at), NEVER);
        assert_eq!(looked, expected, "{at}");
    }
    // Silence is told before a deadline that passed, too.
    let looked = t.driver.check_time(&mut t.fabric, &mut wait, after(begin + IDLE_NS), after(begin));
    assert_eq!(looked, silent);
    // The next wait gives the peer its time again.
    let mut wait = t.driver.begin_wait();
    assert_eq!(
        t.driver.check_time(&mut t.fabric, &mut wait, after(begin + 2 * IDLE_NS), NEVER),
        Ok(SLEEP_MAX_NS)
    );
    // A new idle timeout applies to the wait that goes on.
    t.driver.set_idle_timeout(u64::MAX);
    nap(&mut t, &mut wait, begin + 2 * IDLE_NS, IDLE_NS + SLEEP_MAX_NS);
    assert_eq!(
        t.driver.check_time(&mut t.fabric, &mut wait, after(begin + 3 * IDLE_NS), NEVER),
        Ok(SLEEP_MAX_NS)
    );
    t.driver.set_idle_timeout(IDLE_NS);
    assert_eq!(t.driver.check_time(&mut t.fabric, &mut wait, after(begin + 3 * IDLE_NS), NEVER), silent);
}

fn what_is_heard_ends_the_silence<F: TestFabric>() {
    let hear: [fn(&mut One<F>); 4] = [
        |t| t.ack(0, BEFORE_FIRST, 1),
        |t| t.control(wire::cts(1, 1)),
        |t| {
            t.slot(0, message(10, 1, 1));
            let _ = t.receive(&mut RecvOperation::new(), &mut [0; 10]);
        },
        |t| t.ack(1, BEFORE_FIRST, 0),
    ];
    for hear in hear {
        let mut t = One::<F>::new();
        t.driver.try_send(&mut t.fabric, 1, &[b"tiny"]).unwrap();
        t.settle();
        let mut wait = t.driver.begin_wait();
        let look =
            |t: &mut One<F>, wait: &mut _, at| t.driver.check_time(&mut t.fabric, wait, after(at), NEVER);
        assert_eq!(look(&mut t, &mut wait, 0), Ok(SLEEP_MAX_NS));
        nap(&mut t, &mut wait, 0, IDLE_NS - 10);
        assert_eq!(look(&mut t, &mut wait, IDLE_NS - 10), Ok(10));
        hear(&mut t);
        t.driver.progress(&mut t.fabric);
        assert_eq!(look(&mut t, &mut wait, IDLE_NS - 5), Ok(SLEEP_MAX_NS));
        nap(&mut t, &mut wait, IDLE_NS - 5, IDLE_NS - 1);
        assert_eq!(look(&mut t, &mut wait, 2 * IDLE_NS - 6), Ok(1));
        assert_eq!(look(&mut t, &mut wait, 2 * IDLE_NS - 5), Err(WaitFailed::Silent(IDLE_NS)));
    }
}

fn a_nap_is_as_long_as_the_nearest_end<F: TestFabric>() {
    let mut t = One::<F>::new();
    let mut wait = t.driver.begin_wait();
    let mut last = 0;
    for (now, deadline, nap_ns) in [
        (0, SLEEP_MAX_NS * 2, SLEEP_MAX_NS),
        (0, SLEEP_MAX_NS + 1, SLEEP_MAX_NS),
        (0, SLEEP_MAX_NS - 1, SLEEP_MAX_NS - 1),
        (0, 7, 7),
        (IDLE_NS - SLEEP_MAX_NS - 1, IDLE_NS * 2, SLEEP_MAX_NS),
        (IDLE_NS - SLEEP_MAX_NS + 1, IDLE_NS * 2, SLEEP_MAX_NS - 1),
        (IDLE_NS - 100, IDLE_NS - 30, 70),
        (IDLE_NS - 100, IDLE_NS, 100),
        (IDLE_NS - 100, IDLE_NS + 30, 100),
    ] {
        nap(&mut t, &mut wait, last, now - last);
        last = now;
        let looked = t.driver.check_time(&mut t.fabric, &mut wait, after(now), after(deadline));
        assert_eq!(looked, Ok(nap_ns), "{now} {deadline}");
    }
}

/// A peer that took all blocks back and says nothing else is seen by a look.
fn a_look_takes_acknowledgements<F: TestFabric>() {
    let mut t = One::<F>::new();
    t.driver.try_send(&mut t.fabric, 1, &[b"tiny"]).unwrap();
    t.settle();
    assert_eq!(t.driver.endpoint().activity(), 0);
    t.ack(1, BEFORE_FIRST, 0);
    t.settle();
    assert_eq!(t.driver.endpoint().activity(), 0, "nothing waits for it");
    let mut wait = t.driver.begin_wait();
    assert_eq!(t.driver.check_time(&mut t.fabric, &mut wait, after(0), NEVER), Ok(SLEEP_MAX_NS));
    assert_eq!(t.driver.endpoint().activity(), 1);
    assert!(t.driver.endpoint_mut().poll_delivered());
    // One that lies is found out by it.
    t.ack(9, BEFORE_FIRST, 0);
    let _ = t.driver.check_time(&mut t.fabric, &mut wait, after(0), NEVER);
    let lied = Closed::Failed(Failure::Protocol(ProtocolError::AckBeyondSent));
    assert_eq!(t.driver.ended(&t.fabric), Some(Ended::Closed(lied)));
}

/// An acknowledgement that came before this end asked for a wake-up wakes nobody.
fn the_last_look_before_a_sleep_finds_room<F: TestFabric>() {
    let mut t = One::<F>::new();
    let mut sent = 0;
    while t.driver.try_send(&mut t.fabric, 1, &[b"tiny"]).is_ok() {
        sent += 1;
        t.settle();
    }
    let wanted = Interest { readable: false, writable: true };
    assert!(t.driver.prepare_sleep(&mut t.fabric) && !t.driver.has_work(&mut t.fabric, wanted));
    assert!(t.driver.prepare_sleep(&mut t.fabric));
    t.ack(sent, BEFORE_FIRST, 0);
    assert!(t.driver.has_work(&mut t.fabric, wanted), "{sent} messages are acknowledged");
}

fn a_peer_is_looked_at_once_a_period<F: TestFabric>() {
    let mut t = One::<F>::new();
    let due = |t: &mut One<F>, at| t.driver.is_liveness_check_due(after(at));
    assert!(!due(&mut t, 0) && !due(&mut t, LIVENESS_CHECK_NS - 1));
    assert!(due(&mut t, LIVENESS_CHECK_NS));
    assert!(!due(&mut t, LIVENESS_CHECK_NS) && !due(&mut t, 2 * LIVENESS_CHECK_NS - 1));
    assert!(due(&mut t, 2 * LIVENESS_CHECK_NS));
    // A sleep has watched it.
    t.driver.note_peer_alive(after(3 * LIVENESS_CHECK_NS));
    assert!(!due(&mut t, 4 * LIVENESS_CHECK_NS - 1) && due(&mut t, 4 * LIVENESS_CHECK_NS));
    assert!(!due(&mut t, 0), "time does not go back");
    // One that is gone is not looked at any more.
    assert!(!t.driver.is_peer_gone());
    t.driver.note_peer_gone();
    assert!(t.driver.is_peer_gone() && !due(&mut t, 100 * LIVENESS_CHECK_NS));
    assert_eq!(LIVENESS_CHECK_NS, 2_000_000);
}

fn a_wait_ends_as_the_connection_did<F: TestFabric>() {
    let mut t = One::<F>::new();
    t.control(wire::close(BEFORE_FIRST, 0, 1));
    let mut wait = t.driver.begin_wait();
    assert_eq!(round(&mut t, &mut wait, false), Next::Again, "that was work");
    let ended = Ended::Closed(Closed::ByPeer(Reason::DONE));
    for _ in 0..3 {
        assert_eq!(round(&mut t, &mut wait, false), Next::Ended(ended));
        assert_eq!(round(&mut t, &mut wait, true), Next::Again);
    }
    assert_eq!(t.driver.ended(&t.fabric), Some(ended));

    let mut t = One::<F>::new();
    assert_eq!(t.driver.ended(&t.fabric), None);
    t.driver.close(&mut t.fabric, Reason(8));
    t.settle();
    let mut wait = t.driver.begin_wait();
    assert_eq!(round(&mut t, &mut wait, false), Next::Ended(Ended::Closed(Closed::Here(Reason(8)))));
}

fn a_long_deadline_is_no_problem<F: TestFabric>() {
    let mut t = One::<F>::new();
    for now in [Nanos(0), after(0), Nanos(u64::MAX - 1)] {
        let mut wait = t.driver.begin_wait();
        let nap = SLEEP_MAX_NS.min(u64::MAX - now.0);
        assert_eq!(t.driver.check_time(&mut t.fabric, &mut wait, now, NEVER), Ok(nap));
    }
    assert_eq!(t.driver.next_tick(), NEVER);
}

fn waits_of_two_halves_are_apart<F: TestFabric>() {
    let mut t = One::<F>::new();
    let (mut one, mut other) = (t.driver.begin_wait(), t.driver.begin_wait());
    for _ in 1..SPIN_ROUNDS {
        assert_eq!(round(&mut t, &mut one, false), Next::Rest(Rest::Spin));
        assert!(matches!(round(&mut t, &mut other, true), Next::Again | Next::CheckTime));
    }
    assert_ne!(round(&mut t, &mut one, false), Next::Rest(Rest::Spin));
    assert_eq!(round(&mut t, &mut other, false), Next::Rest(Rest::Spin));
    // Each counts the silence from its own first look.
    let half = IDLE_NS / 2;
    let silent = Err(WaitFailed::Silent(IDLE_NS));
    for at in (0..=IDLE_NS + half).step_by(usize::try_from(SLEEP_MAX_NS).unwrap()) {
        let mut look = |wait| t.driver.check_time(&mut t.fabric, wait, after(at), NEVER);
        assert_eq!(look(&mut one), if at < IDLE_NS { Ok(SLEEP_MAX_NS) } else { silent }, "{at}");
        if at >= half {
            assert_eq!(look(&mut other), if at < IDLE_NS + half { Ok(SLEEP_MAX_NS) } else { silent }, "{at}");
        }
    }
}
