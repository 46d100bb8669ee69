//! Timers, on a clock that this test sets.

use crate::setup::rig::{
    BEGIN, DEADLINE, DIRECT, FABRICS, POSTED, Play, REPEAT, ROLES, Rig, SECOND, SILENCE, STEPS, config,
    hello, welcome,
};
use superpipe_core::Nanos;
use superpipe_core::driver::setup::{Handshake, HandshakeConfig, RECEIVES_MIN, Role};

#[test]
fn hello_is_said_again_over_rdma_until_welcome_comes() {
    let mut t = Rig::new(Role::Active, POSTED);
    t.expect(&["HELLO"]);
    assert_eq!(t.timeout(), Some(BEGIN + REPEAT));
    t.at(BEGIN + REPEAT - 1);
    t.expect(&[]);
    t.at(BEGIN + REPEAT);
    t.at(BEGIN + REPEAT);
    t.expect(&["HELLO"]);
    // Late by half a second: the next is counted from here.
    let late = BEGIN + REPEAT + SECOND / 2;
    t.at(late);
    t.expect(&["HELLO"]);
    assert_eq!(t.timeout(), Some(late + REPEAT));
    t.packet(&welcome(POSTED));
    t.expect(&["provision 32 blocks"]);
    assert_eq!(t.timeout(), Some(DEADLINE));
    t.at(late + REPEAT);
    t.expect(&[]);
}

#[test]
fn hello_is_said_once_over_shared_memory() {
    let mut t = Rig::new(Role::Active, DIRECT);
    t.expect(&["HELLO"]);
    assert_eq!(t.timeout(), Some(DEADLINE));
    t.at(DEADLINE - 1);
    t.expect(&[]);
}

#[test]
fn whoever_says_nothing_over_rdma_is_gone_after_a_while() {
    let mut t = Rig::new(Role::Passive, POSTED);
    assert_eq!(t.timeout(), Some(BEGIN + SILENCE));
    t.at(BEGIN + SILENCE - 1);
    t.expect(&[]);
    t.at(BEGIN + SILENCE);
    t.expect(&["failed: Silent"]);
    assert_eq!(t.timeout(), None);
    let mut t = Rig::new(Role::Passive, POSTED);
    t.packet(&hello(POSTED));
    assert_eq!(t.timeout(), Some(DEADLINE), "the silence is over");
    t.at(BEGIN + SILENCE);
    t.expect(&["provision 32 blocks"]);
}

/// An end that refused whoever was late would be taken for one that does not want this peer, which then does not try again:
/// only a passive end over RDMA tells, whose peer has agreed already.
#[test]
fn the_deadline_ends_every_step() {
    for role in ROLES {
        for fabric in FABRICS {
            for step in 0..STEPS - 1 {
                let mut t = Rig::new(role, fabric).to(step);
                t.at(DEADLINE - 1);
                t.wants();
                t.at(DEADLINE);
                let wants = t.wants();
                let case = format!("{role:?} {fabric:?} {step}: {wants:?}");
                match (role, fabric, step) {
                    (Role::Passive, POSTED, 0) => assert!(wants.is_empty(), "{case}"),
                    (Role::Passive, POSTED, _) => {
                        let told = "REFUSED 0: the peer did not answer in time";
                        assert_eq!(wants, [told, "failed: TimedOut"], "{case}");
                    }
                    _ => assert_eq!(wants, ["failed: TimedOut"], "{case}"),
                }
                assert_eq!(t.timeout(), None, "{case}");
            }
            let mut t = Rig::new(role, fabric).to(STEPS - 1);
            t.at(u64::MAX);
            assert!(t.wants().is_empty() && t.timeout().is_none());
        }
    }
}

#[test]
fn a_packet_that_arrived_before_the_timeout_counts() {
    for fabric in FABRICS {
        let mut t = Rig::new(Role::Passive, fabric);
        t.now = DEADLINE + SECOND;
        t.packet(&hello(fabric));
        t.expect(&[if fabric == POSTED { "provision 32 blocks" } else { "provision 128 blocks" }]);
    }
}

#[test]
fn a_clock_at_its_end_is_no_panic() {
    for role in ROLES {
        let config = HandshakeConfig { deadline: Nanos(u64::MAX), ..config(role, POSTED) };
        let mut t = Rig::of(config);
        t.at(u64::MAX - 1);
        t.at(u64::MAX);
        assert!(t.handshake.is_over());
    }
}

#[test]
fn a_time_that_is_later_than_the_last_is_the_last() {
    let late = Nanos(u64::MAX - 1);
    let config = HandshakeConfig { deadline: Nanos(u64::MAX), ..config(Role::Active, POSTED) };
    assert_eq!(Handshake::<Play>::new(config, late).poll_timeout(), Some(Nanos(u64::MAX)));
}

#[test]
fn a_peer_that_takes_no_hello_gets_eight() {
    let mut t = Rig::new(Role::Active, POSTED);
    for number in 0..RECEIVES_MIN {
        t.expect(&["HELLO"]);
        t.at(BEGIN + u64::from(number + 1) * REPEAT);
    }
    t.expect(&[]);
    assert_eq!(t.timeout(), Some(DEADLINE), "the peer has no more receives");
    t.packet(&welcome(POSTED));
    t.expect(&["provision 32 blocks"]);
}

#[test]
fn a_hello_that_is_always_due_leaves_time_between() {
    let config = HandshakeConfig { hello_repeat: Some(Nanos(0)), ..config(Role::Active, POSTED) };
    let mut t = Rig::of(config);
    t.at(BEGIN);
    t.expect(&["HELLO"]);
    assert_eq!(t.timeout(), Some(BEGIN + 1));
}
