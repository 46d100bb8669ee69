//! The program that measures superpipe's waiting: its output, and that no file of it stays behind. No test asserts a figure.

use std::path::Path;
use std::process::{Command, Output};
use std::{fs, process, thread};

use serde_json::Value;

const WAITING: &str = env!("CARGO_BIN_EXE_waiting");
const QUICK: [&str; 5] = ["--json", "--seconds-per-config", "0.0001", "--rounds", "2"];
const TIMES: [&str; 6] = ["min_us", "p50_us", "avg_us", "p99_us", "p999_us", "max_us"];

fn run(args: &[&str], room: &Path) -> Output {
    let mut command = Command::new(WAITING);
    command.args(QUICK).args(args).env("TMPDIR", room).output().expect("the program was built with the test")
}

fn has_two_cores() -> bool {
    let has = thread::available_parallelism().is_ok_and(|count| count.get() >= 2);
    if !has {
        eprintln!("skipped: this needs two cores");
    }
    has
}

/// Returns the objects of a run, after checks of the fields that all of them have.
fn results(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = str::from_utf8(&output.stdout).expect("JSON is UTF-8").lines();
    let results: Vec<Value> =
        lines.map(|line| serde_json::from_str(line).expect("every line is one JSON object")).collect();
    for (index, result) in results.iter().enumerate() {
        assert_eq!((&result["event"], &result["program"]), (&"result".into(), &"waiting".into()));
        assert_eq!(result["round"], 1 + index * 2 / results.len(), "{result}");
        let times = TIMES.map(|name| result[name].as_f64().unwrap_or(f64::NAN));
        let [min, p50, _, p99, p999, max] = times;
        assert!(times.iter().all(|&time| time > 0.0), "{result}");
        assert!(min <= p50 && p50 <= p99 && p99 <= p999 && p999 <= max, "{result}");
        assert!(result["samples"].as_u64() >= Some(5), "{result}");
    }
    results
}

#[test]
fn latency_and_wake_up_of_every_strategy_and_placement() {
    if !has_two_cores() {
        return;
    }
    let args = ["--sizes", "8,64K", "--pauses-us", "10,1000", "--wait", "yield,sleep"];
    let room = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("waiting-{}", process::id()));
    fs::create_dir(&room).expect("the name is new");
    let results = results(&run(&args, &room));
    fs::remove_dir(&room).expect("nothing is left in it");
    let said: Vec<[&Value; 4]> = results[..16]
        .iter()
        .map(|result| {
            let what = if result["test"] == "latency" { "bytes" } else { "pause_us" };
            [&result["placement"], &result["wait"], &result["test"], &result[what]]
        })
        .collect();
    let mut wanted = Vec::new();
    for placement in ["two-cores", "one-core"] {
        for wait in ["yield", "sleep"] {
            for (test, what) in [("latency", 8), ("latency", 65_536), ("wake-up", 10), ("wake-up", 1000)] {
                wanted.push([placement.into(), wait.into(), test.into(), Value::from(what)]);
            }
        }
    }
    assert_eq!(results.len(), 2 * wanted.len());
    assert!(
        said.iter().zip(&wanted).all(|(said, wanted)| said.iter().zip(wanted).all(|(a, b)| *a == b)),
        "{said:?}"
    );
    for result in &results {
        for name in ["client_cpu_percent", "server_cpu_percent"] {
            assert!(result[name].as_f64() >= Some(0.0), "{result}");
        }
    }
}

#[test]
fn invalid_options_are_usage_errors() {
    for args in
        [["--sizes", "65M"], ["--pauses-us", "1000001"], ["--wait", "nap"], ["--seconds-per-config", "0"]]
    {
        let output = run(&args, Path::new(env!("CARGO_TARGET_TMPDIR")));
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    }
}
