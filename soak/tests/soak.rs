//! A short soak of the build under test, and the cleanup after a killed receiver.
#![forbid(unsafe_code)]

use core::time::Duration;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

/// Longest time to wait for an event.
const WAIT_MAX: Duration = Duration::from_secs(60);

fn soak(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_superpipe-soak"));
    command.args(arguments);
    command
}

#[test]
fn messages_arrive_complete_and_in_order() {
    let output = soak(&["--seconds", "5", "--round-ms", "200"]).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
}

#[test]
fn many_connections_share_a_small_budget() {
    let output =
        soak(&["crowd", "--seconds", "3", "--connections", "16", "--budget-mib", "4"]).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(output.status.success(), "{text}");
    assert_eq!(text.matches("sent ").count(), 2, "both processes report: {text}");
}

#[test]
fn a_budget_without_room_for_the_connections_fails() {
    let output =
        soak(&["crowd", "--seconds", "1", "--connections", "200", "--budget-mib", "1"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("cannot provision"), "{text}");
}

#[test]
fn connections_that_come_and_go_leave_nothing() {
    let output =
        soak(&["visitors", "--seconds", "5", "--round-ms", "1500", "--visitors", "3"]).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
}

/// The sender ends with the receiver, even while it is stopped.
#[test]
fn a_sender_does_not_outlive_its_receiver() {
    let mut receiver = soak(&["--seconds", "60", "--round-ms", "60000", "--round", "1"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pid = receiver.id();
    let children = format!("/proc/{pid}/task/{pid}/children");
    let sender =
        within(|| fs::read_to_string(&children).unwrap().split_whitespace().next().map(str::to_owned));
    let is_stopped = || {
        let stat = fs::read_to_string(format!("/proc/{sender}/stat")).unwrap();
        stat.rsplit(") ").next().is_some_and(|fields| fields.starts_with('T')).then_some(())
    };
    within(is_stopped);
    receiver.kill().unwrap();
    receiver.wait().unwrap();
    within(|| (!is_alive(&sender)).then_some(()));
    fs::remove_dir_all(std::env::temp_dir().join(format!("superpipe-soak-{pid}"))).unwrap();
}

/// Returns true if the process exists and is not a zombie.
fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|fields| !fields.is_empty() && !fields.starts_with(['Z', 'X']))
}

fn within<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(begun.elapsed() < WAIT_MAX, "not within {WAIT_MAX:?}");
        thread::sleep(Duration::from_millis(1));
    }
}
