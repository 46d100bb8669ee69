//! JSON events, man pages, completions, help and usage errors.

use crate::support::{BOUND, Scratch, feed, option, some_core, wait_for};
use serde_json::Value;
use std::fs;
use std::process::Stdio;

fn parse(events: &str) -> Vec<Value> {
    events.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn events_are_start_intervals_and_end() {
    let scratch = Scratch::new("events");
    let file = scratch.root().join("events");
    let receiver =
        scratch.start_rrecv(scratch.rrecv(&[]).arg(option("json", &file)).arg(scratch.data("out")));
    let mut sender = scratch.start(
        "rsend",
        scratch.rsend(&["--json=-", "--core", &some_core(), &scratch.address()]).stdin(Stdio::piped()),
    );
    let has_two = |events: &str| events.matches("\"event\":\"interval\"").count() >= 2;
    feed(sender.stdin(), 1, 3 << 20, |at| {
        if at == 1 << 20 {
            wait_for("two intervals at each end", || {
                has_two(&sender.said()) && has_two(&fs::read_to_string(&file).unwrap())
            });
        }
    });
    let sent = sender.wait(BOUND);
    sent.assert_done();
    receiver.wait(BOUND).assert(0, "3145728 bytes");
    for (events, tool) in
        [(parse(&sent.said), "rsend"), (parse(&fs::read_to_string(&file).unwrap()), "rrecv")]
    {
        let (start, end) = (&events[0], events.last().unwrap());
        assert_eq!((start["event"].as_str(), start["tool"].as_str()), (Some("start"), Some(tool)));
        assert_eq!(start["address"], scratch.address());
        assert_eq!(start["settings"]["wait"], "sleep");
        let intervals = &events[1..events.len() - 1];
        assert!(intervals.len() >= 2, "{events:?}");
        for interval in intervals {
            assert_eq!(interval["event"], "interval");
            assert!(interval["seconds"].is_f64() && interval["gb_per_s"].is_f64());
        }
        assert_eq!(
            (&end["event"], &end["exit_code"], &end["error"]),
            (&"end".into(), &0.into(), &Value::Null)
        );
        assert_eq!(end["bytes"], 3 << 20);
        assert!(end["seconds"].as_f64().unwrap() > 2.0);
        assert_eq!((&end["checksum"], &end["connection"]["fabric"]), (&"crc64".into(), &"shm".into()));
    }
}

#[test]
fn an_end_event_reports_a_failure() {
    let scratch = Scratch::new("failure");
    let ended =
        scratch.run("rsend", scratch.rsend(&["--json=-", &scratch.address()]).arg(scratch.data("none")));
    let events = parse(&ended.said);
    assert_eq!((ended.code, events.len()), (8, 2), "standard error has events and nothing else");
    assert_eq!(events[1]["exit_code"], 8);
    assert!(events[1]["error"].as_str().unwrap().contains("no such file"));
    let refused = scratch.run("rsend", &mut scratch.rsend(&["--json=/nowhere/x", &scratch.address()]));
    refused.assert(8, "cannot write events to /nowhere/x");
}

#[test]
fn help_exits_with_0_and_wrong_usage_with_2() {
    let scratch = Scratch::new("help");
    for (tool, name) in [("rsend", "rsend"), ("rrecv", "rrecv")] {
        for (argument, words) in [("--help", "Examples:"), ("--version", name), ("-h", "Usage:")] {
            let out = scratch.command(tool).arg(argument).stdout(Stdio::piped()).output().unwrap();
            assert!(out.status.success() && String::from_utf8(out.stdout).unwrap().contains(words));
        }
        for (kind, words) in
            [("man", ".TH"), ("bash", "complete"), ("zsh", "#compdef"), ("fish", "complete -c")]
        {
            let out =
                scratch.command(tool).args(["--generate", kind]).stdout(Stdio::piped()).output().unwrap();
            assert!(out.status.success() && String::from_utf8(out.stdout).unwrap().contains(words), "{kind}");
        }
        for wrong in [
            &["--wrong"][..],
            &["--wait", "long"],
            &["--idle-timeout", "0"],
            &["--core", "x"],
            &["a", "b", "c"],
            &["--folds", "256"],
        ] {
            let ended = scratch.run(tool, scratch.command(tool).args(wrong));
            assert_eq!(ended.code, 2, "{wrong:?}: {}", ended.said);
        }
    }
    assert_eq!(scratch.run("rsend", &mut scratch.command("rsend")).code, 2);
    assert_eq!(scratch.run("rsend", &mut scratch.rsend(&["verbs:h:0"])).code, 2);
    scratch.run("rrecv", &mut scratch.rrecv(&["--core", "8000"])).assert(2, "core 8000 does not exist");
    scratch.run("rrecv", &mut scratch.rrecv(&["--block-bytes", "100"])).assert(2, "block");
    scratch.assert_only(&[]);
}

#[test]
fn verbose_tools_report_address_and_connection() {
    let scratch = Scratch::new("verbose");
    fs::write(scratch.data("in"), b"x").unwrap();
    let (sent, received) = scratch.pair(
        scratch.rsend(&["-v", &scratch.address()]).arg(scratch.data("in")),
        &mut scratch.rrecv(&["-v"]),
    );
    assert_eq!((sent.code, received.code), (0, 0));
    assert!(sent.said.contains("connected by shm: auto"), "{}", sent.said);
    assert!(received.said.contains("listening at shm:"), "{}", received.said);
    let proposal = ["--folds", "2"];
    let other = ["--folds", "3"];
    let receiver = scratch.start_rrecv(scratch.rrecv(&other).arg(scratch.data("out")));
    let sent = scratch.run("rsend", scratch.rsend(&proposal).arg(scratch.address()));
    sent.assert(2, "the two ends disagree: folds is 3 at the listening end and 2 at the connecting end");
    receiver.until_it_goes_on("the two ends disagree");
    scratch.run("rsend", scratch.rsend(&other).arg(scratch.address()).arg(scratch.data("in"))).assert_done();
    receiver.wait(BOUND).assert_done();
    assert_eq!(fs::read(scratch.data("out")).unwrap(), b"x");
}
