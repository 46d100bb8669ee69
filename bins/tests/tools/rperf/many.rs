//! Many clients of one `rperf serve --keep`, at once and one after another.

use crate::support::{BOUND, Scratch};
use core::time::Duration;
use std::fs;

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
