//! Two halves that wait, a thread each: what both learn of a peer that dies, and what their sleep costs.

use core::time::Duration;
use std::thread;

use super::doomed::{DEADLINE, cpu_time, pair};
use crate::{ErrorKind, RecvHalf, SendHalf};

const WAIT: Duration = Duration::from_secs(1);
/// Ten times what a wait of a second costs, and a fourth of what spinning does.
const CPU_TIME_MAX: Duration = Duration::from_millis(250);
/// For the other threads to be where they wait.
const A_WHILE: Duration = Duration::from_millis(200);
/// More than there is room for, while nobody takes anything.
const LONG: usize = 9 << 20;

/// How both waits of an end finish, for room and for a message, and what they cost.
fn ends_of_both(
    (mut sends, mut receives): (SendHalf, RecvHalf),
    deadline: Duration,
    meanwhile: impl FnOnce(),
) -> [(ErrorKind, Duration); 2] {
    let sending = thread::spawn(move || {
        let message = vec![7; LONG];
        let before = cpu_time();
        let error = sends.send(1, &[&message], deadline).unwrap_err();
        let cost = cpu_time() - before;
        // Dropped only once the other has ended: the connection is there until then.
        (error.kind(), cost, Some(sends), None)
    });
    let receiving = thread::spawn(move || {
        let before = cpu_time();
        let error = receives.recv_into(&mut [&mut [0; 8]], deadline).unwrap_err();
        (error.kind(), cpu_time() - before, None::<SendHalf>, Some(receives))
    });
    meanwhile();
    [sending, receiving].map(|half| half.join().unwrap()).map(|(kind, cost, ..)| (kind, cost))
}

#[test]
fn two_halves_that_sleep_cost_next_to_nothing() {
    let (honest, _doomed) = pair();
    for (kind, cost) in ends_of_both(honest.split(), WAIT, || {}) {
        assert_eq!(kind, ErrorKind::Timeout);
        assert!(cost < CPU_TIME_MAX, "{cost:?}");
    }
}

/// A byte that nobody waits for is taken out by the last of both, and not looked at for ever.
#[test]
fn nor_where_they_are_woken_for_nothing() {
    let (honest, doomed) = pair();
    let ends = ends_of_both(honest.split(), WAIT, || {
        for _ in 0..20 {
            thread::sleep(WAIT / 40);
            doomed.wake();
        }
    });
    for (kind, cost) in ends {
        assert_eq!(kind, ErrorKind::Timeout);
        assert!(cost < CPU_TIME_MAX, "{cost:?}");
    }
}

#[test]
fn both_halves_learn_that_the_peer_is_dead() {
    let (honest, doomed) = pair();
    let ends = ends_of_both(honest.split(), DEADLINE, || {
        thread::sleep(A_WHILE);
        doomed.die();
    });
    for (kind, cost) in ends {
        assert_eq!(kind, ErrorKind::PeerLost);
        assert!(cost < CPU_TIME_MAX, "{cost:?}");
    }
}
