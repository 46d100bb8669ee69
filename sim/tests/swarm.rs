//! Runs by the thousand, and the same run twice. `make test` makes many more in release.

use superpipe_core::{Arrival, FlagPlace, Layout};
use superpipe_sim::{Case, Chance, Fault, Faults, Look, Plan, Swarm, Torn, Until, run};
use superpipe_testkit::pair::{How, Take, Transfer};

/// Runs in which something goes wrong.
const RUNS: u64 = 2500;

const TRACED: Look = Look { traced: true, turns_max: None };

#[test]
fn all_runs_end_well() {
    let swarm = Swarm::run(0, Until::Runs(RUNS), 2);
    assert!(swarm.failure.is_none(), "{}", swarm.failure.unwrap());
    assert!(swarm.hard_runs >= RUNS);
}

#[test]
fn the_same_seed_gives_the_same_run_byte_for_byte() {
    for seed in 0..40 {
        let case = Case::from_seed(seed);
        let first = run(&case, TRACED).unwrap();
        assert_eq!(first, run(&Case::from_seed(seed), TRACED).unwrap());
        // Looking changes nothing.
        let unseen = run(&case, Look::default()).unwrap();
        assert_eq!((first.time_ns, first.turns), (unseen.time_ns, unseen.turns));
        assert_ne!(first.trace, run(&Case::from_seed(seed + 1000), TRACED).unwrap().trace);
    }
}

#[test]
fn a_run_that_is_stopped_is_the_beginning_of_the_same_run() {
    let whole = run(&Case::from_seed(5), TRACED).unwrap();
    let begin = run(&Case::from_seed(5), Look { turns_max: Some(whole.turns / 2), ..TRACED }).unwrap();
    assert_eq!(begin.turns, whole.turns / 2);
    let [begin, whole] = [begin.trace.0, whole.trace.0];
    assert!(whole.starts_with(&begin) && begin.len() < whole.len());
}

#[test]
fn three_hundred_clients_of_one_server_get_all_they_are_sent() {
    let case = Case::crowd(7, 300);
    let outcome = run(&case, Look::default()).unwrap();
    assert_eq!(outcome.endings.into_iter().collect::<Vec<_>>(), [("closed in good order".to_owned(), 600)]);
    assert!(outcome.transfers >= 600);
}

/// One seed, but with order inside a write gone, flags of this kind anyhow, and most packets torn.
fn forced(seed: u64, arrival: Arrival) -> Case {
    let mut case = Case::from_seed(seed);
    case.profile.order_inside_write = false;
    case.profile.send_queue = case.profile.send_queue.max(2);
    case.faults = Faults::default();
    case.faults[Fault::TornPacket] = Chance::one_in(2);
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
fn without_order_plain_flags_are_refused_unless_the_user_gives_his_word() {
    for seed in posted(0..20) {
        let mut case = forced(seed, Arrival::Flag);
        for plan in &mut case.connections {
            plan.script.configs.iter_mut().for_each(|config| config.order_asserted = false);
        }
        let refused = run(&case, Look::default()).unwrap_err();
        assert!(refused.what.contains("plain flags need order inside a write"), "{refused}");
    }
}

#[test]
fn without_order_plain_flags_deliver_wrong_bytes_and_nothing_else_does() {
    for seed in posted(0..100) {
        for arrival in [Arrival::CheckedFlag, Arrival::Notify] {
            let ended = run(&forced(seed, arrival), Look::default());
            ended.unwrap_or_else(|failure| panic!("{failure}"));
        }
    }
    let ended = |seed| run(&forced(seed, Arrival::Flag), Look::default());
    let wrong = |seed| ended(seed).is_err_and(|failure| failure.what.contains("differ"));
    assert!(posted(0..100).any(wrong), "no run noticed");
}

/// Long messages in blocks of several packets, each of which arrives in pieces for a long time: many looks at torn blocks.
fn often_torn(seed: u64) -> Case {
    let mut case = forced(seed, Arrival::CheckedFlag);
    case.profile.mtu_bytes = 256;
    case.profile.latency_ns = 5000;
    case.faults[Fault::TornPacket] = Chance(1 << 20);
    let layout = Layout { block_bytes: 1024, block_count: 16, flags: FlagPlace::Inside };
    for Plan { script, .. } in &mut case.connections {
        let (how, take) = (How::Push(9000, 1), Take::Pull(9000, 1));
        script.setup.layouts = [layout; 2];
        script.slowness = [1; 2];
        for transfers in &mut script.transfers {
            let transfer = Transfer { bytes: 9000, how, take, cancel_at: None, ..transfers[0] };
            *transfers = vec![transfer; 20];
        }
    }
    case
}

/// A CRC of eight bits lets one in 256 torn blocks pass: this is how the check would fail, and how often.
#[test]
fn a_crc_of_eight_bits_misses_as_often_as_it_should() {
    let mut torn = Torn::default();
    for seed in posted(0..1000) {
        let case = Case { crc_bits: 8, ..often_torn(seed) };
        torn += run(&case, Look::default()).map_or_else(|failure| failure.torn, |outcome| outcome.torn);
    }
    let Torn { looked_at, passed } = torn;
    let expected = looked_at as f64 / 256.0;
    assert!(expected > 40.0, "{torn:?}: too few");
    // Four standard deviations of a binomial distribution.
    assert!((passed as f64 - expected).abs() < 4.0 * expected.sqrt(), "{torn:?}: not one in 256");
    let case = often_torn(1);
    run(&case, Look::default()).unwrap_or_else(|failure| panic!("{failure}"));
}
