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
