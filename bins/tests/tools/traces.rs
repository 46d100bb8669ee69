//! `--trace`: contents of the recorder in a file.

use crate::support::{BOUND, Noise, Scratch, option, wait_for};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;

/// Capacity of the recorder, in events.
const CAPACITY: usize = 4096;

/// Reads a trace, and checks that a viewer can open it: every event is metadata, an instant or a span, in a lane with a name.
fn read(path: &Path) -> Vec<Value> {
    let whole: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    assert_eq!(whole["displayTimeUnit"], "ns");
    let events = whole["traceEvents"].as_array().unwrap().clone();
    let lanes: Vec<_> = events.iter().filter(|event| event["name"] == "thread_name").collect();
    for event in &events {
        assert!(event["pid"].is_u64() && event["tid"].is_u64() && event["args"].is_object(), "{event}");
        let has_lane =
            || lanes.iter().any(|lane| (&lane["pid"], &lane["tid"]) == (&event["pid"], &event["tid"]));
        match event["ph"].as_str() {
            Some("M") => assert!(event["name"].as_str().unwrap().contains('_')),
            Some("i") => assert!(event["s"] == "t" && event["ts"].as_f64().unwrap() > 0.0 && has_lane()),
            Some("X") => {
                assert!(event["ts"].as_f64().unwrap() > 0.0 && event["dur"].as_f64().unwrap() >= 0.0);
                assert!(has_lane());
            }
            _ => panic!("{event}"),
        }
    }
    events
}

/// Returns the number of the lane with this name.
fn lane(events: &[Value], name: &str) -> Option<u64> {
    let lane = events.iter().find(|event| event["name"] == "thread_name" && event["args"]["name"] == name)?;
    lane["tid"].as_u64()
}

/// Returns the spans of a lane.
fn spans<'a>(events: &'a [Value], name: &str) -> impl Iterator<Item = &'a Value> {
    let lane = lane(events, name);
    events.iter().filter(move |event| event["ph"] == "X" && event["tid"].as_u64() == lane)
}

/// Returns the bytes that were copied in this lane, per chunk.
fn copied(events: &[Value], name: &str) -> BTreeMap<u64, u64> {
    let mut copied = BTreeMap::new();
    for event in spans(events, name) {
        let number = |key: &str| event["args"][key].as_u64().unwrap();
        *copied.entry(number("sequence")).or_insert(0) += number("bytes");
    }
    copied
}

#[test]
fn both_ends_trace_the_same_chunks() {
    let scratch = Scratch::new("trace");
    fs::write(scratch.data("in"), Noise::new(1).bytes(1 << 20)).unwrap();
    let [sent, received] = ["sent", "received"].map(|name| scratch.root().join(name));
    let (sender, receiver) = scratch.pair(
        scratch.rsend(&["-q"]).arg(option("trace", &sent)).arg(scratch.address()).arg(scratch.data("in")),
        scratch.rrecv(&["-q"]).arg(option("trace", &received)).arg(scratch.data("out")),
    );
    sender.assert_done();
    receiver.assert_done();
    let (sent, received) = (read(&sent), read(&received));
    for (events, name) in [(&sent, "rsend"), (&received, "rrecv")] {
        assert_eq!((&events[0]["name"], &events[0]["args"]["name"]), (&"process_name".into(), &name.into()));
        assert!(events.iter().all(|event| event["pid"] == events[0]["pid"]));
    }
    assert_ne!(sent[0]["pid"], received[0]["pid"]);
    let there = copied(&sent, "copy in");
    assert!(there.values().sum::<u64>() >= 1 << 20);
    assert_eq!(there, copied(&received, "copy out"));
    assert_eq!(copied(&received, "copy in"), copied(&sent, "copy out"));
    assert_eq!(lane(&sent, "wire"), None, "stores go direct");
    // The stream is a transfer in both traces. Both have one clock, so no copy in comes after its end.
    let ends = |events: &[Value], name: &str| {
        let times = |event: &Value| event["ts"].as_f64().unwrap() + event["dur"].as_f64().unwrap();
        spans(events, name).map(times).fold(0.0, f64::max)
    };
    assert!(ends(&sent, "copy in") < ends(&received, "receive"));
    let transfers = |events: &[Value], name: &str| {
        spans(events, name).map(|event| event["args"]["transfer"].as_u64().unwrap()).collect::<BTreeSet<_>>()
    };
    let begun = transfers(&sent, "send");
    assert!(!begun.is_empty() && begun.is_subset(&transfers(&received, "receive")));
}

#[test]
fn only_the_newest_events_are_kept() {
    let scratch = Scratch::new("trace-long");
    fs::write(scratch.data("in"), vec![7; 8 << 20]).unwrap();
    let trace = scratch.root().join("trace");
    let (sender, receiver) = scratch.pair(
        scratch
            .rsend(&["-q", "--block-bytes=128", "--chunk-bytes=1K", &scratch.address()])
            .arg(scratch.data("in")),
        scratch.rrecv(&["-q"]).arg(option("trace", &trace)).arg(scratch.data("out")),
    );
    sender.assert_done();
    receiver.assert_done();
    let events = read(&trace);
    let recorded = events.iter().filter(|event| event["ph"] != "M").count();
    assert!(recorded <= CAPACITY && recorded > CAPACITY / 2, "{recorded}");
    let is_end = |event: &Value| event["name"].as_str().unwrap().ends_with(" ends");
    assert!(events.iter().any(is_end), "the transfer's beginning made room for its end");
}

#[test]
fn a_failed_run_traces_its_last_events() {
    let scratch = Scratch::new("trace-failure");
    let trace = scratch.root().join("trace");
    let mut rrecv = scratch.rrecv(&[]);
    let mut receiver = scratch.start_rrecv(rrecv.arg(option("trace", &trace)).stdout(Stdio::piped()));
    let mut sender = scratch.start("rsend", scratch.rsend(&[&scratch.address()]).stdin(Stdio::piped()));
    let mut pipe = sender.stdin();
    pipe.write_all(&[7; 100_000]).unwrap();
    receiver.stdout().read_exact(&mut [0; 100_000]).unwrap();
    sender.kill();
    receiver.wait(BOUND).assert(5, "the peer is gone");
    let events = read(&trace);
    assert_eq!(copied(&events, "copy out").values().sum::<u64>() / 1000, 100);
    let is_open = |event: &Value| event["args"]["state"] == "not ended";
    assert!(events.iter().any(is_open), "the transfer is told of, and that it has no end");
}

#[test]
fn an_unwritable_trace_is_reported() {
    let scratch = Scratch::new("trace-file");
    let refused = scratch.run("rsend", &mut scratch.rsend(&["--trace=/nowhere/x", &scratch.address()]));
    refused.assert(8, "cannot write to /nowhere/x");
    assert_eq!(scratch.run("rsend", &mut scratch.rsend(&["--trace=-", &scratch.address()])).code, 2);
    let trace = scratch.root().join("trace");
    let alone = scratch.run(
        "rsend",
        scratch.rsend(&["--connect-timeout=1ms", &scratch.address()]).arg(option("trace", &trace)),
    );
    alone.assert(3, "");
    assert!(!trace.exists(), "nobody connected: there is nothing to tell");
    let (sender, receiver) = scratch.pair(
        &mut scratch.rsend(&["-q", "--trace=/dev/full", &scratch.address()]),
        &mut scratch.rrecv(&["-q"]),
    );
    sender.assert(0, "cannot write to /dev/full: no space left on device");
    receiver.assert_done();
}

/// Runs one client with its server, and records both. Returns the client's trace and picture.
fn measured(scratch: &Scratch, arguments: &[&str]) -> (Vec<Value>, String) {
    let picture = scratch.data("picture");
    let drawn = option("picture", &picture);
    let events = recorded(scratch, "9", &[arguments, &[drawn.to_str().unwrap()]].concat());
    (events, fs::read_to_string(picture).unwrap())
}

/// Runs one client with its server, and records both. Returns the client's trace.
fn recorded(scratch: &Scratch, iterations: &str, arguments: &[&str]) -> Vec<Value> {
    let trace = scratch.data("trace");
    let mut server = scratch.command("rperf");
    let server = scratch.start("rperf", server.args(["serve", "--listen", &scratch.address()]));
    wait_for("rperf serve to listen", || scratch.socket().exists());
    let mut client = scratch.command("rperf");
    client.args(["-q", "--iterations", iterations, "--warmup=2", &scratch.address()]).args(arguments);
    client.arg(option("trace", &trace));
    scratch.run("rperf", &mut client).assert_done();
    server.wait(BOUND).assert_done();
    read(&trace)
}

#[test]
fn rperf_traces_both_ends_of_the_same_messages() {
    let scratch = Scratch::new("trace-perf");
    for (test, is_answered) in [("latency", true), ("stream", false)] {
        let (events, picture) = measured(&scratch, &["--test", test, "--sizes=8,1M"]);
        let process = |name: &str| {
            let named = |event: &&Value| event["name"] == "process_name" && event["args"]["name"] == name;
            let pid = &events.iter().find(named).unwrap()["pid"];
            let own = events.iter().filter(|event| &event["pid"] == pid).cloned();
            own.collect::<Vec<_>>()
        };
        let (client, server) = (process("rperf"), process("rperf serve"));
        // Both ends recorded the last message completely: the same blocks, in the order of one clock.
        let sends: Vec<_> =
            spans(&client, "send").filter(|event| event["args"]["bytes"] == 1 << 20).collect();
        let last = sends.last().unwrap();
        let within = |event: &&Value| event["ts"].as_f64() >= last["ts"].as_f64();
        let sent: Vec<_> = spans(&client, "copy in").filter(within).collect();
        let block = |event: &Value| event["args"]["block"].as_u64().unwrap();
        let (first, end) = (block(sent[0]), block(sent[sent.len() - 1]));
        let copies: Vec<_> =
            spans(&server, "copy out").filter(|event| (first..=end).contains(&block(event))).collect();
        let bytes = |copies: &[&Value]| {
            copies.iter().map(|copy| copy["args"]["bytes"].as_u64().unwrap()).sum::<u64>()
        };
        assert_eq!((bytes(&sent), bytes(&copies)), (1 << 20, 1 << 20));
        for (one, other) in sent.iter().zip(&copies) {
            assert_eq!(block(one), block(other));
            assert!(one["ts"].as_f64() < other["ts"].as_f64());
        }
        // The landing buffer holds half of the message, so the server copies out before the client has copied in all.
        let begin = |event: &Value| event["ts"].as_f64().unwrap();
        assert!(begin(copies[0]) < begin(sent[sent.len() - 1]));
        assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
        assert!(picture.contains("1 MiB") && picture.contains("auto over shm, in blocks of 4 KiB"));
        for (lane, is_there) in
            [("client copy in", true), ("server copy out", true), ("client copy out", is_answered)]
        {
            assert_eq!(picture.contains(lane), is_there, "{test}: {lane}");
        }
        assert!(picture.matches("<rect").count() > if is_answered { 4 * 64 } else { 2 * 64 });
    }
}

/// On a busy machine the ends of all recorded messages may be seen too late to count.
#[test]
fn traces_show_plans_beside_what_messages_took() {
    let scratch = Scratch::new("trace-planned");
    for tries in 1.. {
        let events = recorded(&scratch, "300", &["--test=latency", "--sizes=1M", "--registered"]);
        let planned: Vec<_> = spans(&events, "planned").collect();
        for event in &planned {
            assert_eq!(event["name"], "one-copy", "{event}");
            let args = &event["args"];
            assert_eq!(
                (&args["bytes"], &args["memory"], &args["declined"]),
                (&(1 << 20).into(), &"kept".into(), &false.into())
            );
            assert!(args["reason"].is_string() && args["predicted_us"].as_f64().unwrap() > 0.0, "{event}");
            let (took, duration) = (args["took_us"].as_f64().unwrap(), event["dur"].as_f64().unwrap());
            assert!(took > 0.0 && (took - duration).abs() < 1e-3, "{event}");
        }
        if !planned.is_empty() {
            break;
        }
        assert!(tries < 20, "no end is ever seen in time");
    }
}

#[test]
fn an_undrawable_message_is_reported() {
    let scratch = Scratch::new("trace-picture");
    let client = |arguments: &[&str]| {
        let mut client = scratch.command("rperf");
        client.args(["-q", "--iterations=3", "--warmup=1", &scratch.address()]).args(arguments);
        client
    };
    scratch.run("rperf", &mut client(&["--picture=/nowhere/x"])).assert(8, "cannot write to /nowhere/x");
    let short = scratch.run("rperf", client(&["--sizes=1M,40"]).arg(option("picture", &scratch.data("x"))));
    short.assert(2, "end --sizes with a larger size");
    let mut server = scratch.command("rperf");
    let server = scratch.start("rperf", server.args(["serve", "--listen", &scratch.address()]));
    wait_for("rperf serve to listen", || scratch.socket().exists());
    let picture = option("picture", &scratch.data("x"));
    let long = scratch.run("rperf", client(&["--sizes=16M", "--block-bytes=128"]).arg(picture));
    long.assert(9, "cannot draw a message of 16 MiB");
    server.wait(BOUND).assert(9, "cannot draw a message of 16 MiB");
}

#[test]
fn a_message_without_blocks_has_no_picture() {
    let scratch = Scratch::new("trace-no-blocks");
    let server = scratch.start_server(&[]);
    let mut client = scratch.client(&["-q", "--sizes=1M", "--protocol=register-cached", "--iterations=3"]);
    client.arg(option("picture", &scratch.data("x")));
    scratch.run("rperf", &mut client).assert(9, "it went past the blocks");
    server.wait(BOUND).assert(9, "it went past the blocks");
}

/// The trace is written at every end of a run.
#[test]
fn a_failed_picture_does_not_lose_the_trace() {
    let scratch = Scratch::new("trace-without-picture");
    let server = scratch.start_server(&[]);
    let mut client = scratch.client(&["-q", "--sizes", "256M", "--iterations", "3", "--warmup", "1"]);
    let (picture, trace) = (scratch.data("picture.svg"), scratch.data("trace.json"));
    client.arg(option("picture", &picture)).arg(option("trace", &trace));
    let ended = scratch.run("rperf", &mut client);
    drop(server);
    assert_eq!(ended.code, 9, "{}", ended.said);
    let events = fs::read_to_string(trace).unwrap().matches("\"ph\"").count();
    assert!(events > 1000, "the trace has {events} events");
}
