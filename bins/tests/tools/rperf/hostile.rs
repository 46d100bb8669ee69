//! Hostile clients and servers, whose messages are built by hand from wire.md 8.2.

use super::QUICK;
use crate::support::{BOUND, Ended, Scratch, beside_silent, in_time, option, send_a_part, wait_for};
use core::time::Duration;
use std::fs;
use std::thread;
use std::time::Instant;
use superpipe::{Connection, Options, Reason};

/// Plays a client that breaks a rule before a measurement begins. Asserts that the server, with `--keep` and without, reports it
/// once and serves the next client.
fn server_goes_on(said: &[(u64, &[u8])], words: &str) {
    server_goes_on_with("30s", said, words);
}

fn server_goes_on_with(idle_timeout: &str, said: &[(u64, &[u8])], words: &str) {
    for options in [&[][..], &["--keep"]] {
        let scratch = Scratch::new("perf-hostile-client");
        let server = scratch.start_server(&[&["--idle-timeout", idle_timeout], options].concat());
        let mut connection = scratch.connect();
        for (tag, bytes) in said {
            connection.send(*tag, &[bytes], BOUND).unwrap();
        }
        server.until_it_goes_on(words);
        assert_eq!(server.said().lines().count(), 1, "{}", server.said());
        drop(connection);
        scratch.run("rperf", &mut scratch.client(&[&["-q", "--sizes=8"], &QUICK[..]].concat())).assert_done();
        if options.is_empty() {
            server.wait(BOUND).assert(0, words);
        } else {
            server.signal("TERM");
            assert_eq!(server.wait(BOUND).code, 143);
        }
        scratch.assert_only(&[]);
    }
}

/// Plays a client that breaks a rule during a measurement. Asserts that the server ends.
fn server_ends(said: &[(u64, &[u8])], code: i32, words: &str) {
    server_meets("30s", said).1.assert(code, words);
}

/// Plays such a client. Returns how long it took to say all, and the end of the server.
fn server_meets(idle_timeout: &str, said: &[(u64, &[u8])]) -> (Duration, Ended) {
    let scratch = Scratch::new("perf-hostile-measurement");
    let server = scratch.start_server(&["--idle-timeout", idle_timeout]);
    let begin = Instant::now();
    let mut connection = scratch.connect();
    say(&mut connection, said);
    let took = begin.elapsed();
    let ended = server.wait(BOUND);
    drop(connection);
    scratch.assert_only(&[]);
    (took, ended)
}

/// Sends these messages, as long as the peer takes them: one that has ended needs no more.
fn say(connection: &mut Connection, said: &[(u64, &[u8])]) {
    for (tag, bytes) in said {
        if connection.send(*tag, &[bytes], BOUND).is_err() {
            break;
        }
    }
}

/// Returns a client's control connection that has sent a RUN: a check of eight bytes over a new connection.
fn begin(scratch: &Scratch) -> Connection {
    let mut control = scratch.connect();
    let reconnect = with(with(with(run(), 0, 1), 24, 1), 1, 1);
    for (tag, bytes) in [(1, &hello(3)[..]), (5, &plan()), (7, &reconnect)] {
        control.send(tag, &[bytes], BOUND).unwrap();
    }
    control
}

/// Returns a valid HELLO of this role.
fn hello(role: u8) -> [u8; 32] {
    let mut hello = [0; 32];
    hello[..4].copy_from_slice(b"sptl");
    (hello[4], hello[5]) = (1, role);
    hello[8..16].fill(0xFF);
    hello
}

/// Returns a valid PLAN for messages of at most 1 KiB.
fn plan() -> [u8; 32] {
    let mut plan = [0; 32];
    plan[0] = 2;
    plan[4..8].fill(0xFF);
    plan[17] = 4;
    plan
}

/// Returns a valid RUN: ten round trips of 8 bytes.
fn run() -> [u8; 48] {
    let mut run = [0; 48];
    (run[0], run[4], run[8], run[24]) = (2, 1, 8, 10);
    run
}

fn with<const N: usize>(mut bytes: [u8; N], at: usize, value: u8) -> [u8; N] {
    bytes[at] = value;
    bytes
}

/// Attack: the server waits for the rest of a message that never comes.
#[test]
fn a_part_of_a_message_keeps_no_server_busy() {
    const TRAILER: (u64, usize) = (3, 200);
    let scratch = Scratch::new("perf-parts");
    let server = scratch.start_server(&["--keep"]);
    let begun = |said: &[(u64, &[u8])]| {
        let mut connection = scratch.connect_by_parts();
        say(&mut connection, said);
        send_a_part(&mut connection, TRAILER.0, TRAILER.1);
        connection
    };
    let clients = vec![begun(&[(1, &hello(3))]), begun(&[(1, &hello(3)), (5, &plan())])];
    beside_silent(clients, || {
        thread::sleep(Duration::from_secs(1));
        let before = server.cpu_time();
        thread::sleep(Duration::from_secs(2));
        let took = server.cpu_time() - before;
        assert!(took < Duration::from_millis(500), "{took:?} of 2 s, by two clients that do nothing");
        wait_for("both to be told", || {
            server.said().matches("the peer sent a part of a message, and not the rest within 5s").count()
                == 2
        });
    });
    server.signal("TERM");
    assert_eq!(server.wait(BOUND).code, 143);
    scratch.assert_only(&[]);
}

#[test]
fn the_rule_that_a_client_breaks_is_reported() {
    server_goes_on(&[(1, &hello(1))], "the peer is not rperf");
    server_goes_on(&[(1, &hello(4))], "has the same role");
    server_goes_on(&[(1, b"hello")], "the peer is not rperf");
    server_goes_on(&[(1, &hello(3)), (9, &plan())], "out of turn");
    // a TRAILER ends the measurement before its begin
    server_goes_on(&[(1, &hello(3)), (3, &[0; 24])], "ended the measurement early");
    // a client that sends nothing more, or nothing at all
    server_goes_on_with("3s", &[(1, &hello(3)), (5, &plan())], "silent");
    server_goes_on_with("3s", &[], "the peer sent no HELLO within 3s");
    for (plan, words) in [
        (with(plan(), 0, 1), "another version"),
        (with(plan(), 1, 9), "unknown wait strategy"),
        (with(plan(), 2, 9), "kind of memory"),
        (with(plan(), 3, 9), "flag"),
        (with(plan(), 20, 1), "more than 1 GiB"),
        (with(plan(), 31, 1), "more than 16384 connections"),
        (with(plan(), 28, 1), "idle connections beside none"),
        (with(with(plan(), 24, 1), 3, 1), "preparing"),
    ] {
        server_goes_on(&[(1, &hello(3)), (5, &plan)], words);
    }
    server_goes_on(&[(1, &hello(3)), (5, &plan()[..31])], "PLAN of the wrong length");
    for (run, words) in [
        (with(run(), 0, 0), "pattern"),
        (with(run(), 4, 0), "batches"),
        (with(run(), 12, 1), "larger messages"),
        (with(run(), 22, 1), "warm-up"),
        (with(run(), 28, 1), "more samples"),
        (with(run(), 44, 1), "reserved bytes"),
        (with(run(), 0, 3), "starts the clock"),
        (with(run(), 0, 4), "both directions"),
        (with(run(), 32, 1), "by time and by count"),
        (with(run(), 39, 1), "more than a week"),
        (with(run(), 40, 1), "its PLAN has not"),
    ] {
        server_goes_on(&[(1, &hello(3)), (5, &plan()), (7, &run)], words);
    }
    // a message of another size or tag than the expected one
    server_ends(&[(1, &hello(3)), (5, &plan()), (7, &run()), (10, &[0; 9])], 7, "than the expected one");
    server_ends(&[(1, &hello(3)), (5, &plan()), (7, &run()), (10, &[0; 7])], 7, "than the expected one");
    server_ends(&[(1, &hello(3)), (5, &plan()), (7, &run()), (11, &[0; 8])], 7, "than the expected one");
    // Attack: the client's own report is awaited for longer than the idle timeout, and the violation is forgotten.
    let wrong = [(1, &hello(3)[..]), (5, &plan()), (7, &run()), (10, &[0; 9])];
    in_time(|| server_meets("1s", &wrong)).assert(7, "than the expected one");
    // the new connection is not made, or the client sends nothing more
    let again = with(with(run(), 0, 1), 24, 1);
    server_ends(
        &[(1, &hello(3)), (5, &plan()), (7, &with(again, 1, 1))],
        3,
        "the client made no new connection within 5s",
    );
    let nothing_more = [(1, &hello(3)[..]), (5, &plan()), (7, &run())];
    server_meets("3s", &nothing_more).1.assert(4, "silent");
    // a second RUN is checked as well
    let idle = with(run(), 24, 0);
    let second = with(run(), 44, 1);
    server_ends(&[(1, &hello(3)), (5, &plan()), (7, &idle), (7, &second)], 7, "reserved bytes");
}

/// Plays a server that sends these messages in answer to one run. Asserts how the client ends.
fn client_meets(said: &[(u64, &[u8])], code: i32, words: &str) {
    let scratch = Scratch::new("perf-hostile-server");
    let address = scratch.address().parse().unwrap();
    let mut listener = superpipe::Listener::bind(&address, Options::default()).unwrap();
    let client = scratch.start("rperf", &mut scratch.client(&["--sizes", "8", "--idle-timeout", "30s"]));
    let mut connection = listener.accept(Duration::from_secs(10)).unwrap();
    say(&mut connection, said);
    client.wait(BOUND).assert(code, words);
    let _ = connection.close(Reason::DONE, Duration::from_secs(1));
}

#[test]
fn the_rule_that_a_server_breaks_is_reported() {
    let mut ready = [0; 16];
    (ready[0], ready[1]) = (2, 2);
    ready[4..8].fill(0xFF);
    let server = (1, &hello(4)[..]);
    client_meets(&[(1, &hello(2))], 7, "the peer is not rperf");
    client_meets(&[(1, &hello(3))], 7, "has the same role");
    client_meets(&[server, (6, &with(ready, 0, 7))], 7, "another version");
    client_meets(&[server, (6, &with(ready, 1, 7))], 7, "unknown wait strategy");
    client_meets(&[server, (6, &with(ready, 3, 7))], 7, "reserved bytes");
    client_meets(&[server, (6, &ready), (9, &[0; 80])], 7, "out of turn");
    client_meets(&[server, (6, &ready), (8, b"go")], 7, "a GO that is not empty");
    client_meets(&[server, (6, &ready), (8, b""), (10, &[0; 9])], 7, "than the expected one");
    let verdict = [0; 24];
    client_meets(&[server, (6, &ready), (4, &verdict)], 7, "ended the measurement early");
    // an answer of the right size with wrong contents, then impossible figures
    let mut done = [0; 80];
    done[0] = 9;
    client_meets(&[server, (6, &ready), (8, b""), (10, &[0; 8]), (9, &done)], 7, "inconsistent figures");
    client_meets(
        &[server, (6, &ready), (8, b""), (10, &[0; 8]), (9, &done[..79])],
        7,
        "DONE of the wrong length",
    );
    // every message is valid except the contents of MESSAGE
    client_meets(
        &[server, (6, &ready), (8, b""), (10, &[0; 8]), (9, &[0; 80])],
        6,
        "the received data differ from the sent data: message 0 of 8 bytes differs from byte 0 on",
    );
}

#[test]
fn a_stranger_is_served_during_a_reconnect() {
    let scratch = Scratch::new("perf-stranger");
    let server = scratch.start_server(&["-v"]);
    let mut control = begin(&scratch);
    let mut place = [0; 64];
    for tag in [1, 6] {
        assert_eq!(control.recv_into(&mut [&mut place], BOUND).unwrap().tag, tag);
    }
    let mut stranger = scratch.client(&[&["-q", "--sizes=8"], &QUICK[..]].concat());
    scratch.run("rperf", &mut stranger).assert_done();
    let data = scratch.connect();
    let go = control.recv_into(&mut [&mut place], BOUND).unwrap();
    assert_eq!((go.tag, go.bytes), (8, 0));
    drop((data, control));
    let ended = server.wait(BOUND);
    assert_eq!((ended.code, ended.said.matches("connected by").count()), (5, 3), "{}", ended.said);
}

#[test]
fn a_report_in_place_of_a_message_ends_the_run() {
    let scratch = Scratch::new("perf-last-word");
    // a TRAILER: code 8, and no text
    let trailer = with([0; 24], 0, 8);
    // the TRAILER exceeds the buffer of the expected message, or fits it
    for bytes in [8, 64] {
        let server = scratch.start_server(&[]);
        let mut connection = scratch.connect();
        let run = with(run(), 8, bytes);
        for (tag, bytes) in [(1, &hello(3)[..]), (5, &plan()), (7, &run), (3, &trailer)] {
            connection.send(tag, &[bytes], BOUND).unwrap();
        }
        connection.close(Reason(8), BOUND).unwrap();
        server
            .wait(BOUND)
            .assert(8, "rperf ended the connection: a file, pipe or disk failed there (code 8)");
    }
}

#[test]
fn a_closed_data_connection_is_explained_by_the_trailer() {
    let scratch = Scratch::new("perf-two-ends");
    let server = scratch.start_server(&[]);
    let mut control = begin(&scratch);
    let data = scratch.connect();
    // a TRAILER: code 8, and five bytes of text
    let trailer = [&with(with([0; 24], 0, 8), 1, 5)[..], b"wrong"].concat();
    control.send(3, &[&trailer], BOUND).unwrap();
    data.close(Reason(8), BOUND).unwrap();
    server.wait(BOUND).assert(8, "client: wrong");
}

#[test]
fn a_lost_data_connection_is_explained_by_the_close() {
    let scratch = Scratch::new("perf-mute-end");
    let server = scratch.start_server(&[]);
    let control = begin(&scratch);
    drop(scratch.connect());
    control.close(Reason(130), BOUND).unwrap();
    let words = "rperf was interrupted (SIGINT) before the measurement was complete";
    server.wait(BOUND).assert(5, words);
}

#[test]
fn an_end_during_a_reconnect_is_reported() {
    let scratch = Scratch::new("perf-between");
    let server = scratch.start_server(&["--idle-timeout", "60s"]);
    let control = begin(&scratch);
    control.close(Reason(130), BOUND).unwrap();
    let words = "rperf was interrupted (SIGINT) before the measurement was complete";
    server.wait(BOUND).assert(5, words);

    let address = scratch.address().parse().unwrap();
    let mut listener = superpipe::Listener::bind(&address, Options::default()).unwrap();
    let client = scratch
        .start("rperf", &mut scratch.client(&["-q", "--sizes=8", "--reconnect", "--connect-timeout=1h"]));
    let mut control = listener.accept(BOUND).unwrap();
    let mut place = [0; 64];
    let ready = with(with([0; 16], 0, 2), 1, 2);
    for (tag, bytes) in [(1, &hello(4)[..]), (6, &ready)] {
        control.recv_into(&mut [&mut place], BOUND).unwrap();
        control.send(tag, &[bytes], BOUND).unwrap();
    }
    drop(listener);
    control.recv_into(&mut [&mut place], BOUND).unwrap();
    assert_eq!(place[1], 1, "the RUN asks for a connection of its own");
    control.close(Reason(143), BOUND).unwrap();
    let words = "rperf serve was ended (SIGTERM) before the measurement was complete";
    client.wait(BOUND).assert(5, words);
}

/// Plays a server that performs all runs, with empty messages, and then sends these records. Asserts how the client ends.
fn client_is_told(tag: u64, records: &str, code: i32, words: &str) {
    let scratch = Scratch::new("perf-hostile-records");
    let address = scratch.address().parse().unwrap();
    let mut listener = superpipe::Listener::bind(&address, Options::default()).unwrap();
    let mut client =
        scratch.client(&["-q", "--sizes=0", "--iterations=1", "--warmup=1", "--idle-timeout=5s"]);
    let client = scratch.start("rperf", client.arg(option("trace", &scratch.data("trace"))));
    let mut connection = listener.accept(Duration::from_secs(10)).unwrap();
    let mut place = [0; 64];
    let mut receive = |connection: &mut Connection| {
        connection.recv_into(&mut [&mut place], BOUND).unwrap();
        place
    };
    let ready = with(with([0; 16], 0, 2), 1, 2);
    for (tag, bytes) in [(1, &hello(4)[..]), (6, &ready)] {
        receive(&mut connection);
        connection.send(tag, &[bytes], BOUND).unwrap();
    }
    let mut is_recorded = false;
    while !is_recorded {
        let run = receive(&mut connection);
        is_recorded = run[2] == 1;
        connection.send(8, &[], BOUND).unwrap();
        // counts of warm-up and samples below 256
        for _ in 0..run[16] + run[24] {
            receive(&mut connection);
            connection.send(10, &[], BOUND).unwrap();
        }
        connection.send(9, &[&[0; 80]], BOUND).unwrap();
    }
    connection.send(tag, &[records.as_bytes()], BOUND).unwrap();
    let ended = client.wait(BOUND);
    assert_eq!(ended.code, code, "{}", ended.said);
    assert!(ended.said.contains(words), "{}", ended.said);
    let trace = fs::read_to_string(scratch.data("trace")).unwrap();
    assert_eq!(trace.contains("rperf serve"), code == 0, "what is not believed is not written");
}

#[test]
fn impossible_records_are_refused() {
    let good = r#"{"pid":1,"marks":[{"begin":2,"end":3,"what":{"ack-in":{"blocks":4}}}]}"#;
    client_is_told(11, good, 0, "");
    client_is_told(9, good, 7, "sent another message instead of its records");
    client_is_told(11, &good[1..], 7, "sent records that cannot be decoded");
    client_is_told(11, &good.replace(":2", ":4"), 7, "sent invalid records");
}
