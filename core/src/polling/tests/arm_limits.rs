//! Arming in rounds: quiet, rate and turns.

use std::vec;
use std::vec::Vec;

use super::super::arm_limits::{ARMING_NS, BURST, QUIET_LOOKS};
use super::super::{Key, PollerClock, Reports};
use super::fake::{Events, FakeSet, Fakes, MS, fake, look_often, round, rounds, rounds_with};

/// Rounds of many busy connections take long, and one that is used again and again would seem quiet by the time alone.
#[test]
fn one_that_was_looked_at_a_few_times_is_not_armed() {
    let (mut rounds, mut set, _) = rounds(1);
    for look in 1..=QUIET_LOOKS {
        assert_eq!(rounds.armed_count(), 0, "before look {look}");
        round(&mut rounds, &mut set, u64::from(look) * 10 * MS, 9);
    }
    assert_eq!(rounds.armed_count(), 1);
}

#[test]
fn looks_before_a_message_do_not_count() {
    let (mut rounds, mut set, keys) = rounds(1);
    for look in 1..20 * u64::from(QUIET_LOOKS) {
        fake(&mut rounds, keys[0]).has_message = look.is_multiple_of(100);
        round(&mut rounds, &mut set, look * 10 * MS, 9);
        assert_eq!(rounds.armed_count(), 0, "after look {look}");
    }
}

#[test]
fn without_a_time_one_look_is_enough() {
    let (mut rounds, mut set, _) = rounds_with(1, 0);
    round(&mut rounds, &mut set, MS, 9);
    assert_eq!(rounds.armed_count(), 1);
}

/// Wake-ups that cost more than so many looks take a bounded part of the time all the same.
#[test]
fn many_are_armed_at_a_rate() {
    let (mut rounds, mut set, _) = rounds(1000);
    look_often(&mut rounds, &mut set, 0);
    round(&mut rounds, &mut set, MS - 1000, 9);
    assert_eq!(rounds.armed_count(), 0);
    let mut armed = 0;
    for now_ns in (MS..40 * MS).step_by(1000) {
        round(&mut rounds, &mut set, now_ns, 9);
        armed = rounds.armed_count();
        let most = BURST + (now_ns - MS) / ARMING_NS;
        assert_eq!(u64::from(armed), most.min(1000), "after {now_ns} ns");
    }
    assert_eq!(armed, 1000);
}

/// Work that arming finds counts as what a look finds: the next attempt has to wait as long.
#[test]
fn what_arming_finds_is_movement() {
    let (mut rounds, mut set, keys) = rounds(1);
    fake(&mut rounds, keys[0]).refuses_to_arm = true;
    for look in 1..=4 * u64::from(QUIET_LOOKS) {
        round(&mut rounds, &mut set, look * 10 * MS, 9);
    }
    assert_eq!(fake(&mut rounds, keys[0]).requests, 4);
}

/// Returns the counts of armed ones after four rounds that are so far apart.
fn armed_after_rounds(connections: usize, apart_ns: u64) -> Vec<u64> {
    let (mut rounds, mut set, _) = rounds(connections);
    look_often(&mut rounds, &mut set, 0);
    let armed = (1..=4).map(|number| {
        round(&mut rounds, &mut set, 10 * MS + number * apart_ns, 9);
        u64::from(rounds.armed_count())
    });
    armed.collect()
}

/// Long rounds, and rare calls, have the same rate, up to a limit.
#[test]
fn rounds_that_are_far_apart_arm_more() {
    for (apart, per_round) in [(1, 1), (2, 2), (200, 200), (256, 256), (257, 256), (100_000, 256)] {
        let armed = armed_after_rounds(2000, apart * ARMING_NS);
        for pair in armed[1..].windows(2) {
            assert_eq!(pair[1] - pair[0], per_round, "{armed:?} with {apart}");
        }
    }
}

#[test]
fn the_first_round_arms_a_burst() {
    let (mut rounds, mut set, _) = rounds_with(100, 0);
    round(&mut rounds, &mut set, 1_000_000 * MS, 9);
    assert_eq!(u64::from(rounds.armed_count()), BURST);
}

/// Connections that refuse leave the others their turn, wherever they are in the list, and wherever a round begins.
#[test]
fn each_has_its_turn_to_be_armed() {
    for (first_refuses, begins_at) in [(true, 0), (false, 0), (true, 50), (false, 50), (true, 99), (false, 1)]
    {
        let (mut rounds, mut set, keys) = rounds_with(100, 0);
        for key in &keys[..begins_at] {
            fake(&mut rounds, *key).has_message = true;
        }
        // Room for so many reports: the next round begins behind them.
        round(&mut rounds, &mut set, 0, begins_at + 1);
        for (index, key) in keys.iter().enumerate() {
            fake(&mut rounds, *key).has_message = false;
            fake(&mut rounds, *key).refuses_to_arm = (index < 50) == first_refuses;
        }
        for number in 1..=400 {
            round(&mut rounds, &mut set, number * ARMING_NS, 9);
        }
        assert_eq!(rounds.armed_count(), 50, "the first refuse: {first_refuses}, from {begins_at} on");
    }
}

/// Connections that are woken again at once are at the end of the list, whose last one takes the place of each that is armed.
#[test]
fn those_that_come_back_wait_until_all_had_their_turn() {
    let (mut rounds, mut set, keys) = rounds_with(200, 0);
    for number in 1..=1000 {
        round(&mut rounds, &mut set, number * ARMING_NS, 9);
        for key in &keys[..20] {
            if fake(&mut rounds, *key).is_armed {
                rounds.wake(Fakes::number(*key), &mut set, number * ARMING_NS);
            }
        }
    }
    let quiet = keys[20..].iter().filter(|key| fake(&mut rounds, **key).is_armed).count();
    assert_eq!(quiet, 180);
}

/// Makes a hundred, of which four have a message: a round with room for two ends with one half of the list. Those that `refuses` says cannot be armed.
fn in_halves(refuses: impl Fn(usize) -> bool) -> (Fakes, FakeSet, Vec<Key>) {
    let (mut rounds, set, keys) = rounds_with(100, 0);
    for (index, key) in keys.iter().enumerate() {
        let end = fake(&mut rounds, *key);
        end.has_message = [24, 49, 74, 99].contains(&index);
        end.refuses_to_arm = refuses(index);
    }
    (rounds, set, keys)
}

/// Rounds that end for lack of room go through the list all the same: those that refuse are before the others. With rounds that are half as far apart, the rate has nothing for every second one.
#[test]
fn rounds_without_room_for_all_leave_each_its_turn() {
    for (first_refuses, apart_ns) in
        [(true, ARMING_NS), (false, ARMING_NS), (true, ARMING_NS / 2), (false, ARMING_NS / 2)]
    {
        let (mut rounds, mut set, _) = in_halves(|index| (index < 50) == first_refuses);
        for number in 1..=1000 {
            round(&mut rounds, &mut set, number * apart_ns, 3);
        }
        assert_eq!(rounds.armed_count(), 48, "the first refuse: {first_refuses}, {apart_ns} ns apart");
    }
}

/// Those whose turn it is are looked at in rounds that do not know the time.
#[test]
fn a_turn_is_given_up_if_no_round_with_a_time_comes_there() {
    let (mut rounds, mut set, _) = in_halves(|index| index >= 50);
    let mut events = Events(Vec::new(), 3);
    rounds.round(&mut set, None, &mut events);
    // One with the time, and then every second one, which comes to half of those that do not refuse.
    for number in 1..=1000 {
        round(&mut rounds, &mut set, number * ARMING_NS, 3);
        if number > 1 {
            rounds.round(&mut set, None, &mut Events(Vec::new(), 3));
        }
    }
    assert!(rounds.armed_count() >= 20, "{} are armed", rounds.armed_count());
}

/// In each of two parts of the list the first ones refuse, and take what the rate gives.
#[test]
fn the_turn_goes_on_from_part_to_part() {
    let (mut rounds, mut set, _) = in_halves(|index| index % 50 < 20);
    for number in 1..=10_000 {
        round(&mut rounds, &mut set, number * ARMING_NS, 3);
    }
    assert_eq!(rounds.armed_count(), 56);
}

/// Parts of any length, and whole rounds between them: each gets its turn.
#[test]
fn parts_of_any_length_leave_each_its_turn() {
    let mut random = 1_u32;
    let (mut rounds, mut set, keys) = rounds_with(100, 0);
    for number in 1..=20_000 {
        for (index, key) in keys.iter().enumerate() {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let end = fake(&mut rounds, *key);
            end.has_message = !end.is_armed && number % 3 != 0 && random >> 28 == 0 && index >= 50;
            end.refuses_to_arm = index < 50;
        }
        round(&mut rounds, &mut set, number * ARMING_NS, 3);
    }
    assert_eq!(rounds.armed_count(), 50);
}

/// One that is woken again soon after each arming does not take the turn of others, wherever it comes to be in the list: some are, some always have a message, and one was in use before.
#[test]
fn those_that_come_back_do_not_starve_others() {
    let (mut rounds, mut set, keys) = rounds_with(4, 0);
    let mut wakes_at = [0; 4];
    fake(&mut rounds, keys[1]).has_message = true;
    for number in 1..=2000_u64 {
        let now_ns = 1000 * MS + number * ARMING_NS / 4;
        fake(&mut rounds, keys[3]).has_message = number <= 1000;
        for index in [0, 2] {
            if wakes_at[index] == number {
                rounds.wake(Fakes::number(keys[index]), &mut set, now_ns);
            }
        }
        round(&mut rounds, &mut set, now_ns, 100);
        for index in [0, 2] {
            if fake(&mut rounds, keys[index]).is_armed && wakes_at[index] <= number {
                wakes_at[index] = number + 2;
            }
        }
    }
    assert!(fake(&mut rounds, keys[3]).is_armed);
}

/// All but one refuse, in parts of the list that are not always the same.
#[test]
fn those_that_refuse_do_not_starve_one_in_parts() {
    let (mut rounds, mut set, keys) = rounds_with(14, 0);
    for (index, key) in keys.iter().enumerate() {
        let end = fake(&mut rounds, *key);
        end.has_message = [0, 2, 5, 6, 12].contains(&index);
        end.refuses_to_arm = [1, 3, 7, 8, 9, 10, 11, 13].contains(&index);
    }
    for number in 1..=2000 {
        round(&mut rounds, &mut set, number * (ARMING_NS / 8), 5);
    }
    assert!(fake(&mut rounds, keys[4]).is_armed);
}

/// Random lists, rooms, distances, refusals and wake-ups: each that stays quiet is armed, and the rate holds.
#[test]
fn each_quiet_one_is_armed_in_any_rounds() {
    let mut random = 1_u64;
    let mut below = move |limit: u32| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as u32 % limit
    };
    for case in 0..500 {
        let count = 2 + below(20) as usize;
        let (mut rounds, mut set, keys) = rounds_with(count, 0);
        let (room, apart_ns) =
            (3 + below(8) as usize, ARMING_NS / u64::from(1 + below(8)) + u64::from(below(1000)));
        // 0 stays quiet, 1 always has a message, 2 refuses, 3 and more come back after so many rounds.
        let kinds: Vec<u64> = (0..count).map(|_| u64::from(below(7))).collect();
        let mut wakes_at = vec![0; count];
        for (key, kind) in keys.iter().zip(&kinds) {
            let end = fake(&mut rounds, *key);
            (end.has_message, end.refuses_to_arm) = (*kind == 1, *kind == 2);
        }
        let mut requests = 0;
        for number in 1..=3000_u64 {
            let now_ns = 1000 * MS + number * apart_ns;
            for index in 0..count {
                let is_armed = fake(&mut rounds, keys[index]).is_armed;
                if kinds[index] > 2 && is_armed && wakes_at[index] == 0 {
                    wakes_at[index] = number + kinds[index] - 2;
                } else if wakes_at[index] == number {
                    wakes_at[index] = 0;
                    rounds.wake(Fakes::number(keys[index]), &mut set, now_ns);
                }
            }
            // Some have a message now and then.
            for index in (0..count).filter(|index| kinds[*index] > 4) {
                fake(&mut rounds, keys[index]).has_message = number < 2900 && below(16) == 0;
            }
            round(&mut rounds, &mut set, now_ns, room);
            assert!(rounds.waiting() <= rounds.active_count(), "case {case}: tickets that nobody has");
            requests = keys.iter().map(|key| u64::from(fake(&mut rounds, *key).requests)).sum();
            let most = BURST + number * apart_ns / ARMING_NS;
            assert!(requests <= most, "case {case}: {requests} attempts in {number} rounds, {most} allowed");
        }
        for (index, key) in keys.iter().enumerate().filter(|(index, _)| kinds[*index] == 0) {
            assert!(
                fake(&mut rounds, *key).is_armed,
                "case {case}: {index} of {kinds:?}, room {room}, {apart_ns} ns"
            );
        }
        assert!(requests > 0 || kinds.iter().all(|kind| *kind == 1));
        // Those that were removed wait for nothing.
        for (taken, key) in keys.iter().enumerate() {
            let waiting = rounds.waiting();
            assert!(waiting as usize <= count - taken, "case {case}: {waiting} wait, of {}", count - taken);
            rounds.remove(*key).unwrap();
        }
        assert_eq!(rounds.waiting(), 0);
    }
}

/// A connection that moves again, or is armed otherwise, waits no more.
#[test]
fn only_a_quiet_one_waits_for_its_turn() {
    let (mut rounds, mut set, keys) = rounds_with(20, 0);
    round(&mut rounds, &mut set, 1000 * MS, 100);
    let burst = u32::try_from(BURST).unwrap();
    assert_eq!((rounds.armed_count(), rounds.waiting()), (burst, 20 - burst));
    let active: Vec<_> = keys.iter().filter(|key| !fake(&mut rounds, **key).is_armed).collect();
    fake(&mut rounds, *active[0]).has_message = true;
    fake(&mut rounds, *active[1]).has_ended = true;
    round(&mut rounds, &mut set, 1000 * MS, 100);
    assert_eq!(rounds.waiting(), 20 - burst - 2);
    rounds.remove(*active[2]).unwrap();
    assert_eq!(rounds.waiting(), 20 - burst - 3);
    rounds.arm_all(&mut set, 1000 * MS);
    assert_eq!(rounds.waiting(), 0);
}

/// Parts of the list, each with more that are quiet than the rate allows.
#[test]
fn parts_arm_all_within_the_rate() {
    let (mut rounds, mut set, keys) = rounds_with(10_000, 0);
    for (index, key) in keys.iter().enumerate() {
        fake(&mut rounds, *key).has_message = index % 500 == 499;
    }
    for number in 1..=500 {
        round(&mut rounds, &mut set, number * 64 * ARMING_NS, 3);
        assert!(u64::from(rounds.armed_count()) <= BURST + (number - 1) * 64, "after {number} rounds");
    }
    assert_eq!(rounds.armed_count(), 10_000 - 20);
}

/// Calls in a row with room for a part, of which one in four looks at the clock, and one connection that is quiet.
#[test]
fn one_is_looked_at_with_the_time_in_rounds_that_repeat() {
    for (quiet, phase) in (0..13).flat_map(|quiet| (0..4).map(move |phase| (quiet, phase))) {
        let (mut rounds, mut set, keys) = rounds_with(13, 0);
        let mut clock = PollerClock::new(0);
        for call in 1..=400_u64 {
            for (index, key) in keys.iter().enumerate() {
                fake(&mut rounds, *key).has_message = index != quiet || call <= 100 + phase;
            }
            let now_ns = 1000 * MS + call * 1000;
            let at_call = clock.begin_call();
            if clock.begin_round(rounds.active_count()) || at_call {
                clock.note(now_ns);
            }
            // The phase of the rounds.
            let room = if call <= 100 {
                100
            } else if call <= 100 + phase {
                2
            } else {
                4
            };
            let mut events = Events(Vec::new(), room);
            rounds.round(&mut set, clock.fresh_ns(), &mut events);
            if !events.has_room() {
                clock.note_full();
            }
        }
        assert_eq!(rounds.armed_count(), 1, "{quiet} is quiet, phase {phase}");
    }
}
