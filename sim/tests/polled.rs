//! Connections of a poller, in virtual time.

use superpipe_sim::{
    Case, IdleCosts, PollCase, PollCoverage, PolledState, RunOptions, idle_costs, polled_seed, run,
};

/// Runs of this test. `superpipe-sim swarm --every-state` makes six thousand.
const RUNS: u64 = 150;

#[test]
fn pollers_lose_nothing_and_starve_nobody() {
    let mut coverage = PollCoverage::default();
    for number in 0..RUNS {
        match run(&Case::from_seed(polled_seed(number)), RunOptions::default()) {
            Ok(outcome) => coverage.add(&outcome.poll_coverage),
            Err(failure) => panic!("{failure}"),
        }
    }
    for case in [PollCase::FoundByLook, PollCase::Exchanged, PollCase::StaleKey, PollCase::ReportedStale] {
        assert!(coverage.at(case, PolledState::Armed) > 0, "{}", case.name());
    }
}

/// A message costs the poller as many looks beside many idle connections as beside few.
#[test]
fn idle_connections_cost_a_message_nothing() {
    let [few, many] = [10, 1000].map(|idle| idle_costs(idle, 200));
    assert!(few.messages == 200 && many.messages == 200);
    assert!(many.looks.abs_diff(few.looks) <= 1 + few.looks / 100, "{few:?} {many:?}");
    // One with each keepalive, every 7.5 s. The one that was active is idle then, too.
    let IdleCosts { idle_looks, idle_ns, .. } = many;
    assert!(idle_looks <= 1001 * (idle_ns / 7_500_000_000 + 1), "{many:?}");
}
