//! Runs by the thousand, and the same run twice.

use superpipe_core::Arrival;
use superpipe_sim::{Case, Chance, run};

/// Seeds that are run by `cargo test`.
const SEEDS: u64 = 3000;

#[test]
fn all_runs_end_well() {
    let workers: Vec<_> = (0..2u64)
        .map(|worker| {
            std::thread::spawn(move || {
                for seed in (worker..SEEDS).step_by(2) {
                    if let Err(failure) = run(&Case::from_seed(seed), false) {
                        panic!("{failure}");
                    }
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
}

#[test]
fn the_same_seed_gives_the_same_run_byte_for_byte() {
    for seed in 0..40 {
        let case = Case::from_seed(seed);
        let first = run(&case, true).unwrap();
        assert_eq!(first, run(&Case::from_seed(seed), true).unwrap());
        assert!(first.trace.lines().count() > 20, "{}", first.trace);
        // Looking changes nothing.
        let unseen = run(&case, false).unwrap();
        assert_eq!((first.time_ns, first.turns), (unseen.time_ns, unseen.turns));
        assert_ne!(first.trace, run(&Case::from_seed(seed + 1000), true).unwrap().trace);
    }
}

#[test]
fn without_order_plain_flags_deliver_wrong_bytes_and_checked_flags_do_not() {
    let forced = |seed, arrival| {
        let mut case = Case::from_seed(seed);
        case.profile.order_inside_write = false;
        case.script.setup.order_inside_write = false;
        case.faults.torn_packet = Chance(500);
        for config in &mut case.script.configs {
            config.arrival = arrival;
            config.order_asserted = true;
        }
        case
    };
    let seeds = || (0..100).filter(|seed| !Case::from_seed(*seed).direct);
    for seed in seeds() {
        run(&forced(seed, Arrival::CheckedFlag), false).unwrap_or_else(|failure| panic!("{failure}"));
    }
    let wrong = |seed| run(&forced(seed, Arrival::Flag), false).is_err_and(|f| f.what.contains("differ"));
    assert!(seeds().any(wrong), "no run noticed");
}
