//! Exit codes, in cases where another code would be plausible.

use crate::support::{BOUND, Ended, Scratch, is_root, program, wait_for, with_files};
use core::time::Duration;
use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use superpipe::fabric::shm::Listener;

/// Returns true if a tool ended for lack of descriptors, which it must report with the right code.
fn is_lack(ended: &Ended) -> bool {
    match ended.code {
        0 => false,
        // its own file, or a report, before the handshake
        8 | 9 => {
            assert!(ended.said.contains("too many open files"), "{}: {}", ended.code, ended.said);
            true
        }
        code => panic!("{code}: {}", ended.said),
    }
}

/// Repeats `attempt` with more and more descriptors until it succeeds. Before that it exits with 9, or with 8 for its own files.
fn until_enough(mut attempt: impl FnMut(u32) -> Ended) {
    let lacks = (4..64).take_while(|&limit| is_lack(&attempt(limit))).count();
    assert!((1..60).contains(&lacks), "{lacks} limits were too few");
}

#[test]
fn a_sender_without_descriptors_exits_with_8_or_9() {
    let scratch = Scratch::new("few-here");
    fs::write(scratch.data("in"), b"x").unwrap();
    let receiver = scratch.start_rrecv(scratch.rrecv(&["-q"]).arg(scratch.data("out")));
    until_enough(|files| {
        let mut rsend = scratch.rsend(&["-q", &scratch.address()]);
        scratch.run("rsend", &mut with_files(files, rsend.arg(scratch.data("in"))))
    });
    receiver.wait(BOUND).assert_done();
    scratch.assert_only(&["in", "out"]);
}

#[test]
fn a_receiver_without_descriptors_exits_with_8_or_9() {
    let scratch = Scratch::new("few-there");
    fs::write(scratch.data("in"), b"x").unwrap();
    until_enough(|files| {
        let mut rrecv = scratch.rrecv(&["-q", "--accept-timeout", "40s"]);
        let mut rrecv = with_files(files, rrecv.arg(scratch.data("out")));
        let receiver = scratch.start("rrecv", &mut rrecv);
        let mut rsend = scratch.rsend(&["-q", "--connect-timeout", "1h", &scratch.address()]);
        let mut sender = scratch.start("rsend", rsend.arg(scratch.data("in")));
        let received = receiver.wait(BOUND);
        if received.code != 0 {
            // if the receiver could not accept, the sender was not told, and would go on connecting
            thread::sleep(Duration::from_millis(200));
            sender.kill();
        }
        let sent = sender.wait(BOUND);
        assert!([0, 9, -9].contains(&sent.code), "{files}: {}: {}; {}", sent.code, sent.said, received.said);
        assert_eq!(sent.code == 0, received.code == 0, "{files}: {}; {}", sent.said, received.said);
        received
    });
    scratch.assert_only(&["in", "out"]);
}

/// A kept server that cannot accept ends, and does not repeat its error for ever.
#[test]
fn a_kept_server_without_descriptors_ends() {
    let scratch = Scratch::new("few-kept");
    let listen = ["serve", "-q", "--keep", "--listen", &scratch.address()];
    until_enough(|files| {
        let mut serve = with_files(files, scratch.command("rperf").args(listen));
        let mut server = scratch.start("rperf", &mut serve);
        wait_for("the server to listen or end", || scratch.socket().exists() || server.has_ended());
        let quick = ["-q", "--sizes=8", "--iterations=20", "--warmup=3", "--connect-timeout=1h"];
        let mut client = scratch.start("rperf", &mut scratch.client(&quick));
        wait_for("either end", || server.has_ended() || client.has_ended());
        let ended = if client.has_ended() {
            // the server served it, or refused it and goes on
            let ended = client.wait(BOUND);
            if !server.has_ended() {
                server.signal("TERM");
            }
            assert!([9, 143].contains(&server.wait(BOUND).code), "{files}: {}", ended.said);
            ended
        } else {
            client.kill();
            server.wait(BOUND)
        };
        assert!(ended.said.lines().count() < 20, "{files}: {}", ended.said);
        ended
    });
    scratch.assert_only(&[]);
}

#[test]
fn a_file_size_limit_below_a_connection_exits_with_9() {
    let scratch = Scratch::new("no-connection");
    let input = scratch.source("in", b"data");
    let script = r#"ulimit -f 100; exec "$@""#;
    let mut receiver = scratch.start("rrecv", &mut scratch.shell(script, &["-q", "out"]));
    if scratch.listens(&mut receiver) {
        assert_eq!(scratch.send(&input).code, 9);
    }
    assert_eq!(receiver.wait(BOUND).code, 9);
}

#[test]
fn a_shared_max_below_a_connection_exits_with_9() {
    let scratch = Scratch::new("shared-max");
    let input = scratch.source("in", b"data");
    let (small, address) = (["-q", "--shared-max", "1000K"], scratch.address());
    let own =
        "are in use; close connections, make landing buffers smaller, or raise the limit with --shared-max";
    let refused = "the peer refused: its budget of shared memory has no room for 1";
    for tool in ["rsend", "rperf"] {
        let (listens, mut listening) = match tool {
            "rsend" => ("rrecv", scratch.rrecv(&small)),
            _ => ("rperf", scratch.command("rperf")),
        };
        if tool == "rperf" {
            // also with --keep, since each client would be refused
            listening.args(["serve", "--keep", "--listen", &address]).args(small);
        } else {
            listening.arg(scratch.data("out"));
        }
        let mut receiver = scratch.start(listens, &mut listening);
        assert!(scratch.listens(&mut receiver), "the limit is asked when a peer connects");
        let connect = |options: &[&str]| {
            let mut command = scratch.command(tool);
            command.args(options).arg(&address);
            if tool == "rsend" {
                command.arg(&input);
            }
            scratch.run(tool, &mut command)
        };
        connect(&["-q"]).assert(9, refused);
        receiver.wait(BOUND).assert(9, own);
        assert!(!scratch.socket().exists(), "{listens} no longer listens");

        // the connecting end has the limit, and the other goes on listening
        let receiver = scratch.start_rrecv(scratch.rrecv(&["-q"]).arg(scratch.data("out")));
        connect(&small).assert(9, own);
        receiver.until_it_goes_on(refused);
        // a limit of registered memory does not count here, and 1100 KiB are enough
        let mut rsend = scratch.rsend(&["-q", "--pinned-max=0", "--shared-max=1100K", &address]);
        scratch.run("rsend", rsend.arg(&input)).assert_done();
        receiver.wait(BOUND).assert_done();
    }
    assert_eq!(fs::read(scratch.data("out")).unwrap(), b"data");
    scratch.assert_only(&["out"]);
}

#[test]
fn a_listener_goes_on_after_a_peer_with_large_blocks() {
    let scratch = Scratch::new("large-blocks");
    let input = scratch.source("in", b"data");
    let mut rrecv = scratch.rrecv(&["-q", "--shared-max=1100K"]);
    let receiver = scratch.start_rrecv(rrecv.arg(scratch.data("out")));
    let mut large = scratch.rsend(&["-q", "--block-bytes=1M", &scratch.address()]);
    let refused = "its budget of shared memory has no room for 8";
    scratch.run("rsend", large.arg(&input)).assert(9, refused);
    receiver.until_it_goes_on("raise the limit with --shared-max");
    scratch.send(&input).assert_done();
    receiver.wait(BOUND).assert_done();
    assert_eq!(fs::read(scratch.data("out")).unwrap(), b"data");
}

#[test]
fn a_handshake_timeout_exits_with_3() {
    let scratch = Scratch::new("slow");
    let listener = Listener::bind(&scratch.socket()).unwrap();
    for tool in ["rsend", "rperf"] {
        let mut command = scratch.command(tool);
        command.args(["--connect-timeout", "500ms", &scratch.address()]);
        scratch.run(tool, &mut command).assert(3, "; --connect-timeout is 500ms");
    }
    drop(listener);
}

#[test]
fn a_name_server_timeout_exits_with_3() {
    let can = || Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success());
    if !is_root("a slow name server") || !can() {
        eprintln!("NOT TESTED: a slow name server, which takes a mount namespace");
        return;
    }
    let scratch = Scratch::new("slow-name");
    let configured = scratch.root().join("resolv.conf");
    // an address for documentation (RFC 5737), which no host has
    fs::write(&configured, "nameserver 192.0.2.53\noptions timeout:30\n").unwrap();
    let mut rsend = Command::new("unshare");
    let script = r#"mount --bind "$0" /etc/resolv.conf && exec "$@""#;
    rsend.args(["-m", "sh", "-c", script]).arg(&configured).arg(program("rsend"));
    rsend.args(["--connect-timeout", "500ms", "some-host.example.com:7"]).stdin(Stdio::null());
    scratch.run("rsend", &mut rsend).assert(3, "some-host.example.com");
}
