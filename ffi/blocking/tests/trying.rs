//! Loops of tries: no system call but those of progress, and the peer hears of this end in any of them.

use core::time::Duration;
use std::time::Instant;

use super::played::{liveness_looks, over, sleeps};
use crate::blocking::{Blocking, Exclusive};
use crate::outcome::{TryRecv, TrySend};
use crate::{ErrorKind, Options};

/// Bounds a hang: keepalives come every 0.2 s.
const DEADLINE: Duration = Duration::from_secs(20);

/// Makes rounds of a loop until the peer hears a sign of life.
fn until_heard(mut round: impl FnMut(&mut Blocking<Exclusive<super::played::Played>>)) {
    let mut trying = over(Options::default(), |_, _| {});
    let (begun, heard) = (Instant::now(), trying.access().fabric.heard());
    while trying.access().fabric.heard() == heard {
        assert!(begun.elapsed() < DEADLINE, "nobody hears of this end");
        for _ in 0..1000 {
            round(&mut trying);
        }
    }
}

#[test]
fn a_loop_of_tries_shows_life_and_makes_no_system_call() {
    let looks = liveness_looks();
    until_heard(|trying| assert_eq!(trying.try_recv(&mut [&mut [0; 8]]).unwrap(), TryRecv::Nothing));
    until_heard(|trying| assert_eq!(trying.try_peek().unwrap(), None));
    assert_eq!((liveness_looks() - looks, sleeps()), (0, 0));
}

#[test]
fn a_loop_of_sends_that_find_no_room_shows_life() {
    until_heard(|trying| {
        let tried = trying.try_send(1, &[&[7; 4000]]).unwrap();
        assert!(matches!(tried, TrySend::Sent | TrySend::Full), "{tried:?}");
    });
}

#[test]
fn a_loop_of_progress_shows_life_and_looks_for_the_peer() {
    let looks = liveness_looks();
    until_heard(|trying| _ = trying.progress());
    assert_ne!(liveness_looks(), looks);
}

#[test]
fn a_slow_loop_of_progress_sends_each_keepalive_that_is_due() {
    let mut slow = over(Options::default(), |_, _| {});
    let heard = slow.access().fabric.heard();
    std::thread::sleep(Duration::from_millis(250));
    slow.progress();
    assert_ne!(slow.access().fabric.heard(), heard);
}

#[test]
fn a_deadline_of_zero_is_a_try_that_looks_for_the_peer() {
    let mut polling = over(Options::default(), |_, _| {});
    std::thread::sleep(Duration::from_millis(5));
    let looks = liveness_looks();
    let error = polling.recv_into(&mut [&mut [0; 8]], Duration::ZERO).unwrap_err();
    assert_eq!((error.kind(), sleeps()), (ErrorKind::Timeout, 0));
    assert_eq!(liveness_looks() - looks, 1);
    let error = polling.send(1, &[&[7; 100_000]], Duration::ZERO).unwrap_err();
    assert_eq!((error.kind(), sleeps()), (ErrorKind::Timeout, 0), "{error}");
    polling.send(1, &[b"what has begun nothing leaves room for"], Duration::ZERO).unwrap();
}
