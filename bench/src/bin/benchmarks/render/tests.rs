//! Made-up figures and their page; and the page that is committed.

use std::path::Path;
use std::{env, fs, process};

use super::verdicts::{Cause, Causes};
use super::{Measured, page, plots};
use crate::figures::{Figures, Series};
use crate::plan::Part;

fn contestant(id: &str, kind: &str) -> String {
    let title = if id == "limit" { "bare ring" } else { id };
    format!("{{\"contestant\":{{\"id\":\"{id}\",\"title\":\"{title}\",\"kind\":\"{kind}\"}}}}\n")
}

fn figure(round: usize, test: &str, who: &str, place: &str, size: usize, figure: f64) -> String {
    format!("{{\"figure\":[{round},\"{test}\",\"{who}\",\"{place}\",{size},{figure}]}}\n")
}

fn round(distance: &str) -> String {
    format!(
        "{{\"round\":{{\"distance\":\"{distance}\",\"least_ns\":30,\"most_ns\":40,\"again\":1,\"load\":0}}}}\n"
    )
}

/// One test and size of a part: rounds of some distances, each slower than the one before. Times in units of the round, by contestant.
fn part(part: Part, test: &str, size: usize, rounds: &[(&str, usize)], us: [f64; 3]) -> Measured {
    let mut text = String::from("{\"fact\":[\"kernel\",\"6\"]}\n");
    let contestants = [("limit", "limit"), ("superpipe", "superpipe"), ("ucx", "peer")];
    for (id, kind) in contestants {
        text += &contestant(id, kind);
    }
    let mut number = 0;
    for &(distance, count) in rounds {
        for _ in 0..count {
            number += 1;
            text += &round(distance);
            for ((who, _), us) in contestants.iter().zip(us) {
                text += &figure(number, test, who, "reused", size, us * number as f64);
            }
        }
    }
    Measured::new(part, Figures::parse(&text).unwrap())
}

/// 8 B: superpipe takes `own_us` in the first of five near rounds, the ring 40 ns and UCX 80 ns. Then there are two far rounds.
fn shm(own_us: f64) -> Vec<Measured> {
    vec![part(Part::Small, "latency", 8, &[("near", 5), ("far", 2)], [0.040, own_us, 0.080])]
}

/// 64 KiB, near, apart and far: superpipe is `factor` times as fast as UCX, and as the ring.
fn large(factor: f64) -> Vec<Measured> {
    let rounds = [("near", 5), ("apart", 5), ("far", 5)];
    vec![part(Part::Large, "latency", 65_536, &rounds, [10.0, 10.0 / factor, 10.0])]
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
    // ratios are formed inside rounds, though the rounds differ fivefold
    let raw = "132 ns (44.0 to 220) | 120 ns (40.0 to 200)";
    assert!(
        met.contains(&format!("near, 5 rounds | 1.100x the time (1.100 to 1.100) | bare ring | {raw} |")),
        "{met}"
    );
    assert!(met.contains("0.550x the time (0.550 to 0.550) | ucx"), "{met}");
    assert!(met.contains("### near\n") && !met.contains("far"), "{met}");
    assert!(section(&page, "## Where a peer is ahead").contains("Nowhere"));
    assert!(section(&page, "## Targets that were not measured").contains("first message"));
}

#[test]
fn too_few_rounds_are_not_judged() {
    for own_us in [0.044, 0.050] {
        let page = render(&shm(own_us), &causes(&["tiny-limit/near"])).unwrap();
        let unjudged = section(&page, "## Targets that are not judged, for fewer than 5 rounds");
        let line = "- far, seen in 2 rounds, not judged: 8 B half round trip: at most 0.75x UCX's\n";
        assert!(unjudged.contains(line) && !unjudged.contains("near"), "{unjudged}");
        assert!(!section(&page, "## Missed targets").contains("far"), "{page}");
        let verdict = if own_us > 0.046 { "**missed**" } else { "met" };
        let row = format!("lines | {verdict} | seen in 2 rounds, not judged |");
        assert!(section(&page, "## Targets at each distance").contains(&row), "{page}");
    }
}

#[test]
fn sizes_that_are_not_judged_are_named() {
    // A round that the end of the time cut has the first size only.
    let mut figures = Figures::default();
    let text: String = (0..5).map(|_| round("near")).collect();
    figures.rounds = Figures::parse(&text).unwrap().rounds;
    figures.contestants = shm(1.0).remove(0).figures.contestants;
    for number in 0..5 {
        for (who, us) in [("limit", 1.0), ("superpipe", 1.1)] {
            for size in [16_384, 65_536] {
                if size < 65_536 || number < 4 {
                    figures.add(number, Series { test: "latency", who, place: "reused", size }, us);
                }
            }
        }
    }
    let page = render(&[Measured::new(Part::Large, figures)], &Causes::new()).unwrap();
    let row = "at least 90 % of the bare ring | met at 1 of 2, others not judged |";
    assert!(section(&page, "## Targets at each distance").contains(row), "{page}");
    let unjudged = section(&page, "## Targets that are not judged");
    assert!(
        unjudged.contains("near, seen in 4 rounds, not judged: ")
            && unjudged.contains(" (half round trip, 64 KiB)\n")
    );
}

#[test]
fn each_step_that_loses_too_much_has_its_row() {
    let page = |times: [f64; 4]| {
        let mut figures = Figures::default();
        let text: String = (0..5).map(|_| round("near")).collect();
        figures.rounds = Figures::parse(&text).unwrap().rounds;
        figures.contestants = shm(1.0).remove(0).figures.contestants;
        for number in 0..5 {
            for (size, us) in [100, 105, 110, 115].into_iter().zip(times) {
                figures.add(number, Series { test: "latency", who: "superpipe", place: "reused", size }, us);
            }
        }
        render(&[Measured::new(Part::Steps, figures)], &causes(&["no-cliff"])).unwrap()
    };
    let rows = |page: &str, heading| {
        let told = section(page, heading).to_owned();
        [105, 110, 115].map(|size| told.contains(&format!("half round trip | {size} B |")))
    };
    let two = page([1.0, 1.3, 1.3, 1.7]);
    assert_eq!(rows(&two, "## Missed targets"), [true, false, true], "{two}");
    assert_eq!(rows(&two, "## Met targets"), [false; 3]);
    let none = page([1.0, 1.1, 1.1, 1.1]);
    assert_eq!(rows(&none, "## Missed targets"), [false; 3]);
    assert_eq!(rows(&none, "## Met targets"), [true, false, false], "the worst one");
}

#[test]
fn every_class_is_judged_by_itself() {
    let judged = |factor| {
        let known = causes(&["near-peers", "large-peers", "far-peers-short", "large-limit"]);
        let page = render(&large(factor), &known).unwrap();
        let table = section(&page, "## Targets at each distance").to_owned();
        let row = |name: &str| table.lines().find(|line| line.contains(name)).unwrap().to_owned();
        ["of the bare ring", "97 %", "ahead", "2.5x"]
            .map(|name| row(name).split_off(row(name).find(" | ").unwrap()))
    };
    let all = [" | met | met | met |", " | met | - | - |", " | - | met | met |", " | - | - | met |"];
    assert_eq!(judged(2.5), all);
    assert_eq!(judged(2.4), [all[0], all[1], all[2], " | - | - | **missed** |"]);
    // as fast as a peer is not ahead of it, and near it is enough to be close
    assert_eq!(judged(1.0)[..3], [all[0], all[1], " | - | **missed** | **missed** |"]);
    assert_eq!(judged(0.98)[..2], all[..2]);
    assert_eq!(judged(0.96)[..2], [all[0], " | **missed** | - | - |"]);
    assert_eq!(judged(0.89)[0], " | **missed** | **missed** | **missed** |");
}

#[test]
fn a_missed_target_comes_first_with_its_cause() {
    let page = render(&shm(0.050), &causes(&["tiny-limit"])).unwrap();
    let missed = section(&page, "## Missed targets");
    assert!(
        missed.contains("1.250x the time")
            && missed.contains("**Cause.** the moon")
            && missed.contains("waiting")
    );
    assert!(page.find("## Missed").unwrap() < page.find("## Met").unwrap());
}

#[test]
fn causes_are_of_one_class_or_of_all() {
    let mut known = causes(&["large-peers/apart", "large-peers/far", "far-peers-short"]);
    known.get_mut("large-peers/far").unwrap().cause = "the sun".into();
    let page =
        render(&large(0.95), &[known.clone(), causes(&["near-peers/near"])].into_iter().flatten().collect())
            .unwrap();
    let missed = section(&page, "## Missed targets");
    assert!(
        missed.contains("**Cause, apart.** the moon") && missed.contains("**Cause, far.** the sun"),
        "{missed}"
    );
    assert!(
        missed.contains("**Cause, near.** the moon") && missed.contains("**Cause.** the moon"),
        "{missed}"
    );
    known.remove("large-peers/far");
    known.extend(causes(&["near-peers/far"]));
    let failure = render(&large(0.95), &known).unwrap_err();
    assert!(failure.ends_with("what was tried of 'near-peers/near', 'large-peers/far'"), "{failure}");
    known.extend(causes(&["large-peers", "near-peers"]));
    let page = render(&large(0.95), &known).unwrap();
    assert!(section(&page, "## Missed targets").contains("**Cause, apart.** the moon"), "{page}");
}

#[test]
fn a_missed_target_needs_a_cause() {
    let failure = render(&shm(0.050), &Causes::new()).unwrap_err();
    assert!(failure.contains("targets are missed") && failure.contains("'tiny-limit/near'"), "{failure}");
    for wrong in ["tiny-limits", "tiny-limit/close", "tiny-limit/unknown"] {
        let failure = render(&shm(0.044), &causes(&[wrong])).unwrap_err();
        assert!(failure.contains("no such target"), "{failure}");
    }
    let page = page::page(&shm(0.050), &Causes::new(), &[], true).unwrap();
    assert!(section(&page, "## Missed targets").contains("**Cause, near.** Not known."), "{page}");
}

#[test]
fn a_peer_that_is_ahead_has_its_row() {
    let page = render(&shm(0.100), &causes(&["tiny-limit", "tiny-ucx"])).unwrap();
    let ahead = section(&page, "## Where a peer is ahead");
    assert!(ahead.contains("| far, 2 rounds | **ucx** |") && ahead.contains("0.80x as fast"), "{ahead}");
    assert!(section(&page, "## 8 B to 8 KiB").contains("| 8 B | **ucx** |"));
}

#[test]
fn rounds_of_two_distances_are_not_mixed() {
    let page = render(&shm(0.044), &Causes::new()).unwrap();
    let tables = section(&page, "## 8 B to 8 KiB");
    assert!(
        tables.contains("near, 5 rounds") && tables.contains("far, 2 rounds") && !tables.contains("apart")
    );
    assert!(tables.contains("132 ns (44.0 to 220)") && tables.contains("286 ns (264 to 308)"), "{tables}");
    let machine = section(&page, "## Machine and rounds");
    assert!(machine.contains("| 5 | 0 | 2 | 0 | 7 | 30.0 to 40.0 |"), "{machine}");
}

#[test]
fn there_is_a_plot_for_each_distance() {
    let plots = plots::all(&shm(0.044)).unwrap();
    let files: Vec<&str> = plots.iter().map(|plot| plot.file.as_str()).collect();
    let wanted = ["latency-near", "pingpong-near", "latency-far", "pingpong-far"];
    assert_eq!(files, wanted.map(|name| format!("{name}.svg")));
    assert!(plots.iter().all(|plot| plot.svg.contains("ucx") && plot.svg.contains("superpipe")));
}

#[test]
fn a_plot_of_a_distance_that_is_gone_is_removed() {
    let dir = env::temp_dir().join(format!("superpipe-render-{}", process::id()));
    let figures = dir.join("benchmarks");
    let parsed = |distance: &str| {
        let text = round(distance) + &contestant("superpipe", "superpipe");
        Figures::parse(&(text + &figure(1, "latency", "superpipe", "reused", 8, 1.0))).unwrap()
    };
    for distance in ["apart", "near"] {
        parsed(distance).write(&figures.join("small.jsonl")).unwrap();
        if distance == "near" {
            let failure = super::render(&dir, true, true).unwrap_err().to_string();
            assert!(failure.contains("-apart.svg is not what its figures make"), "{failure}");
        }
        super::render(&dir, false, true).unwrap();
        super::render(&dir, true, true).unwrap();
    }
    let mut names: Vec<_> = fs::read_dir(&figures)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["latency-near.svg", "pingpong-near.svg", "small.jsonl"]);
    fs::remove_dir_all(dir).unwrap();
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
