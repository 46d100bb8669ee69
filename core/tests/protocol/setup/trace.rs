//! The honest exchange, step by step.

use crate::setup::rig::{
    DIRECT, FABRICS, OWN_PAGE, OWN_REGION, OWN_SMALL, Own, PEER_IDLE_TIMEOUT, PEER_REGION, POSTED, Rig,
    by_hand, config, grant, hello, ready, welcome, why,
};
use superpipe_core::driver::setup::{
    Ancillary, ArrivalReason, FabricKind, HandshakeConfig, Packet, Role, Tuning,
};
use superpipe_core::{Arrival, FlagPlace, Nanos};

#[test]
fn a_connecting_end_over_shared_memory() {
    let mut t = Rig::new(Role::Active, DIRECT);
    t.expect(&["HELLO"]);
    assert_eq!(t.sent.as_ref().unwrap().0[12..64], hello(DIRECT).0[12..64]);
    assert_eq!(t.sent.as_ref().unwrap().0[76..80], [0x30, 0x75, 0, 0], "30 s");
    assert!(t.handshake.expects_grant());
    t.memory(&welcome(DIRECT));
    assert!(!t.handshake.expects_grant());
    t.expect(&["provision 128 blocks"]);
    t.provisioned();
    t.expect(&["adopt descriptor 5"]);
    t.handshake.handle_adopted(Ok(6));
    t.expect(&["GRANT beside own"]);
    t.packet(&ready());
    t.expect(&["hold"]);
    t.handshake.handle_held(Ok(()));
    t.expect(&["established"]);
    let agreed = t.agreed.unwrap();
    assert_eq!(agreed.peer_idle_timeout, Some(Nanos(PEER_IDLE_TIMEOUT)));
    assert_eq!((agreed.own, agreed.peer, agreed.is_fenced, agreed.pid), (Own(None), 6, true, Some(88)));
    assert_eq!(
        (agreed.negotiated.layout.flags, agreed.arrival_reason),
        (FlagPlace::Apart { group_blocks: 4 }, None)
    );
}

#[test]
fn a_listening_end_over_shared_memory() {
    let mut t = Rig::new(Role::Passive, DIRECT);
    t.expect(&[]);
    t.packet(&hello(DIRECT));
    t.expect(&["provision 128 blocks"]);
    t.provisioned();
    t.expect(&["WELCOME beside own"]);
    assert_eq!(t.sent.as_ref().unwrap().0[12..32], by_hand(2, &WELCOMED).0[12..32]);
    assert_eq!(t.sent.as_ref().unwrap().0[50..52], [4, 0], "blocks of a group");
    assert!(t.handshake.expects_grant());
    t.memory(&grant(DIRECT));
    t.expect(&["adopt descriptor 5"]);
    t.handshake.handle_adopted(Ok(6));
    t.expect(&["hold"]);
    t.handshake.handle_held(Ok(()));
    t.expect(&["READY", "established"]);
    let agreed = t.agreed.unwrap();
    assert_eq!(agreed.peer_idle_timeout, Some(Nanos(PEER_IDLE_TIMEOUT)));
    assert_eq!((agreed.own, agreed.peer, agreed.is_fenced, agreed.pid), (Own(None), 6, true, None));
}

/// The fields of WELCOME where nobody wishes anything, of the process 77. wire.md 6.1.
const WELCOMED: [(usize, &[u8]); 4] =
    [(12, &[1, 8, 1, 3]), (16, &[0, 0x10, 0, 0]), (20, &[0, 0, 8, 0]), (28, &[77, 0, 0, 0])];

#[test]
fn a_connecting_end_over_rdma() {
    let mut t = Rig::new(Role::Active, POSTED);
    t.expect(&["HELLO"]);
    assert_eq!(t.sent.as_ref().unwrap().0[12..64], hello(POSTED).0[12..64]);
    assert!(!t.handshake.expects_grant());
    t.packet(&welcome(POSTED));
    t.expect(&["provision 32 blocks"]);
    t.provisioned();
    t.expect(&["adopt region 0x100000040"]);
    t.handshake.handle_adopted(Ok(6));
    t.expect(&["GRANT"]);
    let granted = t.sent.as_ref().unwrap().0[32..44].to_owned();
    assert_eq!(granted, [&OWN_REGION.addr.to_le_bytes()[..], &OWN_REGION.rkey.to_le_bytes()].concat());
    t.packet(&ready());
    t.expect(&["hold"]);
    t.handshake.handle_held(Ok(()));
    t.expect(&["established"]);
    let agreed = t.agreed.unwrap();
    assert_eq!(agreed.peer_idle_timeout, Some(Nanos(PEER_IDLE_TIMEOUT)));
    assert_eq!((agreed.own, agreed.peer), (Own(Some(OWN_PAGE)), 6));
    assert_eq!(
        (agreed.arrival_reason, agreed.is_fenced, agreed.pid),
        (Some(ArrivalReason::Ordered), false, None)
    );
    assert_eq!(agreed.negotiated.layout.flags, FlagPlace::Inside);
}

#[test]
fn a_listening_end_over_rdma() {
    let mut t = Rig::new(Role::Passive, POSTED);
    t.expect(&[]);
    t.packet(&hello(POSTED));
    t.expect(&["provision 32 blocks"]);
    t.packet(&hello(POSTED));
    t.expect(&[]);
    t.provisioned();
    t.expect(&["WELCOME"]);
    let welcomed = &t.sent.as_ref().unwrap().0[..];
    assert_eq!((&welcomed[28..31], &welcomed[32..40]), (&[1, 0, 1][..], &OWN_REGION.addr.to_le_bytes()[..]));
    t.packet(&hello(POSTED));
    t.expect(&[]);
    t.packet(&grant(POSTED));
    let region = format!("adopt region {:#x}", PEER_REGION.addr);
    t.expect(&[region.as_str()]);
    t.handshake.handle_adopted(Ok(6));
    t.expect(&["hold"]);
    t.handshake.handle_held(Ok(()));
    t.expect(&["READY", "established"]);
    assert_eq!(t.agreed.unwrap().own, Own(Some(OWN_PAGE)));
}

/// By the provision protocol each end names its small buffer as well. wire.md 10.2.
#[test]
fn both_ends_over_rdma_name_their_small_buffers() {
    let name = |addr: u64, rkey: u32| [&addr.to_le_bytes()[..], &rkey.to_le_bytes()].concat();
    let theirs = name(0x2_0000_0080, 11);
    let adopts = format!("adopt regions {:#x} 0x200000080", PEER_REGION.addr);
    let with = |mut packet: Packet, at: usize, bytes: &[u8]| {
        packet.0[at..at + bytes.len()].copy_from_slice(bytes);
        packet
    };
    let provision = |packet: Packet| with(packet, 13, &[5]);

    let mut t = Rig::new(Role::Active, POSTED);
    t.wants();
    t.packet(&with(provision(welcome(POSTED)), 52, &theirs));
    t.expect(&["provision 32 blocks"]);
    t.provisioned();
    t.expect(&[adopts.as_str()]);
    t.handshake.handle_adopted(Ok(6));
    t.expect(&["GRANT"]);
    assert_eq!(t.sent.as_ref().unwrap().0[52..64], name(OWN_SMALL.addr, OWN_SMALL.rkey));

    let mut t = Rig::new(Role::Passive, POSTED);
    t.packet(&provision(hello(POSTED)));
    t.expect(&["provision 32 blocks"]);
    t.provisioned();
    t.expect(&["WELCOME"]);
    assert_eq!(t.sent.as_ref().unwrap().0[52..64], name(OWN_SMALL.addr, OWN_SMALL.rkey));
    t.packet(&with(grant(POSTED), 52, &theirs));
    t.expect(&[adopts.as_str()]);

    // By another protocol these bytes are reserved.
    let mut t = Rig::new(Role::Passive, POSTED).to(2);
    t.packet(&with(grant(POSTED), 52, &theirs));
    let wants = t.wants();
    assert!(wants.last().is_some_and(|last| last.contains("reserved bytes")), "{wants:?}");
}

/// Plays both ends against each other: what each agreed on.
fn meet(mut active: Rig, mut passive: Rig) -> [Rig; 2] {
    let mut to_passive = Vec::new();
    let mut to_active = Vec::new();
    for _ in 0..20 {
        for (end, into) in [(&mut active, &mut to_passive), (&mut passive, &mut to_active)] {
            for want in end.wants() {
                match want.split(' ').next() {
                    Some("provision") => end.provisioned(),
                    Some("adopt") => end.handshake.handle_adopted(Ok(6)),
                    Some("hold") => end.handshake.handle_held(Ok(())),
                    Some("established" | "failed:") => {}
                    _ => into.push((end.sent.take().unwrap(), want.ends_with("own"))),
                }
            }
        }
        for (end, from) in [(&mut passive, &mut to_passive), (&mut active, &mut to_active)] {
            for (packet, has_memory) in from.drain(..) {
                if has_memory { end.memory(&packet) } else { end.packet(&packet) }
            }
        }
    }
    [active, passive]
}

fn rig(role: Role, fabric: FabricKind, proposed: Tuning) -> Rig {
    Rig::of(HandshakeConfig { proposed, ..config(role, fabric) })
}

#[test]
fn two_ends_agree_on_the_same_whichever_proposes() {
    for fabric in FABRICS {
        let checked = Tuning { arrival: Some(Arrival::CheckedFlag), folds: Some(5), ..Tuning::default() };
        for (ours, theirs) in [
            (Tuning::default(), Tuning::default()),
            (checked, Tuning::default()),
            (Tuning::default(), checked),
            (checked, checked),
        ] {
            let [active, passive] = meet(rig(Role::Active, fabric, ours), rig(Role::Passive, fabric, theirs));
            let (active, passive) = (active.agreed.unwrap(), passive.agreed.unwrap());
            assert_eq!(
                (active.negotiated, active.arrival_reason),
                (passive.negotiated, passive.arrival_reason)
            );
            let is_wished = ours == checked || theirs == checked;
            let due = if is_wished { (Arrival::CheckedFlag, 5) } else { (Arrival::Flag, 3) };
            assert_eq!((active.negotiated.config.arrival, active.negotiated.config.folds), due);
            // The promises of the devices are used only if they are needed.
            let asserted = fabric == POSTED && due.0 == Arrival::Flag;
            assert_eq!(active.negotiated.config.order_asserted, asserted);
        }
    }
}

#[test]
fn two_ends_that_disagree_both_know_why() {
    for fabric in FABRICS {
        let of = |folds| Tuning { folds: Some(folds), ..Tuning::default() };
        let [active, passive] = meet(rig(Role::Active, fabric, of(2)), rig(Role::Passive, fabric, of(3)));
        let told = "the two ends disagree: folds is 3 at the listening end and 2 at the connecting end; set it at one end only";
        assert_eq!(why(&passive.failure.unwrap()), told);
        assert_eq!(why(&active.failure.unwrap()), format!("the peer refused: {told}"));
    }
}

#[test]
fn membarrier_is_relied_on_where_both_have_it() {
    let fabric = |is_fenced| FabricKind::Direct { is_fenced, pid: 1 };
    for (ours, theirs) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut ends = [
            rig(Role::Active, fabric(ours), Tuning::default()),
            rig(Role::Passive, fabric(theirs), Tuning::default()),
        ];
        ends.iter_mut().for_each(|end| end.fabric = DIRECT);
        let [active, passive] = ends;
        for end in meet(active, passive) {
            assert_eq!(end.agreed.unwrap().is_fenced, ours && theirs);
        }
    }
}

#[test]
fn flags_that_no_device_promises_need_the_word_of_both_users() {
    let unordered = FabricKind::Posted { keeps_order: false, has_fast_crc: false };
    let flag = Tuning { arrival: Some(Arrival::Flag), ..Tuning::default() };
    let by_flag = |by_peer: &[u8]| by_hand(2, &[(13, &[4, by_peer[0], 3]), (28, &[0, 0, by_peer[1]])]);
    for (said, due) in [([1, 3], "provision 32 blocks"), ([3, 5], "set flag at both ends, or at none")] {
        let mut t = rig(Role::Active, unordered, flag);
        t.wants();
        t.packet(&by_flag(&said));
        let wants = t.wants();
        assert!(wants.last().unwrap().ends_with(due), "{wants:?}");
    }
}

#[test]
fn a_peer_chooses_no_laxer_mode_and_no_other_value() {
    // The active end's device keeps no order, and WELCOME says plain flags.
    let unordered = FabricKind::Posted { keeps_order: false, has_fast_crc: false };
    let mut t = rig(Role::Active, unordered, Tuning::default());
    t.wants();
    t.packet(&welcome(POSTED));
    let told = "the peer chose arrival mode flag, and the proposals give notify";
    t.expect(&[format!("REFUSED 2: {told}").as_str(), format!("failed: {told}").as_str()]);
    for fabric in FABRICS {
        let mut t = rig(Role::Active, fabric, Tuning { folds: Some(4), ..Tuning::default() });
        t.wants();
        t.memory(&welcome(fabric));
        assert!(t.wants()[1].contains("folds is 3 at the listening end and 4 at the connecting end"));
    }
}

#[test]
fn what_a_welcome_must_have() {
    for (fabric, at, byte, told) in [
        (POSTED, 14, 0, "WELCOME without an arrival mode"),
        (POSTED, 30, 0, "an unknown reason"),
        (POSTED, 30, 6, "an unknown reason"),
        (POSTED, 28, 2, "an unknown choice"),
        (POSTED, 32, 1, "a region that cannot be"),
        (POSTED, 31, 1, "reserved bytes are not zero"),
        (POSTED, 12, 1, "reserved bytes are not zero"),
        (DIRECT, 12, 2, "reserved bytes are not zero"),
        (DIRECT, 13, 99, "an unknown choice"),
        (DIRECT, 16, 1, "the values that it chose are invalid"),
        (DIRECT, 100, 1, "reserved bytes are not zero"),
    ] {
        let mut t = Rig::new(Role::Active, fabric);
        t.wants();
        let mut packet = welcome(fabric);
        packet.0[at] = byte;
        t.memory(&packet);
        let [refused, failed] = t.wants().try_into().unwrap();
        assert!(refused.starts_with("REFUSED 0: the peer broke the handshake"), "{at}: {refused}");
        assert_eq!(failed, format!("failed: {told}"), "{at}");
    }
    let mut t = Rig::new(Role::Active, DIRECT);
    t.wants();
    t.bytes(&welcome(DIRECT).0, Ancillary::Nothing);
    assert_eq!(t.wants()[1], "failed: no descriptor came along");
}
