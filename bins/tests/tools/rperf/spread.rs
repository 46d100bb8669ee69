//! Messages over many connections at once, and runs by time.

use crate::support::{BOUND, Scratch, beside_silent, option, wait_for};
use core::time::Duration;
use serde_json::{Map, Value};
use std::fs;
use std::time::Instant;
use superpipe::Connection;

fn number(row: &Map<String, Value>, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("{name} of {row:?}"))
}

/// Asserts that the figures of a row fit each other.
fn assert_possible(row: &Map<String, Value>) {
    let of = |name| number(row, name);
    assert!(of("messages") > 0.0 && of("seconds") > 0.0, "{row:?}");
    let each = ["connection_min_per_s", "connection_p50_per_s", "connection_max_per_s"].map(of);
    assert!(each.is_sorted() && each[0] > 0.0, "{row:?}");
    assert!(of("least_share") > 0.0 && of("least_share") <= 1.0, "{row:?}");
    let rate = of("messages") / of("seconds");
    assert!((of("messages_per_s") / rate - 1.0).abs() < 0.01, "{row:?}");
    assert!(
        (of("gb_per_s") * 1e9 - rate * of("bytes")).abs() < 1000.0 + 0.01 * rate * of("bytes"),
        "{row:?}"
    );
}

#[test]
fn messages_are_spread_over_connections() {
    let scratch = Scratch::new("perf-spread");
    let count = |row: &Map<String, Value>| row["messages"].as_u64().unwrap();
    for test in ["latency", "stream"] {
        let rows = scratch.objects(&[
            "--test",
            test,
            "--connections=5",
            "--idle=3",
            "--sizes=8,300K",
            "--iterations=500",
            "--warmup=20",
        ]);
        assert_eq!(rows.len(), 2);
        let direction = if test == "latency" { "round-trips" } else { "to-server" };
        for row in &rows {
            assert_possible(row);
            assert_eq!((&row["direction"], &row["test"]), (&direction.into(), &test.into()));
            assert_eq!((&row["connections"], &row["idle"], count(row)), (&5.into(), &3.into(), 500));
            assert_eq!(row["p50_us"].is_null(), test == "stream");
        }
    }
}

#[test]
fn both_directions_are_measured_at_once() {
    let scratch = Scratch::new("perf-both");
    // On a busy host a connection can get no turn in the time.
    let each_has_one = |row: &Map<String, Value>| number(row, "connection_min_per_s") > 0.0;
    let mut rows = Vec::new();
    for _ in 0..5 {
        rows = scratch.objects(&["--bidirectional", "--connections=3", "--sizes=64,1M", "--time=300ms"]);
        if rows.iter().all(each_has_one) {
            break;
        }
    }
    assert_eq!(rows.len(), 6);
    for rows in rows.chunks(3) {
        rows.iter().for_each(assert_possible);
        let directions = [&rows[0], &rows[1], &rows[2]].map(|row| row["direction"].as_str().unwrap());
        assert_eq!(directions, ["to-server", "to-client", "sum"]);
        let messages = [&rows[0], &rows[1], &rows[2]].map(|row| row["messages"].as_u64().unwrap());
        assert_eq!(messages[0] + messages[1], messages[2]);
    }
    let rows = scratch.objects(&["--bidirectional", "--sizes=64", "--iterations=100", "--warmup=0"]);
    let messages: Vec<_> = rows.iter().map(|row| row["messages"].as_u64().unwrap()).collect();
    assert_eq!(messages, [100, 100, 200]);
}

#[test]
fn many_connections_have_every_report() {
    let scratch = Scratch::new("perf-spread-files");
    let [csv, plot] = ["csv", "plot"].map(|name| scratch.data(name));
    let files = [option("csv", &csv), option("plot", &plot)];
    let server = scratch.start_server(&[]);
    let mut client = scratch.client(&["--connections=2", "--sizes=8,64,4K", "--iterations=50"]);
    let out = scratch.root().join("table");
    client.args(files).stdout(fs::File::create(&out).unwrap());
    scratch.run("rperf", &mut client).assert_done();
    server.wait(BOUND).assert_done();
    let table = fs::read_to_string(out).unwrap();
    assert!(table.contains("connections 2, and 0 idle ones"), "{table}");
    assert_eq!(table.matches("round-trips").count(), 3, "{table}");
    let csv = fs::read_to_string(csv).unwrap();
    assert!(csv.starts_with("event,test,direction,bytes,connections,idle,messages,"), "{csv}");
    assert_eq!(csv.lines().count(), 4);
    assert!(fs::read_to_string(plot).unwrap().contains("messages per second"));
    scratch.assert_only(&["csv", "plot"]);
}

#[test]
fn a_run_by_time_lasts_as_long() {
    let scratch = Scratch::new("perf-time");
    for arguments in [
        &["--test=latency"][..],
        &["--test=stream"],
        &["--test=stream", "--registered"],
        &["--test=latency", "--fresh", "--verify", "--reconnect"],
        &["--test=stream", "--fresh=plain", "--verify"],
    ] {
        let begin = Instant::now();
        let quick = ["--time", "200ms", "--sizes=8,300K", "--warmup=2"];
        let rows = scratch.objects(&[&quick, arguments].concat());
        assert!(begin.elapsed() >= Duration::from_millis(400), "{arguments:?}");
        for row in rows {
            assert!(number(&row, "iterations") > 0.0, "{row:?}");
            let times = ["min_us", "p50_us", "p99_us", "p999_us", "max_us"].map(|name| number(&row, name));
            assert!(times.is_sorted() && times[0] > 0.0, "{row:?}");
        }
    }
}

#[test]
fn options_of_many_that_contradict_are_refused() {
    let scratch = Scratch::new("perf-many-usage");
    for (arguments, words) in [
        (&["--connections=2", "--verify"][..], "--verify is for one connection by itself: leave it out"),
        (&["--time=1s", "--iterations=5"], "leave out one of them"),
        (&["--bidirectional", "--test=latency"], "use it with --test stream"),
    ] {
        scratch.run("rperf", &mut scratch.client(arguments)).assert(2, words);
    }
    assert_eq!(scratch.run("rperf", &mut scratch.client(&["--connections=0"])).code, 2);
}

#[test]
fn many_clients_with_many_connections_are_served() {
    let scratch = Scratch::new("perf-many-many");
    let server = scratch.start_server(&["--keep"]);
    let killed = ["--connections=9", "--idle=9", "--sizes=64K", "--time=1h"];
    let mut killed = scratch.start("rperf", &mut scratch.client(&killed));
    let clients: Vec<_> = ["--test=latency", "--test=stream", "--bidirectional", "--test=latency"]
        .iter()
        .map(|test| {
            let spread = if *test == "--bidirectional" { "--connections=7" } else { "--connections=4" };
            let mut client = scratch.client(&["-q", "--sizes=8,64K", "--iterations=300", test, spread]);
            scratch.start("rperf", &mut client)
        })
        .collect();
    for client in clients {
        client.wait(BOUND).assert_done();
    }
    killed.kill();
    drop(killed);
    scratch.run("rperf", &mut scratch.client(&["-q", "--sizes=8", "--iterations=20"])).assert_done();
    wait_for("the server to close all of them", || {
        fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap().count() < 30
    });
    server.signal("TERM");
    assert_eq!(server.wait(BOUND).code, 143);
    scratch.assert_only(&[]);
}

#[test]
fn an_idle_client_gives_way_when_all_places_are_taken() {
    let scratch = Scratch::new("perf-places");
    let server = scratch.start_server(&["--keep", "--connections-max=4"]);
    let idle: Vec<_> = (0..4).map(|_| begin(&scratch, plan(0, 0)).0).collect();
    let mut client = scratch.client(&["-q", "--sizes=8", "--iterations=20", "--connect-timeout=1m"]);
    scratch.run("rperf", &mut client).assert_done();
    server.until_it_goes_on("it did nothing for 5s, and all 4 places are taken (--connections-max)");
    drop(idle);
    let many = ["-q", "--sizes=8", "--connections=4"];
    scratch
        .run("rperf", &mut scratch.client(&many))
        .assert(9, "cannot have 4 further connections of one client: 3 of 3 are left");
    server.signal("TERM");
    assert_eq!(server.wait(BOUND).code, 143);
}

/// Returns a PLAN with so many connections and idle ones, for messages of at most 64 bytes.
fn plan(connections: u8, idle: u8) -> [u8; 32] {
    let mut plan = [0; 32];
    (plan[0], plan[16], plan[24], plan[28]) = (2, 64, connections, idle);
    plan[4..8].fill(0xFF);
    plan
}

fn receive(connection: &mut Connection, tag: u64) -> Vec<u8> {
    let mut room = [0; 256];
    loop {
        let received = connection.recv_into(&mut [&mut room], BOUND).unwrap();
        if received.tag == tag {
            return room[..received.bytes].to_vec();
        }
    }
}

/// Connects, and has a PLAN accepted. Returns the connection and the token of its READY.
fn begin(scratch: &Scratch, plan: [u8; 32]) -> (Connection, [u8; 8]) {
    let mut control = scratch.connect();
    let mut hello = [0; 32];
    hello[..4].copy_from_slice(b"sptl");
    (hello[4], hello[5]) = (1, 3);
    hello[8..16].fill(0xFF);
    control.send(1, &[&hello], BOUND).unwrap();
    control.send(5, &[&plan], BOUND).unwrap();
    let ready = receive(&mut control, 6);
    (control, ready[8..16].try_into().unwrap())
}

/// Connects, and says JOIN.
fn join(scratch: &Scratch, token: [u8; 8], number: u8) -> Connection {
    let mut connection = scratch.connect();
    let mut join = [0; 16];
    (join[0], join[4]) = (2, number);
    join[8..].copy_from_slice(&token);
    connection.send(14, &[&join], BOUND).unwrap();
    connection
}

#[test]
fn only_the_connections_of_a_plan_join() {
    let scratch = Scratch::new("perf-join");
    let server = scratch.start_server(&["--keep"]);
    let (mut control, token) = begin(&scratch, plan(2, 1));
    assert_ne!(token, [0; 8]);
    let first = join(&scratch, token, 1);
    for (token, number, words) in [
        ([0; 8], 1, "for a client that is not there"),
        ([7; 8], 2, "for a client that is not there"),
        (token, 1, "its PLAN has not, or that is there"),
        (token, 4, "its PLAN has not, or that is there"),
        (token, 0, "asked for no new connection"),
    ] {
        let mut refused = join(&scratch, token, number);
        let verdict = receive(&mut refused, 4);
        assert_eq!((verdict[0], String::from_utf8_lossy(&verdict).contains(words)), (7, true), "{words}");
    }
    // a stream of ten messages, over both connections once all have come
    let mut run = [0; 48];
    (run[0], run[4], run[8], run[24]) = (3, 1, 64, 10);
    control.send(7, &[&run], BOUND).unwrap();
    let (mut second, _idle) = (join(&scratch, token, 2), join(&scratch, token, 3));
    receive(&mut control, 8);
    let mut first = first;
    for _ in 0..7 {
        first.send(10, &[&[1; 64]], BOUND).unwrap();
    }
    second.send(10, &[&[1; 64]], BOUND).unwrap();
    for connection in [&mut second, &mut first] {
        connection.send(15, &[], BOUND).unwrap();
    }
    receive(&mut control, 9);
    let counts = receive(&mut control, 16);
    assert_eq!((counts.len(), counts[8], counts[16]), (24, 7, 1));
    // another message than the expected one ends the client, and no other
    control.send(7, &[&run], BOUND).unwrap();
    receive(&mut control, 8);
    first.send(10, &[&[1; 63]], BOUND).unwrap();
    server.until_it_goes_on("sent a JOIN for");
    wait_for("the client to be ended", || {
        server.said().contains("sent another message than the expected one")
    });
    drop((first, second, control));
    // connections that do not come
    let (mut control, _) = begin(&scratch, plan(2, 0));
    control.send(7, &[&run], BOUND).unwrap();
    let verdict = receive(&mut control, 4);
    assert!(String::from_utf8_lossy(&verdict).contains("2 connections of the client's plan did not come"));
    drop(control);
    scratch.run("rperf", &mut scratch.client(&["-q", "--sizes=8", "--iterations=20"])).assert_done();
    server.signal("TERM");
    assert_eq!(server.wait(BOUND).code, 143);
    scratch.assert_only(&[]);
}

/// Takes the next message with this tag within some seconds. Returns false if it does not come.
fn comes(connection: &mut Connection, tag: u64) -> bool {
    let mut room = [0; 256];
    loop {
        match connection.recv_into(&mut [&mut room], Duration::from_secs(8)) {
            Ok(received) if received.tag == tag => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
}

/// Attack: a connection that comes from the same process (over RDMA: from the same host) during a run over many connections has the server look for nothing more on
/// the one that was checked last, until the run ends, which it never does.
#[test]
fn a_stranger_stalls_no_connection_of_a_run() {
    let scratch = Scratch::new("perf-stall");
    let _server = scratch.start_server(&["--keep"]);
    let (mut control, token) = begin(&scratch, plan(2, 0));
    let (_first, mut second) = (join(&scratch, token, 1), join(&scratch, token, 2));
    // a check of the second connection by an empty message
    let mut run = [0; 48];
    (run[0], run[4], run[24], run[40]) = (1, 1, 1, 2);
    control.send(7, &[&run], BOUND).unwrap();
    receive(&mut control, 8);
    second.send(10, &[], BOUND).unwrap();
    receive(&mut second, 10);
    receive(&mut control, 9);
    // round trips
    let mut run = [0; 48];
    (run[0], run[4], run[8], run[24]) = (2, 1, 8, 100);
    control.send(7, &[&run], BOUND).unwrap();
    receive(&mut control, 8);
    second.send(10, &[&[1; 8]], BOUND).unwrap();
    assert!(comes(&mut second, 10), "no answer before the stranger");
    let mut stranger = scratch.connect();
    assert!(comes(&mut stranger, 1), "no HELLO");
    second.send(10, &[&[1; 8]], BOUND).unwrap();
    assert!(comes(&mut second, 10), "no answer after the stranger");
}

/// Runs clients with these arguments until one succeeds. Returns what the last one said if none does within 15 s.
fn until_one_succeeds(scratch: &Scratch, arguments: &[&str]) -> Result<(), String> {
    let begin = Instant::now();
    loop {
        let ended = scratch.run("rperf", &mut scratch.client(arguments));
        if ended.code == 0 {
            return Ok(());
        }
        if begin.elapsed() > Duration::from_secs(15) {
            return Err(ended.said);
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Attack: a client whose PLAN has many connections makes none of them, and sends keepalives: nobody else can have several for ever.
#[test]
fn a_client_that_joins_nothing_keeps_no_places() {
    let scratch = Scratch::new("perf-hoard-places");
    let _server = scratch.start_server(&["--keep", "--connections-max=200", "--idle-timeout=3s"]);
    let (silent, _) = begin(&scratch, plan(150, 0));
    let many = ["-q", "--sizes=8", "--connections=2", "--iterations=20", "--warmup=0"];
    beside_silent(vec![silent], || until_one_succeeds(&scratch, &many)).unwrap();
}

/// Attack: clients that have begun a run of long messages and then send keepalives only have all memory for buffers: nobody else can measure for ever.
#[test]
fn clients_that_stall_keep_no_buffers_from_others() {
    let scratch = Scratch::new("perf-hoard-bytes");
    let _server = scratch.start_server(&["--keep", "--idle-timeout=3s"]);
    // new ordinary pages for each message, so that none of them is resident
    let mut large = [0; 32];
    (large[0], large[2], large[19]) = (2, 1, 0x40);
    large[4..8].fill(0xFF);
    let mut run = [0; 48];
    (run[0], run[4], run[24]) = (3, 1, 1);
    run[16] = 1;
    run[8..16].copy_from_slice(&((1_u64 << 30) - 4096).to_le_bytes());
    let silent = (0..2).map(|_| {
        let (mut control, _) = begin(&scratch, large);
        control.send(7, &[&run], BOUND).unwrap();
        receive(&mut control, 8);
        control
    });
    let long = ["-q", "--sizes=64K", "--iterations=20", "--warmup=0"];
    beside_silent(silent.collect(), || until_one_succeeds(&scratch, &long)).unwrap();
}

/// Attack: the server keeps the two buffers of the checks beside those of the run, which are the only ones that its limit of all clients counts.
#[test]
fn buffers_of_checks_are_not_kept_beside_those_of_a_run() {
    const MIB: u64 = 64;
    let scratch = Scratch::new("perf-twice");
    let server = scratch.start_server(&["--keep"]);
    let sizes = format!("--sizes={MIB}M");
    let quick = ["-q", "--connections=1", "--iterations=2", "--warmup=0", &sizes];
    scratch.run("rperf", &mut scratch.client(&quick)).assert_done();
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    // a message to send, and one to receive
    assert!(peak / 1024 < 2 * MIB + MIB, "{peak} KiB at most, of which the limit counts {} MiB", 2 * MIB);
}

/// Attack: a warm-up that --help allows, and that the server refuses as a violation of the protocol.
#[test]
fn a_warm_up_that_is_too_long_for_many_is_a_usage_error() {
    let scratch = Scratch::new("perf-warm-up");
    let _server = scratch.start_server(&["--keep"]);
    let long = ["-q", "--sizes=8", "--connections=1", "--warmup=16777217", "--iterations=1"];
    scratch.run("rperf", &mut scratch.client(&long)).assert(2, "--warmup");
}

/// Attack: a server that says GO and then sends keepalives only. The run should take 200 ms.
#[test]
fn a_server_that_stalls_does_not_hold_a_client_for_ever() {
    let scratch = Scratch::new("perf-stalling-server");
    let address = scratch.address().parse().unwrap();
    let mut listener = superpipe::Listener::bind(&address, superpipe::Options::default()).unwrap();
    let quick = ["-q", "--connections=1", "--sizes=0", "--time=200ms", "--warmup=0", "--idle-timeout=5s"];
    let mut client = scratch.start("rperf", &mut scratch.client(&quick));
    let mut hello = [0; 32];
    hello[..4].copy_from_slice(b"sptl");
    (hello[4], hello[5]) = (1, 4);
    hello[8..16].fill(0xFF);
    let mut control = listener.accept(BOUND).unwrap();
    let mut ready = [0; 16];
    (ready[0], ready[1], ready[8]) = (2, 2, 1);
    control.send(1, &[&hello], BOUND).unwrap();
    receive(&mut control, 5);
    control.send(6, &[&ready], BOUND).unwrap();
    let mut lane = listener.accept(BOUND).unwrap();
    lane.send(1, &[&hello], BOUND).unwrap();
    receive(&mut control, 7);
    control.send(8, &[], BOUND).unwrap();
    receive(&mut lane, 10);
    lane.send(10, &[], BOUND).unwrap();
    control.send(9, &[&[0; 80]], BOUND).unwrap();
    receive(&mut control, 7);
    control.send(8, &[], BOUND).unwrap();
    beside_silent(vec![control, lane], || wait_for("the client to end", || client.has_ended()));
}
