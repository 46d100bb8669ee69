//! Thousands of runs, and the same run twice. `make test` makes many more in release.

use superpipe_core::{Arrival, FlagPlace, Layout};
use superpipe_sim::{
    Case, Chance, ConnectionPlan, Fault, Faults, PartialBlocks, RunOptions, StopCondition, Swarm, run,
};
use superpipe_testkit::pair::{ReceiveMethod, SendMethod, Transfer};

/// Runs in which a fault strikes.
const RUNS: u64 = 2500;

const TRACED: RunOptions = RunOptions { traced: true, turns_max: None };

#[test]
fn all_runs_succeed() {
    let swarm = Swarm::run(0, StopCondition::Runs(RUNS), 2);
    assert!(swarm.failure.is_none(), "{}", swarm.failure.unwrap());
    assert!(swarm.hard_runs >= RUNS);
    assert_eq!(swarm.growth_coverage.missing_cases(), [], "cases of growth that no seed has drawn");
}

#[test]
fn the_same_seed_gives_the_same_run_byte_for_byte() {
    for seed in 0..40 {
        let case = Case::from_seed(seed);
        let first = run(&case, TRACED).unwrap();
        assert_eq!(first, run(&Case::from_seed(seed), TRACED).unwrap());
        // Recording changes nothing.
        let unseen = run(&case, RunOptions::default()).unwrap();
        assert_eq!((first.time_ns, first.turns), (unseen.time_ns, unseen.turns));
        assert_ne!(first.trace, run(&Case::from_seed(seed + 1000), TRACED).unwrap().trace);
    }
}

#[test]
fn a_stopped_run_is_a_prefix_of_the_whole_run() {
    let whole = run(&Case::from_seed(5), TRACED).unwrap();
    let begin = run(&Case::from_seed(5), RunOptions { turns_max: Some(whole.turns / 2), ..TRACED }).unwrap();
    assert_eq!(begin.turns, whole.turns / 2);
    let [begin, whole] = [begin.trace.0, whole.trace.0];
    assert!(whole.starts_with(&begin) && begin.len() < whole.len());
}

#[test]
fn one_server_serves_three_hundred_clients() {
    let case = Case::crowd(7, 300);
    let outcome = run(&case, RunOptions::default()).unwrap();
    assert_eq!(outcome.endings.into_iter().collect::<Vec<_>>(), [("closed in good order".to_owned(), 600)]);
    assert!(outcome.transfers >= 600);
}

/// Returns the case of a seed without order inside a write, with this arrival mode, and most packets split.
fn forced(seed: u64, arrival: Arrival) -> Case {
    let mut case = Case::from_seed(seed);
    case.profile.order_inside_write = false;
    case.profile.send_queue = case.profile.send_queue.max(2);
    case.faults = Faults::default();
    case.faults[Fault::SplitPacket] = Chance::one_in(2);
    for plan in &mut case.connections {
        plan.script.setup.order_inside_write = false;
        for config in &mut plan.script.configs {
            config.arrival = arrival;
            config.order_asserted = true;
        }
    }
    case
}

fn posted(seeds: core::ops::Range<u64>) -> impl Iterator<Item = u64> {
    seeds.filter(|seed| !Case::from_seed(*seed).direct)
}

#[test]
fn plain_flags_without_order_need_an_assertion() {
    for seed in posted(0..20) {
        let mut case = forced(seed, Arrival::Flag);
        for plan in &mut case.connections {
            plan.script.configs.iter_mut().for_each(|config| config.order_asserted = false);
        }
        let refused = run(&case, RunOptions::default()).unwrap_err();
        assert!(refused.description.contains("plain flags need order inside a write"), "{refused}");
    }
}

#[test]
fn only_plain_flags_without_order_deliver_wrong_bytes() {
    for seed in posted(0..100) {
        for arrival in [Arrival::CheckedFlag, Arrival::Notify] {
            let ended = run(&forced(seed, arrival), RunOptions::default());
            ended.unwrap_or_else(|failure| panic!("{failure}"));
        }
    }
    let ended = |seed| run(&forced(seed, Arrival::Flag), RunOptions::default());
    let wrong = |seed| ended(seed).is_err_and(|failure| failure.description.contains("differ"));
    assert!(posted(0..100).any(wrong), "no run noticed");
}

/// Returns a case with long messages in blocks of several packets that arrive in pieces, so that many polls see incomplete blocks.
fn often_torn(seed: u64) -> Case {
    let mut case = forced(seed, Arrival::CheckedFlag);
    case.profile.mtu_bytes = 256;
    case.profile.latency_ns = 5000;
    case.faults[Fault::SplitPacket] = Chance(1 << 20);
    let layout = Layout { block_bytes: 1024, block_count: 16, flags: FlagPlace::Inside };
    for ConnectionPlan { script, .. } in &mut case.connections {
        let (send_method, receive_method) = (SendMethod::Push(9000, 1), ReceiveMethod::Pull(9000, 1));
        script.setup.layouts = [layout; 2];
        script.slowness = [1; 2];
        for transfers in &mut script.transfers {
            let transfer =
                Transfer { bytes: 9000, send_method, receive_method, cancel_at: None, ..transfers[0] };
            *transfers = vec![transfer; 20];
        }
    }
    case
}

/// A CRC of eight bits accepts one in 256 incomplete blocks.
#[test]
fn a_crc_of_eight_bits_misses_as_often_as_it_should() {
    let mut partial_blocks = PartialBlocks::default();
    for seed in posted(0..1000) {
        let mut case = often_torn(seed);
        case.crc_bits = 8;
        // A line that was torn and passes may stop a run for good. The longest of those that were looked at had 175,000 turns with the whole CRC.
        let options = RunOptions { turns_max: Some(300_000), ..RunOptions::default() };
        partial_blocks += run(&case, options)
            .map_or_else(|failure| failure.partial_blocks, |outcome| outcome.partial_blocks);
    }
    let PartialBlocks { polled, passed } = partial_blocks;
    let expected = polled as f64 / 256.0;
    assert!(expected > 40.0, "{partial_blocks:?}: too few");
    // Four standard deviations of a binomial distribution.
    assert!((passed as f64 - expected).abs() < 4.0 * expected.sqrt(), "{partial_blocks:?}: not one in 256");
    let case = often_torn(1);
    run(&case, RunOptions::default()).unwrap_or_else(|failure| panic!("{failure}"));
}
