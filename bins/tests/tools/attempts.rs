//! Failed attempts to connect: the receiver reports them and goes on listening, and its output is unchanged.

use crate::support::{BOUND, Scratch, wait_for, with_files};
use core::time::Duration;
use std::fs;
use std::io::Read;
use std::process::Stdio;
use std::thread;
use std::time::Instant;
use superpipe::fabric::shm::{Socket, SocketError};
use superpipe::os::monotonic_ns;

/// Sends one packet that is not superpipe's, and waits until the receiver closes the socket.
fn junk(scratch: &Scratch) {
    let mut socket = None;
    // the socket's file exists shortly before the receiver listens
    wait_for("a connection", || {
        socket = Socket::connect(&scratch.socket()).ok();
        socket.is_some()
    });
    let socket = socket.unwrap();
    socket.send(b"GET / HTTP/1.1\r\n\r\n", None).unwrap();
    let mut answer = [0; 512];
    let deadline_ns = monotonic_ns() + 60_000_000_000;
    while matches!(socket.receive(&mut answer, deadline_ns), Ok(_) | Err(SocketError::Interrupted)) {}
}

#[test]
fn rrecv_serves_a_sender_after_failed_attempts() {
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
    receiver.until_it_refuses("the peer is not rsend or rrecv");

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

    // a client that sends nothing does not delay others
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
fn failed_attempts_leave_the_file_unchanged() {
    let scratch = Scratch::new("attempts-file");
    fs::write(scratch.data("in"), b"new").unwrap();
    fs::write(scratch.data("out"), b"old").unwrap();
    let receiver = scratch.start_rrecv(scratch.rrecv(&[]).arg(scratch.data("out")));
    for _ in 0..3 {
        let rperf = scratch.run("rperf", scratch.command("rperf").arg(scratch.address()));
        assert_eq!(rperf.code, 7, "{}", rperf.said);
        assert_eq!(fs::read(scratch.data("out")).unwrap(), b"old");
    }
    receiver.until_it_refuses("the peer is not rsend or rrecv");
    scratch.run("rsend", scratch.rsend(&[&scratch.address()]).arg(scratch.data("in"))).assert_done();
    receiver.wait(BOUND).assert_done();
    assert_eq!(fs::read(scratch.data("out")).unwrap(), b"new");
    scratch.assert_only(&["in", "out"]);
}

/// A peer that completes the handshake and then sends nothing delays others for a few seconds only.
#[test]
fn a_client_without_hello_delays_others_only_briefly() {
    let scratch = Scratch::new("mute");
    fs::write(scratch.data("in"), b"x").unwrap();
    let receiver = scratch.start_rrecv(scratch.rrecv(&[]).arg(scratch.data("out")));
    let mute = scratch.connect();
    let mut rsend = scratch.rsend(&["--connect-timeout", "60s", &scratch.address()]);
    scratch.run("rsend", rsend.arg(scratch.data("in"))).assert_done();
    drop(mute);
    let received = receiver.wait(BOUND);
    received.assert_done();
    assert!(received.said.contains("still listening"), "{}", received.said);
    scratch.assert_only(&["in", "out"]);
}

#[test]
fn rrecv_reports_a_flood_in_a_few_lines() {
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

/// A process that connects again and again must not fill a server's log.
#[test]
fn a_kept_server_reports_a_flood_in_a_few_lines() {
    const ATTEMPTS: u32 = 1000;
    let scratch = Scratch::new("flood-kept");
    let server = scratch.start_server(&["--keep"]);
    let mut attempts = 0;
    wait_for("attempts", || {
        if let Ok(socket) = Socket::connect(&scratch.socket()) {
            attempts += u32::from(socket.send(b"junk", None).is_ok());
        }
        attempts == ATTEMPTS
    });
    let lines = server.said().lines().count();
    assert!(lines < 100, "{lines} lines of {attempts} attempts");
}

/// poll(2) fails if its array has more entries than RLIMIT_NOFILE.
#[test]
fn silent_clients_do_not_exhaust_few_descriptors() {
    for limit in [24, 32] {
        let scratch = Scratch::new(&format!("few-descriptors-{limit}"));
        let mut rrecv = scratch.rrecv(&[]);
        let mut receiver = scratch.start_rrecv(&mut with_files(limit, rrecv.arg(scratch.data("out"))));
        let mut silent = Vec::new();
        let deadline = Instant::now() + Duration::from_secs(1);
        while silent.len() < 40 && Instant::now() < deadline {
            silent.extend(Socket::connect(&scratch.socket()).ok());
            thread::sleep(Duration::from_millis(2));
        }
        // a receiver that cannot poll would report it again and again in this time
        thread::sleep(Duration::from_millis(300));
        drop(silent);
        let ended = scratch.send(&scratch.source("in", b"the real one"));
        assert_eq!(
            (ended.code, receiver.has_ended() || !receiver.said().contains("cannot poll")),
            (0, true),
            "with {limit} descriptors: rsend said {}, rrecv {}",
            ended.said,
            receiver.said().lines().last().unwrap_or_default()
        );
        receiver.wait(BOUND).assert_done();
    }
}

#[test]
fn an_accept_timeout_reports_the_failed_attempts() {
    let waits = [("rrecv", "transfer", 1), ("rrecv", "transfer", 4), ("rperf", "measurement", 4)];
    // all at the same time, since each takes its timeout
    let waits = waits.map(|(tool, work, count)| {
        let scratch = Scratch::new(&format!("in-vain-{tool}-{count}"));
        let timeout = ["--accept-timeout", "10s"];
        let waiting = match tool {
            "rrecv" => scratch.start_rrecv(&mut scratch.rrecv(&timeout)),
            _ => scratch.start_server(&timeout),
        };
        for _ in 0..count {
            junk(&scratch);
        }
        (scratch, waiting, work, count)
    });
    for (scratch, waiting, work, count) in waits {
        let ended = waiting.wait(BOUND);
        assert_eq!(ended.code, 3, "{}", ended.said);
        let last = ended.said.lines().last().unwrap();
        let failed = if count == 1 { "1 attempt failed: " } else { "4 attempts failed, the last: " };
        let at = scratch.address();
        let words = format!("no {work} began at {at} within 10s (--accept-timeout); {failed}");
        assert!(last.contains(&words) && last.contains("does not speak superpipe"), "{}", ended.said);
        assert!(!last.contains("nobody"), "{}", ended.said);
        scratch.assert_only(&[]);
    }
}

/// rperf serve, with `--keep` and without, handles all attempts that rrecv handles.
#[test]
fn rperf_serve_serves_a_client_after_failed_attempts() {
    for keep in [&[][..], &["--keep"]] {
        let scratch = Scratch::new("attempts-rperf");
        let server = scratch.start_server(&[&["--folds", "3"], keep].concat());
        let client = |options: &[&str]| {
            let mut client = scratch.client(&["-q", "--sizes=8", "--iterations=20", "--warmup=3"]);
            client.args(options);
            client
        };
        let disagreeing = scratch.run("rperf", &mut client(&["--folds", "2"]));
        assert!([2, 7].contains(&disagreeing.code), "{}", disagreeing.said);
        server.until_it_goes_on("the two ends disagree");
        let rsend = scratch.run("rsend", &mut scratch.rsend(&[&scratch.address()]));
        assert_eq!(rsend.code, 7, "{}", rsend.said);
        server.until_it_refuses("the peer is not rperf");
        junk(&scratch);
        server.until_it_goes_on("does not speak superpipe");
        drop(scratch.connect());
        server.until_it_goes_on("rperf closed the connection before the measurement was complete");
        scratch.run("rperf", &mut client(&[])).assert_done();
        if keep.is_empty() {
            server.wait(BOUND).assert_done();
        } else {
            scratch.run("rperf", &mut client(&[])).assert_done();
            server.signal("TERM");
            assert_eq!(server.wait(BOUND).code, 143);
        }
        scratch.assert_only(&[]);
    }
}
