//! Attempts that come to nothing: the receiver says so and goes on listening, and its output is untouched.

use crate::support::{BOUND, Scratch};
use core::time::Duration;
use std::fs;
use std::io::Read;
use std::process::Stdio;
use std::time::Instant;
use superpipe::os::monotonic_ns;
use superpipe::shm::{Socket, SocketError};

/// One packet of a stranger, which the receiver has taken in once its end of the socket goes.
fn junk(scratch: &Scratch) {
    let socket = Socket::connect(&scratch.socket()).unwrap();
    socket.send(b"GET / HTTP/1.1\r\n\r\n", None).unwrap();
    let mut answer = [0; 512];
    let deadline_ns = monotonic_ns() + 60_000_000_000;
    while matches!(socket.receive(&mut answer, deadline_ns), Ok(_) | Err(SocketError::Interrupted)) {}
}

#[test]
fn the_real_sender_comes_after_all_of_them() {
    let scratch = Scratch::new("attempts");
    let events = scratch.root().join("events");
    fs::write(scratch.data("in"), b"the real one").unwrap();
    let mut rrecv = scratch.rrecv(&["--folds", "3"]);
    rrecv.arg(format!("--json={}", events.display())).stdout(Stdio::piped());
    let mut receiver = scratch.start_rrecv(&mut rrecv);
    let mut stdout = receiver.stdout();

    let mut disagreeing = scratch.rsend(&["--folds", "2", &scratch.address()]);
    scratch.run("rsend", &mut disagreeing).assert(2, "the two ends disagree");
    receiver.until_it_goes_on("the two ends disagree");

    let rperf = scratch.run("rperf", scratch.command("rperf").arg(scratch.address()));
    assert_eq!(rperf.code, 7, "{}", rperf.said);
    receiver.until_it_goes_on("the peer is no rsend or rrecv");

    junk(&scratch);
    receiver.until_it_goes_on("does not speak superpipe");

    let mut idle = scratch.rsend(&["-v", &scratch.address()]);
    let interrupted = scratch.start("rsend", idle.stdin(Stdio::piped()));
    interrupted.until_connected(1);
    interrupted.signal("INT");
    assert_eq!(interrupted.wait(BOUND).code, 130);
    receiver.until_it_goes_on("rsend was interrupted");

    let mut killed = scratch.start("rsend", idle.stdin(Stdio::piped()));
    killed.until_connected(1);
    killed.kill();
    receiver.until_it_goes_on("the peer is gone");
    assert_eq!(killed.wait(BOUND).code, -9);

    // who says nothing at all holds nobody up
    let mute = Socket::connect(&scratch.socket()).unwrap();
    let sender = scratch.run("rsend", scratch.rsend(&[&scratch.address()]).arg(scratch.data("in")));
    sender.assert_done();
    drop(mute);
    let mut got = Vec::new();
    stdout.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"the real one", "and nothing of the attempts");
    let received = receiver.wait(BOUND);
    received.assert_done();
    let events = fs::read_to_string(&events).unwrap();
    let end: serde_json::Value = serde_json::from_str(events.lines().last().unwrap()).unwrap();
    assert_eq!((&end["exit_code"], &end["bytes"]), (&0.into(), &12.into()));
    scratch.assert_only(&["in"]);
}

#[test]
fn a_file_stays_as_it_is_until_the_real_sender_comes() {
    let scratch = Scratch::new("attempts-file");
    fs::write(scratch.data("in"), b"new").unwrap();
    fs::write(scratch.data("out"), b"old").unwrap();
    let receiver = scratch.start_rrecv(scratch.rrecv(&[]).arg(scratch.data("out")));
    for _ in 0..3 {
        let rperf = scratch.run("rperf", scratch.command("rperf").arg(scratch.address()));
        assert_eq!(rperf.code, 7, "{}", rperf.said);
        assert_eq!(fs::read(scratch.data("out")).unwrap(), b"old");
    }
    receiver.until_it_goes_on("the peer is no rsend or rrecv");
    scratch.run("rsend", scratch.rsend(&[&scratch.address()]).arg(scratch.data("in"))).assert_done();
    receiver.wait(BOUND).assert_done();
    assert_eq!(fs::read(scratch.data("out")).unwrap(), b"new");
    scratch.assert_only(&["in", "out"]);
}

/// Who connects, agrees, and then says nothing holds others up for a few seconds only.
#[test]
fn a_client_that_says_no_hello() {
    let scratch = Scratch::new("mute");
    fs::write(scratch.data("in"), b"x").unwrap();
    let receiver = scratch.start_rrecv(scratch.rrecv(&[]).arg(scratch.data("out")));
    let address = scratch.address().parse().unwrap();
    let options = superpipe::Options::default();
    let mute = superpipe::Connection::connect(&address, options, Duration::from_secs(20)).unwrap();
    let mut rsend = scratch.rsend(&["--connect-timeout", "60s", &scratch.address()]);
    scratch.run("rsend", rsend.arg(scratch.data("in"))).assert_done();
    drop(mute);
    let received = receiver.wait(BOUND);
    received.assert_done();
    assert!(received.said.contains("still listening"), "{}", received.said);
    scratch.assert_only(&["in", "out"]);
}

#[test]
fn a_flood_is_told_in_a_few_lines() {
    let scratch = Scratch::new("flood");
    let receiver = scratch.start_rrecv(&mut scratch.rrecv(&[]));
    let began = Instant::now();
    for _ in 0..100 {
        junk(&scratch);
    }
    fs::write(scratch.data("in"), b"x").unwrap();
    scratch.run("rsend", scratch.rsend(&[&scratch.address()]).arg(scratch.data("in"))).assert_done();
    let said = receiver.wait(BOUND).said;
    let lines = said.lines().filter(|line| line.contains("still listening")).count() as u64;
    let most = 16 + 1 + began.elapsed().as_secs() / 10;
    assert!((16..=most).contains(&lines), "{lines} lines, not 16 to {most}: {said}");
}

#[test]
fn who_waits_in_vain_hears_of_the_last_attempt() {
    let scratch = Scratch::new("in-vain");
    let receiver = scratch.start_rrecv(&mut scratch.rrecv(&["--accept-timeout", "5s"]));
    junk(&scratch);
    let ended = receiver.wait(BOUND);
    assert_eq!(ended.code, 3, "{}", ended.said);
    let last = ended.said.lines().last().unwrap();
    assert!(last.contains("nobody connected") && last.contains("the last attempt: "), "{}", ended.said);
    scratch.assert_only(&[]);
}
