//! The limit programs as processes: their output, the errors that they detect, and that no process of them stays behind.
//! No test asserts a figure.

use core::time::Duration;
use std::fs;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use serde_json::Value;

const LINES: &str = env!("CARGO_BIN_EXE_limit_lines");
const BLOCKS: &str = env!("CARGO_BIN_EXE_limit_blocks");
const ONE_COPY: &str = env!("CARGO_BIN_EXE_limit_one_copy");
const FIRST_MESSAGE: &str = env!("CARGO_BIN_EXE_first_message");
const IDLE: &str = env!("CARGO_BIN_EXE_idle");
const ADAPTING: &str = env!("CARGO_BIN_EXE_adapting");
const LOANS: &str = env!("CARGO_BIN_EXE_loans");
const QUICK: [&str; 3] = ["--json", "--seconds-per-config", "0.0001"];
const FIGURES: [&str; 7] = ["min_us", "p50_us", "avg_us", "p99_us", "p999_us", "max_us", "gb_per_s"];

/// Held by a test while it measures: two limits at once would wait for each other's time slices.
static CORES: Mutex<()> = Mutex::new(());

/// Locks the two cores, or returns nothing where there are no two.
fn take_cores() -> Option<MutexGuard<'static, ()>> {
    if thread::available_parallelism().is_ok_and(|count| count.get() >= 2) {
        return Some(CORES.lock().unwrap_or_else(PoisonError::into_inner));
    }
    eprintln!("skipped: a limit needs two cores");
    None
}

/// Runs a limit, or returns nothing where there are no two cores.
fn run(program: &str, args: &[&str]) -> Option<Output> {
    let _cores = take_cores()?;
    Some(Command::new(program).args(QUICK).args(args).output().expect("the program was built with the test"))
}

fn results(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = str::from_utf8(&output.stdout).expect("JSON is UTF-8").lines();
    lines.map(|line| serde_json::from_str(line).expect("every line is one JSON object")).collect()
}

fn assert_figures(result: &Value) {
    for name in FIGURES {
        assert!(result[name].as_f64().is_some_and(|value| value > 0.0), "{name} in {result}");
    }
    let at = |name: &str| result[name].as_f64();
    assert!(at("min_us") <= at("p50_us") && at("p50_us") <= at("p99_us") && at("p99_us") <= at("max_us"));
}

#[test]
fn lines_print_one_object_per_configuration_and_round() {
    let Some(output) = run(LINES, &["--slots", "1,16", "--stride", "64,128", "--rounds", "2"]) else {
        return;
    };
    let results = results(&output);
    assert_eq!(results.len(), 2 * 2 * 2 * 2);
    for (index, result) in results.iter().enumerate() {
        assert_eq!((&result["event"], &result["kind"]), (&"limit".into(), &"lines".into()));
        assert_eq!(
            (result["bytes"].as_u64(), result["round"].as_u64()),
            (Some(8), Some(1 + index as u64 / 8))
        );
        assert_figures(result);
    }
}

#[test]
fn blocks_check_every_layout_and_odd_sizes() {
    let sizes = ["--sizes", "0,1,256,4097,100000", "--offset", "24", "--rounds", "1"];
    let layouts =
        ["--block", "256,4K,12K", "--ring", "12K,64K", "--copy-in", "plain", "--copy-out", "plain,nt"];
    let kernels = ["--block", "4K", "--ring", "64K", "--flag", "end,apart"];
    for (options, count) in [(&layouts[..], (3 * 2) * 4 * 2), (&kernels, 2 * (6 * 3))] {
        let Some(output) = run(BLOCKS, &[&sizes[..], options].concat()) else { return };
        let results = results(&output);
        assert_eq!(results.len(), 5 * 2 * count);
        assert!(results.iter().all(|result| result["kind"] == "blocks"));
        results.iter().filter(|result| result["bytes"] != 0).for_each(assert_figures);
    }
}

#[test]
fn best_repeats_one_configuration_per_size_and_pattern() {
    let args = ["--best", "--sizes", "4K,64K", "--block", "8K,16K", "--ring", "64K", "--rounds", "3"];
    let Some(output) = run(BLOCKS, &args) else { return };
    let results = results(&output);
    let limits: Vec<_> = results.iter().filter(|result| result["event"] == "limit").collect();
    assert_eq!(limits.len(), 2 * 2 * 3);
    assert!(results.len() > limits.len() && results[0]["event"] == "sweep");
    let name = |result: &Value| {
        ["bytes", "pattern", "block", "flag", "copy-in", "copy-out"].map(|key| result[key].to_string())
    };
    assert!((0..4).all(|i| name(limits[i]) == name(limits[i + 4]) && name(limits[i]) == name(limits[i + 8])));
}

#[test]
fn the_best_of_each_distance_stand_beside_the_reference() {
    let args =
        ["--by-distance", "--sizes", "4K,64K", "--block", "4K,16K", "--ring", "64K,512K", "--rounds", "2"];
    let kernels = ["--final-visits", "2", "--flag", "apart", "--copy-in", "plain,nt", "--copy-out", "plain"];
    let Some(output) = run(BLOCKS, &[&args[..], &kernels].concat()) else { return };
    // A visit in which the cores move is left out, and so may be a whole distance.
    let results = results(&output);
    let medians: Vec<_> = results.iter().filter(|result| result["event"] == "median").collect();
    assert!(!medians.is_empty() && results.len() > medians.len());
    // Those of the options, and the reference among them. In the sweep each has two visits at the distance that is complete first.
    let count = |name: &str, distance: &Value| {
        let is_there = |result: &&Value| result["event"] == "sweep" && result["distance"] == *distance;
        let of = |result: &&Value| ["bytes", "pattern"].map(|key| result[key].to_string());
        let first = medians.iter().find(|result| result["distance"] == *distance).expect("it has a median");
        let swept = results.iter().filter(|result| is_there(result) && of(result) == of(first));
        (first[name].as_u64(), swept.count() as u64)
    };
    for distance in medians.iter().map(|median| &median["distance"]) {
        let (configurations, _) = count("configurations", distance);
        let (swept, visits) = count("swept", distance);
        assert_eq!(configurations, Some(8));
        assert!(swept <= configurations && swept <= Some(visits) && visits <= 16, "{swept:?}, {visits}");
    }
    let group = |result: &Value| ["bytes", "pattern", "distance"].map(|key| result[key].to_string());
    for ranked in medians.chunk_by(|a, b| group(a) == group(b)) {
        let us: Vec<_> = ranked.iter().map(|result| result["us"]["median"].as_f64().unwrap()).collect();
        assert!(us[0] > 0.0 && us.is_sorted(), "{ranked:?}");
        let is_reference = |result: &&&Value| {
            result["over_reference"].as_f64() == Some(1.0)
                && result["ring"] == 512 << 10
                && result["block"] == 16 << 10
        };
        assert!(ranked.iter().filter(is_reference).count() <= 1, "{ranked:?}");
        let at = ranked.iter().position(|result| is_reference(&result));
        // The last digit of a number may be lost on its way through JSON.
        let is_ratio = |at: usize| {
            let ratio = ranked[0]["over_reference"].as_f64().unwrap();
            (ratio * us[0] / us[at] - 1.0).abs() < 1e-12
        };
        assert!(at.is_none_or(is_ratio), "{ranked:?}");
    }
}

#[test]
fn one_copy_checks_every_way_and_odd_sizes() {
    let args =
        ["--sizes", "128,384,4224,100096", "--copy", "plain,movsb,nt", "--block", "1152", "--ring", "8K"];
    for more in [&["--rounds", "2"][..], &["--rounds", "2", "--unwritten", "--read", "--huge"]] {
        let Some(output) = run(ONE_COPY, &[&args[..], more].concat()) else { return };
        let results = results(&output);
        let (rounds, medians) = results.split_at(2 * 4 * 3 * 3);
        assert!(rounds.iter().all(|result| result["event"] == "limit" && result["kind"] == "one-copy"));
        rounds.iter().for_each(assert_figures);
        let names = |result: &Value| ["bytes", "way", "copy"].map(|key| result[key].to_string());
        assert_eq!(medians.len(), 4 * 3 * 3);
        for ((median, first), second) in medians.iter().zip(rounds).zip(&rounds[medians.len()..]) {
            assert_eq!((names(median), names(median)), (names(first), names(second)));
            assert_eq!((&median["event"], median["rounds"].as_u64()), (&"median".into(), Some(2)));
            assert_eq!(median["unwritten"].as_bool(), Some(more.len() > 2));
            let number = |value: &Value| value.as_f64().expect("it is a number");
            let ends = ["min", "max"].map(|end| number(&median["gb_per_s"][end]));
            let mut rates = [first, second].map(|round| number(&round["gb_per_s"]));
            rates.sort_by(f64::total_cmp);
            assert_eq!(ends, rates);
            assert!(number(&median["over_ring"]["median"]) > 0.0);
        }
    }
}

#[test]
fn registered_sources_are_compared_with_one_bare_copy() {
    let args = ["--sizes", "128,64K,1M", "--way", "one,registered", "--rounds", "2"];
    let Some(output) = run(ONE_COPY, &args) else { return };
    let medians: Vec<Value> =
        results(&output).into_iter().filter(|result| result["event"] == "median").collect();
    assert_eq!(medians.len(), 6);
    for pair in medians.chunks(2) {
        assert_eq!(pair[0]["over_one"]["median"].as_f64(), Some(1.0));
        assert!(pair[1]["over_one"]["median"].as_f64().is_some_and(|ratio| ratio > 0.0), "{pair:?}");
    }
}

#[test]
fn trusted_destinations_are_compared_with_a_bare_split_copy() {
    let args = ["--sizes", "128,64K,1M", "--way", "split,trusted", "--rounds", "2", "--read"];
    let Some(output) = run(ONE_COPY, &args) else { return };
    let medians: Vec<Value> =
        results(&output).into_iter().filter(|result| result["event"] == "median").collect();
    assert_eq!(medians.len(), 6);
    for pair in medians.chunks(2) {
        assert_eq!(pair[0]["over_split"]["median"].as_f64(), Some(1.0));
        assert!(pair[1]["over_split"]["median"].as_f64().is_some_and(|ratio| ratio > 0.0), "{pair:?}");
    }
}

#[test]
fn first_messages_have_times_and_the_ratios_of_their_targets() {
    let Some(_cores) = take_cores() else { return };
    let output = Command::new(FIRST_MESSAGE).args(["--quick", "--json"]).output().expect("it was built");
    // Rounds whose cores move are left out, so there may be none.
    for result in results(&output) {
        assert!(result["hidden_us"]["median"].as_f64().is_some_and(|us| us > 0.0), "{result}");
        assert!(result["over_today"]["median"].as_f64().is_some_and(|ratio| ratio > 0.0), "{result}");
        let is_large = result["bytes"].as_u64() == Some(1 << 20);
        assert_eq!(result["hidden_share"].is_object(), is_large, "{result}");
        assert!(
            !is_large || result["provision_us"]["median"].as_f64().is_some_and(|us| us > 0.0),
            "{result}"
        );
    }
}

#[test]
fn connections_that_choose_are_compared_with_the_best_one() {
    let Some(_cores) = take_cores() else { return };
    let output = Command::new(ADAPTING)
        .args(["--quick", "--json", "--sizes", "64,64K"])
        .output()
        .expect("it was built");
    let results = results(&output);
    let (moves, contestants) = results.split_last().expect("the last line tells of moves");
    assert_eq!(moves["event"], "moves");
    assert!(contestants.len().is_multiple_of(10), "turns in which the cores move are left out");
    for result in contestants {
        assert!(result["gb_per_s"]["median"].as_f64().is_some_and(|rate| rate > 0.0), "{result}");
    }
    let best = contestants.iter().filter(|result| result["is_best_pinned"] == true);
    assert_eq!(best.count(), contestants.len() / 10);
}

#[test]
fn idle_connections_are_compared_inside_rounds() {
    let output = Command::new(IDLE).args(["--quick", "--json"]).output().expect("it was built");
    let [result] = &results(&output)[..] else { panic!("one line") };
    let number = |key: &str, inner: &str| result[key][inner].as_f64().expect("a number");
    assert!(number("connect_over_default", "median") > 0.0);
    // A page at each end, counted once. Other mappings of the process are not superpipe's.
    let pages = number("resident_bytes", "max") / result["connections"].as_f64().expect("a number") / 4096.0;
    assert!((1.0..=2.0).contains(&pages), "{result}");
}

#[test]
fn loans_are_compared_with_a_ring_that_is_used_in_place() {
    let Some(_cores) = take_cores() else { return };
    // Messages of a line, of odd blocks, and of more than the default landing buffer.
    let args = ["--quick", "--json", "--sizes", "8,4104,100000,64K,1M"];
    let output = Command::new(LOANS).args(args).output().expect("it was built");
    let results = results(&output);
    assert_eq!(results.len(), 5);
    for result in results {
        let ways = result["ways"].as_object().expect("one object per way");
        assert!(ways.keys().eq(["copy", "ring", "slices", "spans"]), "{result}");
        for way in ways.values() {
            let number = |name: &str| way[name]["median"].as_f64().expect("a number");
            assert!(number("gb_per_s") > 0.0 && number("over_ring") > 0.0, "{result}");
        }
        assert_eq!(ways["ring"]["over_ring"]["median"].as_f64(), Some(1.0));
    }
}

#[test]
fn loans_detect_a_wrong_word_by_each_way() {
    let Some(_cores) = take_cores() else { return };
    for way in ["ring", "slices", "spans", "copy"] {
        let args = ["--quick", "--sizes", "100000", "--flip-word", way];
        let output = Command::new(LOANS).args(args).output().expect("it was built");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(6), "{said}");
        assert!(said.contains("wrong contents") && said.contains(&format!("by {way}")), "{said}");
    }
}

#[test]
fn a_byte_flipped_in_flight_is_detected() {
    let one_copy = ["ring", "one", "split", "registered", "trusted"]
        .map(|way| (ONE_COPY, vec!["--flip-byte", "--way", way]));
    let siblings = [LINES, BLOCKS].map(|program| (program, vec!["--flip-byte"]));
    for (program, args) in siblings.into_iter().chain(one_copy) {
        let Some(output) = run(program, &args) else { return };
        assert_eq!(output.status.code(), Some(6));
        assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: wrong contents"));
    }
}

#[test]
fn invalid_options_are_usage_errors() {
    let cases: [(&str, &[&str]); 11] = [
        (LINES, &["--cores", "0,0"]),
        (LINES, &["--cores", "0,9999"]),
        (LINES, &["--stride", "72"]),
        (LINES, &["--seconds-per-config", "0"]),
        (BLOCKS, &["--block", "100"]),
        (BLOCKS, &["--block", "64K", "--ring", "32K"]),
        (BLOCKS, &["--sizes", "5G"]),
        (ONE_COPY, &["--sizes", "64K,100"]),
        (ONE_COPY, &["--sizes", "0"]),
        (ONE_COPY, &["--sizes", "2G"]),
        (ONE_COPY, &["--block", "0"]),
    ];
    for (program, args) in cases {
        let output = Command::new(program).args(args).output().expect("the program was built with the test");
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_killed_limit_leaves_no_process_behind() {
    let Some(_cores) = take_cores() else { return };
    for program in [LINES, BLOCKS, ONE_COPY] {
        let mut command = Command::new(program);
        let mut limit =
            command.args(["--rounds", "1000000"]).stdout(Stdio::null()).spawn().expect("it was built");
        let child = wait_for("its child", || child_of(limit.id()));
        limit.kill().expect("it runs");
        limit.wait().expect("it is our child");
        wait_for("the child's end", || (!is_running(child)).then_some(()));
    }
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "waited 20 s for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn child_of(pid: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

/// A zombie that its new parent has not reaped yet has ended as well.
fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).is_some_and(|state| state != "Z")
}
