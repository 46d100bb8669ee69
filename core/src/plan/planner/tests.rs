//! The planner against virtual machines whose costs are not those of its profile.

mod changes;
mod choices;
mod machine;

use super::super::{CopyStep, Machine};
use super::*;

/// Machines with a NIC, which are the first of all.
const NICS: u64 = 6;

#[test]
fn its_state_is_below_4_kib() {
    let bytes = size_of::<Planner>();
    assert!((3072..=4096).contains(&bytes), "{bytes}");
}

#[test]
fn names_are_unique_and_protocols_those_of_the_ways() {
    for (index, way) in Way::ALL.into_iter().enumerate() {
        assert_eq!(Way::ALL.iter().filter(|other| other.name() == way.name()).count(), 1);
        assert_eq!(way as usize, index);
        assert_eq!(way.is_through_landing(), absence_index(way, Kind::Kept).is_none());
    }
    let protocols = Way::ALL.map(|way| way.protocol().name());
    assert_eq!(
        protocols,
        [
            "superpipeline",
            "pipeline",
            "eager",
            "register",
            "register-cached",
            "register-cached",
            "register-cached"
        ]
    );
}

#[test]
fn ways_are_those_of_the_memory_and_the_terms() {
    let names = |terms: Terms, memory| {
        let planner = Planner::new(Machine::NIC_100G.profile, terms);
        let explanation = planner.explain(1 << 20, memory);
        let beside = explanation.ways().filter(|one| !one.way.is_through_landing());
        beside.map(|one| one.way.name()).collect::<std::vec::Vec<_>>()
    };
    let posted = Terms::default();
    let direct = Terms { is_direct: true, has_split: true, ..posted };
    assert_eq!(names(posted, Memory::Unnamed), [""; 0]);
    assert_eq!(names(posted, Memory::Fresh), ["register"]);
    assert_eq!(names(posted, Memory::Keepable), ["register"]);
    assert_eq!(names(posted, Memory::KeepableAgain), ["register"]);
    assert_eq!(names(posted, Memory::Kept), ["register-cached"]);
    for memory in [Memory::Unnamed, Memory::Fresh, Memory::Keepable] {
        assert_eq!(names(direct, memory), [""; 0]);
    }
    assert_eq!(names(direct, Memory::Kept), ["one-copy", "split-copy"]);
    assert_eq!(names(Terms { has_split: false, ..direct }, Memory::Kept), ["one-copy"]);
    for terms in [posted, direct] {
        assert_eq!(names(Terms { has_zero_copy: false, ..terms }, Memory::Kept), [""; 0]);
    }
    // What is mapped does not go through the landing buffer, where its call would wait for the receiver's.
    let ways = |terms, memory| Planner::new(Machine::NIC_100G.profile, terms).explain(1 << 20, memory);
    let through_landing =
        |terms, memory| ways(terms, memory).ways().filter(|one| one.way.is_through_landing()).count();
    assert_eq!([Memory::Unnamed, Memory::Kept].map(|memory| through_landing(direct, memory)), [1, 0]);
    assert_eq!([Memory::Unnamed, Memory::Kept].map(|memory| through_landing(posted, memory)), [3, 3]);
}

#[test]
fn by_default_nothing_goes_a_way_that_ends_must_agree_on() {
    let names = |terms: Terms, memory| {
        let explanation = Planner::new(Machine::NIC_100G.profile, terms).explain(1 << 20, memory);
        explanation.ways().map(|one| one.way.name()).collect::<std::vec::Vec<_>>()
    };
    let asked = Terms { is_default: true, ..Terms::default() };
    for memory in [Memory::Unnamed, Memory::Fresh, Memory::Keepable] {
        assert_eq!(names(asked, memory), ["superpipeline", "pipeline"], "{memory:?}");
    }
    assert_eq!(names(asked, Memory::KeepableAgain), ["superpipeline", "pipeline", "register"]);
    assert_eq!(names(asked, Memory::Kept), ["superpipeline", "pipeline", "register-cached"]);
    for is_default in [false, true] {
        let terms = Terms { asks_cts: false, is_default, ..Terms::default() };
        for memory in Memory::ALL {
            assert_eq!(names(terms, memory), ["superpipeline", "eager"], "{memory:?}");
        }
    }
}

/// Buffers that are sent twice each: a registration by the second message would serve none.
#[test]
fn by_default_first_messages_count_against_reuse() {
    let terms = Terms { is_default: true, ..Terms::default() };
    let mut planner = Planner::new(Machine::NIC_100G.profile, terms);
    for _ in 0..200 {
        for memory in [Memory::Keepable, Memory::KeepableAgain] {
            let plan = planner.plan(1 << 20, memory);
            planner.observe(1 << 20, memory, plan.way, plan.predicted_ns);
        }
    }
    let explained = planner.explain(1 << 20, Memory::KeepableAgain);
    assert!((0.4..=0.6).contains(&explained.reuse), "{explained}");
    assert!(explained.chosen.is_through_landing(), "{explained}");
}

#[test]
fn up_to_c0_a_message_is_one_chunk() {
    let terms = Terms { c0_bytes: 12 << 10, ..Terms::default() };
    let mut planner = Planner::new(Machine::NIC_100G.profile, terms);
    for memory in Memory::ALL {
        for bytes in [0, 1, 4096, 12 << 10] {
            let plan = planner.plan(bytes, memory);
            assert_eq!((plan.way, plan.reason), (Way::Superpipeline, Reason::ShortMessage));
            assert_eq!(planner.explain(bytes, memory).ways().count(), 1);
        }
        assert_ne!(planner.plan((12 << 10) + 1, memory).reason, Reason::ShortMessage);
    }
    let direct = Terms { is_direct: true, has_split: true, ..terms };
    let mut planner = Planner::new(Machine::NIC_100G.profile, direct);
    assert_eq!(planner.plan(4095, Memory::Kept).reason, Reason::ShortMessage);
    assert_eq!(planner.plan(4096, Memory::Kept).way, Way::SplitCopy);
    assert_eq!(planner.plan(4096, Memory::Unnamed).reason, Reason::ShortMessage);
}

/// A remote write of a chunk's size would cost a gap for each: 11 % of 1 MiB with 400 Gb/s.
#[test]
fn remote_writes_are_as_large_as_they_may_be() {
    for (memory, way) in [(Memory::Fresh, Way::Register), (Memory::Kept, Way::RegisterCached)] {
        // Copies take long.
        let slow = Machine::NIC_400G.profile.copy.map(|step| CopyStep { bytes_per_ns: 1.0, ..step });
        let profile = Profile { copy: slow, ..Machine::NIC_400G.profile };
        let plan = Planner::new(profile, Terms::default()).plan(1 << 20, memory);
        assert_eq!((plan.way, plan.chunk_bytes), (way, 0));
    }
}

#[test]
fn an_explanation_is_one_line_of_all_ways() {
    let mut planner = Planner::new(Machine::GRAPHENE.profile, Terms::default());
    for _ in 0..3 {
        planner.observe(1 << 20, Memory::Keepable, Way::Superpipeline, 1e6);
    }
    planner.declined(1 << 20, Memory::Keepable, Way::Register);
    let line = std::format!("{}", planner.explain(1 << 20, Memory::Keepable));
    let start = "1048576 keepable: superpipeline (other-declined), reuse 17 %, superpipeline 999.8 us x1.86 n=3, pipeline ";
    assert!(
        line.starts_with(start) && line.ends_with("us x1.00 n=0 out 8") && !line.contains('\n'),
        "{line}"
    );
}

#[test]
fn absurd_values_do_no_harm() {
    let absurd = [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 5e-324, f64::MAX];
    let sizes = [0, 1, 4095, 4096, 1 << 20, 1 << 40, u64::MAX];
    for value in absurd {
        let mut profile = Machine::NIC_100G.profile;
        profile.copy.iter_mut().for_each(|step| step.bytes_per_ns = value);
        profile.registration.bytes_per_ns = value;
        profile.registration.deregistration.bytes_per_ns = value;
        profile.registration.latency_ns = value;
        let all = Profile {
            latency_ns: value,
            net_bytes_per_ns: value,
            gap_ns: value,
            overhead_ns: value,
            contention: value,
            ..profile
        };
        for (profile, landing_bytes) in [(profile, 0), (all, u64::MAX), (all, 1)] {
            for is_direct in [false, true] {
                let terms = Terms { is_direct, landing_bytes, folds: 0, has_split: true, ..Terms::default() };
                let mut planner = Planner::new(profile, Terms { c0_bytes: 0, ..terms });
                for (bytes, took_ns) in
                    sizes.into_iter().flat_map(|bytes| absurd.map(|took_ns| (bytes, took_ns)))
                {
                    for (memory, way) in Memory::ALL.into_iter().zip(Way::ALL.into_iter().cycle()) {
                        let plan = planner.plan(bytes, memory);
                        assert!(plan.predicted_ns > 0.0 && plan.predicted_ns.is_finite(), "{plan:?}");
                        planner.observe(bytes, memory, plan.way, took_ns);
                        planner.observe(bytes, memory, way, took_ns);
                        planner.declined(bytes, memory, way);
                        let _ = std::format!("{}", planner.explain(bytes, memory));
                    }
                }
                planner.set_terms(terms);
            }
        }
    }
}
