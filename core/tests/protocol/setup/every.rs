//! Every packet at every step: one is awaited at most, and all others end the handshake with a word to the peer.

use crate::setup::rig::{
    DIRECT, FABRICS, POSTED, ROLES, Received, Rig, STEPS, by_hand, grant, hello, ready, welcome,
};
use superpipe_core::driver::setup::{Ancillary, FabricKind, Packet, Role};

const ESTABLISHED: usize = STEPS - 1;

/// The packet that a role awaits at a step, by its kind.
fn awaited(role: Role, step: usize) -> Option<u8> {
    match (role, step) {
        (Role::Passive, 0) => Some(1),
        (Role::Active, 0) => Some(2),
        (Role::Passive, 2) => Some(3),
        (Role::Active, 3) => Some(4),
        _ => None,
    }
}

fn packet(kind: u8, fabric: FabricKind) -> Packet {
    match kind {
        1 => hello(fabric),
        2 => welcome(fabric),
        3 => grant(fabric),
        4 => ready(),
        other => by_hand(other, &[]),
    }
}

fn each(mut test: impl FnMut(Role, FabricKind, usize)) {
    for role in ROLES {
        for fabric in FABRICS {
            for step in 0..STEPS {
                test(role, fabric, step);
            }
        }
    }
}

/// Returns the reaction to this packet at that step.
fn after(role: Role, fabric: FabricKind, step: usize, feed: impl FnOnce(&mut Rig)) -> Vec<String> {
    let mut t = Rig::new(role, fabric).to(step);
    feed(&mut t);
    t.wants()
}

#[test]
fn one_packet_is_awaited_and_all_others_are_refused() {
    each(|role, fabric, step| {
        for kind in [0, 1, 2, 3, 4, 6, 255] {
            let wants = after(role, fabric, step, |t| {
                // Memory beside a packet that may have it: anything beside another is a case of its own.
                if matches!(kind, 2 | 3) && t.handshake.expects_grant() {
                    t.memory(&packet(kind, fabric));
                } else {
                    t.packet(&packet(kind, fabric));
                }
            });
            let is_hello_again = kind == 1 && role == Role::Passive && fabric == POSTED && step > 0;
            let case = format!("{role:?} {fabric:?} step {step} kind {kind}: {wants:?}");
            if step == ESTABLISHED || is_hello_again {
                assert!(wants.is_empty(), "{case}");
            } else if awaited(role, step) == Some(kind) {
                assert!(wants.len() == 1 && !wants[0].contains("REFUSED"), "{case}");
            } else {
                assert_eq!(wants.len(), 2, "{case}");
                assert!(wants[0].starts_with("REFUSED 0:"), "{case}");
                assert_eq!(wants[1], "failed: a packet out of turn", "{case}");
            }
        }
    });
}

#[test]
fn a_packet_that_is_due_is_a_step_and_nothing_else_is() {
    each(|role, fabric, step| {
        let mut t = Rig::new(role, fabric).to(step);
        let before = t.handshake.steps();
        // Input that the handshake ignores.
        if fabric == DIRECT {
            t.bytes(b"W", Ancillary::Nothing);
        } else if role == Role::Passive && step > 0 {
            t.packet(&hello(fabric));
        }
        t.at(t.now);
        assert_eq!(t.handshake.steps(), before, "{role:?} {fabric:?} step {step}");
        let Some(kind) = awaited(role, step) else { return };
        if t.handshake.expects_grant() {
            t.memory(&packet(kind, fabric));
        } else {
            t.packet(&packet(kind, fabric));
        }
        assert_eq!(t.handshake.steps(), before + 1, "{role:?} {fabric:?} step {step}");
    });
}

#[test]
fn a_refusal_ends_it_at_every_step_and_is_not_answered() {
    each(|role, fabric, step| {
        let refused = by_hand(5, &[(11, &[3]), (64, b"no\x1b room")]);
        let wants = after(role, fabric, step, |t| t.packet(&refused));
        let due = if step == ESTABLISHED { vec![] } else { vec!["failed: the peer refused: no? room"] };
        assert_eq!(wants, due, "{role:?} {fabric:?} {step}");
    });
}

#[test]
fn another_version_and_garbage_are_named_at_every_step() {
    each(|role, fabric, step| {
        let mut newer = hello(fabric);
        newer.0[8] = 9;
        let wants = after(role, fabric, step, |t| t.packet(&newer));
        let version = "the peer speaks version 9 of the protocol, this is version 6";
        if step == ESTABLISHED {
            return assert!(wants.is_empty());
        }
        assert!(wants[0].starts_with(&format!("REFUSED 1: {version}")), "{wants:?}");
        assert!(wants[1].starts_with(&format!("failed: {version}")), "{wants:?}");
        let short = hello(fabric);
        for garbage in [&[][..], &[7; 192], &[0; 193], &short.0[..191], b"GET / HTTP/1.1", b"WW", b"X"] {
            let wants = after(role, fabric, step, |t| t.bytes(garbage, Ancillary::Nothing));
            let due = ["REFUSED 0: what answers there does not speak superpipe", "failed: garbage"];
            assert_eq!(wants, due, "{role:?} {fabric:?} {step} {garbage:?}");
        }
    });
}

#[test]
fn a_descriptor_comes_where_it_is_awaited_and_nowhere_else() {
    each(|role, fabric, step| {
        for kind in [1, 2, 3, 4] {
            let wants = after(role, fabric, step, |t| {
                t.bytes(&packet(kind, fabric).0, Ancillary::One(Received(8)));
            });
            let may = fabric == DIRECT && matches!((role, step), (Role::Active, 0) | (Role::Passive, 2));
            if may && awaited(role, step) == Some(kind) {
                assert_eq!(wants.len(), 1, "{wants:?}");
            } else if step == ESTABLISHED {
                assert!(wants.is_empty());
            } else {
                let due = if may { "a packet out of turn" } else { "a descriptor where none belongs" };
                assert_eq!(wants[1], format!("failed: {due}"), "{role:?} {fabric:?} {step} {kind}");
            }
        }
        let wants = after(role, fabric, step, |t| t.bytes(&[], Ancillary::Stray));
        if step < ESTABLISHED {
            assert_eq!(wants[1], "failed: a descriptor where none belongs");
        }
    });
}

#[test]
fn wake_bytes_are_passed_over_before_each_packet_and_bounded() {
    each(|role, fabric, step| {
        let mut t = Rig::new(role, fabric).to(step);
        t.bytes(b"W", Ancillary::Nothing);
        let wants = t.wants();
        match (fabric, step) {
            (_, ESTABLISHED) => return assert!(wants.is_empty()),
            (POSTED, _) => return assert_eq!(wants[1], "failed: garbage"),
            _ => assert!(wants.is_empty(), "{wants:?}"),
        }
        for _ in 1..64 {
            t.bytes(b"W", Ancillary::Nothing);
            assert!(t.wants().is_empty());
        }
        t.bytes(b"W", Ancillary::Nothing);
        assert_eq!(t.wants()[1], "failed: more than 64 wake bytes in the handshake");
        let wants = after(role, fabric, step, |t| t.bytes(b"W", Ancillary::One(Received(8))));
        assert_eq!(wants[1], "failed: a descriptor where none belongs");
    });
    // Each packet may have as many before it.
    let mut t = Rig::new(Role::Passive, DIRECT);
    for _ in 0..64 {
        t.bytes(b"W", Ancillary::Nothing);
    }
    t.packet(&hello(DIRECT));
    t.wants();
    t.provisioned();
    for _ in 0..64 {
        t.bytes(b"W", Ancillary::Nothing);
    }
    assert_eq!(t.wants(), ["WELCOME beside own"]);
}

#[test]
fn hello_again_does_not_outlive_the_deadline() {
    for (fabric, again) in [(POSTED, hello(POSTED).0.to_vec()), (DIRECT, b"W".to_vec())] {
        let mut t = Rig::new(Role::Passive, fabric).to(2);
        t.now = crate::setup::rig::DEADLINE;
        t.bytes(&again, Ancillary::Nothing);
        assert_eq!(t.wants().last().unwrap(), "failed: TimedOut");
    }
}
