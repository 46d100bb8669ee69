//! Golden traces: each scenario does what it did before, byte for byte, in debug and in release.
//!
//! After an intended change, write them anew, and read the difference before the commit:
//!
//!     SUPERPIPE_GOLDEN=write cargo test -p superpipe-sim --test golden

use std::path::Path;
use std::{env, fs};

use superpipe_sim::{Case, RunOptions, Scenario, run};
use superpipe_testkit::crc32c;

const TRACED: RunOptions = RunOptions { traced: true, turns_max: None };

/// Number of seeds from 0 on whose traces the CRC32C covers.
const SEEDS: u64 = 200;

/// Scenarios with golden traces, and texts that each trace must contain to show its subject.
const GOLDEN: [(&str, &[&str]); 14] = [
    ("inline", &["LineOut", "LineIn", "AckOut"]),
    ("eager", &["Post { sequence", "CopyIn", "CopyOut"]),
    ("superpipeline", &["ControlOut(Cts)", "CopyOut", "AckIn", "Complete"]),
    ("direct-store", &["ControlOut(Cts)", "#0 ", "CopyOut", "AckIn"]),
    ("provision", &["Compared", "ControlOut(Grow)", "ControlIn(Grown)", "ControlOut(Retired)"]),
    ("provision-direct", &["Compared", "ControlOut(Grow)", "ControlIn(Grown)", "ControlOut(Retired)"]),
    ("cancel", &["SendEnd { transfer: 1", "ReceiveEnd { transfer: 1", "ReceiveBegin { transfer: 2"]),
    ("reject", &["ControlIn(Reject)"]),
    ("split", &["CopyOut"]),
    ("notified", &["immediate", "receive", "CopyOut", "AckIn"]),
    ("notified-by-send", &["send 4 B", "receive", "LineIn"]),
    ("lost-completion", &["and lost", "status 0"]),
    ("qp-error", &["failed", "status 2", "Device"]),
    ("killed", &[" 1 killed", "CopyOut", "ControlOut(Close)"]),
];

/// Compares with the file `path`, relative to this crate.
fn compare(path: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if env::var_os("SUPERPIPE_GOLDEN").is_some_and(|value| value == "write") {
        assert!(env::var_os("CI").is_none(), "CI compares; it never writes");
        fs::write(path, found).unwrap();
        return;
    }
    let wanted = fs::read_to_string(&path).unwrap_or_default();
    let name = path.display();
    let mut lines = wanted.lines().zip(found.lines()).enumerate();
    if wanted != found {
        let first = lines.find(|(_, (wanted, found))| wanted != found);
        panic!("{name} is not what it was, first in {first:#?}; if that is meant, see the top of this file");
    }
}

#[test]
fn scenarios_have_the_same_traces() {
    for (name, shown) in GOLDEN {
        let outcome = run(&Scenario::by_name(name).unwrap().case(), TRACED);
        let trace =
            outcome.unwrap_or_else(|failure| panic!("{name}: {}", failure.description)).trace.to_string();
        for what in shown {
            assert!(trace.contains(what), "{name} does not show {what}:\n{trace}");
        }
        compare(&format!("tests/golden/{name}.trace"), &trace);
    }
}

#[test]
fn seeds_have_the_same_traces() {
    let mut crc = 0;
    for seed in 0..SEEDS {
        let outcome = run(&Case::from_seed(seed), TRACED).unwrap_or_else(|failure| panic!("{failure}"));
        crc = crc32c(outcome.trace.to_string().as_bytes(), crc);
    }
    compare(
        "tests/golden/seeds.crc",
        &format!("CRC32C of the traces of seeds 0 to {}: {crc:08x}\n", SEEDS - 1),
    );
}

#[test]
fn the_picture_in_the_docs_is_current() {
    let scenario = Scenario::by_name("out-of-cache").unwrap();
    let trace = run(&scenario.case(), TRACED).unwrap().trace;
    compare("../docs/pictures/superpipeline-in-virtual-time.svg", &trace.draw(scenario.about).unwrap());
}
