//! Output files of a client whose measurement fails.

use super::QUICK;
use crate::support::{BOUND, Ended, Scratch, Tool, mkfifo, option, program, wait_for};
use core::time::Duration;
use serde_json::Value;
use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::thread;

/// Names of all reports of a client.
const NAMES: [&str; 5] = ["csv", "json", "picture", "plot", "trace"];

impl Scratch {
    /// Returns a client that writes every report.
    fn client_with_files(&self, arguments: &[&str]) -> Command {
        let mut client = self.client(&[&["-q"], arguments].concat());
        for name in NAMES {
            client.arg(format!("--{name}={}", self.data(name).display()));
        }
        client
    }

    /// Runs such a client with a server.
    fn files_of(&self, arguments: &[&str]) -> Ended {
        let server = self.start_server(&[]);
        let client = self.run("rperf", &mut self.client_with_files(&[arguments, &QUICK[..]].concat()));
        server.wait(BOUND);
        client
    }

    fn lines(&self, name: &str) -> usize {
        fs::read_to_string(self.data(name)).unwrap().lines().count()
    }

    /// Creates an old file of each name.
    fn with_old(&self) {
        for name in NAMES {
            fs::write(self.data(name), name).unwrap();
        }
    }

    #[track_caller]
    fn assert_old(&self, names: &[&str]) {
        for name in names {
            assert_eq!(fs::read_to_string(self.data(name)).unwrap(), *name);
        }
        self.assert_only(&NAMES);
    }
}

#[test]
fn without_a_connection_old_files_are_kept() {
    let scratch = Scratch::new("perf-files-alone");
    let alone = || {
        let mut client = scratch.client_with_files(&["--connect-timeout=1ms"]);
        scratch.run("rperf", &mut client).assert(3, "cannot connect");
    };
    alone();
    scratch.assert_only(&[]);
    scratch.with_old();
    alone();
    scratch.assert_old(&NAMES);
}

#[test]
fn without_results_only_the_trace_is_written() {
    let scratch = Scratch::new("perf-files-first");
    let fails = ["--sizes=64,8K", "--inject-flip=3"];
    scratch.files_of(&fails).assert(6, "the received data differ from the sent data");
    scratch.assert_only(&["trace"]);
    scratch.with_old();
    scratch.files_of(&fails).assert(6, "the received data differ from the sent data");
    scratch.assert_old(&["csv", "json", "picture", "plot"]);
    let trace: Value = serde_json::from_slice(&fs::read(scratch.data("trace")).unwrap()).unwrap();
    assert!(trace["traceEvents"].as_array().unwrap().len() > 20);
}

#[test]
fn a_failed_run_keeps_results_and_draws_nothing() {
    let scratch = Scratch::new("perf-files-second");
    let fails = ["--sizes=64,8K", "--inject-flip=5000"];
    scratch.files_of(&fails).assert(6, "message 1 of 8192 bytes");
    scratch.assert_only(&["csv", "json", "trace"]);
    assert_eq!((scratch.lines("csv"), scratch.lines("json")), (2, 1));
    scratch.with_old();
    fs::set_permissions(scratch.data("csv"), Permissions::from_mode(0o640)).unwrap();
    scratch.files_of(&fails).assert(6, "message 1 of 8192 bytes");
    scratch.assert_old(&["picture", "plot"]);
    assert_eq!((scratch.lines("csv"), scratch.lines("json")), (2, 1));
    assert_eq!(fs::metadata(scratch.data("csv")).unwrap().permissions().mode() & 0o777, 0o640);
    // a run that succeeds replaces all
    scratch.with_old();
    scratch.files_of(&["--sizes=64,8K"]).assert_done();
    assert_eq!((scratch.lines("csv"), scratch.lines("json")), (3, 2));
    for (name, begin) in [("picture", "<svg"), ("plot", "<svg"), ("trace", "{\"")] {
        assert!(fs::read_to_string(scratch.data(name)).unwrap().starts_with(begin), "{name}");
    }
    scratch.assert_only(&NAMES);
}

#[test]
fn a_kill_leaves_complete_files_only() {
    let scratch = Scratch::new("perf-files-kill");
    scratch.with_old();
    let server = scratch.start_server(&[]);
    let sizes = ["--sizes=64,64M", "--warmup=1", "--iterations=5000"];
    let mut client = scratch.start("rperf", &mut scratch.client_with_files(&sizes));
    // Both files appear with it, one after the other.
    let has_result = |name: &str| fs::read_to_string(scratch.data(name)).unwrap() != name;
    wait_for("the first result", || has_result("json") && has_result("csv"));
    client.kill();
    assert_eq!(client.wait(BOUND).code, -9);
    server.wait(BOUND).assert(5, "the peer is gone");
    scratch.assert_old(&["picture", "plot", "trace"]);
    assert_eq!(scratch.lines("json"), 1);
}

#[test]
fn unwritable_results_end_the_measurement() {
    let scratch = Scratch::new("perf-files-full");
    for (option, words) in [
        ("--csv=/dev/full", "cannot write to /dev/full: no space left on device"),
        ("--json=/dev/full", "cannot write to /dev/full: no space left on device"),
        ("--plot=/dev/full", "cannot write to /dev/full: no space left on device"),
        ("--picture=/dev/full", "cannot write to /dev/full: no space left on device"),
    ] {
        let (_, client, server) = scratch.measure(&[&["-q", "--sizes=128", option], &QUICK[..]].concat());
        client.assert(8, words);
        // a plot is drawn after the server has ended
        if option.starts_with("--plot") {
            server.assert_done();
        } else {
            server.assert(8, &format!("client: {words}"));
        }
    }
    let (_, client, server) =
        scratch.measure(&[&["-q", "--sizes=64", "--trace=/dev/full"], &QUICK[..]].concat());
    client.assert(0, "cannot write to /dev/full: no space left on device");
    server.assert_done();
    let server = scratch.start_server(&[]);
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let client = scratch.run("rperf", scratch.client(&["--sizes=64"]).args(QUICK).stdout(full));
    let server = server.wait(BOUND);
    client.assert(8, "cannot write to standard output: no space left on device");
    server.assert(8, "client: cannot write to standard output: no space left on device");
    let mut closed = Command::new("sh");
    closed.args(["-c", "exec \"$@\" >&-", "sh", &program("rperf"), &scratch.address(), "--json=-"]);
    scratch.run("rperf", &mut closed).assert(8, "cannot write to standard output: bad file descriptor");
    scratch.assert_only(&[]);
}

/// Starts a process that reads a pipe into a file, until its end.
fn reader(scratch: &Scratch, fifo: &Path) -> Tool {
    let mut cat = Command::new("cat");
    scratch.start("cat", cat.arg(fifo).stdout(File::create(scratch.root().join("read")).unwrap()))
}

#[test]
fn a_slow_reader_of_a_pipe_is_waited_for() {
    let scratch = Scratch::new("perf-files-pipe");
    let fifo = scratch.data("fifo");
    mkfifo(&fifo);
    // the trace exceeds the capacity of a pipe, so the client waits for its reader
    let server = scratch.start_server(&["-v"]);
    let mut client = scratch.client(&["-q", "--sizes=8,1M", "--iterations=9", "--warmup=2"]);
    let client = scratch.start("rperf", client.arg(option("trace", &fifo)));
    thread::sleep(Duration::from_millis(200));
    let cat = reader(&scratch, &fifo);
    wait_for("the connection", || server.said().contains("connected by"));
    cat.signal("STOP");
    server.wait(BOUND).assert_done();
    thread::sleep(Duration::from_millis(200));
    cat.signal("CONT");
    cat.wait(BOUND).assert_done();
    client.wait(BOUND).assert_done();
    let text = fs::read_to_string(scratch.root().join("read")).unwrap();
    assert!(text.len() > 128 << 10, "{}", text.len());
    let whole: Value = serde_json::from_str(&text).unwrap();
    assert!(whole["traceEvents"].as_array().unwrap().len() > 200);
    // the reader, which is this test, has the pipe open and never reads
    let unread = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&fifo).unwrap();
    let server = scratch.start_server(&[]);
    let mut client = scratch.client(&["-q", "--sizes=1M", "--iterations=9", "--warmup=2"]);
    let client = scratch.start("rperf", client.arg(option("trace", &fifo)));
    client.wait(BOUND).assert(0, "its reader read nothing within 10s");
    server.wait(BOUND).assert_done();
    drop(unread);
    // there is no reader, and a signal ends the wait
    let client = scratch.start("rperf", scratch.client(&["-q"]).arg(option("plot", &fifo)));
    thread::sleep(Duration::from_millis(200));
    client.signal("INT");
    client.wait(BOUND).assert(130, "SIGINT");
    scratch.assert_only(&["fifo"]);
}
