//! Failures of this end, of which the peer gets a REFUSED if it does not know and can be reached.

use crate::setup::rig::{Broken, FABRICS, ROLES, Rig, STEPS, hello};
use superpipe_core::driver::setup::{HandshakeFailure, Role};

const TOLD: [&str; 2] = ["REFUSED 3: no room", "failed: Limit here"];

#[test]
fn the_peer_sees_a_lack_of_memory() {
    for role in ROLES {
        for fabric in FABRICS {
            let mut t = Rig::new(role, fabric).to(1);
            t.handshake.handle_provisioned(Err(Broken::Limit));
            assert_eq!(t.wants(), TOLD);
            let adopting = if role == Role::Active { 2 } else { 3 };
            let mut t = Rig::new(role, fabric).to(adopting);
            t.handshake.handle_adopted(Err(Broken::Limit));
            assert_eq!(t.wants(), TOLD);
            assert!(t.handshake.own().is_none(), "it is given back");
            let mut t = Rig::new(role, fabric).to(4);
            t.handshake.handle_held(Err(Broken::Limit));
            assert_eq!(t.wants(), TOLD);
        }
    }
}

#[test]
fn an_outcome_that_nobody_waits_for_changes_nothing() {
    for role in ROLES {
        for fabric in FABRICS {
            for step in 0..STEPS {
                let provisioning = step == 1;
                let adopting = step == if role == Role::Active { 2 } else { 3 };
                let holding = step == 4;
                let mut t = Rig::new(role, fabric).to(step);
                let before = format!("{:?}", t.handshake);
                if !provisioning {
                    t.handshake.handle_provisioned(Err(Broken::Limit));
                    t.provisioned();
                }
                if !adopting {
                    t.handshake.handle_adopted(Err(Broken::Limit));
                    t.handshake.handle_adopted(Ok(1));
                }
                if !holding {
                    t.handshake.handle_held(Err(Broken::Limit));
                    t.handshake.handle_held(Ok(()));
                }
                assert_eq!(format!("{:?}", t.handshake), before);
                assert!(t.wants().is_empty());
            }
        }
    }
}

#[test]
fn nothing_is_sent_to_a_peer_that_is_gone() {
    for role in ROLES {
        for fabric in FABRICS {
            for step in 0..STEPS {
                let mut t = Rig::new(role, fabric).to(step);
                t.handshake.handle_lost();
                let due: &[&str] = match (role, step) {
                    (Role::Passive, 0) => &["failed: Nobody"],
                    (_, 5) => &[],
                    _ => &["failed: Lost"],
                };
                assert_eq!(t.wants(), due, "{role:?} {step}");
            }
        }
    }
}

#[test]
fn what_waits_to_be_sent_to_a_peer_that_is_gone_is_not_sent() {
    for fabric in FABRICS {
        let mut t = Rig::new(Role::Active, fabric);
        t.handshake.handle_lost();
        t.expect(&["failed: Lost"]);
        let mut t = Rig::new(Role::Passive, fabric).to(1);
        t.handshake.handle_provisioned(Err(Broken::Limit));
        t.handshake.handle_lost();
        t.expect(&["failed: Limit here"]);
    }
}

#[test]
fn what_cannot_be_sent_fails_it_and_a_failure_stays_the_first() {
    for role in ROLES {
        for fabric in FABRICS {
            for step in 0..STEPS - 1 {
                let mut t = Rig::new(role, fabric).to(step);
                t.handshake.handle_broken(Broken::Socket);
                assert_eq!(t.wants(), ["failed: Socket here"]);
            }
        }
    }
    // REFUSED cannot be sent: the failure is the one that it would have told.
    let mut t = Rig::new(Role::Passive, FABRICS[0]).to(2);
    t.packet(&hello(FABRICS[0]));
    let refused = t.handshake.poll_action();
    assert!(refused.is_some());
    t.handshake.handle_broken(Broken::Socket);
    t.expect(&["failed: a packet out of turn"]);
    // READY cannot be sent: there is no connection, although all was agreed on.
    for fabric in FABRICS {
        let mut t = Rig::new(Role::Passive, fabric).to(4);
        t.handshake.handle_held(Ok(()));
        assert!(t.handshake.poll_action().is_some());
        t.handshake.handle_broken(Broken::Socket);
        t.expect(&["failed: Socket here"]);
        assert!(matches!(t.failure, Some(HandshakeFailure::Local(Broken::Socket))));
    }
}
