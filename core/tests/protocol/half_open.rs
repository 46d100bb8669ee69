//! Handshakes side by side: who is let in, and who makes room.

use proptest::prelude::*;
use superpipe_core::Nanos;
use superpipe_core::driver::{EVICTION_SILENCE_NS, HalfOpenTable};

const MS: u64 = 1_000_000;

fn at(ms: u64) -> Nanos {
    Nanos(ms * MS)
}

/// A full table of two: "a", heard of at 0, and "b", at 10 ms.
fn full() -> HalfOpenTable<&'static str, 2> {
    let mut table = HalfOpenTable::new();
    assert_eq!(table.admit("a", at(0)), Ok(None));
    assert_eq!((table.poll_timeout(), table.has_room(at(0))), (None, true));
    assert_eq!(table.admit("b", at(10)), Ok(None));
    table
}

#[test]
fn a_full_table_has_room_once_one_was_silent_for_long_enough() {
    let mut table = full();
    assert_eq!(table.poll_timeout(), Some(at(50)));
    let early = Nanos(at(50).0 - 1);
    assert!(!table.has_room(early));
    assert_eq!(table.admit("c", early), Err("c"));
    assert_eq!(table.len(), 2);
    assert!(table.has_room(at(50)));
    assert_eq!(table.admit("c", at(50)), Ok(Some("a")));
    assert_eq!(table.poll_timeout(), Some(at(60)), "b is next");
    assert_eq!(table.admit("d", at(60)), Ok(Some("b")));
    assert_eq!(table.poll_timeout(), Some(at(100)), "then c");
}

#[test]
fn at_one_time_the_first_active_is_evicted() {
    let mut table = HalfOpenTable::<_, 3>::new();
    for handshake in ["a", "b", "c"] {
        assert_eq!(table.admit(handshake, at(0)), Ok(None));
    }
    // the last moves to its index
    assert_eq!(table.release(0), Some("a"));
    assert_eq!(table.admit("d", at(0)), Ok(None));
    table.note_activity(1, at(0));
    assert_eq!(table.admit("e", at(50)), Ok(Some("c")), "b was active after it");
    assert_eq!(table.admit("f", at(50)), Ok(Some("d")));
    assert_eq!(table.admit("g", at(50)), Ok(Some("b")));
}

#[test]
fn an_active_handshake_keeps_its_place() {
    let mut table = full();
    table.note_activity(0, at(20));
    assert_eq!(table.poll_timeout(), Some(at(60)));
    assert_eq!(table.admit("c", at(60)), Ok(Some("b")));
    // Older activity changes nothing.
    table.note_activity(0, at(5));
    assert_eq!(table.poll_timeout(), Some(at(70)));
    table.note_activity(7, at(100));
    assert_eq!(table.poll_timeout(), Some(at(70)), "nobody is there");
}

#[test]
fn one_that_has_work_to_do_is_silent_only_after_it() {
    let mut table = full();
    table.note_activity(0, at(100));
    assert_eq!(table.poll_timeout(), Some(at(60)), "b");
    assert_eq!(table.admit("c", at(110)), Ok(Some("b")));
    assert_eq!(table.poll_timeout(), Some(at(150)), "a's work takes until 100 ms");
}

#[test]
fn the_longest_silence_that_counts_is_found_once_due() {
    let mut table = full();
    let early = Nanos(at(50).0 - 1);
    assert_eq!((table.silent(early, |_| true), table.silent(at(50), |_| true)), (None, Some(0)));
    assert_eq!(
        (table.silent(at(59), |it| *it == "b"), table.silent(at(60), |it| *it == "b")),
        (None, Some(1))
    );
    assert_eq!(table.silent(at(1000), |_| false), None);
    table.release(0);
    assert_eq!(table.silent(at(60), |_| true), Some(0), "also where there is room");
}

#[test]
fn one_that_is_through_leaves_its_place() {
    let mut table = full();
    assert_eq!(table.release(0), Some("a"));
    assert_eq!((table.len(), table.poll_timeout()), (1, None));
    assert_eq!(table.get_mut(0), Some(&mut "b"));
    assert_eq!(table.admit("c", at(11)), Ok(None));
    assert_eq!(table.iter().copied().collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!((table.release(2), table.release(1), table.release(0)), (None, Some("c"), Some("b")));
    assert!(table.is_empty() && table.get_mut(0).is_none());
}

#[test]
fn a_table_of_no_places_has_no_room() {
    let mut table = HalfOpenTable::<u8, 0>::new();
    assert_eq!(table.admit(1, at(0)), Err(1));
    assert_eq!((table.poll_timeout(), table.has_room(at(1000))), (None, false));
}

#[derive(Clone, Debug)]
enum Op {
    Admit,
    Heard(usize),
    Release(usize),
    Pass(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => Just(Op::Admit),
        2 => (0..5usize).prop_map(Op::Heard),
        1 => (0..5usize).prop_map(Op::Release),
        3 => prop_oneof![0..=3u64, 45..=55u64, 0..=200u64].prop_map(Op::Pass),
    ]
}

const N: usize = 4;

proptest! {
    /// Against a plain list of names and times.
    #[test]
    fn only_the_longest_silence_is_evicted_and_only_once_due(
        ops in prop::collection::vec(op(), 1..200),
    ) {
        let mut table = HalfOpenTable::<u32, N>::new();
        let mut plain: Vec<(u32, u64)> = Vec::new();
        let (mut now, mut name) = (0, 0);
        for op in ops {
            match op {
                Op::Pass(ms) => now += ms * MS,
                Op::Heard(index) => {
                    table.note_activity(index, Nanos(now));
                    let of = table.get_mut(index).copied();
                    plain.iter_mut().filter(|(its, _)| Some(*its) == of).for_each(|(_, heard)| *heard = now);
                }
                Op::Release(index) => {
                    let released = table.release(index);
                    prop_assert_eq!(released.is_some(), index < plain.len());
                    plain.retain(|(its, _)| Some(*its) != released);
                }
                Op::Admit => {
                    name += 1;
                    let oldest = plain.iter().map(|(_, heard)| *heard).min();
                    let had_room = table.has_room(Nanos(now));
                    match table.admit(name, Nanos(now)) {
                        Ok(None) => prop_assert!(had_room && plain.len() < N),
                        Ok(Some(evicted)) => {
                            prop_assert!(had_room);
                            prop_assert_eq!(plain.len(), N);
                            let at = plain.iter().position(|(its, _)| *its == evicted);
                            let (_, heard) = plain.remove(at.unwrap());
                            prop_assert!(now - heard >= EVICTION_SILENCE_NS);
                            prop_assert_eq!(Some(heard), oldest);
                        }
                        Err(refused) => {
                            prop_assert!(!had_room);
                            prop_assert_eq!((refused, plain.len()), (name, N));
                            prop_assert!(now - oldest.unwrap() < EVICTION_SILENCE_NS);
                            prop_assert_eq!(table.poll_timeout(), oldest.map(|at| Nanos(at + EVICTION_SILENCE_NS)));
                            continue;
                        }
                    }
                    plain.push((name, now));
                }
            }
            prop_assert_eq!(table.len(), plain.len());
            let mut names: Vec<u32> = table.iter().copied().collect();
            names.sort_unstable();
            let mut expected: Vec<u32> = plain.iter().map(|(its, _)| *its).collect();
            expected.sort_unstable();
            prop_assert_eq!(names, expected);
        }
    }
}
