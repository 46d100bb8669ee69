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
    let sizes = ["--sizes", "0,1,256,4097,100000", "--block", "256,4K,12K", "--ring", "12K,64K"];
    let Some(output) = run(BLOCKS, &[&sizes[..], &["--rounds", "1", "--offset", "24"]].concat()) else {
        return;
    };
    let results = results(&output);
    assert_eq!(results.len(), 5 * 2 * (3 * 2) * 4 * 3);
    assert!(results.iter().all(|result| result["kind"] == "blocks"));
    results.iter().filter(|result| result["bytes"] != 0).for_each(assert_figures);
}

#[test]
fn best_repeats_one_configuration_per_size_and_pattern() {
    let args = ["--best", "--sizes", "4K,64K", "--block", "8K,16K", "--ring", "64K", "--rounds", "3"];
    let Some(output) = run(BLOCKS, &args) else { return };
    let results = results(&output);
    let limits: Vec<_> = results.iter().filter(|result| result["event"] == "limit").collect();
    assert_eq!(limits.len(), 2 * 2 * 3);
    assert!(results.len() > limits.len() && results[0]["event"] == "sweep");
    let name =
        |result: &Value| ["bytes", "pattern", "block", "flag", "copy"].map(|key| result[key].to_string());
    assert!((0..4).all(|i| name(limits[i]) == name(limits[i + 4]) && name(limits[i]) == name(limits[i + 8])));
}

#[test]
fn a_byte_flipped_in_flight_is_detected() {
    for program in [LINES, BLOCKS] {
        let Some(output) = run(program, &["--flip-byte"]) else { return };
        assert_eq!(output.status.code(), Some(6));
        assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: wrong contents"));
    }
}

#[test]
fn invalid_options_are_usage_errors() {
    let cases: [(&str, &[&str]); 7] = [
        (LINES, &["--cores", "0,0"]),
        (LINES, &["--cores", "0,9999"]),
        (LINES, &["--stride", "72"]),
        (LINES, &["--seconds-per-config", "0"]),
        (BLOCKS, &["--block", "100"]),
        (BLOCKS, &["--block", "64K", "--ring", "32K"]),
        (BLOCKS, &["--sizes", "5G"]),
    ];
    for (program, args) in cases {
        let output = Command::new(program).args(args).output().expect("the program was built with the test");
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_killed_limit_leaves_no_process_behind() {
    let Some(_cores) = take_cores() else { return };
    for program in [LINES, BLOCKS] {
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
