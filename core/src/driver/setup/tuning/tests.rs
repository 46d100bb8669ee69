extern crate std;

use super::super::packet::{Kind, Packet};
use super::*;
use std::string::ToString;

#[test]
fn one_side_is_enough() {
    let proposed = Tuning { block_bytes: Some(4096), folds: Some(2), ..Tuning::default() };
    let a = Defaults::SHM.negotiate(&proposed, &Tuning::default());
    let b = Defaults::SHM.negotiate(&Tuning::default(), &proposed);
    assert_eq!(a, b);
    assert_eq!(a.map(|s| s.layout.block_bytes), Ok(4096));
}

#[test]
fn notify_can_be_proposed_on_some_fabrics() {
    let proposed = Tuning { arrival: Some(Arrival::Notify), ..Tuning::default() };
    assert_eq!(Defaults::validate(&proposed), Ok(()));
    let shm = Defaults::SHM.negotiate(&proposed, &Tuning::default()).unwrap_err().to_string();
    assert_eq!(shm, "stores that go direct cannot be notified; use flags or checked flags");
    let posted = Defaults { flags: FlagPlace::Inside, ..Defaults::SHM };
    assert!(
        posted
            .negotiate(&proposed, &Tuning::default())
            .is_err_and(|error| error.to_string().contains("keeps 0;"))
    );
    let posted = Defaults { has_receives: true, ..posted };
    assert_eq!(
        posted.negotiate(&proposed, &Tuning::default()).map(|s| s.config.arrival),
        Ok(Arrival::Notify)
    );
}

#[test]
fn two_different_proposals_are_refused_with_both_values() {
    let of = |folds| Tuning { folds: Some(folds), ..Tuning::default() };
    let text = Defaults::SHM.negotiate(&of(2), &of(3)).unwrap_err().to_string();
    assert_eq!(
        text,
        "the two ends disagree: folds is 2 at the listening end and 3 at the connecting end; set it at one end only"
    );
    assert!(Defaults::SHM.negotiate(&of(2), &of(2)).is_ok());
}

#[test]
fn negotiated_values_survive_the_wire() {
    let proposed =
        Tuning { chunk_bytes: Some(100_000), protocol: Some(Protocol::Pipeline), ..Tuning::default() };
    let negotiated = Defaults::SHM.negotiate(&proposed, &Tuning::default()).unwrap();
    assert_eq!(Negotiated::from_tuning(&negotiated.to_tuning(), &Defaults::SHM), Ok(negotiated));
    assert_eq!(proposed.check(&negotiated, &Defaults::SHM), Ok(()));
    let proposed = Tuning { landing_bytes: Some(100_000), ..Tuning::default() };
    let negotiated = Defaults::SHM.negotiate(&Tuning::default(), &proposed).unwrap();
    assert_eq!(negotiated.layout.block_count, 24);
    assert_eq!(proposed.check(&negotiated, &Defaults::SHM), Ok(()));
}

#[test]
fn either_end_proposes_when_landing_buffers_are_provisioned() {
    let of = |landing| Tuning { landing: Some(landing), ..Tuning::default() };
    let (on_demand, at_connect) = (of(LandingMode::OnDemand), of(LandingMode::AtConnect));
    let none = Tuning::default();
    for (listening, connecting, landing) in [
        (&none, &none, LandingMode::AtConnect),
        (&on_demand, &none, LandingMode::OnDemand),
        (&none, &on_demand, LandingMode::OnDemand),
        (&at_connect, &none, LandingMode::AtConnect),
    ] {
        let negotiated = Defaults::SHM.negotiate(listening, connecting).unwrap();
        assert_eq!(negotiated.landing, landing);
        let first_is_base = negotiated.first_layout() == control_page::BASE_LAYOUT;
        assert_eq!(first_is_base, landing == LandingMode::OnDemand);
        assert_eq!(negotiated.layout.block_count, 128, "the largest one in either mode");
        assert_eq!(negotiated.whole_bytes_max(), if first_is_base { 1184 } else { 64 << 10 });
        let mut packet = Packet::new(Kind::Welcome);
        packet.set_tuning(&negotiated.to_tuning());
        assert_eq!(Negotiated::from_tuning(&packet.tuning().unwrap(), &Defaults::SHM), Ok(negotiated));
    }
    let text = Defaults::SHM.negotiate(&on_demand, &at_connect).unwrap_err().to_string();
    assert!(text.contains("landing is on-demand at the listening end and at-connect at the"), "{text}");
    let mut packet = Packet::new(Kind::Hello);
    packet.set_tuning(&at_connect);
    packet.0[44] = 3;
    assert!(packet.tuning().is_err());
}

#[test]
fn provision_has_a_small_buffer_and_a_threshold() {
    let of = |small_buffer_bytes, threshold_bytes| Tuning {
        protocol: Some(Protocol::Provision),
        small_buffer_bytes,
        threshold_bytes,
        ..Tuning::default()
    };
    let none = Tuning::default();
    for (small_buffer, threshold, blocks, threshold_bytes) in [
        (None, None, 8, 904),
        (Some(100), None, 2, 184),
        (Some(300), None, 2, 184),
        (Some(2000), None, 15, 1744),
        (Some(1000), Some(40), 7, 40),
        (None, Some(500), 8, 500),
    ] {
        let proposed = of(small_buffer, threshold);
        for (listening, connecting) in [(&proposed, &none), (&none, &proposed)] {
            let negotiated = Defaults::SHM.negotiate(listening, connecting).unwrap();
            assert_eq!(negotiated.landing, LandingMode::OnDemand, "it grows");
            let small = Layout { block_bytes: 128, block_count: blocks, flags: FlagPlace::Inside };
            assert_eq!(negotiated.small_buffer(), Some(small), "also on shared memory");
            assert_eq!(negotiated.config.threshold_bytes, threshold_bytes);
            assert_eq!(negotiated.layout.block_bytes * negotiated.layout.block_count, LANDING_BYTES);
            let mut packet = Packet::new(Kind::Welcome);
            packet.set_tuning(&negotiated.to_tuning());
            let read = Negotiated::from_tuning(&packet.tuning().unwrap(), &Defaults::SHM);
            assert_eq!(read, Ok(negotiated));
            assert_eq!(proposed.check(&negotiated, &Defaults::SHM), Ok(()));
        }
    }
    assert_eq!(Defaults::SHM.negotiate(&none, &none).unwrap().small_buffer(), None);
    for (small_buffer, threshold, text) in [
        (Some(99), None, "small_buffer_bytes is 99; it must be 100 to 2000"),
        (Some(2001), None, "small_buffer_bytes is 2001; it must be 100 to 2000"),
        (Some(70_000), None, "small_buffer_bytes is 70000; it must be 100 to 2000"),
        (None, Some(39), "threshold_bytes is 39; it must be 40 to 904"),
        (None, Some(905), "threshold_bytes is 905; it must be 40 to 904"),
        (Some(100), Some(185), "threshold_bytes is 185; it must be 40 to 184"),
    ] {
        let refused = Defaults::validate(&of(small_buffer, threshold)).unwrap_err();
        assert_eq!(refused.to_string(), text);
    }
    let at_connect = Tuning { landing: Some(LandingMode::AtConnect), ..of(None, None) };
    let text = Defaults::validate(&at_connect).unwrap_err().to_string();
    assert!(text.contains("propose landing on-demand, or none"), "{text}");
    let text = Defaults::SHM.negotiate(&of(Some(512), None), &of(Some(1024), None)).unwrap_err().to_string();
    assert!(text.contains("small-buffer is 512 at the listening end and 1024 at the connecting"), "{text}");
}

/// Two different proposals of each refinement of the superpipeline, and what the text of their disagreement begins with.
fn refinements() -> [(Tuning, Tuning, &'static str); 5] {
    let none = Tuning::default();
    let first_chunk = |first_chunk| Tuning { first_chunk: Some(first_chunk), ..none };
    let sub_blocks = |is_on| Tuning { sub_blocks: Some(is_on), ..none };
    let triple_buffer = |is_on| Tuning { triple_buffer: Some(is_on), ..none };
    [
        (
            Tuning { c0_bytes: Some(8192), ..none },
            Tuning { c0_bytes: Some(1 << 20), ..none },
            "c0 is 8192 at the listening end and 1048576 at the connecting end",
        ),
        (
            Tuning { growth_q8: Some(512), ..none },
            Tuning { growth_q8: Some(256), ..none },
            "growth is 512 at the listening end and 256 at the connecting end",
        ),
        (
            first_chunk(FirstChunk::DuringRendezvous),
            first_chunk(FirstChunk::WithoutCts),
            "first-chunk is during-rendezvous at the listening end and without-cts at the connecting end",
        ),
        (
            sub_blocks(false),
            sub_blocks(true),
            "sub-blocks is off at the listening end and on at the connecting end",
        ),
        (
            triple_buffer(true),
            triple_buffer(false),
            "triple-buffer is on at the listening end and off at the connecting end",
        ),
    ]
}

/// wire.md 6.2
#[test]
fn either_end_proposes_refinements_of_the_superpipeline() {
    let none = Tuning::default();
    let values = |config: Config| {
        let Config { c0_bytes, growth_q8, first_chunk, sub_blocks, triple_buffer, .. } = config;
        (c0_bytes, growth_q8, first_chunk, sub_blocks, triple_buffer)
    };
    let by_default = Defaults::SHM.negotiate(&none, &none).unwrap();
    assert_eq!(values(by_default.config), (64 << 10, 384, FirstChunk::WithRts, true, false));
    let proposed = Tuning {
        c0_bytes: Some(8192),
        growth_q8: Some(512),
        first_chunk: Some(FirstChunk::AfterCts),
        sub_blocks: Some(false),
        triple_buffer: Some(true),
        ..none
    };
    for (listening, connecting) in [(&proposed, &none), (&none, &proposed), (&proposed, &proposed)] {
        let negotiated = Defaults::SHM.negotiate(listening, connecting).unwrap();
        assert_eq!(values(negotiated.config), (8192, 512, FirstChunk::AfterCts, false, true));
        let mut packet = Packet::new(Kind::Welcome);
        packet.set_tuning(&negotiated.to_tuning());
        assert_eq!(Negotiated::from_tuning(&packet.tuning().unwrap(), &Defaults::SHM), Ok(negotiated));
        assert_eq!(connecting.check(&negotiated, &Defaults::SHM), Ok(()));
    }
    for (one, other, text) in refinements() {
        let refused = Defaults::SHM.negotiate(&one, &other).unwrap_err().to_string();
        assert_eq!(refused, std::format!("the two ends disagree: {text}; set it at one end only"));
        // A connecting end refuses a WELCOME that contradicts it.
        let negotiated = Defaults::SHM.negotiate(&one, &none).unwrap();
        assert_eq!(one.check(&negotiated, &Defaults::SHM), Ok(()));
        assert_eq!(other.check(&negotiated, &Defaults::SHM).unwrap_err().to_string(), refused);
    }
}

/// wire.md 6.2
#[test]
fn refinements_of_the_superpipeline_have_ranges() {
    let none = Tuning::default();
    let c0 = |c0_bytes| Tuning { c0_bytes: Some(c0_bytes), ..none };
    let growth = |growth_q8| Tuning { growth_q8: Some(growth_q8), ..none };
    for tuning in [c0(1), c0(1 << 20), growth(256), growth(1024)] {
        assert_eq!(Defaults::validate(&tuning), Ok(()), "{tuning:?}");
    }
    for (tuning, text) in [
        (c0(0), "c0_bytes is 0; it must be 1 to 1048576"),
        (c0((1 << 20) + 1), "c0_bytes is 1048577; it must be 1 to 1048576"),
        (growth(255), "growth_q8 is 255; it must be 256 to 1024"),
        (growth(1025), "growth_q8 is 1025; it must be 256 to 1024"),
    ] {
        assert_eq!(Defaults::validate(&tuning).unwrap_err().to_string(), text);
        let of_the_peer = Defaults::SHM.negotiate(&none, &tuning).unwrap_err().to_string();
        assert_eq!(of_the_peer, text);
        let in_welcome = Negotiated::from_tuning(&tuning, &Defaults::SHM);
        assert_eq!(in_welcome, Err("the values that it chose are invalid"));
    }
}

#[test]
fn invalid_proposals_are_refused() {
    for block_bytes in [1, 100, 64, 2 << 20, u32::MAX] {
        assert!(Defaults::validate(&Tuning { block_bytes: Some(block_bytes), ..Tuning::default() }).is_err());
    }
    assert!(Defaults::validate(&Tuning { landing_bytes: Some(1 << 31), ..Tuning::default() }).is_err());
    assert!(Defaults::validate(&Tuning { landing_bytes: Some(100), ..Tuning::default() }).is_err());
}

#[test]
fn values_that_nobody_proposes_are_the_fabrics() {
    let negotiated = Defaults::SHM.negotiate(&Tuning::default(), &Tuning::default()).unwrap();
    assert_eq!((negotiated.config.c0_bytes, negotiated.config.order_asserted), (64 << 10, false));
    let flags = FlagPlace::Apart { group_blocks: 4 };
    assert_eq!(negotiated.layout, Layout { block_bytes: SHM_BLOCK_BYTES, block_count: 128, flags });
    assert_eq!(negotiated.to_tuning().chunk_bytes, None);
    for ordered in [false, true] {
        let arrival = if ordered { Arrival::Flag } else { Arrival::CheckedFlag };
        let posted = Defaults { flags: FlagPlace::Inside, ordered, arrival, c0_bytes: 100, ..Defaults::SHM };
        let config = posted.negotiate(&Tuning::default(), &Tuning::default()).unwrap().config;
        assert_eq!((config.c0_bytes, config.order_asserted, config.arrival), (100, ordered, arrival));
    }
}

/// wire.md 2.4, 6.2
#[test]
fn a_group_has_16_kib_unless_an_end_proposes_another() {
    let none = Tuning::default();
    let groups = |listening: &Tuning, connecting: &Tuning| {
        let negotiated = Defaults::SHM.negotiate(listening, connecting)?;
        let mut packet = Packet::new(Kind::Welcome);
        packet.set_tuning(&negotiated.to_tuning());
        assert_eq!(u32::from(packet.0[50]), negotiated.layout.group_blocks());
        assert_eq!(Negotiated::from_tuning(&packet.tuning().unwrap(), &Defaults::SHM), Ok(negotiated));
        Ok::<_, Disagreement>(negotiated.layout.group_blocks())
    };
    for (block_bytes, group) in [
        (128, 16),
        (1 << 10, 16),
        (1088, 8),
        (2 << 10, 8),
        (4 << 10, 4),
        (4160, 2),
        (8 << 10, 2),
        (8256, 1),
        (1 << 20, 1),
    ] {
        let proposed = Tuning { block_bytes: Some(block_bytes), ..none };
        assert_eq!(groups(&proposed, &none), Ok(group), "blocks of {block_bytes}");
    }
    let of = |group_blocks| Tuning { group_blocks: Some(group_blocks), ..none };
    for group in [1, 2, 4, 8, 16] {
        assert_eq!(groups(&of(group), &none), Ok(group.into()));
        assert_eq!(groups(&none, &of(group)), Ok(group.into()));
    }
    for group in [0, 3, 5, 17, 32, 255] {
        let text = Defaults::validate(&of(group)).unwrap_err().to_string();
        assert!(text.ends_with(&std::format!("1, 2, 4, 8 or 16 of them, and not {group}")), "{text}");
    }
    let text = groups(&of(2), &of(4)).unwrap_err().to_string();
    assert!(text.contains("group-blocks is 2 at the listening end and 4 at the connecting"), "{text}");
    let posted = Defaults { flags: FlagPlace::Inside, ..Defaults::SHM };
    assert_eq!(posted.negotiate(&of(2), &of(4)).unwrap().layout.flags, FlagPlace::Inside);
}

#[test]
fn blocks_of_a_large_ring_are_larger_unless_proposed() {
    let none = Tuning::default();
    for (landing_bytes, block_bytes, group) in
        [(256 << 20, 4 << 10, 4), ((256 << 20) + 4096, 8 << 10, 2), ((1 << 30) - (64 << 10), 16 << 10, 1)]
    {
        let proposed = Tuning { landing_bytes: Some(landing_bytes), ..none };
        let layout = Defaults::SHM.negotiate(&proposed, &none).unwrap().layout;
        assert_eq!((layout.block_bytes, layout.group_blocks()), (block_bytes, group));
        let proposed = Tuning { block_bytes: Some(4 << 10), ..proposed };
        assert_eq!(Defaults::validate(&proposed).is_ok(), block_bytes == 4 << 10);
    }
}

#[test]
fn a_landing_buffer_has_four_blocks_by_default() {
    let proposed = Tuning { block_bytes: Some(1 << 20), ..Tuning::default() };
    let negotiated = Defaults::SHM.negotiate(&proposed, &Tuning::default()).unwrap();
    assert_eq!(negotiated.layout.block_count, 4);
}

#[test]
fn receives_follow_the_landing_mode_or_a_proposal() {
    let of = |landing, receives| Tuning { landing, receives, ..Tuning::default() };
    let on_demand = Some(LandingMode::OnDemand);
    for (listening, connecting, receives, notifications) in [
        (of(None, None), of(None, None), 144, 128),
        (of(on_demand, None), of(None, None), 16, 12),
        (of(on_demand, None), of(None, Some(8)), 8, 6),
        (of(None, Some(64)), of(on_demand, None), 64, 48),
        (of(None, Some(144)), of(on_demand, Some(144)), 144, 128),
    ] {
        for (ours, theirs) in [(&listening, &connecting), (&connecting, &listening)] {
            let negotiated = Defaults::SHM.negotiate(ours, theirs).unwrap();
            assert_eq!((negotiated.receives, negotiated.notifications_max()), (receives, notifications));
            let mut packet = Packet::new(Kind::Welcome);
            packet.set_tuning(&negotiated.to_tuning());
            assert_eq!(packet.0[45], receives);
        }
    }
    let notify = Tuning { arrival: Some(Arrival::Notify), ..of(on_demand, Some(RECEIVES_MIN)) };
    assert_eq!(Defaults::validate(&notify), Ok(()), "the fewest are enough for every mode");
    for receives in [1, 7, 145, 255] {
        let text = Defaults::validate(&of(None, Some(receives))).unwrap_err().to_string();
        assert_eq!(text, std::format!("receives is {receives}, and must be 8 to 144"));
    }
    let text = Defaults::SHM.negotiate(&of(None, Some(8)), &of(None, Some(9))).unwrap_err().to_string();
    assert!(text.contains("receives is 8 at the listening end and 9 at"), "{text}");
}

#[test]
fn register_needs_a_device_and_register_cached_does_not() {
    let proposed = |protocol| Tuning { protocol: Some(protocol), ..Tuning::default() };
    let posted = Defaults { flags: FlagPlace::Inside, has_receives: true, ..Defaults::SHM };
    let register = proposed(Protocol::Register);
    for (ours, theirs) in [(register, Tuning::default()), (Tuning::default(), register), (register, register)]
    {
        let refused = Defaults::SHM.negotiate(&ours, &theirs).unwrap_err();
        assert_eq!(refused, Disagreement::RegisterWithoutDevice);
        assert!(refused.to_string().contains("propose register-cached"), "{refused}");
        assert_eq!(posted.negotiate(&ours, &theirs).unwrap().config.protocol, Protocol::Register);
    }
    let cached = Defaults::SHM.negotiate(&proposed(Protocol::RegisterCached), &register);
    assert!(matches!(cached, Err(Disagreement::Proposals { .. })));
    let cached = Defaults::SHM.negotiate(&proposed(Protocol::RegisterCached), &Tuning::default()).unwrap();
    assert_eq!(cached.config.protocol, Protocol::RegisterCached);
    assert_eq!(Defaults::validate(&register), Ok(()), "the fabric is not known yet");
}
