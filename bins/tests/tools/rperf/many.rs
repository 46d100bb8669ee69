//! Many clients of one `rperf serve --keep`, at once and one after another.

use crate::support::{BOUND, Scratch, in_time, program, wait_for};
use core::time::Duration;
use std::fs;
use std::time::Instant;

/// Asserts that a client that compares all its messages succeeds, and that the server has served it meanwhile.
#[track_caller]
fn measure(scratch: &Scratch, arguments: &[&str]) {
    let quick = ["-q", "--verify", "--iterations", "20", "--warmup", "3"];
    scratch.run("rperf", &mut scratch.client(&[&quick, arguments].concat())).assert_done();
}

#[test]
fn many_clients_measure_at_once_and_in_turn() {
    let scratch = Scratch::new("perf-many");
    let server = scratch.start_server(&["--keep"]);
    // many that spin would keep each other from their cores
    for (wait, clients) in [("spin", 2), ("yield", 8), ("sleep", 8)] {
        let clients: Vec<_> = (0..clients)
            .map(|index| {
                let test = ["--test=latency", "--test=stream"][index % 2];
                let kind = ["--verify", "--fresh", "--registered", "--reconnect"][index / 2];
                let mut client =
                    scratch.client(&["--json=-", "-q", "--wait", wait, "--sizes=8,4K,300K", test, kind]);
                client.args(["--iterations", "50", "--warmup", "2"]);
                let out = scratch.root().join(format!("out-{wait}-{index}"));
                client.stdout(fs::File::create(&out).unwrap());
                (scratch.start("rperf", &mut client), out)
            })
            .collect();
        for (client, out) in clients {
            client.wait(BOUND).assert_done();
            let rows = fs::read_to_string(out).unwrap();
            let rows: Vec<serde_json::Value> =
                rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
            assert_eq!(rows.len(), 3);
            for row in rows {
                assert_eq!((&row["iterations"], &row["wait"]), (&50.into(), &wait.into()));
            }
        }
    }
    measure(&scratch, &["--sizes=8"]);
    server.signal("TERM");
    let ended = server.wait(BOUND);
    assert_eq!((ended.code, ended.said.lines().count()), (143, 1), "{}", ended.said);
    scratch.assert_only(&[]);
}

#[test]
fn a_bad_client_harms_no_other() {
    let scratch = Scratch::new("perf-bad");
    let server = scratch.start_server(&["--keep", "--idle-timeout", "30s"]);
    // one says nothing, one sends garbage, and one stops in the middle of a run
    let mute = scratch.connect();
    let mut garbage = scratch.connect();
    garbage.send(1, &[&[7; 32]], BOUND).unwrap();
    server.until_it_goes_on("the peer is not rperf");
    let endless = ["-v", "--sizes=64K", "--iterations=10000000", "--warmup=1"];
    let stopped = scratch.start("rperf", &mut scratch.client(&endless));
    stopped.until_connected(1);
    std::thread::sleep(Duration::from_millis(300));
    stopped.signal_at_once("STOP");
    measure(&scratch, &["--sizes=8,1M"]);
    measure(&scratch, &["--sizes=8,1M", "--test=stream", "--reconnect"]);
    // one is killed in the middle of a run, and one finds wrong contents
    let mut killed = scratch.start("rperf", &mut scratch.client(&endless));
    killed.until_connected(1);
    std::thread::sleep(Duration::from_millis(300));
    killed.kill();
    drop(killed);
    let interrupted = scratch.start("rperf", &mut scratch.client(&endless));
    interrupted.until_connected(1);
    interrupted.signal("INT");
    assert_eq!(interrupted.wait(BOUND).code, 130);
    let flip = ["-q", "--sizes=8", "--inject-flip=3"];
    scratch.run("rperf", &mut scratch.client(&flip)).assert(6, "the received data differ from the sent data");
    measure(&scratch, &["--sizes=8,1M"]);
    server.until_it_goes_on("sent no HELLO within 5s");
    drop((mute, garbage, stopped));
    server.signal("TERM");
    assert_eq!(server.wait(BOUND).code, 143);
    scratch.assert_only(&[]);
}

fn hello() -> [u8; 32] {
    let mut hello = [0; 32];
    hello[..4].copy_from_slice(b"sptl");
    (hello[4], hello[5]) = (1, 3);
    hello[8..16].fill(0xFF);
    hello
}

/// A PLAN for messages of at most 1 GiB in new ordinary pages.
fn plan() -> [u8; 32] {
    let mut plan = [0; 32];
    (plan[0], plan[2], plan[19]) = (2, 1, 0x40);
    plan[4..8].fill(0xFF);
    plan
}

/// A ping-pong of so many messages of so many bytes.
fn run(is_reconnected: bool, bytes: u64, samples: u64) -> [u8; 48] {
    let mut run = [0; 48];
    (run[0], run[1], run[4]) = (2, is_reconnected.into(), 1);
    run[8..16].copy_from_slice(&bytes.to_le_bytes());
    run[24..32].copy_from_slice(&samples.to_le_bytes());
    run
}

fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

#[track_caller]
fn await_tag(connection: &mut superpipe::Connection, tag: u64) {
    let mut room = [0; 256];
    loop {
        let received = connection.recv_into(&mut [&mut room], BOUND).unwrap();
        if received.tag == tag {
            return;
        }
    }
}

/// Attack: a client whose second new connection cannot be used leaves its first one behind for ever.
#[test]
fn a_replaced_connection_is_closed_if_no_run_can_begin() {
    let scratch = Scratch::new("perf-replaced");
    let server = scratch.start_server(&["--keep", "-v"]);
    let begin = |scratch: &Scratch| {
        let mut control = scratch.connect();
        control.send(1, &[&hello()], BOUND).unwrap();
        control.send(5, &[&plan()], BOUND).unwrap();
        await_tag(&mut control, 6);
        control
    };
    // The socket is there before the lock of its path is given back.
    wait_for("rperf serve to have bound", || server.said().contains("listening at"));
    let before = descriptors(server.id());
    let mut client = begin(&scratch);
    client.send(7, &[&run(true, 8, 0)], BOUND).unwrap();
    let first = scratch.connect();
    await_tag(&mut client, 9);
    // two others have all that clients may have together
    let mut large = [begin(&scratch), begin(&scratch)];
    for other in &mut large {
        other.send(7, &[&run(false, (1 << 30) - 4096, 1)], BOUND).unwrap();
        await_tag(other, 8);
    }
    client.send(7, &[&run(true, 1 << 20, 0)], BOUND).unwrap();
    let second = scratch.connect();
    await_tag(&mut client, 4);
    drop((client, first, second, large));
    let end = Instant::now() + Duration::from_secs(20);
    while descriptors(server.id()) > before && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    let links = fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap().flatten();
    let links: Vec<_> = links.map(|link| fs::read_link(link.path()).unwrap_or_default()).collect();
    assert_eq!(descriptors(server.id()), before, "all clients are gone: {links:?}");
}

/// Attack: a server in a pid namespace sees all clients outside of it as process 0, and takes the connection of one for that of another.
#[test]
fn a_client_is_not_taken_for_another_one_that_reconnects() {
    if !crate::support::is_root("a server in a pid namespace") {
        return;
    }
    let scratch = Scratch::new("perf-pidns");
    let mut serve = std::process::Command::new("unshare");
    serve.args(["-p", "-f", "--kill-child", &program("rperf"), "serve", "--keep", "--listen"]);
    serve.arg(scratch.address()).stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
    let server = scratch.start("rperf", &mut serve);
    wait_for("rperf serve to listen", || scratch.socket().exists());
    // It works without the other one.
    measure(&scratch, &["--sizes=8"]);
    let mut control = scratch.connect();
    control.send(1, &[&hello()], BOUND).unwrap();
    control.send(5, &[&plan()], BOUND).unwrap();
    await_tag(&mut control, 6);
    control.send(7, &[&run(true, 8, 0)], BOUND).unwrap();
    let quick = ["-q", "--sizes=8", "--iterations=20", "--warmup=3", "--idle-timeout=10s"];
    let ended = scratch.run("rperf", &mut scratch.client(&quick));
    assert_eq!(ended.code, 0, "{}; server: {}", ended.said, server.said());
}

/// Attack: a client that was refused already, and then says nothing more, is reported again.
#[test]
fn a_refused_client_that_falls_silent_is_reported_once() {
    let (server, connection, sent, _scratch) = in_time(|| {
        let scratch = Scratch::new("perf-silent-refused");
        let server = scratch.start_server(&["--keep", "--idle-timeout", "1s"]);
        let begin = Instant::now();
        let mut connection = scratch.connect();
        let sent = connection.send(1, &[&[7; 32]], BOUND);
        (begin.elapsed(), (server, connection, sent, scratch))
    });
    sent.unwrap();
    server.until_it_goes_on("the peer is not rperf");
    std::thread::sleep(Duration::from_secs(4));
    drop(connection);
    assert_eq!(server.said().lines().count(), 1, "{}", server.said());
}

/// Attack: a client that measures alone is forgotten when another one begins, until that one has ended: `step_alone` leaves it with more to do, and nobody steps it
/// again.
#[test]
fn a_client_is_not_forgotten_when_another_one_begins() {
    const PATIENCE: Duration = Duration::from_secs(8);
    let scratch = Scratch::new("perf-forgotten");
    let _server = scratch.start_server(&["--keep", "-q"]);
    let begin = || {
        let mut control = scratch.connect();
        control.send(1, &[&hello()], BOUND).unwrap();
        control.send(5, &[&plan()], BOUND).unwrap();
        await_tag(&mut control, 6);
        control
    };
    let mut one = begin();
    one.send(7, &[&run(false, 8, 1 << 24)], BOUND).unwrap();
    for attempt in 0..200 {
        let mut two = begin();
        let (mut room, begun, mut trips) = ([0; 256], Instant::now(), 0);
        let mut has_begun = false;
        while begun.elapsed() < Duration::from_millis(40) {
            if !has_begun && begun.elapsed() > Duration::from_millis(10) {
                two.send(7, &[&run(false, 8, 1)], BOUND).unwrap();
                has_begun = true;
            }
            // new memory for each message: a GO, a message, and its answer
            let go = one.recv_into(&mut [&mut room], PATIENCE).map(|received| received.tag);
            assert_eq!(
                go.ok(),
                Some(8),
                "no GO within {PATIENCE:?}, attempt {attempt}, after {trips} round trips"
            );
            one.send(10, &[&[0; 8]], BOUND).unwrap();
            let answer = one.recv_into(&mut [&mut room], PATIENCE).map(|received| received.tag);
            assert_eq!(answer.ok(), Some(10), "no answer within {PATIENCE:?}, attempt {attempt}");
            trips += 1;
        }
        two.progress();
        drop(two);
    }
}
