//! Signals, and a peer that is stopped.

use crate::support::{BOUND, Scratch, Tool, feed, mkfifo, program, wait_for};
use core::time::Duration;
use std::fs;
use std::process::Stdio;
use std::thread;

/// Two tools in a transfer that does not end, since rsend's input stays open.
struct Running {
    scratch: Scratch,
    sender: Tool,
    receiver: Tool,
    stdin: std::process::ChildStdin,
}

fn running(test: &str, [of_rsend, of_rrecv]: [&[&str]; 2], with_data: bool) -> Running {
    let scratch = Scratch::new(test);
    fs::write(scratch.data("out"), b"as it was").unwrap();
    let receiver = scratch.start_rrecv(scratch.rrecv(of_rrecv).arg("-v").arg(scratch.data("out")));
    let mut rsend = scratch.rsend(of_rsend);
    let mut sender = scratch.start("rsend", rsend.arg("-v").arg(scratch.address()).stdin(Stdio::piped()));
    sender.until_connected(1);
    receiver.until_connected(1);
    let mut stdin = sender.stdin();
    if with_data {
        feed(&mut stdin, 1, 3 << 20, |_| {});
        wait_for("the transfer to begin", || !scratch.socket().exists());
    }
    thread::sleep(Duration::from_millis(100));
    Running { scratch, sender, receiver, stdin }
}

impl Running {
    fn assert_as_it_was(&self) {
        assert_eq!(fs::read(self.scratch.data("out")).unwrap(), b"as it was");
        self.scratch.assert_only(&["out"]);
    }
}

#[test]
fn a_signal_to_one_end_is_reported_at_the_other() {
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        for with_data in [false, true] {
            let Running { scratch, sender, receiver, stdin: _open } = running("signal", [&[]; 2], with_data);
            sender.signal(signal);
            let ended = sender.wait(BOUND);
            ended.assert(code, &format!("by SIG{signal}"));
            assert_eq!(ended.signal, Some(code - 128), "it dies by the signal");
            let told = format!("(SIG{signal})");
            if with_data {
                receiver.wait(BOUND).assert(5, &told);
                assert_eq!(fs::read(scratch.data("out")).unwrap(), b"as it was");
            } else {
                // no transfer had begun, and another sender may begin one
                receiver.until_it_goes_on(&told);
                assert_eq!(fs::read(scratch.data("out")).unwrap(), b"as it was");
                scratch.run("rsend", &mut scratch.rsend(&[&scratch.address()])).assert_done();
                assert_eq!(receiver.wait(BOUND).code, 0);
                assert_eq!(fs::read(scratch.data("out")).unwrap(), b"");
            }
            scratch.assert_only(&["out"]);

            let Running { scratch, sender, receiver, stdin: _open } = running("signal", [&[]; 2], with_data);
            receiver.signal(signal);
            let ended = receiver.wait(BOUND);
            ended.assert(code, &format!("by SIG{signal}"));
            assert_eq!(ended.signal, Some(code - 128), "it dies by the signal");
            sender.wait(BOUND).assert(5, &format!("(SIG{signal})"));
            assert_eq!(fs::read(scratch.data("out")).unwrap(), b"as it was");
            scratch.assert_only(&["out"]);
        }
    }
}

#[test]
fn a_signal_ends_a_tool_without_a_peer() {
    let scratch = Scratch::new("lonely");
    let receiver = scratch.start_rrecv(&mut scratch.rrecv(&[]));
    receiver.signal("INT");
    receiver.wait(BOUND).assert(130, "SIGINT");
    let sender = scratch.start("rsend", &mut scratch.rsend(&["--connect-timeout", "1h", &scratch.address()]));
    thread::sleep(Duration::from_millis(200));
    sender.signal("TERM");
    sender.wait(BOUND).assert(143, "SIGTERM");
    mkfifo(&scratch.data("fifo"));
    let receiver = scratch.start("rrecv", scratch.rrecv(&[]).arg(scratch.data("fifo")));
    thread::sleep(Duration::from_millis(200));
    receiver.signal("INT");
    receiver.wait(BOUND).assert(130, "SIGINT");
    scratch.assert_only(&["fifo"]);
}

#[test]
fn a_stopped_peer_is_an_idle_timeout() {
    // The one that is stopped does not end by itself before that.
    let [short, long] = ["--idle-timeout=3s", "--idle-timeout=60s"];
    let run = running("stopped", [&[short], &[long]], true);
    run.receiver.signal("STOP");
    // data must exceed the landing buffer, or rsend would wait for its input and not for the peer
    let mut stdin = run.stdin;
    let feeder = thread::spawn(move || feed(&mut stdin, 1, 64 << 20, |_| {}));
    run.sender.wait(BOUND).assert(4, "silent");
    feeder.join().unwrap();
    drop(run.receiver);
    run.scratch.assert_only(&["out"]);

    let run = running("stopped", [&[long], &[short]], true);
    run.sender.signal("STOP");
    let Running { scratch, sender, receiver, stdin: _open } = run;
    receiver.wait(BOUND).assert(4, "silent");
    assert_eq!(fs::read(scratch.data("out")).unwrap(), b"as it was");
    drop(sender);
    scratch.assert_only(&["out"]);
}

#[test]
fn a_peer_stopped_below_the_idle_timeout_is_accepted() {
    let run = running("paused", [&["--idle-timeout=30s"]; 2], true);
    run.sender.signal("STOP");
    thread::sleep(Duration::from_secs(1));
    run.sender.signal("CONT");
    run.assert_as_it_was();
    let Running { scratch, sender, receiver, stdin } = run;
    drop(stdin);
    sender.wait(BOUND).assert_done();
    receiver.wait(BOUND).assert_done();
    crate::support::verify(fs::File::open(scratch.data("out")).unwrap(), 1, 3 << 20);
}

#[test]
fn a_missing_peer_exits_with_3() {
    let scratch = Scratch::new("nobody");
    scratch.run("rrecv", &mut scratch.rrecv(&["--accept-timeout", "300ms"])).assert(3, "nobody connected");
    let mut rsend = scratch.rsend(&["--connect-timeout", "300ms", &scratch.address()]);
    scratch.run("rsend", &mut rsend).assert(3, "start the receiver first");
    scratch.assert_only(&[]);
}

#[test]
fn a_sender_waits_for_its_receiver() {
    let scratch = Scratch::new("first");
    fs::write(scratch.data("in"), b"early").unwrap();
    let sender = scratch.start("rsend", scratch.rsend(&[&scratch.address()]).arg(scratch.data("in")));
    thread::sleep(Duration::from_millis(300));
    scratch.run("rrecv", scratch.rrecv(&[]).arg(scratch.data("out"))).assert_done();
    sender.wait(BOUND).assert_done();
    assert_eq!(fs::read(scratch.data("out")).unwrap(), b"early");
}

/// nohup and scripts' background jobs start a tool with signals ignored.
#[test]
fn a_signal_ignored_at_start_stays_ignored() {
    let scratch = Scratch::new("nohup");
    fs::write(scratch.data("in"), b"x").unwrap();
    let mut rrecv = std::process::Command::new("sh");
    rrecv.arg("-c").arg(r#"trap "" INT HUP; exec "$0" "$@""#).arg(program("rrecv"));
    rrecv.arg("--listen").arg(scratch.address()).arg(scratch.data("out"));
    let receiver = scratch.start_rrecv(rrecv.stdin(Stdio::null()).stdout(Stdio::null()));
    // `Tool::signal` would wait for a handler
    for signal in ["INT", "HUP"] {
        let kill = format!("kill -{signal} {}", receiver.id());
        assert!(std::process::Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }
    thread::sleep(Duration::from_millis(300));
    scratch.run("rsend", scratch.rsend(&[&scratch.address()]).arg(scratch.data("in"))).assert_done();
    receiver.wait(BOUND).assert_done();
    assert_eq!(fs::read(scratch.data("out")).unwrap(), b"x");
}

/// A shell continues its loop after an exit code of 130, and ends it if the tool died by SIGINT.
#[test]
fn sigint_ends_the_shell_loop_around_a_tool() {
    let scratch = Scratch::new("loop");
    let script = r#"for i in 1 2 3; do "$0" -q --accept-timeout 60s --listen "$1"; echo "again $?"; done"#;
    let mut shell = std::process::Command::new("bash");
    shell.arg("-c").arg(script).arg(program("rrecv")).arg(scratch.address());
    let out = scratch.data("said");
    shell.stdin(Stdio::null()).stdout(fs::File::create(&out).unwrap());
    // a process group of its own, as a terminal signals a group
    std::os::unix::process::CommandExt::process_group(&mut shell, 0);
    let shell = scratch.start_rrecv(&mut shell);
    thread::sleep(Duration::from_millis(200));
    let kill = format!("kill -INT -{}", shell.id());
    assert!(std::process::Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    assert_eq!(shell.wait(BOUND).signal, Some(2));
    assert_eq!(fs::read_to_string(&out).unwrap(), "", "the loop went on");
}

#[test]
fn a_rate_limited_sender_is_not_an_idle_timeout() {
    // It sends a byte per second, so one without keepalives would fail each time. On a busy host keepalives can be late, but not always.
    let is_accepted = || {
        let scratch = Scratch::new("rate-limited");
        let input = scratch.source("in", b"data");
        let mut rrecv = scratch.rrecv(&["-q", "--idle-timeout", "800ms"]);
        let receiver = scratch.start_rrecv(rrecv.arg(scratch.data("out")));
        let mut rsend = scratch.rsend(&["-q", "--rate-limit", "1", &scratch.address()]);
        let sent = scratch.run("rsend", rsend.arg(&input));
        eprintln!("rsend ended with {}: {}; rrecv: {}", sent.code, sent.said, receiver.said());
        sent.code == 0 && receiver.wait(BOUND).code == 0
    };
    assert!((0..5).any(|_| is_accepted()));
}
