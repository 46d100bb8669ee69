//! What the tools do where a terminal is: data that would garble it, and the bar.

use crate::support::{BOUND, Ended, Scratch};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;

/// Both ends of a terminal: what a person sees, and what a process has.
fn terminal() -> (File, File) {
    let seen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&seen).unwrap();
    unlockpt(&seen).unwrap();
    let name = ptsname(&seen, Vec::new()).unwrap();
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NOCTTY);
    (seen.into(), options.open(OsStr::from_bytes(name.as_bytes())).unwrap())
}

#[test]
fn data_go_to_a_terminal_only_where_that_is_asked_for() {
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
