//! Limits of the memory that a peer can make this end provision.

use crate::setup::rig::{DIRECT, FABRICS, POSTED, ROLES, Rig, block_bytes, by_hand, config, welcome_of};
use superpipe_core::driver::setup::{FabricKind, HandshakeConfig, Role, Tuning};

const ALLOWED: u32 = 1 << 20;

/// A peer makes the landing buffer so large: what this end wants to do about it.
fn ask(role: Role, fabric: FabricKind, bytes: u32, wishes: Tuning) -> Vec<String> {
    let mut t =
        Rig::of(HandshakeConfig { landing_bytes_max: ALLOWED, proposed: wishes, ..config(role, fabric) });
    t.wants();
    match role {
        Role::Active => t.memory(&welcome_of(fabric, block_bytes(fabric), bytes)),
        Role::Passive => t.packet(&by_hand(1, &[(20, &bytes.to_le_bytes())])),
    }
    t.wants()
}

#[test]
fn a_peer_makes_no_larger_landing_buffer_than_allowed() {
    for role in ROLES {
        let by = if role == Role::Active { "connecting end" } else { "listener" };
        for fabric in FABRICS {
            for bytes in [200 << 20, ALLOWED + (16 << 10)] {
                let [refused, failed] = ask(role, fabric, bytes, Tuning::default()).try_into().unwrap();
                let told = format!("that the {by} allows");
                assert!(refused.starts_with("REFUSED 2: a landing buffer of") && refused.ends_with(&told));
                assert!(failed.starts_with("failed: a landing buffer of"), "{failed}");
            }
            let wants = ask(role, fabric, ALLOWED / 2, Tuning::default());
            assert_eq!(wants, [format!("provision {} blocks", (ALLOWED / 2) / block_bytes(fabric))]);
        }
    }
}

#[test]
fn all_that_is_allowed_is_given() {
    for role in ROLES {
        assert_eq!(ask(role, POSTED, ALLOWED, Tuning::default()), ["provision 64 blocks"]);
        let wants = ask(role, DIRECT, ALLOWED, Tuning::default());
        assert!(wants[1].contains("a landing buffer of 1056 KiB is more than the 1 MiB"), "{wants:?}");
    }
}

#[test]
fn an_ends_own_proposal_is_not_limited() {
    let wishes = Tuning { landing_bytes: Some(2 << 20), ..Tuning::default() };
    for role in ROLES {
        for fabric in FABRICS {
            let blocks = (2 << 20) / block_bytes(fabric);
            assert_eq!(ask(role, fabric, 2 << 20, wishes), [format!("provision {blocks} blocks")]);
            let wants = ask(role, fabric, 4 << 20, wishes);
            let [listening, connecting] = match role {
                Role::Active => ["4194304", "2097152"],
                Role::Passive => ["2097152", "4194304"],
            };
            let told = format!(
                "landing-bytes is {listening} at the listening end and {connecting} at the connecting end"
            );
            assert!(wants[1].contains(&told), "{wants:?}");
        }
    }
}

#[test]
fn slot_lines_that_a_peer_causes_count_against_the_limit() {
    // This end alone makes 1 MiB and 32 KiB of it: 256 blocks of 4 KiB. The peer wishes for blocks of 128 bytes.
    let wishes = Tuning { landing_bytes: Some(ALLOWED), ..Tuning::default() };
    let mut t = Rig::of(HandshakeConfig {
        landing_bytes_max: ALLOWED + (8 << 10),
        proposed: wishes,
        ..config(Role::Passive, DIRECT)
    });
    t.wants();
    t.packet(&by_hand(1, &[(16, &128_u32.to_le_bytes())]));
    let wants = t.wants();
    assert!(wants[0].starts_with("REFUSED 2"), "a landing buffer of 1.5 MiB: {wants:?}");
}
