//! Transfers from a pipe to a pipe: more than 4 GiB, and pauses longer than the idle timeout.

use crate::support::{BOUND, Scratch, feed, mkfifo, verify};
use core::time::Duration;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::process::Stdio;
use std::thread;

/// A pause, and an idle timeout that it exceeds.
const PAUSE: Duration = Duration::from_secs(6);
const SHORTER: &str = "--idle-timeout=4s";

/// Runs generator, rsend, rrecv and verifier. Generator and verifier call their pause with the bytes so far.
fn through_pipes(test: &str, total: u64, options: &[&str], feed_pause: fn(u64), read_pause: fn(u64)) {
    struct Slowly<R>(R, fn(u64), u64);
    impl<R: Read> Read for Slowly<R> {
        fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
            self.1(self.2);
            let count = self.0.read(bytes)?;
            self.2 += count as u64;
            Ok(count)
        }
    }
    let scratch = Scratch::new(test);
    let mut receiver = scratch.start_rrecv(scratch.rrecv(options).stdout(Stdio::piped()));
    let mut sender =
        scratch.start("rsend", scratch.rsend(options).args([&scratch.address(), "-"]).stdin(Stdio::piped()));
    let (stdin, stdout) = (sender.stdin(), receiver.stdout());
    thread::scope(|scope| {
        scope.spawn(|| feed(stdin, 7, total, feed_pause));
        verify(Slowly(stdout, read_pause, 0), 7, total);
    });
    sender.wait(BOUND).assert(0, &format!("{total} bytes"));
    receiver.wait(BOUND).assert(0, &format!("{total} bytes"));
    scratch.assert_only(&[]);
}

#[test]
fn pipes_carry_more_than_4_gib() {
    through_pipes("large", (4 << 30) + (64 << 20) + 12_345, &[], |_| {}, |_| {});
}

#[test]
fn a_source_may_pause_beyond_the_idle_timeout() {
    fn pause_at(places: &[u64], at: u64) {
        if places.contains(&at) {
            thread::sleep(PAUSE);
        }
    }
    // before the first byte, in the middle, and before the end
    through_pipes("slow-source", 1 << 20, &[SHORTER], |at| pause_at(&[0, 512 << 10, 1 << 20], at), |_| {});
}

#[test]
fn a_reader_may_pause_beyond_the_idle_timeout() {
    fn pause_once(at: u64) {
        use core::sync::atomic::{AtomicBool, Ordering};
        static DONE: AtomicBool = AtomicBool::new(false);
        if at > 4 << 20 && !DONE.swap(true, Ordering::Relaxed) {
            thread::sleep(PAUSE);
        }
    }
    through_pipes("slow-sink", 16 << 20, &[SHORTER], |_| {}, pause_once);
}

#[test]
fn bursts_arrive_in_order() {
    fn pause_often(at: u64) {
        if (at >> 18).is_multiple_of(3) {
            thread::sleep(Duration::from_millis(20));
        }
    }
    through_pipes("bursts", 8 << 20, &[], pause_often, |_| {});
    through_pipes("bursts", 8 << 20, &[], pause_often, pause_often);
}

#[test]
fn named_pipes_are_read_and_written() {
    let scratch = Scratch::new("fifos");
    mkfifo(&scratch.data("in"));
    mkfifo(&scratch.data("out"));
    let mut rrecv = scratch.rrecv(&[]);
    let receiver = scratch.start("rrecv", rrecv.arg(scratch.data("out")));
    thread::scope(|scope| {
        // the reader opens once rrecv opens for writing, and rrecv once a reader does
        let reader = scope.spawn(|| {
            let mut got = Vec::new();
            File::open(scratch.data("out")).unwrap().read_to_end(&mut got).unwrap();
            got
        });
        let sender = scratch.start("rsend", scratch.rsend(&[&scratch.address()]).arg(scratch.data("in")));
        thread::sleep(Duration::from_millis(300));
        let mut writer = crate::support::open_to_write(&scratch.data("in")).unwrap();
        writer.write_all(b"first ").unwrap();
        thread::sleep(Duration::from_millis(100));
        writer.write_all(b"second").unwrap();
        drop(writer);
        sender.wait(BOUND).assert_done();
        receiver.wait(BOUND).assert_done();
        assert_eq!(reader.join().unwrap(), b"first second");
    });
    scratch.assert_only(&["in", "out"]);
    assert!(!fs::metadata(scratch.data("out")).unwrap().is_file(), "a pipe is written to, not replaced");
}

#[test]
fn an_unread_pipe_is_reported_with_time_and_remedy() {
    let scratch = Scratch::new("fifo-unread");
    mkfifo(&scratch.data("out"));
    let words = |path: &str, within: &str| {
        format!("cannot write {path}: no process opened the pipe for reading within {within}")
    };
    let path = scratch.data("out").display().to_string();
    let mut rrecv = scratch.rrecv(&["--accept-timeout", "1s"]);
    scratch
        .run("rrecv", rrecv.arg(&path))
        .assert(8, &words(&format!("to {path}"), "1s; see --accept-timeout"));
    let events = scratch.start("rrecv", &mut scratch.rrecv(&[&format!("--json={path}")]));
    let mut client = scratch.client(&[&format!("--csv={path}")]);
    let within = "10s; start its reader first";
    scratch.run("rperf", &mut client).assert(8, &words(&format!("to {path}"), within));
    events.wait(BOUND).assert(8, &words(&format!("events to {path}"), within));
    scratch.assert_only(&["out"]);
}
