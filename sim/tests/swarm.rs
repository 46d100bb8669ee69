//! Runs by the thousand, and the same run twice. `make test` makes many more in release.

use superpipe_core::Arrival;
use superpipe_sim::{Case, Chance, Fault, Faults, Look, Swarm, Until, run};

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
    assert!(whole.trace.starts_with(&begin.trace) && begin.trace.len() < whole.trace.len());
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
fn without_order_plain_flags_deliver_wrong_bytes_and_checked_flags_do_not() {
    for seed in posted(0..100) {
        let ended = run(&forced(seed, Arrival::CheckedFlag), Look::default());
        ended.unwrap_or_else(|failure| panic!("{failure}"));
    }
    let ended = |seed| run(&forced(seed, Arrival::Flag), Look::default());
    let wrong = |seed| ended(seed).is_err_and(|failure| failure.what.contains("differ"));
    assert!(posted(0..100).any(wrong), "no run noticed");
}

/// With an 8-bit CRC, a flag whose payload is not there yet passes once in 256 looks: this is how the check would fail, and
/// how often.
#[test]
fn a_crc_of_eight_bits_misses_as_often_as_it_should() {
    let (mut missed, mut noticed) = (0, 0);
    for seed in posted(0..4000) {
        let case = Case { crc_bits: 8, ..forced(seed, Arrival::CheckedFlag) };
        match run(&case, Look::default()) {
            Ok(outcome) => noticed += outcome.check_misses,
            Err(failure) => {
                missed += 1;
                noticed += failure.check_misses;
            }
        }
    }
    let expected = (missed + noticed) as f64 / 256.0;
    // Four standard deviations of a binomial distribution.
    let allowed = 4.0 * expected.sqrt();
    assert!(expected > 100.0, "{missed} missed, {noticed} noticed: too few");
    assert!((missed as f64 - expected).abs() < allowed, "{missed} missed of {}", missed + noticed);
}
