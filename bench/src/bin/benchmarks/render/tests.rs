//! Figures that are made up, and what is said of them; and the report that is committed.

use std::path::Path;

use super::causes::{Cause, Causes};
use super::data::Measured;
use super::{page, plots};
use crate::plan::{Memory, Part, Test};
use crate::raw::{Contestant, Figure, Kind, Line, Machine, Round, State};

fn contestant(id: &str, kind: Kind) -> Line {
    let (title, empty) = (id.to_owned(), String::new());
    Line::Contestant(Contestant {
        id: id.to_owned(),
        title,
        kind,
        version: "1".into(),
        settings: empty.clone(),
        command: empty,
    })
}

fn figure(round: u32, who: &str, bytes: usize, us: f64) -> Line {
    Line::Figure(Figure {
        round,
        contestant: who.to_owned(),
        test: Test::Latency,
        memory: Memory::Reused,
        bytes,
        first_us: None,
        min_us: us,
        p50_us: us,
        avg_us: us,
        p99_us: us,
        max_us: us,
        config: String::new(),
    })
}

fn round(number: u32, state: State) -> Line {
    Line::Round(Round { round: number, attempts: 1, before_ns: 30.0, after_ns: 30.0, state, load: 0.0 })
}

/// 8 B: superpipe takes `own_us` in three near rounds, the ring 40 ns and UCX 80 ns; and ten times that in a far one.
fn measured(own_us: f64) -> Vec<Measured> {
    let mut lines = vec![
        Line::Machine(Machine { facts: vec![("kernel".into(), "6".into())] }),
        contestant("limit", Kind::Limit),
        contestant("superpipe", Kind::Superpipe),
        contestant("ucx", Kind::Peer),
    ];
    for number in 1..=4 {
        let (state, factor) = if number == 4 { (State::Far, 10.0) } else { (State::Near, 1.0) };
        lines.push(round(number, state));
        for (who, us) in [("limit", 0.040), ("superpipe", own_us), ("ucx", 0.080)] {
            lines.push(figure(number, who, 8, us * factor * f64::from(number)));
        }
    }
    vec![Measured::new(Part::Small, lines).unwrap()]
}

fn causes(id: &str) -> Causes {
    Causes::from([(id.to_owned(), Cause { cause: "the moon".into(), tried: "waiting".into() })])
}

fn render(measured: &[Measured], causes: &Causes) -> Result<String, String> {
    page::page(measured, causes, &[], false).map_err(|failure| failure.to_string())
}

/// From one heading to the next of its kind.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let begin = page.find(heading).unwrap() + heading.len();
    let end = page[begin..].find("\n## ").map_or(page.len(), |at| begin + at);
    &page[begin..end]
}

#[test]
fn what_is_met_is_told_with_its_range() {
    let page = render(&measured(0.044), &Causes::new()).unwrap();
    assert!(section(&page, "## Missed targets").contains("None."));
    let met = section(&page, "## Met targets");
    // ratios are formed inside rounds, though the rounds differ threefold
    assert!(met.contains("1.100x the time (1.100 to 1.100) | bare ring"), "{met}");
    assert!(met.contains("0.550x the time (0.550 to 0.550) | ucx"), "{met}");
    assert!(met.contains("near, 3 rounds") && !met.contains("far"), "{met}");
    assert!(section(&page, "## Where a peer is ahead").contains("Nowhere"));
    assert!(section(&page, "## Targets that were not measured").contains("first message"));
}

#[test]
fn what_is_missed_comes_first_and_with_its_cause() {
    let page = render(&measured(0.050), &causes("tiny-limit")).unwrap();
    let missed = section(&page, "## Missed targets");
    assert!(missed.contains("1.250x the time") && missed.contains("the moon") && missed.contains("waiting"));
    assert!(page.find("## Missed").unwrap() < page.find("## Met").unwrap());
    // the other state is shown beside it
    assert!(missed.contains("far, 1 round"), "{missed}");
}

#[test]
fn a_missed_target_needs_a_cause() {
    let failure = render(&measured(0.050), &Causes::new()).unwrap_err();
    assert!(failure.contains("'tiny-limit' is missed"), "{failure}");
    let failure = render(&measured(0.044), &causes("tiny-limits")).unwrap_err();
    assert!(failure.contains("no such target"), "{failure}");
}

#[test]
fn a_peer_that_is_ahead_is_told_first() {
    let both = Causes::from_iter(["tiny-limit", "tiny-ucx"].into_iter().flat_map(causes));
    let page = render(&measured(0.100), &both).unwrap();
    let ahead = section(&page, "## Where a peer is ahead");
    assert!(ahead.contains("**ucx**") && ahead.contains("0.80x as fast"), "{ahead}");
    assert!(section(&page, "## 8 B to 8 KiB").contains("| 8 B | **ucx** |"));
}

#[test]
fn rounds_of_two_kinds_are_not_mixed() {
    let page = render(&measured(0.044), &Causes::new()).unwrap();
    let tables = section(&page, "## 8 B to 8 KiB");
    assert!(tables.contains("cores near, 3 rounds") && tables.contains("cores far, 1 round"));
    assert!(tables.contains("88.0 ns (44.0 to 132)") && tables.contains("1.76 µs"), "{tables}");
}

#[test]
fn there_is_a_plot_for_each_state() {
    let files = plots::all(&measured(0.044)).unwrap();
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["latency-near.svg", "pingpong-near.svg", "latency-far.svg", "pingpong-far.svg"]);
    assert!(files.iter().all(|(_, svg)| svg.contains("ucx") && svg.contains("superpipe")));
}

#[test]
fn the_committed_report_is_what_its_figures_make() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    if docs.join("benchmarks").exists() {
        super::render(&docs, true, false).unwrap();
    }
}
