//! Results on standard output and in files.

use super::QUICK;
use crate::support::{BOUND, Scratch, some_core};
use serde_json::{Map, Value};
use std::fs;

/// First fields of every object, in order.
const FIELDS: [&str; 11] = [
    "event", "test", "bytes", "first_us", "min_us", "p50_us", "avg_us", "p99_us", "p999_us", "max_us",
    "gb_per_s",
];
/// Further fields, in order.
const MORE_FIELDS: [&str; 39] = [
    "iterations",
    "batch",
    "fresh",
    "reconnect",
    "protocol",
    "wait",
    "cpu_percent",
    "peer_cpu_percent",
    "verified",
    "one_copy_percent",
    "split_copy_percent",
    "registrations_hit",
    "registrations_missed",
    "planned_way",
    "planned_reason",
    "planned_memory",
    "predicted_us",
    "took_us",
    "copy_in",
    "copy_out",
    "window_bytes",
    "fabric",
    "device",
    "arrival",
    "arrival_reason",
    "landing",
    "block_bytes",
    "block_count",
    "chunk_bytes",
    "folds",
    "c0_bytes",
    "growth",
    "first_chunk",
    "sub_blocks",
    "triple_buffer",
    "core",
    "peer_core",
    "clock_ns",
    "version",
];

/// Asserts that the figures of one object are plausible.
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
fn json_has_one_object_per_size_with_all_fields() {
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
            assert_eq!((&object["protocol"], &object["wait"]), (&"auto".into(), &"yield".into()));
            assert_eq!(object["version"], env!("CARGO_PKG_VERSION"));
            assert_eq!((&object["core"], &object["peer_core"]), (&Value::Null, &Value::Null));
        }
    }
    scratch.assert_only(&[]);
}

#[test]
fn json_fields_have_a_fixed_order() {
    let scratch = Scratch::new("perf-order");
    let (out, client, _) = scratch.measure(&[&["--json=-", "-q", "--sizes", "8"], &QUICK[..]].concat());
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
fn the_table_shows_settings_and_one_line_per_size() {
    let scratch = Scratch::new("perf-table");
    let core = some_core();
    let server = scratch.start_server(&["--core", &core]);
    let out = scratch.root().join("out");
    let mut client = scratch.client(&[&["--core", &core, "--sizes", "8,4K", "-v"], &QUICK[..]].concat());
    let client = scratch.run("rperf", client.stdout(fs::File::create(&out).unwrap()));
    client.assert_done();
    assert!(client.said.contains("connected by shm"), "{}", client.said);
    server.wait(BOUND).assert_done();
    let out = fs::read_to_string(out).unwrap();
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(lines.len(), 9, "{out}");
    assert!(lines[1].contains("latency: half a round trip"), "{out}");
    assert!(lines[2].contains("shm, auto, arrival by flag, 128 blocks of 4 KiB"), "{out}");
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
fn json_csv_and_plot_hold_the_same_results() {
    let scratch = Scratch::new("perf-files");
    let [json, csv, plot] = ["json", "csv", "svg"].map(|name| scratch.data(name).display().to_string());
    let reports = [("json", &json), ("csv", &csv), ("plot", &plot)];
    let [json_to, csv_to, plot_to] = reports.map(|(report, path)| format!("--{report}={path}"));
    let arguments = ["--sizes", "0,8,64K", &json_to, &csv_to, &plot_to];
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
    // an output that cannot be written is refused before connecting
    scratch.run("rperf", &mut scratch.client(&["--csv=/nowhere/x"])).assert(8, "cannot write to /nowhere/x");
}

#[test]
fn each_end_writes_its_own_trace() {
    let scratch = Scratch::new("perf-trace");
    let [one, other] = ["client", "server"].map(|name| scratch.data(name).display().to_string());
    let [to_one, to_other] = [&one, &other].map(|path| format!("--trace={path}"));
    let server = scratch.start_server(&[&to_other]);
    let mut client =
        scratch.client(&[&["-q", "--sizes", "64K", "--reconnect", &to_one], &QUICK[..]].concat());
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
        // on a machine where a message takes longer than 2 us there are no batches
        assert!([1, 64].contains(&batch), "{objects:?}");
        let timed = if batch == 1 { 20_000 } else { 20_000 / 128 * 128 };
        assert_eq!(objects[0]["iterations"], timed);
    }
}

#[test]
fn every_kind_of_fresh_memory_works() {
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
fn the_client_alone_sets_protocol_and_wait() {
    let scratch = Scratch::new("perf-tuned");
    for protocol in ["eager", "copy", "pipeline", "superpipeline", "provision"] {
        let arguments = ["--protocol", protocol, "--block-bytes", "8K", "--sizes", "8,100K"];
        for object in scratch.objects(&[&arguments, &QUICK[..]].concat()) {
            assert_eq!((&object["protocol"], &object["block_bytes"]), (&protocol.into(), &8192.into()));
        }
    }
    let refined = ["--c0=8K", "--growth=1", "--optimistic=off", "--sub-blocks=off", "--triple-buffer=on"];
    let objects = scratch.objects(&[&refined[..], &["--sizes", "8,100K"], &QUICK].concat());
    for object in &objects {
        let names = ["c0_bytes", "growth", "first_chunk", "sub_blocks", "triple_buffer"];
        let values: [Value; 5] =
            [8192.into(), 1.0.into(), "during-rendezvous".into(), false.into(), true.into()];
        assert_eq!(names.map(|name| object[name].clone()), values);
    }
    for wait in ["spin", "yield", "sleep"] {
        let arguments = ["--wait", wait, "--sizes", "8", "--reconnect", "--iterations", "2", "--warmup", "0"];
        assert_eq!(scratch.objects(&arguments)[0]["wait"], wait);
    }
}

#[test]
fn reconnect_makes_new_connections_per_size() {
    let scratch = Scratch::new("perf-reconnect");
    for (reconnect, each) in [(&["--reconnect"][..], 1), (&["--reconnect=3"], 3), (&[], 0)] {
        for test in ["latency", "stream"] {
            let server = scratch.start_server(&["-v"]);
            let out = scratch.root().join("out");
            let arguments = ["-q", "--json=-", "--test", test, "--sizes", "8,70000,0"];
            let mut client = scratch.client(&[&arguments, reconnect, &QUICK[..]].concat());
            scratch.run("rperf", client.stdout(fs::File::create(&out).unwrap())).assert_done();
            let ended = server.wait(BOUND);
            assert_eq!(ended.said.matches("connected by").count(), 1 + 3 * each, "{}", ended.said);
            let out = fs::read_to_string(out).unwrap();
            assert_eq!(out.lines().count(), 3, "{out}");
            for line in out.lines() {
                let object: Map<String, Value> = serde_json::from_str(line).unwrap();
                check_figures(&object);
                assert_eq!(object["reconnect"], each);
            }
        }
    }
    scratch.assert_only(&[]);
}

#[test]
fn a_message_of_256_mib_is_measured() {
    let scratch = Scratch::new("perf-large");
    let objects = scratch.objects(&["--sizes", "256M", "--iterations", "2", "--warmup", "0"]);
    assert_eq!((&objects[0]["bytes"], &objects[0]["iterations"]), (&(256 << 20).into(), &2.into()));
    check_figures(&objects[0]);
}

#[test]
fn registered_buffers_are_copied_once_from_4_kib_on() {
    let scratch = Scratch::new("perf-registered");
    for more in [
        &["--test", "latency"][..],
        &["--test", "stream"],
        &["--test", "stream", "--verify"],
        &["--reconnect"],
    ] {
        let protocol = ["--protocol", "register-cached", "--sizes", "4095,64K,1M"];
        let objects = scratch.objects(&[more, &protocol, &QUICK[..]].concat());
        let [short, above, long] = &objects[..] else { panic!("{objects:?}") };
        assert_eq!(
            (&short["one_copy_percent"], &short["registrations_hit"]),
            (&0.0.into(), &0.into()),
            "{more:?}"
        );
        for object in [above, long] {
            assert!(object["one_copy_percent"].as_f64().unwrap() > 99.0, "{more:?} {object:?}");
            assert!(object["registrations_hit"].as_u64().unwrap() >= 20, "{more:?} {object:?}");
            assert_eq!(object["registrations_missed"], 0, "{more:?}");
            assert_eq!(object["protocol"], "register-cached");
        }
    }
}

#[test]
fn without_room_registered_buffers_go_through_the_ring() {
    let scratch = Scratch::new("perf-ring");
    // Room for the connection, and for no buffer of 1 MiB beside what is kept for others.
    let few = ["--protocol", "register-cached", "--sizes", "1M", "--shared-max", "1500K"];
    let objects = scratch.objects(&[&few[..], &QUICK[..]].concat());
    assert_eq!(objects[0]["one_copy_percent"], 0.0);
    assert!(objects[0]["registrations_missed"].as_u64().unwrap() >= 20, "{objects:?}");
}

#[test]
fn verbose_names_the_copies_of_each_size() {
    let scratch = Scratch::new("perf-copies");
    let arguments = ["-v", "--protocol", "register-cached", "--sizes", "1M"];
    let (_, client, server) = scratch.measure(&[&arguments[..], &QUICK[..]].concat());
    client.assert_done();
    server.assert_done();
    assert!(client.said.contains("1 MiB: 100 % of the bytes sent were copied once"), "{}", client.said);
}

/// Only messages out of mapped memory have a choice over shared memory. On a busy machine the end of every message may be seen too late to count.
#[test]
fn planned_messages_have_their_way_and_times() {
    let scratch = Scratch::new("perf-planned");
    let measure = |more: &[&str]| {
        let arguments = ["-v", "--sizes", "2K,1M", "--json=-", "--iterations", "300", "--warmup", "50"];
        let (out, client, server) = scratch.measure(&[&arguments[..], more].concat());
        client.assert_done();
        server.assert_done();
        let objects: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((objects.len(), &objects[1]["protocol"]), (2, &"auto".into()));
        (objects, client.said)
    };
    let (objects, said) = measure(&[]);
    assert!(objects.iter().all(|object| object["planned_way"].is_null() && object["took_us"].is_null()));
    assert!(!said.contains("planned"), "{said}");
    for tries in 1.. {
        let (objects, said) = measure(&["--registered"]);
        let [short, long] = &objects[..] else { panic!("{objects:?}") };
        assert_eq!((&short["planned_way"], &short["took_us"]), (&Value::Null, &Value::Null));
        assert!(tries < 10, "no end is ever seen in time");
        if long["planned_way"].is_null() {
            continue;
        }
        assert_eq!((&long["planned_way"], &long["planned_memory"]), (&"one-copy".into(), &"kept".into()));
        assert!(long["predicted_us"].as_f64().unwrap() > 0.0 && long["took_us"].as_f64().unwrap() > 0.0);
        assert!(said.contains("planned: 1048576 kept: "), "{said}");
        break;
    }
    let (_, client, _) =
        scratch.measure(&[&["--protocol", "superpipeline", "--registered"], &QUICK[..]].concat());
    assert!(client.said.contains("propose auto or register-cached"), "{}", client.said);
}

/// The server offers its buffer before it sends the answer that the client waits for, so the client's messages find it.
#[test]
fn both_ends_copy_messages_to_a_server_that_trusts() {
    let scratch = Scratch::new("perf-trusted");
    let arguments = ["-v", "--protocol", "register-cached", "--sizes", "4095,1M", "--json=-"];
    for more in [&["--iterations", "50"][..], &["--iterations", "50", "--verify"]] {
        let arguments = [&arguments[..], more, &QUICK[2..]].concat();
        let (out, client, server) = scratch.measure_with(&["--trust-peer"], &arguments);
        client.assert_done();
        server.assert_done();
        let objects: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let [short, long] = &objects[..] else { panic!("{objects:?}") };
        assert_eq!((&short["one_copy_percent"], &short["split_copy_percent"]), (&0.0.into(), &0.0.into()));
        let [once, split] =
            ["one_copy_percent", "split_copy_percent"].map(|name| long[name].as_f64().unwrap());
        assert!(once > 99.0 && (10.0..=50.1).contains(&split), "{more:?} {long:?}");
        assert!(client.said.contains(" % by this end; "), "{}", client.said);
    }
}

#[test]
fn distances_are_printed_without_a_server() {
    let scratch = Scratch::new("perf-distance");
    let out = scratch.root().join("out");
    let probe = |arguments: &[&str]| {
        let mut rperf = scratch.command("rperf");
        rperf.arg("--distance").args(arguments).stdout(fs::File::create(&out).unwrap());
        (scratch.run("rperf", &mut rperf), fs::read_to_string(&out).unwrap())
    };
    let cores: Vec<usize> = superpipe::os::allowed_cores().iter().collect();
    let [first, .., last] = cores[..] else {
        probe(&[]).0.assert(2, "needs two cores");
        return;
    };
    // Other tests may keep a core busy, so that a probe times out.
    let done = |arguments: &[&str]| {
        let mut tries = (0..20).map(|_| probe(arguments));
        let (ended, printed) =
            tries.find(|(ended, _)| ended.code != 4).expect("one of 20 probes is not disturbed");
        ended.assert_done();
        printed
    };
    let core = last.to_string();
    let table = done(&["--core", &core]);
    assert_eq!(table.lines().count(), cores.len(), "a header, and a line for each other core: {table}");
    let line: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(line[..2], [core.as_str(), &first.to_string()]);
    assert!(["near", "apart", "far"].contains(&line[3]) && line[2].parse::<f64>().unwrap() > 1.0, "{table}");
    let objects = done(&["--core", &core, "--json=-", "-q"]);
    let object: Value = serde_json::from_str(objects.lines().next().unwrap()).unwrap();
    assert_eq!((&object["event"], &object["cores"]), (&"distance".into(), &serde_json::json!([last, first])));
    probe(&["--core", "8000"]).0.assert(2, "core 8000 does not exist");
}

/// `-v` says how an end copies, and the options set it.
#[test]
fn kernels_and_window_are_set_and_told() {
    let scratch = Scratch::new("perf-copying");
    let server = scratch.start_server(&["-v", "--copy-out", "fetching"]);
    let arguments =
        ["-v", "--copy-in", "streaming", "--window", "128K", "--sizes", "64K", "--iterations", "50"];
    let client = scratch.run("rperf", &mut scratch.client(&arguments));
    assert_eq!(client.code, 0, "{}", client.said);
    let line = |said: &str| said.lines().find(|line| line.contains(": window: ")).map(str::to_owned).unwrap();
    let client = line(&client.said);
    assert!(
        client.contains("window: 128 KiB (pinned, 0 changes); copies in, of messages from: 4 KiB streaming, 16 KiB streaming"),
        "{client}"
    );
    let server = line(&server.wait(BOUND).said);
    assert!(
        server.contains("window: 512 KiB (start, 0 changes)")
            && server.contains("copies out: 4 KiB fetching"),
        "{server}"
    );
}
