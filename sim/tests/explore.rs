//! The explorer: small cases, and violations that it must find.

use superpipe_sim::explore::{
    AckOrder, Case, ClosePolicy, Explored, Growing, Lending, Offering, cases, explore,
};

fn named(name: &str) -> Case {
    cases().into_iter().find(|case| case.name == name).unwrap_or_else(|| panic!("no case {name}"))
}

fn explored(case: &Case) -> Explored {
    explore(case).unwrap_or_else(|violation| panic!("{violation}"))
}

#[test]
fn small_cases_reach_their_end_from_every_state() {
    for name in [
        "posted: 2 inline",
        "posted: 2 chunks",
        "posted: inline, 2 chunks",
        "posted: eager, 3 chunks",
        "posted: stream, 2 chunks",
        "posted: try_recv, inline, 1 chunk",
        "posted: images read late, 2 chunks, inline",
        "posted, checked: 2 inline",
        "notified: 2 inline",
        "posted: inline both ways",
        "posted: inline, close",
        "direct: 4 chunks, lines apart",
        "direct: 3 chunks, groups of 2",
        "direct: in place, groups of 2",
        "direct: 3 at once of 1 to 2 blocks, try_recv",
        "direct: in place, 3 chunks",
        "direct: 3 inline both ways",
        "direct: 3 chunks both ways",
        "direct, growing: from a first landing buffer",
        "direct, growing: both ways, one job at a time",
        "direct, growing: reported twice",
        "direct, shrinking: 3 inline",
        "posted, growing: at once, 4 chunks",
        "posted, growing: jobs fail",
        "posted, growing: cancel",
        "posted, growing: sender aborts",
        "notified, growing: 3 chunks",
        "posted, lending: 2 messages",
        "posted, lending: cancel, kept",
        "posted, lending: receive given up, kept",
        "posted, lending: close under way",
        "posted, lending: receiver dies, flushes fail",
        "notified, lending: 1 message",
        "direct, offering: 1 message",
        "direct, offering: behind an offset",
        "direct, offering: both ways",
        "direct, offering: receiver aborts",
    ] {
        let Explored { states, transitions, depth, ends } = explored(&named(name));
        assert!(states > 100 && transitions > states && ends >= 1 && depth > 15, "{name}: {states} states");
    }
}

#[test]
fn the_same_case_gives_the_same_states() {
    let case = named("posted: 2 inline");
    assert_eq!(explored(&case), explored(&case));
}

/// More freedom adds states, and removes none.
#[test]
fn every_freedom_adds_states() {
    let case = named("posted: inline, 2 chunks");
    let states = |case: &Case| explored(case).states;
    let few = states(&case);
    assert!(states(&Case { split: false, ..case.clone() }) < few);
    assert!(states(&Case { late_max: 0, ..case.clone() }) < few);
    assert!(states(&Case { send_queue: 2, ..case.clone() }) > few);
    assert!(states(&Case { checks_time: true, ..case.clone() }) > few);
    assert!(states(&Case { close_policy: [ClosePolicy::WhenDone; 2], ..case.clone() }) > few);
}

/// Each way of growth adds states, and so is there.
#[test]
fn every_step_of_growth_adds_states() {
    let case = named("posted, growing: at once, 4 chunks");
    let growing = case.growing.unwrap_or_else(|| panic!("it grows"));
    let states = |growing| explored(&Case { growing, ..case.clone() }).states;
    let [still, few] = [None, Some(growing)].map(states);
    assert!(still < few, "{still} {few}");
    for more in [
        Growing { failures_max: [1, 0], ..growing },
        Growing { failures_max: [0, 1], ..growing },
        Growing { shrinks_max: [0, 1], ..growing },
        Growing { repeats: true, ..growing },
    ] {
        assert!(states(Some(more)) > few, "{more:?}");
    }
}

/// Each way in which lending may fail or end adds states, and so is there.
#[test]
fn every_step_of_lending_adds_states() {
    let case = named("posted, lending: 2 writes, queue of 2");
    let lending = case.lending.unwrap_or_else(|| panic!("it lends"));
    let states = |lending| explored(&Case { lending, ..case.clone() }).states;
    let few = states(Some(lending));
    for more in [
        Lending { failures_max: [1, 0], ..lending },
        Lending { failures_max: [0, 1], ..lending },
        Lending { give_ups_max: [0, 1], ..lending },
        Lending { deaths: [true, false], ..lending },
        Lending { deaths: [false, true], ..lending },
        Lending { repeats: true, ..lending },
    ] {
        assert!(states(Some(more)) > few, "{more:?}");
    }
    assert!(states(Some(Lending { is_kept: [true; 2], ..lending })) < few, "nothing is registered");
}

/// Each step of memory that is offered adds states, and so is there.
#[test]
fn every_step_of_offering_adds_states() {
    let case = named("direct, offering: 1 message");
    let offering = case.offering.unwrap_or_else(|| panic!("it offers"));
    let states = |offering| explored(&Case { offering, ..case.clone() }).states;
    let [none, once, few] =
        [0, 1, 2].map(|offers| states(Some(Offering { offers_max: [0, offers], ..offering })));
    assert!(none < once && once < few, "{none} {once} {few}");
    for more in [
        Offering { withdraws_max: [0, 1], ..offering },
        Offering { exposes_max: [1; 2], offers_max: [0, 2], withdraws_max: [1, 0], ..offering },
    ] {
        assert!(states(Some(more)) > few, "{more:?}");
    }
}

/// wire.md 7.3: an acknowledgement that an older one overtakes is lost until the next keepalive.
#[test]
fn a_lost_acknowledgement_without_keepalive_is_found() {
    let case = named("posted: acknowledgements overtaken, 3 chunks");
    let violation = explore(&Case { acks: AckOrder::Overtaken, keepalives: false, ..case }).unwrap_err();
    assert!(
        violation.description.contains("the end cannot be reached")
            || violation.description.contains("nothing more happens"),
        "{violation}"
    );
    assert!(
        violation.steps.iter().any(|step| step.contains("acknowledgements becomes visible")),
        "{violation}"
    );
}

/// wire.md 3.1: a plain flag proves nothing if the bytes of one write become visible in any order.
#[test]
fn a_flag_before_its_header_is_found() {
    let case = named("posted: 2 chunks, 2 chunks");
    let violation = explore(&Case { ordered: false, ..case }).unwrap_err();
    assert!(violation.description.contains("a chunk that continues or cancels no transfer"), "{violation}");
    assert!(
        violation.steps.starts_with(&["end 0 sends".to_owned()]) && violation.steps.len() == 3,
        "{violation}"
    );
}
