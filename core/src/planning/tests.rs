//! A planned message from its plan to its observation.

use super::*;
use crate::plan::Machine;

const BYTES: u64 = 1 << 20;
const FIRST: MessageKey = (1, 0);
const SECOND: MessageKey = (2, 1);

fn planning() -> Planning {
    Planning::new(Planner::new(Machine::NIC_100G.profile, Terms::default()))
}

/// Plans and begins a message of this memory at `begin_ns`.
fn begin(planning: &mut Planning, key: MessageKey, memory: Memory, begin_ns: u64) -> Way {
    let is_idle = planning.pending.is_empty();
    let way = planning.plan(BYTES, memory, Nanos(begin_ns), is_idle).way;
    planning.begin(key, BYTES);
    way
}

/// Returns the observations of a way.
fn observations(planning: &Planning, memory: Memory, way: Way) -> u8 {
    let explanation = planning.explain(BYTES, memory);
    explanation.ways().find(|known| known.way == way).map_or(0, |known| known.observations)
}

fn look(planning: &mut Planning, now_ns: u64, open: Option<MessageKey>, acked: u64) {
    let now = Nanos(now_ns);
    let looked = planning.begin_look(now);
    while planning.next_over([looked, now], |key| open == Some(key), |_, blocks| acked >= blocks).is_some() {}
}

#[test]
fn a_message_is_observed_once_acknowledged() {
    let mut planning = planning();
    let way = begin(&mut planning, FIRST, Memory::Unnamed, 1000);
    look(&mut planning, 2000, Some(FIRST), 7);
    assert!(planning.is_pending() && planning.open() == Some(FIRST));
    planning.end(8, Nanos(90_000));
    assert_eq!(planning.open(), None);
    look(&mut planning, 100_000, None, 7);
    assert!(planning.is_pending() && planning.last().is_none());
    look(&mut planning, 101_000, None, 8);
    let last = planning.last().unwrap();
    assert_eq!((last.way, last.bytes, last.took_ns, last.is_declined), (way, BYTES, 99_500, false));
    assert_eq!(observations(&planning, Memory::Unnamed, way), 1);
    assert!(!planning.is_pending());
}

#[test]
fn an_end_that_was_seen_late_counts_for_nothing() {
    let mut planning = planning();
    let way = begin(&mut planning, FIRST, Memory::Unnamed, 0);
    planning.end(8, Nanos(80_000));
    look(&mut planning, 95_000, None, 8);
    assert!(!planning.is_pending() && planning.last().is_none());
    assert_eq!(observations(&planning, Memory::Unnamed, way), 0);
    // An eighth of its time is not late.
    let way = begin(&mut planning, SECOND, Memory::Unnamed, 100_000);
    planning.end(9, Nanos(170_000));
    look(&mut planning, 180_000, None, 9);
    assert_eq!(observations(&planning, Memory::Unnamed, way), 1);
}

/// Messages of two microseconds, of which a wait looks at every half: the slow ones count, and those that are not slow.
#[test]
fn short_messages_count_whether_they_are_slow_or_not() {
    let mut planning = planning();
    let mut begin_ns = 10_000;
    for (number, took_ns, counted) in [(1, 1900, 1), (2, 9000, 2), (3, 1500, 3)] {
        let way = begin(&mut planning, (number, 0), Memory::Unnamed, begin_ns);
        planning.end(number, Nanos(begin_ns + 100));
        (begin_ns..begin_ns + took_ns)
            .step_by(500)
            .for_each(|now_ns| look(&mut planning, now_ns, None, number - 1));
        let seen_ns = (begin_ns + took_ns).next_multiple_of(500);
        look(&mut planning, seen_ns, None, number);
        assert_eq!(observations(&planning, Memory::Unnamed, way), counted, "{took_ns}");
        let error_ns = planning.last().unwrap().took_ns.abs_diff(took_ns);
        assert!(error_ns <= 250, "{took_ns} {error_ns}");
        begin_ns = seen_ns + 20_000;
    }
    // Nothing looked for longer than a round of a wait.
    let way = begin(&mut planning, (4, 0), Memory::Unnamed, begin_ns);
    planning.end(4, Nanos(begin_ns + 100));
    look(&mut planning, begin_ns + 1500, None, 4);
    assert_eq!(observations(&planning, Memory::Unnamed, way), 3);
}

#[test]
fn a_message_is_timed_from_the_end_of_the_one_before() {
    let mut planning = planning();
    begin(&mut planning, FIRST, Memory::Unnamed, 0);
    planning.end(8, Nanos(10_000));
    begin(&mut planning, SECOND, Memory::Unnamed, 10_000);
    planning.end(16, Nanos(50_000));
    look(&mut planning, 60_000, None, 8);
    look(&mut planning, 88_000, None, 15);
    look(&mut planning, 90_000, None, 16);
    assert_eq!(planning.last().unwrap().took_ns, 29_000);
}

#[test]
fn a_message_that_was_cancelled_is_forgotten() {
    let mut planning = planning();
    begin(&mut planning, FIRST, Memory::Unnamed, 0);
    look(&mut planning, 50_000, None, 100);
    assert!(!planning.is_pending() && planning.last().is_none());
}

#[test]
fn a_declined_way_is_left_out() {
    let mut planning = planning();
    let way = begin(&mut planning, FIRST, Memory::Kept, 0);
    assert_eq!(way, Way::RegisterCached);
    planning.decline(FIRST);
    planning.end(8, Nanos(90_000));
    look(&mut planning, 91_000, None, 8);
    assert!(planning.last().unwrap().is_declined);
    let explanation = planning.explain(BYTES, Memory::Kept);
    assert!(explanation.ways().any(|known| known.way == way && known.left_out > 0), "{explanation}");
}

#[test]
fn a_message_that_finds_no_room_is_planned_once() {
    let mut planning = planning();
    let first = planning.plan(BYTES, Memory::Unnamed, Nanos(0), true);
    assert_eq!(planning.plan(BYTES, Memory::Unnamed, Nanos(1000), true), first);
    // Another message begins instead.
    planning.begin(FIRST, BYTES / 2);
    assert!(!planning.is_pending() && planning.held.is_none());
}

/// One that is given up without a word, and much later another one like it.
#[test]
fn a_message_is_timed_from_when_it_finds_room() {
    let mut planning = planning();
    let plan = planning.plan(BYTES, Memory::Unnamed, Nanos(0), false);
    assert_eq!(planning.plan(BYTES, Memory::Unnamed, Nanos(1_000_000), true), plan);
    planning.begin(FIRST, BYTES);
    planning.end(8, Nanos(1_090_000));
    look(&mut planning, 1_090_000, None, 7);
    look(&mut planning, 1_091_000, None, 8);
    assert_eq!(planning.last().map(|last| last.took_ns), Some(90_500));
}

#[test]
fn more_messages_than_have_a_place_are_not_observed() {
    let mut planning = planning();
    for number in 0..2 * PENDING_MAX as u64 {
        begin(&mut planning, (number, 0), Memory::Unnamed, number);
        planning.end(8 + number, Nanos(10 + number));
    }
    look(&mut planning, 1000, None, 7);
    assert_eq!(planning.pending.len(), PENDING_MAX);
    look(&mut planning, 1001, None, 100);
    assert!(!planning.is_pending());
}

/// An application that does other work while a message is on its way, and then sends another one.
#[test]
fn a_newer_message_does_not_hide_a_late_look() {
    let mut planning = planning();
    let way = begin(&mut planning, FIRST, Memory::Unnamed, 0);
    planning.end(8, Nanos(10));
    begin(&mut planning, SECOND, Memory::Unnamed, 1_000_000);
    planning.end(16, Nanos(1_000_010));
    look(&mut planning, 1_000_020, None, 8);
    assert!(planning.last().is_none());
    assert_eq!(observations(&planning, Memory::Unnamed, way), 0);
}

#[test]
fn a_message_behind_others_is_not_timed() {
    let mut planning = planning();
    let behind = |planning: &mut Planning, key: MessageKey, is_idle| {
        let begin_ns = key.0 * 1_000_000;
        let way = planning.plan(BYTES, Memory::Unnamed, Nanos(begin_ns), is_idle).way;
        planning.begin(key, BYTES);
        planning.end(8, Nanos(begin_ns + 90_000));
        look(planning, begin_ns + 91_000, None, 8);
        observations(planning, Memory::Unnamed, way)
    };
    assert_eq!(behind(&mut planning, (7, 0), false), 0);
    assert_eq!(behind(&mut planning, (9, 2), false), 0, "another one was between");
    assert!(planning.last().is_none());
    assert_eq!(behind(&mut planning, (11, 4), true), 1);
}

#[test]
fn a_message_that_was_rejected_or_cancelled_counts_for_nothing() {
    let mut planning = planning();
    let way = begin(&mut planning, FIRST, Memory::Unnamed, 0);
    planning.end(8, Nanos(90_000));
    planning.forget(|(number, _)| number == FIRST.0);
    look(&mut planning, 91_000, None, 8);
    assert_eq!(observations(&planning, Memory::Unnamed, way), 0);
    // One that has sent nothing leaves its number to the next one.
    begin(&mut planning, SECOND, Memory::Unnamed, 100_000);
    planning.forget(|key| key == SECOND);
    assert!(planning.open().is_none() && !planning.is_pending());
}

#[test]
fn a_landing_buffer_that_has_grown_has_larger_chunks() {
    let mut planning = planning();
    planning.fit_landing(2816);
    let small = planning.plan(BYTES, Memory::Unnamed, Nanos(0), true).chunk_bytes;
    planning.forget_held();
    planning.fit_landing(512 << 10);
    let large = planning.plan(BYTES, Memory::Unnamed, Nanos(0), true).chunk_bytes;
    assert!(small <= 938 && large > 64 << 10, "{small} {large}");
}
