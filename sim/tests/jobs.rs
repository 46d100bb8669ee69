//! The time of jobs that core counts as visible, compared with what a trace in virtual time shows.

use std::collections::BTreeMap;

use superpipe_core::recorder::{ControlKind, JobKind, Step};
use superpipe_core::{FlagPlace, Layout, Protocol};
use superpipe_sim::{Case, RunOptions, Scenario, Trace, TraceEvent, run};
use superpipe_testkit::GrowthSetup;

const TRACED: RunOptions = RunOptions { traced: true, turns_max: None };

/// Two rounds of progress of an end that finds nothing, with a margin: what core may miss of a stall.
const ROUNDS_NS: u64 = 3_000;

/// A job in a trace, and what the trace shows of its end.
#[derive(Debug)]
struct Job {
    kind: JobKind,
    ns: u64,
    visible_ns: u64,
    /// Time from the last block that went the job's way, or from its begin, to its end.
    still_ns: u64,
    /// Time from the last CTS during the job to its end; 0 without one.
    since_cts_ns: u64,
}

/// Returns true if the step shows that blocks were sent, or consumed.
fn moves(step: &Step, is_sent: bool) -> bool {
    match step {
        Step::CopyIn { .. } | Step::LineOut { .. } => is_sent,
        Step::CopyOut { .. } | Step::LineIn { .. } => !is_sent,
        _ => false,
    }
}

/// Returns all jobs of a trace that ended.
fn jobs(trace: &Trace) -> Vec<Job> {
    // By host and connection: last block sent, last one consumed, last CTS.
    let mut last = BTreeMap::<(usize, usize), [u64; 3]>::new();
    let mut jobs = Vec::new();
    for entry in &trace.0 {
        let TraceEvent::Core { connection, begin_ns, step } = entry.event else { continue };
        let [sent, consumed, cts] = last.entry((entry.host, connection)).or_default();
        if moves(&step, true) {
            *sent = entry.at_ns;
        }
        if moves(&step, false) {
            *consumed = entry.at_ns;
        }
        if step == Step::ControlIn(ControlKind::Cts) {
            *cts = entry.at_ns;
        }
        if let Step::JobEnd { job, visible_ns, .. } = step {
            let end_ns = entry.at_ns;
            let moved = match job {
                JobKind::ProvisionImage
                | JobKind::ReleaseImage
                | JobKind::RegisterSource
                | JobKind::Expose => *sent,
                JobKind::ProvisionLanding
                | JobKind::ReleaseLanding
                | JobKind::RegisterDestination
                | JobKind::Map
                | JobKind::Unmap => *consumed,
                JobKind::Deregister | JobKind::EndLink => (*sent).min(*consumed),
            };
            let since_cts_ns = if *cts >= begin_ns { end_ns - *cts } else { 0 };
            let (ns, still_ns) = (end_ns - begin_ns, end_ns - moved.max(begin_ns));
            jobs.push(Job { kind: job, ns, visible_ns, still_ns, since_cts_ns });
        }
    }
    jobs
}

fn traced(case: &Case) -> Trace {
    run(case, TRACED).unwrap_or_else(|failure| panic!("{failure}")).trace
}

/// Returns jobs that provision, and their time and visible time together.
fn provisioned(trace: &Trace) -> (Vec<Job>, [u64; 2]) {
    let jobs: Vec<_> = jobs(trace).into_iter().filter(|job| !job.kind.takes_back()).collect();
    let sums = [jobs.iter().map(|job| job.ns).sum(), jobs.iter().map(|job| job.visible_ns).sum()];
    (jobs, sums)
}

/// A message of 1 MiB that begins in the base, while larger landing buffers are provisioned.
fn growing(direct: bool) -> Case {
    let mut case = Scenario::by_name("provision").unwrap().case();
    case.direct = direct;
    let script = &mut case.connections[0].script;
    let flags = if direct { FlagPlace::Apart { group_blocks: 1 } } else { FlagPlace::Inside };
    let largest = Layout { block_bytes: 16 << 10, block_count: 32, flags };
    script.setup.layouts = [Layout { block_bytes: 256, block_count: 11, flags: FlagPlace::Inside }; 2];
    script.setup.growth = Some(GrowthSetup::new(largest, 64 << 10));
    let [sends, _] = &mut script.transfers;
    sends.truncate(1);
    (sends[0].bytes, sends[0].protocol) = (1 << 20, Protocol::Superpipeline);
    case
}

#[test]
fn what_a_message_waits_for_is_visible() {
    for name in ["provision", "provision-direct"] {
        let trace = traced(&Scenario::by_name(name).unwrap().case());
        let (waited, [ns, visible_ns]) = provisioned(&trace);
        assert!(waited.len() >= 2 && visible_ns + ROUNDS_NS >= ns, "{name}: {waited:?}");
        let released: Vec<_> = jobs(&trace).into_iter().filter(|job| job.kind.takes_back()).collect();
        assert!(!released.is_empty(), "{name}");
        assert!(released.iter().all(|job| job.visible_ns == 0), "nothing waits for it: {name}: {released:?}");
    }
}

#[test]
fn what_is_provisioned_beside_a_message_is_hidden() {
    for direct in [false, true] {
        let (grown, [ns, visible_ns]) = provisioned(&traced(&growing(direct)));
        assert!(grown.len() >= 3, "direct {direct}: {grown:?}");
        assert!(visible_ns * 10 < ns, "direct {direct}: {visible_ns} of {ns}: {grown:?}");
        for job in &grown {
            let missed = job.still_ns.abs_diff(job.visible_ns);
            assert!(missed <= ROUNDS_NS || job.visible_ns == 0, "direct {direct}: {job:?}");
        }
    }
}

#[test]
fn no_more_is_visible_than_the_trace_shows() {
    let mut kinds = BTreeMap::new();
    for seed in 0..1500 {
        for job in jobs(&traced(&Case::from_seed(seed))) {
            assert!(job.visible_ns <= job.still_ns, "seed {seed}: {job:?}");
            *kinds.entry(format!("{:?}", job.kind)).or_insert(0) += 1;
        }
    }
    for kind in [
        "ProvisionLanding",
        "ProvisionImage",
        "ReleaseLanding",
        "ReleaseImage",
        "RegisterSource",
        "RegisterDestination",
        "Deregister",
    ] {
        assert!(kinds.get(kind).is_some_and(|count| *count > 20), "{kinds:?}");
    }
}

#[test]
fn a_registration_is_hidden_until_the_cts_is_there() {
    let lending = (200..)
        .map(Case::from_seed)
        .filter(|case| case.connections.iter().all(|plan| plan.lenders.is_some()));
    let (mut sources, mut destinations) = ([0; 2], [0; 2]);
    for case in lending.take(200) {
        for job in jobs(&traced(&case)) {
            match job.kind {
                JobKind::RegisterSource => {
                    assert!(job.visible_ns <= job.since_cts_ns, "seed {}: {job:?}", case.seed);
                    sources[usize::from(job.visible_ns > 0)] += 1;
                }
                JobKind::RegisterDestination => destinations[usize::from(job.visible_ns > 0)] += 1,
                _ => {}
            }
        }
    }
    assert!(sources[0] > 100, "the round trip hides most: {sources:?}");
    assert!(destinations[1] > 100, "the CTS waits for it: {destinations:?}");
}
