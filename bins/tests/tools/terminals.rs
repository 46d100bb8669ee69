//! Tools on a terminal: binary data, the bar, and a terminal that is stopped.

use crate::support::{BOUND, Ended, Scratch, wait_for};
use core::time::Duration;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

/// Returns both ends of a pseudoterminal: the master, and the terminal of a process.
fn terminal() -> (File, File) {
    // tools of other tests, which count descriptors, must not inherit it
    let seen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&seen).unwrap();
    unlockpt(&seen).unwrap();
    let name = ptsname(&seen, Vec::new()).unwrap();
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NOCTTY);
    (seen.into(), options.open(OsStr::from_bytes(name.as_bytes())).unwrap())
}

#[test]
fn data_go_to_a_terminal_only_on_request() {
    let scratch = Scratch::new("terminals-data");
    let (_seen, terminal) = terminal();
    let received = |arguments: &[&str]| -> Ended {
        let mut rrecv = scratch.rrecv(&[&["-q", "--accept-timeout=1ms"], arguments].concat());
        scratch.start("rrecv", rrecv.stdout(terminal.try_clone().unwrap())).wait(BOUND)
    };
    let refused = received(&[]);
    refused.assert(2, "standard output is a terminal");
    for remedy in ["rrecv FILE", "rrecv | tar x", "rrecv - "] {
        assert!(refused.said.contains(remedy), "{}", refused.said);
    }
    let events = received(&["--json=-"]).said;
    assert!(events.lines().count() == 2 && events.contains("is a terminal"), "{events}");
    for asked in ["-", "/dev/stdout", "/dev/null"] {
        received(&[asked]).assert(3, "nobody connected");
    }
    scratch.assert_only(&[]);
}

/// A terminal that is stopped by ^S or not read accepts no more output, from the start or once the bar is drawn.
#[test]
fn a_blocked_terminal_does_not_delay_the_end() {
    for from_the_start in [true, false] {
        let scratch = Scratch::new("terminals-full");
        let (_seen, terminal) = terminal();
        let mut filling = OpenOptions::new();
        filling.write(true).custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK);
        let mut filling = filling.open(format!("/proc/self/fd/{}", terminal.as_raw_fd())).unwrap();
        // The kernel moves bytes on to the master for a while, which makes room again.
        let mut fill = || {
            for _ in 0..10 {
                while filling.write(b"x").is_ok() {}
                thread::sleep(Duration::from_millis(20));
            }
        };
        if from_the_start {
            fill();
        }
        let mut rrecv = scratch.rrecv(&[]);
        rrecv.env("TERM", "xterm").stdout(Stdio::null()).stderr(terminal);
        let mut receiver = rrecv.spawn().unwrap();
        wait_for("rrecv to listen", || scratch.socket().exists());
        let mut rsend = scratch.rsend(&["--connect-timeout", "30s", &scratch.address()]);
        let mut sender = scratch.start("rsend", rsend.stdin(Stdio::piped()));
        let mut stdin = sender.stdin();
        for _ in 0..5 {
            stdin.write_all(b"some").unwrap();
            fill();
        }
        drop(stdin);
        sender.wait(BOUND).assert_done();
        let deadline = Instant::now() + BOUND;
        while receiver.try_wait().unwrap().is_none() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(20));
        }
        let ended = receiver.try_wait().unwrap();
        let _ = receiver.kill();
        let _ = receiver.wait();
        assert_eq!(ended.and_then(|status| status.code()), Some(0), "from the start: {from_the_start}");
    }
}

/// Collects the output until the last process has closed the terminal.
fn keep(mut seen: File, all: &Mutex<Vec<u8>>) {
    let mut bytes = [0; 4096];
    // the last close of the terminal is an error at the master
    while let Ok(count @ 1..) = seen.read(&mut bytes) {
        all.lock().unwrap().extend_from_slice(&bytes[..count]);
    }
}

#[test]
fn the_bar_shows_no_impossible_rate() {
    const BURST: usize = 20 << 20;
    let scratch = Scratch::new("terminals-bar");
    for tool in ["rsend", "rrecv"] {
        let receiver = scratch.rrecv(&[]);
        let (seen, terminal) = terminal();
        let (mut rsend, mut rrecv) = (scratch.rsend(&[&scratch.address()]), receiver);
        for command in [&mut rsend, &mut rrecv] {
            command.env("TERM", "xterm").env("LC_ALL", "C").stderr(Stdio::null());
        }
        let told = if tool == "rsend" { &mut rsend } else { &mut rrecv };
        told.stderr(terminal);
        let mut receiver = rrecv.spawn().unwrap();
        wait_for("rrecv to listen", || scratch.socket().exists());
        let mut sender = rsend.stdin(Stdio::piped()).spawn().unwrap();
        // the commands hold descriptors of the terminal
        drop((rsend, rrecv));
        let all = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&all);
        let keeper = thread::spawn(move || keep(seen, &kept));
        let drawn = || String::from_utf8(all.lock().unwrap().clone()).unwrap();
        // one burst, then no data until the bar shows it
        let mut stdin = sender.stdin.take().unwrap();
        stdin.write_all(&vec![7; BURST]).unwrap();
        wait_for("the bar", || drawn().contains("20.00 MiB, "));
        stdin.write_all(&[7; 100]).unwrap();
        drop(stdin);
        let deadline = Instant::now() + BOUND;
        for child in [&mut sender, &mut receiver] {
            while child.try_wait().unwrap().is_none() {
                assert!(Instant::now() < deadline, "it does not end");
                thread::sleep(Duration::from_millis(1));
            }
        }
        keeper.join().unwrap();
        let seen = drawn();
        assert!(seen.is_ascii(), "{tool}: {seen:?}");
        // the first frame is drawn 0.1 s after the first byte, so no rate can be this high
        assert!(!seen.contains("TiB/s") && !seen.contains("GiB/s"), "{tool}: {seen:?}");
    }
    scratch.assert_only(&[]);
}

/// A terminal that Ctrl-S has stopped is not a lost reader.
#[test]
fn a_stopped_terminal_is_waited_for() {
    let scratch = Scratch::new("terminals-stopped");
    let (mut seen, terminal) = terminal();
    seen.write_all(&[0x13]).unwrap();
    let server = scratch.start_server(&["-v"]);
    let mut client = {
        // the command holds a descriptor of the terminal, and is dropped here
        let mut command = scratch.client(&["--sizes=8", "--iterations=3", "--warmup=1"]);
        scratch.start("rperf", command.stdout(terminal))
    };
    server.until_connected(1);
    // longer than the timeout for a stalled reader of a pipe
    thread::sleep(Duration::from_secs(12));
    assert!(!client.has_ended(), "{}", client.said());
    seen.write_all(&[0x11]).unwrap();
    let all = Mutex::new(Vec::new());
    keep(seen, &all);
    client.wait(BOUND).assert_done();
    server.wait(BOUND).assert_done();
    assert!(String::from_utf8_lossy(&all.into_inner().unwrap()).contains("t_typical"));
    scratch.assert_only(&[]);
}
