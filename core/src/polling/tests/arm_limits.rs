//! Arming in rounds: quiet, rate and turns.

use std::vec::Vec;

use super::super::arm_limits::{ARMING_NS, BURST, QUIET_LOOKS};
use super::fake::{Events, Fakes, MS, fake, look_often, round, rounds, rounds_with};

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

/// Rounds that end for lack of room go through the list all the same: those that refuse are before the others. With rounds that are half as far apart, the rate has nothing for every second one.
#[test]
fn rounds_without_room_for_all_leave_each_its_turn() {
    for (first_refuses, apart_ns) in
        [(true, ARMING_NS), (false, ARMING_NS), (true, ARMING_NS / 2), (false, ARMING_NS / 2)]
    {
        let (mut rounds, mut set, keys) = rounds_with(100, 0);
        for (index, key) in keys.iter().enumerate() {
            let end = fake(&mut rounds, *key);
            end.has_message = [24, 49, 74, 99].contains(&index);
            end.refuses_to_arm = (index < 50) == first_refuses;
        }
        for number in 1..=1000 {
            round(&mut rounds, &mut set, number * apart_ns, 3);
        }
        assert_eq!(rounds.armed_count(), 48, "the first refuse: {first_refuses}, {apart_ns} ns apart");
    }
}

/// Those whose turn it is are looked at in rounds that do not know the time.
#[test]
fn a_turn_is_given_up_if_no_round_with_a_time_comes_there() {
    let (mut rounds, mut set, keys) = rounds_with(100, 0);
    for (index, key) in keys.iter().enumerate() {
        let end = fake(&mut rounds, *key);
        end.has_message = [24, 49, 74, 99].contains(&index);
        end.refuses_to_arm = index >= 50;
    }
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
    let (mut rounds, mut set, keys) = rounds_with(100, 0);
    for (index, key) in keys.iter().enumerate() {
        let end = fake(&mut rounds, *key);
        end.has_message = [24, 49, 74, 99].contains(&index);
        end.refuses_to_arm = index % 50 < 20;
    }
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

/// Parts do not use less of the rate than whole rounds.
#[test]
fn rounds_without_room_for_all_arm_at_the_rate() {
    let (mut rounds, mut set, keys) = rounds_with(10_000, 0);
    for (index, key) in keys.iter().enumerate() {
        fake(&mut rounds, *key).has_message = index % 500 == 499;
    }
    for number in 1..=40 {
        round(&mut rounds, &mut set, number * 64 * ARMING_NS, 3);
        let armed = u64::from(rounds.armed_count());
        // One that ends before it comes to those whose turn it is leaves the rate to the next.
        let at_rate = BURST + (number - 1) * 64;
        assert!((at_rate.saturating_sub(64)..=at_rate).contains(&armed), "{armed} after {number} rounds");
    }
}

/// A whole round comes to those whose turn it is after others were armed. They are the next ones, and then all is as before.
#[test]
fn parts_arm_at_the_rate_after_a_whole_round() {
    let (mut rounds, mut set, keys) = rounds_with(10_000, 0);
    for (index, key) in keys.iter().enumerate() {
        fake(&mut rounds, *key).has_message = index % 500 == 499;
    }
    let mut armed = Vec::new();
    for number in 1..=60 {
        round(&mut rounds, &mut set, number * 64 * ARMING_NS, if number == 5 { 100 } else { 3 });
        armed.push(rounds.armed_count());
    }
    assert!(armed[59] - armed[29] >= 26 * 64, "{armed:?}");
}
