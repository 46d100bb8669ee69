//! Turns of two halves that run on one core.

use super::played::over;
use crate::Options;
use crate::blocking::access::DriverAccess;
use crate::blocking::half::{NO_CORE, TURN_BYTES};

/// The core of this thread.
fn core() -> i32 {
    // SAFETY: it takes nothing, and gives a number or -1.
    unsafe { libc::sched_getcpu() }
}

#[test]
fn a_turn_ends_with_so_many_bytes() {
    let [mut half, mut other] = over(Options::default(), |_, _| {}).split();
    let (half, other) = (half.access(), other.access());
    let mut moved = |bytes| {
        half.count_moved(bytes);
        half.moved()
    };
    assert_eq!([moved(1), moved(TURN_BYTES - 3), moved(1)], [1, TURN_BYTES - 2, TURN_BYTES - 1]);
    assert_eq!([moved(1), moved(5), moved(TURN_BYTES), moved(7)], [0, 5, 0, 7]);
    assert_eq!(other.moved(), 0);
}

#[test]
fn halves_share_a_core_where_both_waited_last() {
    let [mut half, mut other] = over(Options::default(), |_, _| {}).split();
    let (half, other) = (half.access(), other.access());
    assert!(!half.shares_core(), "the other has not waited yet");
    // The scheduler may move this thread between two looks.
    let shares = |other_is_on: fn(i32) -> i32| {
        (0..1000).find_map(|_| {
            let before = core();
            other.waited_on(other_is_on(before));
            let shares = half.shares_core();
            (core() == before).then_some(shares)
        })
    };
    assert_eq!(shares(|core| core), Some(true));
    assert_eq!(shares(|core| core + 1), Some(false));
    assert_eq!(shares(|_| NO_CORE), Some(false));
    // Each notes its own.
    let noted = (0..1000).find(|_| {
        let before = core();
        half.shares_core();
        other.shares_core() && core() == before
    });
    assert!(noted.is_some());
}
