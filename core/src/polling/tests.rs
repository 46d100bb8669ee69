//! Rounds over ends that say what they are told to: turns, keys, sleeps, times.

mod arm_limits;
mod fake;

use std::vec;
use std::vec::Vec;

use super::*;
use crate::driver::Interest;
use fake::{Events, Fake, FakeSet, Fakes, MS, add, armed, fake, look_often, pass, round, rounds};

#[test]
fn a_call_without_room_goes_on_with_those_left_out() {
    let (mut rounds, mut set, keys) = rounds(5);
    for key in &keys {
        fake(&mut rounds, *key).has_message = true;
    }
    let mut counts = [0; 5];
    for _ in 0..10 {
        for (key, report) in round(&mut rounds, &mut set, 0, 3) {
            assert_eq!(report, Report::Readable);
            counts[keys.iter().position(|it| *it == key).unwrap()] += 1;
        }
    }
    assert_eq!(counts, [4; 5]);
}

#[test]
fn each_is_looked_at_once_per_round_while_others_leave() {
    let (mut rounds, mut set, keys) = rounds(6);
    look_often(&mut rounds, &mut set, 0);
    for key in &keys {
        fake(&mut rounds, *key).looks = 0;
    }
    for key in &keys[3..] {
        fake(&mut rounds, *key).has_message = true;
    }
    let reports = round(&mut rounds, &mut set, 2 * MS, 100);
    assert_eq!(reports.len(), 3, "{reports:?}");
    assert_eq!((rounds.active_count(), rounds.armed_count()), (3, 3));
    for key in keys {
        assert_eq!(fake(&mut rounds, key).looks, 1);
    }
}

#[test]
fn a_stale_key_names_nothing() {
    let (mut rounds, mut set, keys) = armed(2);
    let (mut member, mut gone) = rounds.remove(keys[0]).unwrap();
    member.release(&mut gone, &mut set);
    assert!(!gone.is_armed && set.watched.len() == 1);
    let new = add(&mut rounds, &mut set, 9);
    rounds.arm_all(&mut set, 0);
    assert_eq!(rounds.wake(Fakes::number(keys[0]), &mut set, MS), Woken::Stale);
    rounds.activate(keys[0], &mut set, MS);
    assert!(rounds.touch(keys[0], &mut set, MS).is_none() && rounds.get(keys[0]).is_none());
    assert!(!rounds.set_interest(keys[0], Interest { readable: true, writable: true }, &mut set, MS));
    assert!(rounds.remove(keys[0]).is_none());
    assert_eq!((rounds.active_count(), rounds.armed_count()), (0, 2));
    assert_eq!(rounds.wake(Fakes::number(new), &mut set, MS), Woken::Armed);
}

#[test]
fn a_lost_wake_up_is_found_by_one_look() {
    let (mut rounds, mut set, keys) = armed(2);
    rounds.activate(keys[0], &mut set, 0);
    fake(&mut rounds, keys[0]).misses_message = true;
    rounds.arm_all(&mut set, 0);
    assert_eq!(rounds.armed_count(), 2);
    pass(&mut rounds, &mut set, 100 * MS);
    assert_eq!((rounds.active_count(), rounds.armed_count()), (1, 1));
    assert_eq!(round(&mut rounds, &mut set, 100 * MS, 9), [(keys[0], Report::Readable)]);
}

/// poller.md: one look 100 ms after it was armed, and then only when its keepalive is due.
#[test]
fn an_idle_one_is_looked_at_with_its_keepalives() {
    let (mut rounds, mut set, keys) = armed(1);
    let looks = fake(&mut rounds, keys[0]).looks;
    pass(&mut rounds, &mut set, 29_000 * MS);
    let fake = fake(&mut rounds, keys[0]);
    // 200 ms after the first keepalive, while it was polled, and then each 7.5 s, on the grid.
    assert_eq!(fake.keepalives, [0, 200, 8000, 15_680, 23_360].map(|ms| ms * MS));
    assert_eq!(fake.looks - looks, 1 + 4);
}

#[test]
fn silence_is_reported_once_until_it_ends() {
    let (mut rounds, mut set, keys) = armed(1);
    let reports = pass(&mut rounds, &mut set, 60_000 * MS);
    assert_eq!(reports, [(keys[0], Report::Silent)]);
    fake(&mut rounds, keys[0]).activity += 1;
    assert_eq!(pass(&mut rounds, &mut set, 80_000 * MS), []);
    assert_eq!(pass(&mut rounds, &mut set, 120_000 * MS), [(keys[0], Report::Silent)]);
}

/// A program that asks for more while a connection is armed is told of it, though nothing wakes that.
#[test]
fn more_that_is_wanted_ends_the_wait_for_a_wake_up() {
    let (mut rounds, mut set, keys) = armed(1);
    for wanted in [(false, true), (false, false), (true, false), (true, true), (false, true)] {
        let interest = Interest { readable: wanted.0, writable: wanted.1 };
        let had = fake(&mut rounds, keys[0]).is_armed;
        assert!(had && rounds.set_interest(keys[0], interest, &mut set, 0));
        let is_more = wanted != (false, false);
        assert_eq!(fake(&mut rounds, keys[0]).is_armed, !is_more, "{wanted:?}");
        if wanted.1 {
            assert_eq!(round(&mut rounds, &mut set, 0, 9), [(keys[0], Report::Writable)]);
        }
        rounds.arm_all(&mut set, 0);
    }
}

/// One that has moved is armed once nothing has moved for so long, and not before.
#[test]
fn a_connection_in_use_is_not_armed() {
    let (mut rounds, mut set, keys) = rounds(1);
    for now_us in [0, 5000, 10_000] {
        let now_ns = now_us * 1000;
        fake(&mut rounds, keys[0]).has_message = true;
        assert_eq!(round(&mut rounds, &mut set, now_ns, 9), [(keys[0], Report::Readable)]);
        fake(&mut rounds, keys[0]).has_message = false;
        look_often(&mut rounds, &mut set, now_ns + 100_000);
        for (later_us, is_armed) in [(1000, 0), (1100, 1)] {
            round(&mut rounds, &mut set, now_ns + later_us * 1000, 9);
            assert_eq!(rounds.armed_count(), is_armed, "{now_us} us, and {later_us} later");
        }
        rounds.activate(keys[0], &mut set, now_ns + 2 * MS);
    }
}

/// The last one of the list, which was looked at, gets the place of one that is armed.
#[test]
fn one_that_moves_to_the_place_ahead_is_not_looked_at_twice() {
    let (mut rounds, mut set, keys) = rounds(3);
    round(&mut rounds, &mut set, 0, 100);
    for key in &keys {
        fake(&mut rounds, *key).has_message = true;
    }
    // Room for two of them: the turn is that of the last one.
    assert_eq!(round(&mut rounds, &mut set, 0, 3).len(), 2);
    for key in &keys[..2] {
        fake(&mut rounds, *key).has_message = false;
    }
    assert_eq!(round(&mut rounds, &mut set, 0, 100), [(keys[2], Report::Readable)]);
    look_often(&mut rounds, &mut set, 0);
    assert_eq!(round(&mut rounds, &mut set, 2 * MS, 100), [(keys[2], Report::Readable)]);
    round(&mut rounds, &mut set, 2 * MS, 100);
    assert_eq!((rounds.active_count(), rounds.armed_count()), (1, 2));
    // It is where the list says.
    assert_eq!(rounds.wake(Fakes::number(keys[0]), &mut set, 3 * MS), Woken::Armed);
    rounds.remove(keys[2]).unwrap();
    fake(&mut rounds, keys[0]).has_message = true;
    assert_eq!(round(&mut rounds, &mut set, 3 * MS, 100), [(keys[0], Report::Readable)]);
}

/// With a short idle timeout silence is told when it is over, and not with the next keepalive.
#[test]
fn silence_is_reported_in_time() {
    let (mut rounds, mut set, keys) = rounds(1);
    fake(&mut rounds, keys[0]).idle_timeout_ns = 1000 * MS;
    pass(&mut rounds, &mut set, 0);
    rounds.arm_all(&mut set, 0);
    assert_eq!(pass(&mut rounds, &mut set, 999 * MS), []);
    assert_eq!(pass(&mut rounds, &mut set, 1040 * MS), [(keys[0], Report::Silent)]);
}

/// wire.md 7.3: an acknowledgement may have to be repeated.
#[test]
fn one_that_is_used_again_is_tended_soon() {
    let (mut rounds, mut set, keys) = armed(1);
    pass(&mut rounds, &mut set, 10_000 * MS);
    rounds.touch(keys[0], &mut set, 10_000 * MS).unwrap();
    pass(&mut rounds, &mut set, 10_200 * MS);
    assert_eq!(fake(&mut rounds, keys[0]).keepalives.last(), Some(&(10_200 * MS)));
    // A keepalive that has found something has it looked at in each round.
    rounds.arm_all(&mut set, 10_200 * MS);
    fake(&mut rounds, keys[0]).is_busy = true;
    pass(&mut rounds, &mut set, 10_500 * MS);
    assert_eq!(rounds.active_count(), 1);
}

/// poller.md: without membarrier after 1, 2, 4, .. ms, and where something may come that wakes nobody for ever.
#[test]
fn looks_become_rarer_unless_something_wakes_nobody() {
    for (needs_regular_looks, first_ms, few, many) in
        [(false, 1, 5, 9), (true, 100, 60, 90), (true, 1, 200, 520)]
    {
        let (mut rounds, mut set, keys) = rounds(1);
        pass(&mut rounds, &mut set, 0);
        let end = fake(&mut rounds, keys[0]);
        (end.needs_regular_looks, end.look_again_ns) = (needs_regular_looks, first_ms * MS);
        rounds.arm_all(&mut set, 0);
        let looks = fake(&mut rounds, keys[0]).looks;
        pass(&mut rounds, &mut set, 5000 * MS);
        let looks = fake(&mut rounds, keys[0]).looks - looks;
        assert!((few..=many).contains(&looks), "{needs_regular_looks}, {first_ms} ms: {looks} looks in 5 s");
    }
}

#[test]
fn a_sleep_ends_when_something_is_due_and_soon_beside_jobs() {
    let (mut rounds, mut set, keys) = armed(1);
    let mut naps = Naps::default();
    let due_ns = rounds.earliest_ns();
    assert_eq!(rounds.sleep_ns(&mut set, 0, &mut naps), due_ns);
    assert_eq!(rounds.sleep_ns(&mut set, due_ns - 5, &mut naps), 5);
    // Its job has it stay active.
    rounds.activate(keys[0], &mut set, 0);
    let end = fake(&mut rounds, keys[0]);
    (end.has_jobs, end.refuses_to_arm) = (true, true);
    assert_eq!([(); 3].map(|()| rounds.sleep_ns(&mut set, 0, &mut naps)), [20_000; 3]);
}

/// One that refuses to be armed, for which the poller naps, and one whose message came after the last round.
#[test]
fn what_arming_finds_ends_the_wait_beside_one_that_refuses() {
    let (mut rounds, mut set, keys) = armed(2);
    rounds.activate(keys[0], &mut set, MS);
    fake(&mut rounds, keys[0]).refuses_to_arm = true;
    // Some calls that find nothing come first.
    let naps_long = |rounds: &mut Fakes, set: &mut FakeSet, naps: &mut Naps| {
        (0..20).for_each(|_| _ = rounds.sleep_ns(set, 2 * MS, naps));
        assert_ne!(rounds.sleep_ns(set, 2 * MS, naps), 0);
        assert!(matches!(rounds.arm(set, 2 * MS, naps), Arm::Pending { .. }));
    };
    let mut naps = Naps::default();
    naps_long(&mut rounds, &mut set, &mut naps);
    fake(&mut rounds, keys[1]).has_message = true;
    assert_eq!(rounds.wake(Fakes::number(keys[1]), &mut set, 2 * MS), Woken::Armed);
    assert_eq!(rounds.arm(&mut set, 2 * MS, &mut naps), Arm::Busy);
    assert_eq!(rounds.sleep_ns(&mut set, 2 * MS, &mut naps), 0);
    // Nothing is reported of what the program does not want.
    rounds.set_interest(keys[1], Interest::NONE, &mut set, 2 * MS);
    naps_long(&mut rounds, &mut set, &mut naps);
}

#[test]
fn a_single_one_with_a_job_is_not_armed() {
    let (mut fake, mut set) = (Fake::default(), FakeSet::default());
    let mut single = Single::new(Owner { set: 1, number: 0 }, &mut fake, &mut set, 0).unwrap();
    let mut arm = |fake: &mut Fake, now_ns, most_ns| {
        single.arm(fake, &mut set, (Interest::default(), false), (now_ns, most_ns))
    };
    assert_eq!(arm(&mut fake, 0, 7), Arm::Armed { at_ns: 7 }, "no later than the program says");
    // The job has it have work, as core's look once more says.
    (fake.has_jobs, fake.refuses_to_arm) = (true, true);
    assert_eq!(arm(&mut fake, MS, u64::MAX), Arm::Busy);
    assert!(!fake.is_armed, "nobody wakes it when the job ends");
}

#[test]
fn an_end_is_reported_once_for_each_connection() {
    let (mut rounds, mut set, keys) = rounds(1);
    fake(&mut rounds, keys[0]).has_ended = true;
    assert_eq!(round(&mut rounds, &mut set, 0, 9), [(keys[0], Report::Ended)]);
    assert_eq!((rounds.active_count(), rounds.earliest_ns()), (0, 0));
    assert_eq!(pass(&mut rounds, &mut set, 60_000 * MS), []);
    // The program asks for it, and it is still the same one.
    rounds.touch(keys[0], &mut set, 0).unwrap();
    assert_eq!((rounds.active_count(), round(&mut rounds, &mut set, 0, 9)), (1, vec![]));
    // Then it puts another one there, which nobody watches.
    *rounds.touch(keys[0], &mut set, 0).unwrap() = Fake { number: 5, has_ended: true, ..Fake::default() };
    set.watched.clear();
    assert_eq!(round(&mut rounds, &mut set, 0, 9), [(keys[0], Report::Ended)]);
    assert_eq!(set.watched.len(), 1);
}

#[test]
fn what_cannot_be_watched_is_not_armed() {
    let (mut rounds, mut set, keys) = rounds(1);
    pass(&mut rounds, &mut set, 0);
    *rounds.touch(keys[0], &mut set, 0).unwrap() = Fake { number: 5, ..Fake::default() };
    set.is_full = true;
    rounds.arm_all(&mut set, 0);
    assert_eq!(rounds.armed_count(), 0);
    let mut naps = Naps::default();
    assert_eq!(rounds.arm(&mut set, MS, &mut naps), Arm::Busy, "something may just have come");
    assert_eq!(rounds.arm(&mut set, MS, &mut naps), Arm::Pending { at_ns: MS + 40_000 });
    set.is_full = false;
    assert!(matches!(rounds.arm(&mut set, MS, &mut naps), Arm::Armed { .. }));
}

/// A connection alone in its set.
#[test]
fn a_single_one_is_armed_once_and_woken_once() {
    let (mut fake, mut set) = (Fake::default(), FakeSet::default());
    let mut single = Single::new(Owner { set: 1, number: 0 }, &mut fake, &mut set, 0).unwrap();
    let wish = (Interest::default(), false);
    let armed = single.arm(&mut fake, &mut set, wish, (MS, u64::MAX));
    assert_eq!(armed, Arm::Armed { at_ns: 80 * MS });
    // A look that was due finds nothing: the next one is that of its keepalive.
    let again = single.arm(&mut fake, &mut set, wish, (90 * MS, u64::MAX));
    assert_eq!(again, Arm::Armed { at_ns: 240 * MS });
    fake.has_message = true;
    let woken = single.arm(&mut fake, &mut set, (Interest::default(), true), (91 * MS, u64::MAX));
    assert_eq!((woken, fake.is_armed), (Arm::Busy, false));
    // Unwanted events keep nobody busy.
    let none = (Interest::NONE, false);
    let first = single.arm(&mut fake, &mut set, none, (92 * MS, u64::MAX));
    let second = single.arm(&mut fake, &mut set, none, (92 * MS, u64::MAX));
    assert_eq!((first, second), (Arm::Busy, Arm::Pending { at_ns: 92 * MS + 40_000 }));
    single.member().release(&mut fake, &mut set);
    assert_eq!((fake.owner, set.watched.len()), (None, 0));
}

/// The program replaces a silent connection by a new one, whose peer has shown as much activity as that of the old one.
#[test]
fn silence_is_not_inherited_by_another_connection() {
    let (mut rounds, mut set, keys) = armed(1);
    assert_eq!(pass(&mut rounds, &mut set, 60_000 * MS), [(keys[0], Report::Silent)]);
    *rounds.touch(keys[0], &mut set, 60_000 * MS).unwrap() = Fake { number: 5, ..Fake::default() };
    rounds.arm_all(&mut set, 60_000 * MS);
    assert_eq!(pass(&mut rounds, &mut set, 85_000 * MS), []);
    let (member, fake) = rounds.get_mut(keys[0]).unwrap();
    assert!(!member.is_silent(fake, &mut set), "it was silent for 25 of 30 s");
    assert_eq!(pass(&mut rounds, &mut set, 120_000 * MS), [(keys[0], Report::Silent)]);
}

/// The same without a report: the rest of the old one's time is not all that the new one has.
#[test]
fn a_new_connection_has_the_whole_idle_timeout() {
    for is_armed in [false, true] {
        let (mut rounds, mut set, keys) = armed(1);
        assert_eq!(pass(&mut rounds, &mut set, 29_000 * MS), []);
        *rounds.touch(keys[0], &mut set, 29_000 * MS).unwrap() = Fake { number: 5, ..Fake::default() };
        if is_armed {
            rounds.arm_all(&mut set, 29_000 * MS);
        }
        assert_eq!(pass(&mut rounds, &mut set, 55_000 * MS), [], "it was silent for 26 of 30 s");
    }
}

/// A connection leaves its place, and comes back: what the set reported of it meanwhile was taken for the other one.
#[test]
fn one_that_comes_back_is_watched_again() {
    let (mut rounds, mut set, keys) = rounds(1);
    round(&mut rounds, &mut set, 0, 9);
    let other = Fake { number: 5, ..Fake::default() };
    let first = core::mem::replace(rounds.touch(keys[0], &mut set, 0).unwrap(), other);
    round(&mut rounds, &mut set, 0, 9);
    *rounds.touch(keys[0], &mut set, 0).unwrap() = first;
    let before = set.watched.len();
    round(&mut rounds, &mut set, 0, 9);
    assert_eq!(set.watched.len(), before + 1);
}

/// A program exchanges a connection that is armed, though the call says not to.
#[test]
fn one_in_the_place_of_an_armed_one_is_not_disarmed() {
    type Act = fn(&mut Single, &mut Fake, &mut FakeSet);
    let acts: [Act; 3] = [
        |single, other, set| {
            let arm = single.arm(other, set, (Interest::DEFAULT, true), (MS, u64::MAX));
            assert!(matches!(arm, Arm::Armed { .. }) && other.is_armed);
        },
        |single, other, set| single.member().activate(other, set, MS),
        |single, other, set| single.member().release(other, set),
    ];
    for act in acts {
        let (mut set, mut end) = (FakeSet::default(), Fake::default());
        let mut single = Single::new(Owner { set: 1, number: 0 }, &mut end, &mut set, 0).unwrap();
        let arm = single.arm(&mut end, &mut set, (Interest::DEFAULT, false), (0, u64::MAX));
        assert!(matches!(arm, Arm::Armed { .. }));
        single.member().touch();
        let mut other = Fake { number: 5, ..Fake::default() };
        act(&mut single, &mut other, &mut set);
    }
}

/// This process and its peer are stopped for an hour, between two looks, and the idle timeout is shorter than the time between two keepalives.
#[test]
fn a_stop_is_no_silence_with_a_short_idle_timeout() {
    for idle_timeout_ms in [300, 1000, 5000] {
        let (mut rounds, mut set, keys) = rounds(1);
        fake(&mut rounds, keys[0]).idle_timeout_ns = idle_timeout_ms * MS;
        let mut now_ns = 0;
        // The peer lives, and then both are stopped, just after it was heard.
        while now_ns < 9_950 * MS || fake(&mut rounds, keys[0]).keepalives.last() < Some(&(now_ns - 10 * MS))
        {
            now_ns += 10 * MS;
            fake(&mut rounds, keys[0]).activity += 1;
            rounds.arm_all(&mut set, now_ns);
            assert_eq!(pass(&mut rounds, &mut set, now_ns), []);
        }
        let mut events = Events(Vec::new(), 1000);
        now_ns += 3_600_000 * MS;
        while let Some(key) = rounds.take_due(now_ns, true) {
            rounds.tend(key, &mut set, now_ns, &mut events);
        }
        assert_eq!(events.0, [], "idle timeout of {idle_timeout_ms} ms");
        assert_eq!(pass(&mut rounds, &mut set, now_ns + 40_000 * MS).len(), 1);
    }
}

/// due.rs: what is due is due together, or each of many that were woken costs a look at all.
#[test]
fn those_that_were_woken_are_tended_together() {
    let (mut rounds, mut set, keys) = armed(100);
    for (at, key) in keys.iter().enumerate() {
        let now_ns = (200 + at as u64 / 5) * MS + at as u64 * 100_000;
        pass(&mut rounds, &mut set, now_ns);
        rounds.activate(*key, &mut set, now_ns);
        rounds.arm_all(&mut set, now_ns);
    }
    let mut scans = 0;
    while rounds.earliest_ns() <= 1_000 * MS {
        let now_ns = rounds.earliest_ns();
        scans += 1;
        while let Some(key) = rounds.take_due(now_ns, true) {
            rounds.tend(key, &mut set, now_ns, &mut Events(Vec::new(), 9));
        }
    }
    assert!(scans < 30, "{scans}");
}
