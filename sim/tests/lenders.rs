//! Programs that lend memory for their messages, over seeds with and without faults.

use superpipe_sim::{Case, RunOptions, run};

/// Cases of seeds whose programs lend memory.
fn lending() -> impl Iterator<Item = Case> {
    (200..).map(Case::from_seed).filter(|case| case.connections.iter().all(|plan| plan.lenders.is_some()))
}

#[test]
fn messages_are_split_whatever_fails() {
    let offers = |case: &Case| {
        case.connections.iter().flat_map(|plan| &plan.lenders).flatten().any(|plan| plan.offers)
    };
    let (mut split_bytes, mut with_split) = (0, 0);
    for case in lending().filter(offers).take(150) {
        let outcome = run(&case, RunOptions::default()).unwrap_or_else(|failure| panic!("{failure}"));
        split_bytes += outcome.split_bytes;
        with_split += u32::from(outcome.split_bytes > 0);
    }
    assert!(with_split > 50 && split_bytes > 500_000, "{split_bytes} bytes in {with_split} runs");
}

#[test]
fn messages_go_by_remote_writes_whatever_fails() {
    let (mut remote_bytes, mut transfers, mut with_remote) = (0, 0, 0);
    for case in lending().take(500) {
        let outcome = run(&case, RunOptions::default()).unwrap_or_else(|failure| panic!("{failure}"));
        remote_bytes += outcome.remote_bytes;
        transfers += outcome.transfers;
        with_remote += u32::from(outcome.remote_bytes > 0);
    }
    assert!(transfers > 2000, "{transfers} transfers");
    assert!(with_remote > 200 && remote_bytes > 4_000_000, "{remote_bytes} bytes in {with_remote} runs");
}
