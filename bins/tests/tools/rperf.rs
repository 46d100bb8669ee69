//! rperf and rperf serve: what they print, what they refuse, and how they end. No figure is compared with a time.

use crate::support::{BOUND, Ended, Scratch, Tool, some_core, wait_for};
use core::time::Duration;
use serde_json::{Map, Value};
use std::fs;
use std::process::{Command, Stdio};
use superpipe::{Connection, Options, Reason};

/// What stands first in every object, in this order.
const FIELDS: [&str; 11] = [
    "event", "test", "bytes", "first_us", "min_us", "p50_us", "avg_us", "p99_us", "p999_us", "max_us",
    "gb_per_s",
];
/// What stands behind that.
const MORE_FIELDS: [&str; 18] = [
    "iterations",
    "batch",
    "fresh",
    "reconnect",
    "protocol",
    "wait",
    "cpu_percent",
    "peer_cpu_percent",
    "verified",
    "fabric",
    "block_bytes",
    "block_count",
    "chunk_bytes",
    "folds",
    "core",
    "peer_core",
    "clock_ns",
    "version",
];
/// Few messages, and both ends may share a core with other tests.
const QUICK: [&str; 4] = ["--iterations", "20", "--warmup", "3"];
/// What the manual promises.
const NOTICED_WITHIN: Duration = Duration::from_secs(5);

impl Scratch {
    fn start_server(&self, arguments: &[&str]) -> Tool {
        let mut serve = self.command("rperf");
        let tool = self.start("rperf", serve.args(["serve", "--listen", &self.address()]).args(arguments));
        wait_for("rperf serve to listen", || self.socket().exists());
        tool
    }

    fn client(&self, arguments: &[&str]) -> Command {
        let mut client = self.command("rperf");
        client.arg(self.address()).args(arguments);
        client
    }

    /// One client with its server: what the client printed, and how both ended.
    fn measure(&self, arguments: &[&str]) -> (String, Ended, Ended) {
        let server = self.start_server(&[]);
        let out = self.root().join("out");
        let mut client = self.client(arguments);
        let client = self.run("rperf", client.stdout(fs::File::create(&out).unwrap()));
        (fs::read_to_string(out).unwrap(), client, server.wait(BOUND))
    }

    /// The objects that a client printed, when all was well.
    fn objects(&self, arguments: &[&str]) -> Vec<Map<String, Value>> {
        let arguments = [&["--json", "-q"], arguments].concat();
        let (out, client, server) = self.measure(&arguments);
        client.assert_done();
        server.assert_done();
        assert_eq!((client.said.as_str(), server.said.as_str()), ("", ""));
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// The figures of one object, which must be in order.
fn check_figures(object: &Map<String, Value>) {
    let figure = |name: &str| object[name].as_f64().unwrap_or_else(|| panic!("{name} of {object:?}"));
    let rising = ["min_us", "p50_us", "p99_us", "p999_us", "max_us"].map(figure);
    assert!(rising.is_sorted(), "{object:?}");
    assert!(rising[0] >= 0.0 && rising[4] > 0.0, "{object:?}");
    assert!((figure("min_us")..=figure("max_us")).contains(&figure("avg_us")), "{object:?}");
    assert!(figure("first_us") > 0.0, "{object:?}");
    assert_eq!(figure("gb_per_s") > 0.0, object["bytes"] != 0, "{object:?}");
    for percent in ["cpu_percent", "peer_cpu_percent"] {
        assert!((0.0..=100.0).contains(&figure(percent)), "{object:?}");
    }
}

#[test]
fn json_is_an_object_a_size_with_every_field_in_order() {
    let scratch = Scratch::new("perf-json");
    for test in ["latency", "stream"] {
        let sizes = "1000,0,8,64..128,64,3M";
        let objects = scratch.objects(&[&["--test", test, "--sizes", sizes], &QUICK[..]].concat());
        let bytes: Vec<_> = objects.iter().map(|object| object["bytes"].as_u64().unwrap()).collect();
        assert_eq!(bytes, [1000, 0, 8, 64, 128, 3 << 20]);
        for object in &objects {
            check_figures(object);
            assert_eq!((&object["event"], &object["test"]), (&"result".into(), &test.into()));
            assert_eq!((&object["iterations"], &object["batch"]), (&20.into(), &1.into()));
            assert_eq!((&object["fresh"], &object["verified"]), (&"none".into(), &"before".into()));
            assert_eq!((&object["protocol"], &object["wait"]), (&"superpipeline".into(), &"yield".into()));
            assert_eq!(object["version"], env!("CARGO_PKG_VERSION"));
            assert_eq!((&object["core"], &object["peer_core"]), (&Value::Null, &Value::Null));
        }
    }
    scratch.assert_only(&[]);
}

#[test]
fn fields_have_their_order() {
    let scratch = Scratch::new("perf-order");
    let (out, client, _) = scratch.measure(&[&["--json", "-q", "--sizes", "8"], &QUICK[..]].concat());
    client.assert_done();
    let fields: Vec<_> = FIELDS.into_iter().chain(MORE_FIELDS).collect();
    let mut rest = out.as_str();
    for field in &fields {
        let at = rest.find(&format!("\"{field}\":")).unwrap_or_else(|| panic!("{field} in {rest}"));
        rest = &rest[at..];
    }
    let object: Map<String, Value> = serde_json::from_str(&out).unwrap();
    assert_eq!(object.len(), fields.len(), "{out}");
}

#[test]
fn the_table_is_for_people() {
    let scratch = Scratch::new("perf-table");
    let core = some_core();
    let server = scratch.start_server(&["--core", &core]);
    let out = scratch.root().join("out");
    let mut client = scratch.client(&[&["--core", &core, "--sizes", "8,4K", "-v"], &QUICK[..]].concat());
    let client = scratch.run("rperf", client.stdout(fs::File::create(&out).unwrap()));
    client.assert(0, "connected by shm");
    server.wait(BOUND).assert_done();
    let out = fs::read_to_string(out).unwrap();
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(lines.len(), 9, "{out}");
    assert!(lines[1].contains("latency: half a round trip"), "{out}");
    assert!(lines[2].contains("shm, superpipeline, 32 blocks of 16 KiB"), "{out}");
    assert!(lines[3].contains("reused and resident; contents compared before timing"), "{out}");
    assert!(lines[4].contains(&format!("yield; core {core} here, {core} at the server")), "{out}");
    let names: Vec<_> = lines[6].split_whitespace().collect();
    assert_eq!(names[..5], ["#bytes", "#iterations", "t_first", "t_min", "t_typical"]);
    for (line, bytes) in lines[7..].iter().zip(["8", "4096"]) {
        let values: Vec<_> = line.split_whitespace().collect();
        assert_eq!((values.len(), values[0], values[1]), (names.len(), bytes, "20"));
        assert!(values.iter().all(|value| value.parse::<f64>().is_ok()), "{line}");
    }
}

#[test]
fn files_hold_what_is_printed() {
    let scratch = Scratch::new("perf-files");
    let [json, csv, plot] = ["json", "csv", "svg"].map(|name| scratch.data(name).display().to_string());
    let json_to = format!("--json={json}");
    let arguments = ["--sizes", "0,8,64K", &json_to, "--csv", &csv, "--plot", &plot];
    let (out, client, server) = scratch.measure(&[&arguments, &QUICK[..]].concat());
    client.assert_done();
    server.assert_done();
    assert_eq!(out.lines().count(), 10, "the table is there as well: {out}");
    let json = fs::read_to_string(json).unwrap();
    let objects: Vec<Map<String, Value>> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let csv = fs::read_to_string(csv).unwrap();
    let mut rows = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = rows.next().unwrap();
    assert_eq!(names, FIELDS.into_iter().chain(MORE_FIELDS).collect::<Vec<_>>());
    let rows: Vec<_> = rows.collect();
    assert_eq!((rows.len(), objects.len()), (3, 3));
    for (row, object) in rows.iter().zip(&objects) {
        for (name, value) in names.iter().zip(row) {
            let told = &object[*name];
            let same = match told {
                Value::Number(number) => value.parse() == Ok(number.as_f64().unwrap()),
                Value::String(text) => value == text,
                Value::Bool(is) => value.parse() == Ok(*is),
                _ => told.is_null() && value.is_empty(),
            };
            assert!(same, "{name}: {value} in the table, {told} in the object");
        }
    }
    let plot = fs::read_to_string(plot).unwrap();
    assert!(plot.starts_with("<svg") && plot.trim_end().ends_with("</svg>"), "{plot}");
    for word in ["polyline", "microseconds", "GB/s", "median", "first"] {
        assert!(plot.contains(word), "the picture lacks {word}");
    }
    // before anybody is asked
    scratch
        .run("rperf", &mut scratch.client(&["--csv", "/nowhere/x"]))
        .assert(8, "cannot write to /nowhere/x");
}

#[test]
fn a_trace_of_each_end() {
    let scratch = Scratch::new("perf-trace");
    let [one, other] = ["client", "server"].map(|name| scratch.data(name).display().to_string());
    let server = scratch.start_server(&["--trace", &other]);
    let mut client =
        scratch.client(&[&["-q", "--sizes", "64K", "--reconnect", "--trace", &one], &QUICK[..]].concat());
    scratch.run("rperf", &mut client).assert_done();
    server.wait(BOUND).assert_done();
    for trace in [one, other] {
        let trace: Value = serde_json::from_str(&fs::read_to_string(trace).unwrap()).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        assert!(events.len() > 20, "{trace}");
    }
}

#[test]
fn short_messages_are_timed_in_batches() {
    let scratch = Scratch::new("perf-batch");
    for test in ["latency", "stream"] {
        let objects = scratch.objects(&["--test", test, "--sizes", "8", "--iterations", "20000"]);
        check_figures(&objects[0]);
        let batch = objects[0]["batch"].as_u64().unwrap();
        // a machine where a message takes longer than 2 us has no short ones
        assert!([1, 64].contains(&batch), "{objects:?}");
        let timed = if batch == 1 { 20_000 } else { 20_000 / 128 * 128 };
        assert_eq!(objects[0]["iterations"], timed);
    }
}

#[test]
fn memory_of_every_kind() {
    let scratch = Scratch::new("perf-fresh");
    for (fresh, name) in [
        ("--fresh", "superpipe"),
        ("--fresh=superpipe", "superpipe"),
        ("--fresh=plain", "plain"),
        ("--fresh=advised", "advised"),
    ] {
        for test in ["latency", "stream"] {
            let arguments = [fresh, "--verify", "--test", test, "--sizes", "0,9,5000,2M"];
            let objects = scratch.objects(&[&arguments, &QUICK[..]].concat());
            assert_eq!(objects.len(), 4);
            for object in &objects {
                check_figures(object);
                assert_eq!((&object["fresh"], &object["verified"]), (&name.into(), &"always".into()));
            }
        }
    }
}

#[test]
fn every_protocol_and_wait_is_told_by_the_client_alone() {
    let scratch = Scratch::new("perf-tuned");
    for protocol in ["eager", "copy", "pipeline", "superpipeline"] {
        let arguments = ["--protocol", protocol, "--block-bytes", "8K", "--sizes", "8,100K"];
        for object in scratch.objects(&[&arguments, &QUICK[..]].concat()) {
            assert_eq!((&object["protocol"], &object["block_bytes"]), (&protocol.into(), &8192.into()));
        }
    }
    for wait in ["spin", "yield", "sleep"] {
        let arguments = ["--wait", wait, "--sizes", "8", "--reconnect", "--iterations", "2", "--warmup", "0"];
        assert_eq!(scratch.objects(&arguments)[0]["wait"], wait);
    }
}

#[test]
fn a_connection_for_each_size() {
    let scratch = Scratch::new("perf-reconnect");
    for (reconnect, connections) in [(&["--reconnect"][..], 1 + 3), (&[], 1)] {
        for test in ["latency", "stream"] {
            let server = scratch.start_server(&["-v"]);
            let out = scratch.root().join("out");
            let arguments = ["-q", "--json", "--test", test, "--sizes", "8,70000,0"];
            let mut client = scratch.client(&[&arguments, reconnect, &QUICK[..]].concat());
            scratch.run("rperf", client.stdout(fs::File::create(&out).unwrap())).assert_done();
            let ended = server.wait(BOUND);
            assert_eq!(ended.said.matches("connected by").count(), connections, "{}", ended.said);
            let out = fs::read_to_string(out).unwrap();
            assert_eq!(out.lines().count(), 3, "{out}");
            for line in out.lines() {
                let object: Map<String, Value> = serde_json::from_str(line).unwrap();
                check_figures(&object);
                assert_eq!(object["reconnect"], connections > 1);
            }
        }
    }
    scratch.assert_only(&[]);
}

#[test]
fn a_large_message() {
    let scratch = Scratch::new("perf-large");
    let objects = scratch.objects(&["--sizes", "256M", "--iterations", "2", "--warmup", "0"]);
    assert_eq!((&objects[0]["bytes"], &objects[0]["iterations"]), (&(256 << 20).into(), &2.into()));
    check_figures(&objects[0]);
}

#[test]
fn a_wrong_byte_is_found_at_both_ends() {
    let scratch = Scratch::new("perf-flip");
    let words = |message: u32, bytes: u32, at: u32| {
        format!("message {message}, of {bytes} bytes, is wrong from byte {at} on")
    };
    for (arguments, words) in [
        (&["--inject-flip", "3"][..], words(0, 8, 3)),
        // the first of the second size
        (&["--inject-flip", "5007"], words(1, 8192, 4999)),
        // while it is timed
        (&["--verify", "--inject-flip", "81"], words(10, 8, 1)),
        (&["--verify", "--inject-flip", "81", "--test", "stream"], words(10, 8, 1)),
        (&["--fresh", "--verify", "--inject-flip", "81"], words(10, 8, 1)),
    ] {
        let (_, client, server) =
            scratch.measure(&[&["-q", "--sizes", "8,8K"], arguments, &QUICK[..]].concat());
        client.assert(6, &format!("server: what arrived is not what was sent: {words}"));
        server.assert(6, &format!("what arrived is not what was sent: {words}"));
    }
    // what is not compared is not noticed
    let (_, client, server) =
        scratch.measure(&[&["-q", "--sizes", "8", "--inject-flip", "81"], &QUICK[..]].concat());
    assert_eq!((client.code, server.code), (0, 0));
}

#[test]
fn a_server_that_is_kept_serves_the_next() {
    let scratch = Scratch::new("perf-keep");
    let server = scratch.start_server(&["--keep"]);
    for arguments in [&["--sizes", "8"][..], &["--sizes", "8", "--inject-flip", "0"], &["--sizes", "8,4K"]] {
        let mut client = scratch.client(&[&["-q"], arguments, &QUICK[..]].concat());
        let code = scratch.run("rperf", &mut client).code;
        assert_eq!(code, if arguments.len() == 4 { 6 } else { 0 });
    }
    server.signal("TERM");
    let ended = server.wait(BOUND);
    assert_eq!(ended.code, 143);
    let said: Vec<_> = ended.said.lines().collect();
    assert_eq!(said.len(), 2, "{}", ended.said);
    assert!(said[0].contains("what arrived is not what was sent") && said[1].contains("SIGTERM"));
    scratch.assert_only(&[]);
}

#[test]
fn either_side_can_be_killed() {
    let scratch = Scratch::new("perf-kill");
    let endless = ["--iterations", "10000000", "--warmup", "1", "-q", "--sizes", "4K"];
    for test in ["latency", "stream"] {
        for (victim, signal, code, words) in [
            ("client", "KILL", 5, "the peer"),
            ("server", "KILL", 5, "the peer"),
            ("client", "INT", 5, "rperf was interrupted (SIGINT) before the measurement was complete"),
            ("server", "TERM", 5, "rperf serve was ended (SIGTERM) before the measurement was complete"),
        ] {
            let server = scratch.start_server(&["-v"]);
            let arguments = [&["--test", test], &endless[..]].concat();
            let client = scratch.start("rperf", &mut scratch.client(&arguments));
            wait_for("the connection", || server.said().contains("connected by"));
            std::thread::sleep(Duration::from_millis(100));
            let (killed, survivor) = if victim == "client" { (client, server) } else { (server, client) };
            killed.signal(signal);
            let ended = survivor.wait(NOTICED_WITHIN);
            assert_eq!(ended.code, code, "{victim} {signal} in {test}: {}", ended.said);
            let last = ended.said.lines().last().unwrap();
            assert!(last.contains(words), "{victim} {signal} in {test}: {}", ended.said);
            let code = killed.wait(BOUND).code;
            assert_eq!(
                code,
                match signal {
                    "KILL" => -9,
                    "INT" => 130,
                    _ => 143,
                }
            );
            let _ = fs::remove_file(scratch.socket());
        }
    }
    scratch.assert_only(&[]);
}

#[test]
fn a_silent_peer_is_given_up() {
    let scratch = Scratch::new("perf-silent");
    let server = scratch.start_server(&[]);
    let arguments = ["--idle-timeout", "500ms", "--iterations", "10000000", "-q", "--sizes", "4K"];
    let client = scratch.start("rperf", &mut scratch.client(&arguments));
    wait_for("the connection", || server.said().is_empty());
    std::thread::sleep(Duration::from_millis(300));
    server.signal("STOP");
    client.wait(BOUND).assert(4, "silent");
    server.signal("CONT");
    let ended = server.wait(BOUND);
    assert!([4, 5].contains(&ended.code), "{}", ended.said);
}

/// A client that says what no rperf would.
fn server_meets(said: &[(u64, &[u8])], code: i32, words: &str) {
    let scratch = Scratch::new("perf-hostile-client");
    let server = scratch.start_server(&["--idle-timeout", "2s"]);
    let mut connection = connect(&scratch);
    for (tag, bytes) in said {
        connection.send(*tag, &[bytes], BOUND).unwrap();
    }
    let ended = server.wait(BOUND);
    ended.assert(code, words);
    drop(connection);
    scratch.assert_only(&[]);
}

fn connect(scratch: &Scratch) -> Connection {
    let address = scratch.address().parse().unwrap();
    Connection::connect(&address, Options::default(), Duration::from_secs(10)).unwrap()
}

/// As the tag and bytes of a HELLO of this role.
fn hello(role: u8) -> [u8; 32] {
    let mut hello = [0; 32];
    hello[..4].copy_from_slice(b"sptl");
    (hello[4], hello[5]) = (1, role);
    hello[8..16].fill(0xFF);
    hello
}

/// A good PLAN for messages of at most a KiB.
fn plan() -> [u8; 32] {
    let mut plan = [0; 32];
    plan[0] = 1;
    plan[4..8].fill(0xFF);
    plan[17] = 4;
    plan
}

/// A good RUN: ten round trips of 8 bytes.
fn run() -> [u8; 40] {
    let mut run = [0; 40];
    (run[0], run[4], run[8], run[24]) = (2, 1, 8, 10);
    run
}

fn with<const N: usize>(mut bytes: [u8; N], at: usize, value: u8) -> [u8; N] {
    bytes[at] = value;
    bytes
}

#[test]
fn a_hostile_client_is_refused_by_name() {
    server_meets(&[(1, &hello(1))], 7, "the peer is no rperf");
    server_meets(&[(1, &hello(4))], 7, "has the same part as we");
    server_meets(&[(1, b"hello")], 7, "the peer is no rperf");
    server_meets(&[(1, &hello(3)), (9, &plan())], 7, "out of turn");
    for (plan, words) in [
        (with(plan(), 0, 2), "another version"),
        (with(plan(), 1, 9), "waits in a way"),
        (with(plan(), 2, 9), "kind of memory"),
        (with(plan(), 3, 9), "flag"),
        (with(plan(), 20, 1), "more than 1 GiB"),
        (with(plan(), 31, 1), "reserved bytes"),
    ] {
        server_meets(&[(1, &hello(3)), (5, &plan)], 7, words);
    }
    server_meets(&[(1, &hello(3)), (5, &plan()[..31])], 7, "PLAN of the wrong length");
    for (run, words) in [
        (with(run(), 0, 0), "pattern"),
        (with(run(), 4, 0), "batches"),
        (with(run(), 12, 1), "larger messages"),
        (with(run(), 22, 1), "warm-up"),
        (with(run(), 28, 1), "more samples"),
        (with(run(), 39, 1), "reserved bytes"),
        (with(run(), 0, 3), "starts the clock"),
    ] {
        server_meets(&[(1, &hello(3)), (5, &plan()), (7, &run)], 7, words);
    }
    // a message of another size or kind than its turn
    server_meets(&[(1, &hello(3)), (5, &plan()), (7, &run()), (10, &[0; 9])], 7, "its turn");
    server_meets(&[(1, &hello(3)), (5, &plan()), (7, &run()), (10, &[0; 7])], 7, "its turn");
    server_meets(&[(1, &hello(3)), (5, &plan()), (7, &run()), (11, &[0; 8])], 7, "its turn");
    // nobody comes to the new connection, and nothing at all is said
    let again = with(with(run(), 0, 1), 24, 1);
    server_meets(&[(1, &hello(3)), (5, &plan()), (7, &with(again, 1, 1))], 3, "nobody connected");
    server_meets(&[(1, &hello(3)), (5, &plan()), (7, &run())], 4, "silent");
}

/// A server that says what no rperf serve would, up to the given message, in answer to one run.
fn client_meets(said: &[(u64, &[u8])], words: &str) {
    let scratch = Scratch::new("perf-hostile-server");
    let address = scratch.address().parse().unwrap();
    let mut listener = superpipe::Listener::bind(&address, Options::default()).unwrap();
    let client = scratch.start("rperf", &mut scratch.client(&["--sizes", "8", "--idle-timeout", "2s"]));
    let mut connection = listener.accept(Duration::from_secs(10)).unwrap();
    for (tag, bytes) in said {
        // one that has ended already has heard enough
        if connection.send(*tag, &[bytes], BOUND).is_err() {
            break;
        }
    }
    client.wait(BOUND).assert(7, words);
    let _ = connection.close(Reason::DONE, Duration::from_secs(1));
}

#[test]
fn a_hostile_server_is_refused_by_name() {
    let mut ready = [0; 16];
    (ready[0], ready[1]) = (1, 2);
    ready[4..8].fill(0xFF);
    let server = (1, &hello(4)[..]);
    client_meets(&[(1, &hello(2))], "the peer is no rperf");
    client_meets(&[(1, &hello(3))], "has the same part as we");
    client_meets(&[server, (6, &with(ready, 0, 7))], "another version");
    client_meets(&[server, (6, &with(ready, 1, 7))], "waits in a way");
    client_meets(&[server, (6, &with(ready, 15, 7))], "reserved bytes");
    client_meets(&[server, (6, &ready), (9, &[0; 80])], "out of turn");
    client_meets(&[server, (6, &ready), (8, b"go")], "a GO that is not empty");
    client_meets(&[server, (6, &ready), (8, b""), (10, &[0; 9])], "its turn");
    let verdict = [0; 24];
    client_meets(&[server, (6, &ready), (4, &verdict)], "ended the measurement before its end");
    // an answer of the right size, and the wrong contents; then no figures can be
    let mut done = [0; 80];
    done[0] = 9;
    client_meets(&[server, (6, &ready), (8, b""), (10, &[0; 8]), (9, &done)], "figures that cannot be");
    client_meets(
        &[server, (6, &ready), (8, b""), (10, &[0; 8]), (9, &done[..79])],
        "DONE of the wrong length",
    );
}

#[test]
fn usage() {
    let scratch = Scratch::new("perf-usage");
    for wrong in [
        &[][..],
        &["--sizes", "2G", "localhost"],
        &["--sizes", "9..8", "localhost"],
        &["--iterations", "0", "localhost"],
        &["--test", "both", "localhost"],
        &["--fresh=cold", "localhost"],
        &["localhost", "elsewhere"],
        &["serve", "localhost"],
        &["serve", "--sizes", "8"],
        &["serve", "--keep", "--trace", "x"],
        &["-q", "-v", "localhost"],
    ] {
        let ended = scratch.run("rperf", scratch.command("rperf").args(wrong));
        assert_eq!(ended.code, 2, "{wrong:?}: {}", ended.said);
    }
    for (arguments, words) in [
        (&["--help"][..], "What is measured:"),
        (&["serve", "--help"], "--keep"),
        (&["--version"], "rperf"),
        (&["--generate", "man"], "OPTIONS OF SERVE"),
        (&["--generate", "bash"], "complete"),
    ] {
        let out = scratch.command("rperf").args(arguments).stdout(Stdio::piped()).output().unwrap();
        assert!(out.status.success() && String::from_utf8(out.stdout).unwrap().contains(words), "{words}");
    }
    let mut nobody = scratch.client(&["--connect-timeout", "200ms"]);
    scratch.run("rperf", &mut nobody).assert(3, "cannot connect");
    let mut serve = scratch.command("rperf");
    serve.args(["serve", "--accept-timeout", "50ms", "--listen", &scratch.address()]);
    scratch.run("rperf", &mut serve).assert(3, "nobody connected");
    scratch.run("rperf", &mut scratch.client(&["--core", "8000"])).assert(2, "core 8000 does not exist");
}
