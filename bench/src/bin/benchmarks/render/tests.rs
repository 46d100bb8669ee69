//! Made-up figures and their page; and the page that is committed.

use core::fmt::Write;
use std::path::Path;

use super::verdicts::{Cause, Causes};
use super::{Measured, page, plots};
use crate::figures::Figures;
use crate::plan::Part;

fn contestant(id: &str, kind: &str) -> String {
    let title = if id == "limit" { "bare ring" } else { id };
    format!("{{\"contestant\":{{\"id\":\"{id}\",\"title\":\"{title}\",\"kind\":\"{kind}\"}}}}\n")
}

fn figure(round: usize, test: &str, who: &str, place: &str, size: usize, figure: f64) -> String {
    format!("{{\"figure\":[{round},\"{test}\",\"{who}\",\"{place}\",{size},{figure}]}}\n")
}

/// 8 B: superpipe takes `own_us` in three rounds in the same cluster, the ring 40 ns and UCX 80 ns; and ten times that in a
/// round in other clusters.
fn shm(own_us: f64) -> Vec<Measured> {
    let mut text = String::from("{\"fact\":[\"kernel\",\"6\"]}\n");
    for (id, kind) in [("limit", "limit"), ("superpipe", "superpipe"), ("ucx", "peer")] {
        text += &contestant(id, kind);
    }
    for round in 1..=4 {
        let (distance, factor) = if round == 4 { ("other-cluster", 10.0) } else { ("same-cluster", 1.0) };
        let _ = writeln!(
            text,
            "{{\"round\":{{\"distance\":\"{distance}\",\"attempts\":1,\"before_ns\":30,\"after_ns\":30,\"load\":0}}}}"
        );
        for (who, us) in [("limit", 0.040), ("superpipe", own_us), ("ucx", 0.080)] {
            text += &figure(round, "latency", who, "reused", 8, us * factor * round as f64);
        }
    }
    vec![Measured::new(Part::Small, Figures::parse(&text).unwrap())]
}

/// Three rounds over rxe, each twice as fast as the one before: a wire of 100 and a copy of 300, so a bound of 75.
fn rdma(own_rate: f64, own_first: f64) -> Vec<Measured> {
    let mut text = String::from(
        "{\"fact\":[\"kernel\",\"6.1\"]}\n{\"command\":[\"ib_write_bw, rate\",\"ib_write_bw -R\"]}\n",
    );
    for (id, kind) in [
        ("ib_write_bw", "limit"),
        ("ib_write_lat", "limit"),
        ("superpipe, notify", "superpipe"),
        ("superpipe, flag", "superpipe"),
        ("UCX", "peer"),
        ("memcpy", "aside"),
    ] {
        text += &contestant(id, kind);
    }
    for (round, factor) in [(1, 1.0), (2, 2.0), (3, 4.0)] {
        for (test, who, size, value) in [
            ("rate", "memcpy", 65_536, 300.0),
            ("rate", "ib_write_bw", 65_536, 100.0),
            ("rate", "superpipe, notify", 65_536, own_rate),
            ("rate", "UCX", 65_536, 70.0),
            ("latency", "ib_write_lat", 8, 10.0),
            ("latency", "superpipe, flag", 8, 11.0),
            ("latency", "superpipe, notify", 65_536, 90.0),
            ("connection", "superpipe, notify", 65_536, own_first),
            ("first", "superpipe, notify", 65_536, 200.0),
            ("first", "UCX", 65_536, 240.0),
            ("lossy", "ib_write_bw", 1_048_576, 50.0),
            ("lossy", "superpipe, notify", 1_048_576, 39.0),
        ] {
            text += &figure(round, test, who, "rxe", size, value * factor);
        }
    }
    vec![Measured::new(Part::Rdma, Figures::parse(&text).unwrap())]
}

fn causes(ids: &[&str]) -> Causes {
    let cause = |id: &&str| ((*id).to_owned(), Cause { cause: "the moon".into(), tried: "waiting".into() });
    ids.iter().map(cause).collect()
}

fn render(measured: &[Measured], causes: &Causes) -> Result<String, String> {
    page::page(measured, causes, &[], false).map_err(|failure| failure.to_string())
}

/// From one heading to the next of its level.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let begin = page.find(&format!("\n{heading}")).unwrap() + heading.len() + 1;
    let next = format!("\n{} ", heading.split(' ').next().unwrap());
    let end = page[begin..].find(&next).map_or(page.len(), |at| begin + at);
    &page[begin..end]
}

#[test]
fn a_met_target_has_its_range() {
    let page = render(&shm(0.044), &Causes::new()).unwrap();
    assert!(section(&page, "## Missed targets").contains("None."));
    let met = section(&page, "## Met targets");
    // ratios are formed inside rounds, though the rounds differ threefold
    assert!(met.contains("1.100x the time (1.100 to 1.100) | bare ring"), "{met}");
    assert!(met.contains("0.550x the time (0.550 to 0.550) | ucx"), "{met}");
    assert!(met.contains("same cluster, 3 rounds") && !met.contains("other"), "{met}");
    assert!(section(&page, "## Where a peer is ahead").contains("Nowhere"));
    assert!(section(&page, "## Targets that were not measured").contains("first message"));
}

#[test]
fn a_missed_target_comes_first_with_its_cause() {
    let page = render(&shm(0.050), &causes(&["tiny-limit"])).unwrap();
    let missed = section(&page, "## Missed targets");
    assert!(missed.contains("1.250x the time") && missed.contains("the moon") && missed.contains("waiting"));
    assert!(page.find("## Missed").unwrap() < page.find("## Met").unwrap());
    // the other distance is shown beside it
    assert!(missed.contains("other clusters, 1 round"), "{missed}");
}

#[test]
fn a_missed_target_needs_a_cause() {
    let failure = render(&shm(0.050), &Causes::new()).unwrap_err();
    assert!(failure.contains("'tiny-limit' is missed"), "{failure}");
    let failure = render(&shm(0.044), &causes(&["tiny-limits"])).unwrap_err();
    assert!(failure.contains("no such target"), "{failure}");
}

#[test]
fn a_peer_that_is_ahead_has_its_row() {
    let page = render(&shm(0.100), &causes(&["tiny-limit", "tiny-ucx"])).unwrap();
    let ahead = section(&page, "## Where a peer is ahead");
    assert!(ahead.contains("**ucx**") && ahead.contains("0.80x as fast"), "{ahead}");
    assert!(section(&page, "## 8 B to 8 KiB").contains("| 8 B | **ucx** |"));
}

#[test]
fn rounds_of_two_distances_are_not_mixed() {
    let page = render(&shm(0.044), &Causes::new()).unwrap();
    let tables = section(&page, "## 8 B to 8 KiB");
    assert!(tables.contains("same cluster, 3 rounds") && tables.contains("other clusters, 1 round"));
    assert!(tables.contains("88.0 ns (44.0 to 132)") && tables.contains("1.76 µs"), "{tables}");
}

#[test]
fn there_is_a_plot_for_each_distance() {
    let plots = plots::all(&shm(0.044)).unwrap();
    let files: Vec<&str> = plots.iter().map(|plot| plot.file.as_str()).collect();
    let wanted = [
        "latency-same-cluster",
        "pingpong-same-cluster",
        "latency-other-clusters",
        "pingpong-other-clusters",
    ];
    assert_eq!(files, wanted.map(|name| format!("{name}.svg")));
    assert!(plots.iter().all(|plot| plot.svg.contains("ucx") && plot.svg.contains("superpipe")));
}

#[test]
fn over_rdma_ratios_are_formed_inside_rounds() {
    let page = render(&rdma(72.0, 95.0), &causes(&["rdma-loss"])).unwrap();
    let (missed, met) = (section(&page, "### Missed targets"), section(&page, "### Met targets"));
    assert!(met.contains("rate | 64 KiB | rxe, notify | 3 rounds | 96 % (96 to 96) | bound"), "{page}");
    assert!(met.contains("rate | 64 KiB | rxe, notify | 3 rounds | 103 % (103 to 103) | UCX"), "{page}");
    assert!(met.contains("first message of a connection | 64 KiB | rxe, notify | 3 rounds | 95 %"), "{page}");
    assert!(
        met.contains("first message of a process | 64 KiB | rxe, notify | 3 rounds | 1.20x as fast"),
        "{page}"
    );
    assert!(met.contains("half round trip | 8 B | rxe, flag | 3 rounds | 1.100x the time"), "{page}");
    assert!(
        missed.contains("rate with 1 % of the packets lost | 1 MiB | rxe, notify | 3 rounds | 78 %"),
        "{page}"
    );
    // wire, superpipe, UCX, copy and bound
    assert!(page.contains("| 64 KiB | **superpipe, notify** | 200 (100 to 400) | 144 (72.0 to 288) | 140 (70.0 to 280) | 600 (300 to 1200) | 150 (75.0 to 300) |"), "{page}");
    assert!(page.contains("| kernel | 6.1 |") && page.contains("| `ib_write_bw -R` |"), "{page}");
}

#[test]
fn over_rdma_a_missed_target_has_its_cause() {
    let causes = causes(&["rdma-bound", "rdma-first", "rdma-loss"]);
    let page = render(&rdma(71.0, 101.0), &causes).unwrap();
    let (missed, met) = (section(&page, "### Missed targets"), section(&page, "### Met targets"));
    assert!(
        missed.contains("at least 95 % of the bound")
            && missed.contains("rate | 64 KiB | rxe, notify | 3 rounds | 95 % (95 to 95)"),
        "{page}"
    );
    assert!(
        missed.contains("first message of a connection | 64 KiB | rxe, notify | 3 rounds | 89 %"),
        "{page}"
    );
    assert!(met.contains("rate | 64 KiB | rxe, notify | 3 rounds | 101 %"), "{page}");
    assert!(missed.contains("**Cause.** the moon\n\n**Tried.** waiting"), "{page}");
    assert!(!missed.contains("8 B by flag"), "{page}");
}

#[test]
fn the_committed_page_is_what_its_figures_make() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    super::render(&docs, true, false).unwrap();
}
