use std::vec::Vec;

use super::super::arm_limits::{ARMING_NS, BURST, QUIET_LOOKS};
use super::fake::{MS, fake, look_often, round, rounds, rounds_with};

/// Where a round takes long, as among many busy ones, one that is used again and again would seem quiet by the time alone.
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

/// What comes while a connection is armed is work, though no look found it: the next attempt has to wait as after any other.
#[test]
fn what_arming_finds_is_movement() {
    let (mut rounds, mut set, keys) = rounds(1);
    fake(&mut rounds, keys[0]).refuses_to_arm = true;
    for look in 1..=4 * u64::from(QUIET_LOOKS) {
        round(&mut rounds, &mut set, look * 10 * MS, 9);
    }
    assert_eq!(fake(&mut rounds, keys[0]).requests, 4);
}

/// Times at which there is a round, so far apart, and the count of armed ones after each.
fn armed_after_rounds(connections: usize, apart_ns: u64) -> Vec<u64> {
    let (mut rounds, mut set, _) = rounds(connections);
    look_often(&mut rounds, &mut set, 0);
    let armed = (1..=4).map(|number| {
        round(&mut rounds, &mut set, 10 * MS + number * apart_ns, 9);
        u64::from(rounds.armed_count())
    });
    armed.collect()
}

/// Where rounds take long, or calls are rare, the rate is the same.
#[test]
fn rounds_that_are_far_apart_arm_more() {
    let armed = armed_after_rounds(10_000, 10 * MS);
    let per_round = 10 * MS / ARMING_NS;
    for pair in armed.windows(2) {
        assert_eq!(pair[1] - pair[0], per_round, "{armed:?}");
    }
    let close = armed_after_rounds(10_000, ARMING_NS);
    for pair in close.windows(2) {
        assert_eq!(pair[1] - pair[0], 1, "{close:?}");
    }
}

/// Those that come back from a wake-up are at the end of the list, and take the places of those that were armed.
#[test]
fn each_has_its_turn_to_be_armed() {
    let (mut rounds, mut set, keys) = rounds_with(100, 0);
    for key in &keys[..50] {
        fake(&mut rounds, *key).refuses_to_arm = true;
    }
    for number in 1..=100 {
        round(&mut rounds, &mut set, number * ARMING_NS, 9);
    }
    assert_eq!(rounds.armed_count(), 50, "those that refuse leave the others their turn");
}
