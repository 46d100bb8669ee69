//! A stalled reader of standard error: it fails no transfer, and delays neither the end nor a signal.

use crate::support::{BOUND, Scratch, full_pipe, wait_for};
use core::time::Duration;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::PipeReader;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::Instant;
use superpipe::Reason;

/// A listening rrecv whose standard error is a full pipe. Dropping this kills it.
struct Stalled {
    child: Child,
    _reader: PipeReader,
}

impl Stalled {
    fn new(scratch: &Scratch, rrecv: &mut Command) -> Self {
        let (reader, writer) = full_pipe();
        let stalled = Self { child: rrecv.stderr(writer).spawn().unwrap(), _reader: reader };
        wait_for("rrecv to listen", || scratch.socket().exists());
        stalled
    }

    /// Waits until it writes a line, which a thread of this name does.
    #[track_caller]
    fn until_it_speaks(&self) {
        let threads = format!("/proc/{}/task", self.child.id());
        wait_for("a line on standard error", || {
            fs::read_dir(&threads).is_ok_and(|threads| {
                threads
                    .flatten()
                    .any(|thread| fs::read(thread.path().join("comm")).is_ok_and(|name| name == b"stderr\n"))
            })
        });
    }

    /// Returns its status if it ends within this time.
    fn ends(mut self, bound: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + bound;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(status);
            }
            thread::sleep(Duration::from_millis(20));
        }
        None
    }
}

impl Drop for Stalled {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A message on standard error must fail neither the transfer nor the receiver.
#[test]
fn a_stalled_reader_fails_no_transfer() {
    let scratch = Scratch::new("stalled-stranger");
    let receiver = Stalled::new(&scratch, scratch.rrecv(&[]).arg(scratch.data("out")));
    scratch.connect().close(Reason::DONE, Duration::from_secs(1)).unwrap();
    receiver.until_it_speaks();
    let input = scratch.source("in", b"the real one");
    // longer than the timeout for a stalled reader of --json
    let mut rsend = scratch.rsend(&["--connect-timeout", "25s", &scratch.address()]);
    scratch.run("rsend", rsend.arg(input)).assert_done();
    assert_eq!(fs::read(scratch.data("out")).unwrap(), b"the real one");
}

#[test]
fn a_stalled_reader_does_not_delay_the_end() {
    let scratch = Scratch::new("stalled-end");
    let receiver = Stalled::new(&scratch, scratch.rrecv(&[]).arg(scratch.data("out")));
    scratch.run("rsend", &mut scratch.rsend(&[&scratch.address()])).assert_done();
    let status = receiver.ends(Duration::from_secs(25));
    let status = status.expect("rrecv waits for ever to tell that it is done");
    assert_eq!(status.code(), Some(0), "{status}");
}

/// The first signal also ends the wait for a stalled reader.
#[test]
fn a_stalled_reader_does_not_delay_a_signal() {
    let scratch = Scratch::new("stalled-signal");
    let receiver = Stalled::new(&scratch, scratch.rrecv(&["-v"]).arg(scratch.data("out")));
    receiver.until_it_speaks();
    kill_process(Pid::from_child(&receiver.child), Signal::TERM).unwrap();
    let status = receiver.ends(BOUND).expect("rrecv does not end");
    assert_eq!(status.signal(), Some(15), "{status}");
    assert!(!scratch.socket().exists());
}
