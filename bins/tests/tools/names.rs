//! Paths that are not UTF-8: used unchanged, and shown with replacement characters.

use crate::support::{BOUND, Scratch, option, wait_for};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Replacement character for invalid UTF-8.
const SHOWN: &str = "\u{fffd}";

impl Scratch {
    fn odd(&self, name: &str) -> PathBuf {
        self.data("").join(OsStr::from_bytes(&[name.as_bytes(), b"\xff"].concat()))
    }
}

fn shm(socket: &Path) -> OsString {
    let mut address = OsString::from("shm:");
    address.push(socket);
    address
}

#[test]
fn non_utf8_paths_are_used_and_shown() {
    let scratch = Scratch::new("names");
    let [input, output, socket] = ["in", "out", "socket"].map(|name| scratch.odd(name));
    let report =
        |of: &str| [("json", scratch.odd(&format!("{of}j"))), ("trace", scratch.odd(&format!("{of}t")))];
    fs::write(&input, "x").unwrap();
    let mut rrecv = scratch.command("rrecv");
    rrecv.arg("-v").arg("--listen").arg(shm(&socket)).arg(&output);
    rrecv.args(report("r").map(|(name, path)| option(name, &path)));
    let receiver = scratch.start("rrecv", &mut rrecv);
    wait_for("rrecv to listen", || socket.exists());
    let mut rsend = scratch.command("rsend");
    rsend.arg("-v").arg(shm(&socket)).arg(&input).args(report("s").map(|(name, path)| option(name, &path)));
    scratch.run("rsend", &mut rsend).assert(0, "1 bytes");
    let receiver = receiver.wait(BOUND);
    receiver.assert(0, "1 bytes");
    assert!(receiver.said.contains(SHOWN), "{}", receiver.said);
    assert_eq!(fs::read(&output).unwrap(), b"x");
    for (of, file) in [("r", "out"), ("s", "in")] {
        let [(_, json), (_, trace)] = report(of);
        let events = fs::read_to_string(json).unwrap();
        let start: Value = serde_json::from_str(events.lines().next().unwrap()).unwrap();
        assert!(start["file"].as_str().unwrap().ends_with(&format!("{file}{SHOWN}")), "{start}");
        assert!(start["address"].as_str().unwrap().ends_with(&format!("socket{SHOWN}")), "{start}");
        assert!(serde_json::from_slice::<Value>(&fs::read(trace).unwrap()).is_ok());
    }
    let mut none = scratch.command("rsend");
    none.arg(shm(&socket)).arg(scratch.odd("none"));
    scratch.run("rsend", &mut none).assert(8, &format!("none{SHOWN}"));
    let mut host = scratch.command("rsend");
    let host = scratch.run("rsend", host.arg(OsStr::from_bytes(b"host\xff")));
    assert_eq!(host.code, 2, "{}", host.said);
    assert!(host.said.contains("is no address"), "{}", host.said);
}

#[test]
fn reports_go_to_non_utf8_paths() {
    let scratch = Scratch::new("names-perf");
    let socket = scratch.odd("socket");
    let mut serve = scratch.command("rperf");
    let server = scratch.start("rperf", serve.args(["serve", "--listen"]).arg(shm(&socket)));
    wait_for("rperf serve to listen", || socket.exists());
    let reports = ["json", "csv", "plot", "picture", "trace"];
    let mut client = scratch.command("rperf");
    client.args(["-q", "--sizes=1K", "--iterations=3", "--warmup=1"]).arg(shm(&socket));
    client.args(reports.map(|name| option(name, &scratch.odd(name))));
    scratch.run("rperf", &mut client).assert_done();
    server.wait(BOUND).assert_done();
    for name in reports {
        assert!(fs::metadata(scratch.odd(name)).unwrap().len() > 0, "{name}");
    }
}
