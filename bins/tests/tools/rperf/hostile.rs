//! Clients and servers that say what neither would, by hand from wire.md 8.2.

use crate::support::{BOUND, Scratch};
use core::time::Duration;
use superpipe::{Connection, Options, Reason};

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
