//! superpipe-top, and --metrics of the other tools: real processes, seen by a third one.

use crate::support::{BOUND, Ended, Scratch, Tool, full_pipe, wait_for};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// A transfer that goes on until it is ended: the receiver, and the sender.
fn endless(scratch: &Scratch, options: &[&str]) -> [Tool; 2] {
    let receiver = scratch.start_rrecv(&mut scratch.rrecv(&[&["-v"], options].concat()));
    let mut rsend = scratch.rsend(&[&["-v"], options].concat());
    let sender = scratch.start("rsend", rsend.args([&scratch.address(), "/dev/zero"]));
    sender.until_connected(1);
    receiver.until_connected(1);
    [receiver, sender]
}

fn top(scratch: &Scratch, arguments: &[&str], pids: &[u32]) -> Command {
    let mut command = scratch.command("superpipe-top");
    command.args(arguments).args(pids.iter().map(|pid| format!("--pid={pid}"))).stdout(Stdio::piped());
    command
}

/// Runs superpipe-top to its end. Returns what it printed.
fn printed(scratch: &Scratch, arguments: &[&str], pids: &[u32]) -> String {
    let out = top(scratch, arguments, pids).output().unwrap();
    assert!(out.status.success() && out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

fn parsed(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// The process of this pid in a look, with its only connection.
fn process(look: &Value, pid: u32) -> (&Value, &Value) {
    let found = look["processes"].as_array().unwrap().iter().find(|process| process["pid"] == pid);
    let process = found.unwrap_or_else(|| panic!("{pid} is not in {look}"));
    let [connection] = &process["connections"].as_array().unwrap()[..] else { panic!("{process}") };
    (process, connection)
}

#[test]
fn both_ends_of_a_transfer_are_seen_as_they_go_on() {
    let scratch = Scratch::new("top-both");
    let [receiver, sender] = endless(&scratch, &["--metrics"]);
    let pids = [receiver.id(), sender.id()];
    let mut watching = top(&scratch, &["--json", "--interval", "200ms"], &pids);
    let mut watching = watching.stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut next = || parsed(&lines.next().unwrap().unwrap());
    let (first, mut second) = (next(), Value::Null);
    // A copy of the counters may be older than 200 ms on a busy host, so two looks can find the same one.
    let bytes = |look: &Value, pid, way: &str| process(look, pid).1["counts"][way].as_u64().unwrap();
    let moves = |pid, way, look: &Value| {
        bytes(look, pid, way) > bytes(&first, pid, way)
            && process(look, pid).1["per_second"][way].as_f64().unwrap() > 0.0
    };
    wait_for("both ends to move bytes", || {
        second = next();
        moves(sender.id(), "bytes_sent", &second) && moves(receiver.id(), "bytes_received", &second)
    });
    for (pid, program, role, peer) in [
        (sender.id(), "rsend", "connected", receiver.id()),
        (receiver.id(), "rrecv", "accepted", sender.id()),
    ] {
        let (process, connection) = process(&second, pid);
        assert_eq!((&process["program"], &connection["role"]), (&program.into(), &role.into()));
        assert_eq!((&connection["fabric"], &connection["state"]), (&"shm".into(), &"open".into()));
        assert_eq!((&connection["protocol"], &connection["peer"]["pid"]), (&"auto".into(), &peer.into()));
        assert!(process["process"]["shared_reserved_bytes"].as_u64().unwrap() > 1 << 20, "{process}");
        assert_eq!(process["process"]["connections_made"], 1);
    }
    sender.signal("TERM");
    assert_eq!(sender.wait(BOUND).code, 143);
    receiver.wait(BOUND);
    // None of the named ones is left.
    assert!(watching.wait().unwrap().success());
}

#[test]
fn one_look_is_a_table_or_text_for_collectors() {
    let scratch = Scratch::new("top-once");
    let tools = endless(&scratch, &["--metrics"]);
    let [receiver, sender] = [tools[0].id(), tools[1].id()];
    let table = printed(&scratch, &["--once"], &[receiver, sender]);
    for (pid, program, peer) in
        [(receiver, "rrecv", format!("<{sender}")), (sender, "rsend", format!(">{receiver}"))]
    {
        assert!(
            table.lines().any(|line| line.starts_with(&format!("{pid} {program}: 1 connections, "))),
            "{table}"
        );
        let row = table.lines().find(|line| line.trim_start().starts_with(&format!("{pid}."))).unwrap();
        let words: Vec<_> = row.split_whitespace().collect();
        assert_eq!(words[1..5], [peer.as_str(), "shm", "auto", "open"], "{table}");
    }
    // Without --pid, all of this user; others may be there as well.
    let all = printed(&scratch, &["--once", "--json"], &[]);
    process(&parsed(&all), sender);
    process(&parsed(&all), receiver);
    let sample = format!("superpipe_sent_bytes_total{{pid=\"{sender}\",program=\"rsend\",connection=\"");
    let mut text = String::new();
    wait_for("the first bytes", || {
        text = printed(&scratch, &["--openmetrics"], &[sender]);
        let value = text.lines().find_map(|line| line.strip_prefix(&sample)?.split_once("\"} ")).unwrap().1;
        value.parse::<u64>().unwrap() > 0
    });
    assert!(text.ends_with("# EOF\n"), "{text}");
    assert!(!text.contains(&format!("pid=\"{receiver}\"")), "it was not asked for");
}

#[test]
fn the_measured_ends_are_seen_too() {
    let scratch = Scratch::new("top-rperf");
    let server = scratch.start_server(&["-q", "--metrics"]);
    let mut rperf = scratch.command("rperf");
    rperf.arg(scratch.address()).args(["-q", "--metrics", "--sizes", "64", "--iterations", "16M"]);
    let client = scratch.start("rperf", &mut rperf);
    let pids = [server.id(), client.id()];
    wait_for("both ends to be seen", || {
        let out = top(&scratch, &["--once", "--json"], &pids).output().unwrap();
        let counted = |pid: u32| -> Option<u64> {
            let look: Value = serde_json::from_slice(&out.stdout).ok()?;
            let process = look["processes"].as_array()?.iter().find(|process| process["pid"] == pid)?.clone();
            process["connections"][0]["counts"]["transfers_sent"].as_u64()
        };
        // A measurement in which each message is there at once, or soon, copies nevertheless.
        pids.iter().all(|pid| counted(*pid).is_some_and(|count| count > 1000))
    });
}

#[test]
fn a_process_that_publishes_nothing_is_named_with_the_remedy() {
    let scratch = Scratch::new("top-none");
    let tools = endless(&scratch, &[]);
    let look = |pid: u32| -> Ended {
        scratch.run(
            "superpipe-top",
            scratch.command("superpipe-top").args(["--once", "--pid", &pid.to_string()]),
        )
    };
    look(tools[0].id()).assert(3, "publishes no metrics: it has to call superpipe::metrics::publish");
    look(u32::MAX).assert(3, "there is no process 4294967295");
    let page = fs::read_dir(format!("/proc/{}/fd", tools[0].id())).unwrap().flatten();
    let links = page.filter_map(|link| fs::read_link(link.path()).ok());
    assert!(!links.into_iter().any(|to| to.to_string_lossy().contains("superpipe-metrics")), "opt-in");
}

#[test]
fn a_signal_ends_it_as_the_other_tools() {
    let scratch = Scratch::new("top-signal");
    let mut endless = scratch.command("superpipe-top");
    let watching = scratch.start("superpipe-top", endless.args(["--interval", "1h"]));
    watching.signal("INT");
    watching.wait(BOUND).assert(130, "interrupted by SIGINT");
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut once = scratch.command("superpipe-top");
    scratch
        .run("superpipe-top", once.arg("--once").stdout(full))
        .assert(8, "cannot write to standard output");
    scratch.run("superpipe-top", scratch.command("superpipe-top").args(["--interval", "1ms"])).code_is(2);
}

#[test]
fn a_signal_ends_it_while_nobody_reads_its_output() {
    let scratch = Scratch::new("top-unread");
    let (_reader, writer) = full_pipe();
    let mut once = scratch.command("superpipe-top");
    let watching = scratch.start("superpipe-top", once.arg("--once").stdout(writer));
    std::thread::sleep(core::time::Duration::from_millis(500));
    watching.signal("INT");
    watching.wait(BOUND).assert(130, "interrupted by SIGINT");
}

impl Ended {
    #[track_caller]
    fn code_is(&self, code: i32) {
        assert_eq!(self.code, code, "{}", self.said);
    }
}

/// Attack: a tool that serves many with --metrics shows all of them.
#[test]
fn all_connections_of_one_that_keeps_are_listed() {
    const SENDERS: usize = 40;
    let scratch = Scratch::new("top-keep");
    let mut rrecv = scratch.rrecv(&["-q", "--metrics", "--keep"]);
    let receiver = scratch.start_rrecv(rrecv.arg(scratch.data("")));
    let mut senders = Vec::new();
    for index in 0..SENDERS {
        let mut connection = scratch.connect();
        let hello = crate::support::rsend_hello(u64::MAX);
        connection.send(1, &[&hello], BOUND).unwrap();
        connection.send(13, &[format!("file-{index}").as_bytes()], BOUND).unwrap();
        senders.push(connection);
    }
    let mut unlisted = 0;
    wait_for("all connections to be made", || {
        let look = parsed(&printed(&scratch, &["--once", "--json"], &[receiver.id()]));
        let process = &look["processes"][0];
        let listed = process["connections"].as_array().unwrap().len();
        unlisted = process["process"]["connections_unlisted"].as_u64().unwrap();
        process["process"]["connections_made"] == SENDERS && (listed as u64) + unlisted == SENDERS as u64
    });
    assert_eq!(unlisted, 0, "of {SENDERS} connections, with room for 128 (--connections-max)");
}
