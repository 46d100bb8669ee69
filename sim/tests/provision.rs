//! The provision protocol in virtual time: what happens when, and how long it takes.

use superpipe_core::recorder::{ControlKind, Step};
use superpipe_sim::{MemoryUse, RunOptions, Scenario, Trace, TraceEvent, run};

const TRACED: RunOptions = RunOptions { traced: true, turns_max: None };

/// Returns the times at which a host had an event for which this is true.
fn times(trace: &Trace, host: usize, is_it: impl Fn(&TraceEvent) -> bool) -> Vec<u64> {
    let at = |entry: &&superpipe_sim::TraceEntry| entry.host == host && is_it(&entry.event);
    trace.0.iter().filter(at).map(|entry| entry.at_ns).collect()
}

fn step(is_it: impl Fn(&Step) -> bool) -> impl Fn(&TraceEvent) -> bool {
    move |event| matches!(event, TraceEvent::Core { step, .. } if is_it(step))
}

fn control_out(kind: ControlKind) -> impl Fn(&TraceEvent) -> bool {
    step(move |step| *step == Step::ControlOut(kind))
}

fn control_in(kind: ControlKind) -> impl Fn(&TraceEvent) -> bool {
    step(move |step| *step == Step::ControlIn(kind))
}

/// Returns the sizes and times of the registrations of a host for this use.
fn registered(trace: &Trace, host: usize, memory: MemoryUse) -> Vec<(u32, u64)> {
    let find = |entry: &superpipe_sim::TraceEntry| match entry.event {
        TraceEvent::Register { bytes, memory_use, .. } if entry.host == host && memory_use == memory => {
            Some((bytes, entry.at_ns))
        }
        _ => None,
    };
    trace.0.iter().filter_map(find).collect()
}

/// Both ends register in turn while they communicate, and the first write waits for both.
#[test]
fn both_ends_register_before_the_first_write() {
    for name in ["provision", "provision-direct"] {
        let case = Scenario::by_name(name).unwrap().case();
        let trace = run(&case, TRACED).unwrap().trace;
        let [small, (larger_bytes, landing_at)] = registered(&trace, 1, MemoryUse::Landing)[1..] else {
            panic!("{name}: {trace}")
        };
        assert_eq!(small.0, 2816, "{name}: the base");
        assert!((64 << 10..=80 << 10).contains(&larger_bytes), "{name}: {larger_bytes}");
        let images = registered(&trace, 0, MemoryUse::LandingImage);
        let (image_bytes, image_at) = *images.last().unwrap();
        assert_eq!((images.len(), image_bytes), (3, larger_bytes), "{name}");

        let compared = times(&trace, 0, step(|step| matches!(step, Step::Compared { .. })))[0];
        let asked = times(&trace, 0, control_out(ControlKind::Grow))[0];
        let told = times(&trace, 1, control_in(ControlKind::Grow))[0];
        let acknowledges = times(&trace, 1, control_out(ControlKind::Grown))[0];
        let acknowledged = times(&trace, 0, control_in(ControlKind::Grown))[0];
        let copied = times(&trace, 0, step(|step| matches!(step, Step::CopyIn { .. })))[0];
        let out = times(&trace, 1, step(|step| matches!(step, Step::CopyOut { .. })))[0];
        let order = [compared, asked, told, landing_at, acknowledges, acknowledged, image_at, copied, out];
        assert!(order.is_sorted(), "{name}: {order:?}");

        let ns = case.profile.registration_ns(u64::from(larger_bytes), false);
        assert!(landing_at - told >= ns, "{name}: {order:?}");
        assert!(image_at - acknowledged >= ns, "{name}: {order:?}");
        assert!(acknowledged - asked >= ns + 2 * case.profile.latency_ns || case.direct, "{name}: {order:?}");
    }
}

/// The message is one write, and the messages behind it find the larger buffer.
#[test]
fn one_growth_serves_all_messages() {
    let trace = run(&Scenario::by_name("provision").unwrap().case(), TRACED).unwrap().trace;
    assert_eq!(times(&trace, 0, control_out(ControlKind::Grow)).len(), 1);
    let posted: Vec<_> = trace
        .0
        .iter()
        .filter_map(|entry| match entry.event {
            TraceEvent::Core { step: Step::Post { bytes, .. }, .. } if entry.host == 0 => Some(bytes),
            _ => None,
        })
        .collect();
    assert!(posted[0] >= 64 << 10, "the message is one write: {posted:?}");
    assert!(posted.iter().sum::<u32>() < (64 << 10) + 300 + 20_000 + 4 * 1024, "{posted:?}");
}

/// The small buffer and its image are deregistered after RETIRED, while the connection goes on.
#[test]
fn the_small_buffer_is_deregistered_once_it_was_left() {
    for name in ["provision", "provision-direct"] {
        let trace = run(&Scenario::by_name(name).unwrap().case(), TRACED).unwrap().trace;
        let retired = times(&trace, 1, control_in(ControlKind::Retired))[0];
        let closes = times(&trace, 1, control_out(ControlKind::Close))[0];
        let freed =
            [0, 1].map(|host| times(&trace, host, |event| matches!(event, TraceEvent::Deregister { .. })));
        let sent = times(&trace, 0, control_out(ControlKind::Retired))[0];
        assert_eq!((freed[0].len(), freed[1].len()), (1, 1), "{name}");
        assert!(freed[0][0] > sent && freed[1][0] > retired, "{name}: {freed:?} {sent} {retired}");
        // With direct store all messages have come out before the job is over.
        assert!(freed[1][0] < closes || name == "provision-direct", "{name}");
    }
}
