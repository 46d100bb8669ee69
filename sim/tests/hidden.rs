//! Growth that a transfer does not wait for, in virtual time of the 100 Gb/s profile: how much of it is hidden, and that it blocks nothing.

use superpipe_core::recorder::{ControlKind, Step};
use superpipe_core::{Config, FlagPlace, Layout, Origin, Protocol};
use superpipe_sim::{Case, MemoryUse, Profile, RunOptions, Trace, TraceEvent, run};
use superpipe_testkit::pair::{Script, Transfer};
use superpipe_testkit::{GrowthSetup, Setup};

/// The base, in the control page (wire.md 2.5).
const BASE: Layout = Layout { block_bytes: 256, block_count: 11, flags: FlagPlace::Inside };
/// The default landing buffer.
const LARGEST: Layout = Layout { block_bytes: 16 << 10, block_count: 32, flags: FlagPlace::Inside };
const MIB: usize = 1 << 20;
const PROFILE: Profile = Profile::roce_100g();

/// Returns a case in which end 0 sends one message: out of the page if the landing buffers grow, otherwise into the largest one.
fn case(bytes: usize, protocol: Protocol, grows: bool) -> Case {
    let growth = GrowthSetup::new(LARGEST, 64 << 10);
    let layout = if grows { BASE } else { LARGEST };
    let setup =
        Setup { send_queue: PROFILE.send_queue, growth: grows.then_some(growth), ..Setup::new(layout, 1) };
    let message = Transfer::message(bytes, protocol);
    let script = Script {
        setup,
        configs: [Config { threshold_bytes: 904, ..Config::default() }; 2],
        origin: Origin::default(),
        transfers: [vec![message], Vec::new()],
        slowness: [1; 2],
        windows: false,
    };
    Case::of_script(script, false, PROFILE)
}

fn traced(case: &Case) -> Trace {
    run(case, RunOptions { traced: true, turns_max: None })
        .unwrap_or_else(|failure| panic!("{failure}"))
        .trace
}

/// Returns the times at which a host made steps for which this returns something, and what it returned.
fn steps<T>(trace: &Trace, host: usize, pick: impl Fn(&Step) -> Option<T>) -> Vec<(u64, T)> {
    let pick = |entry: &superpipe_sim::TraceEntry| match &entry.event {
        TraceEvent::Core { step, .. } if entry.host == host => Some((entry.at_ns, pick(step)?)),
        _ => None,
    };
    trace.0.iter().filter_map(pick).collect()
}

/// One transfer, from the first step of its sender to the last byte at its receiver.
struct Timed {
    trace: Trace,
    begin_ns: u64,
    end_ns: u64,
}

impl Timed {
    fn new(bytes: usize, protocol: Protocol, grows: bool) -> Self {
        let trace = traced(&case(bytes, protocol, grows));
        let begin_ns = steps(&trace, 0, |_| Some(()))[0].0;
        let outs = steps(&trace, 1, |step| match step {
            Step::CopyOut { bytes, .. } => Some(*bytes as usize),
            _ => None,
        });
        assert_eq!(outs.iter().map(|(_, bytes)| bytes).sum::<usize>(), bytes);
        Self { end_ns: outs.last().map_or(0, |(at_ns, _)| *at_ns), trace, begin_ns }
    }

    const fn ns(&self) -> u64 {
        self.end_ns - self.begin_ns
    }

    /// Returns when the payload up to each chunk had left, and its bytes.
    fn sent(&self) -> Vec<(u64, usize)> {
        let mut all = 0;
        let copied = steps(&self.trace, 0, |step| match step {
            Step::CopyIn { bytes, .. } => Some(*bytes as usize),
            _ => None,
        });
        let sum = |(at_ns, bytes)| {
            all += bytes;
            (at_ns, all)
        };
        copied.into_iter().map(sum).collect()
    }

    /// Returns the times from the first step, a write of a chunk, or the credit for it, to the next write, where they are longer than a round
    /// trip and the sender waits for no credit.
    fn pauses_with_credit(&self) -> Vec<u64> {
        let round_trip_ns = 2 * (PROFILE.latency_ns + PROFILE.fetch_ns);
        let (mut since_ns, mut waits, mut pauses) = (self.begin_ns, false, Vec::new());
        let has_ended = |(at_ns, _): &(u64, Step)| *at_ns <= self.end_ns;
        for (at_ns, step) in steps(&self.trace, 0, |step| Some(*step)).into_iter().take_while(has_ended) {
            match step {
                Step::Post { .. } if !waits && at_ns - since_ns > round_trip_ns => {
                    pauses.push(at_ns - since_ns);
                }
                Step::NoCredit { .. } | Step::NoCts { .. } => waits = true,
                _ => {}
            }
            if matches!(step, Step::Post { .. } | Step::AckIn { .. } | Step::ControlIn(ControlKind::Cts)) {
                (since_ns, waits) = (at_ns, false);
            }
        }
        pauses
    }
}

/// T_plain is that of the protocol that waits for the larger landing buffer.
#[test]
fn most_of_what_growth_takes_is_hidden() {
    let [hidden, plain] =
        [Protocol::Superpipeline, Protocol::Provision].map(|protocol| Timed::new(MIB, protocol, true));
    let control = |host, kind| steps(&plain.trace, host, |step| (*step == kind).then_some(()))[0].0;
    let images = plain.trace.0.iter().filter_map(|entry| match entry.event {
        TraceEvent::Register { memory_use: MemoryUse::LandingImage, .. } if entry.host == 0 => {
            Some(entry.at_ns)
        }
        _ => None,
    });
    let ready_ns = images.max().unwrap_or(0);
    let provision_ns = ready_ns - control(0, Step::ControlOut(ControlKind::Grow));
    let transfer_ns = plain.end_ns - ready_ns;
    let bound_ns = plain.ns() - provision_ns.min(transfer_ns) * 8 / 10;
    assert!(provision_ns > 100_000 && transfer_ns > 80_000, "{provision_ns} {transfer_ns}");
    assert!(hidden.ns() <= bound_ns, "{} ns, and {bound_ns} ns at most", hidden.ns());
}

/// It has moved to the size that pays. So from its second quarter on it is as fast as out of a landing buffer that was there from the beginning, or
/// nearly.
#[test]
fn a_long_message_has_moved_over_in_its_first_quarter() {
    let [grown, fixed] = [true, false].map(|grows| Timed::new(16 * MIB, Protocol::Superpipeline, grows));
    let landings = grown.trace.0.iter().filter_map(|entry| match entry.event {
        TraceEvent::Register { memory_use: MemoryUse::Landing, bytes, .. } if entry.host == 1 => Some(bytes),
        _ => None,
    });
    let landings: Vec<u32> = landings.collect();
    assert_eq!(landings.last(), Some(&LARGEST.bytes()));
    // RETIRED of a landing buffer goes out once the next is in use.
    let is_retired = |step: &Step| (*step == Step::ControlOut(ControlKind::Retired)).then_some(());
    let retired = steps(&grown.trace, 0, is_retired);
    let moved = retired.iter().map(|(retired_ns, ())| {
        grown.sent().iter().take_while(|(at_ns, _)| at_ns < retired_ns).last().map_or(0, |(_, bytes)| *bytes)
    });
    let moved: Vec<usize> = moved.collect();
    assert_eq!(moved.len() + 1, landings.len(), "{landings:?} after {moved:?} bytes");
    assert!(moved.last().is_some_and(|bytes| *bytes <= 4 * MIB), "{landings:?} after {moved:?} bytes");
    let quarter_ns = |timed: &Timed| {
        let sent = timed.sent();
        sent.iter().find(|(_, bytes)| *bytes >= 4 * MIB).map_or(0, |(at_ns, _)| *at_ns)
    };
    let [rest, rest_fixed] = [&grown, &fixed].map(|timed| timed.end_ns - quarter_ns(timed));
    assert!(rest * 100 <= rest_fixed * 101, "the other three take {rest} ns, and {rest_fixed} ns at best");
}

#[test]
fn no_round_trip_passes_without_a_chunk_while_credit_exists() {
    for bytes in [MIB, 16 * MIB] {
        let hidden = Timed::new(bytes, Protocol::Superpipeline, true);
        assert_eq!(hidden.pauses_with_credit(), [], "{bytes} bytes");
    }
    // The same is seen where a transfer waits for growth.
    let plain = Timed::new(MIB, Protocol::Provision, true);
    assert!(plain.pauses_with_credit()[0] > 100_000);
}
