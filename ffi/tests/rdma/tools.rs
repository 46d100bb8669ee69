//! rsend and rrecv, found by SUPERPIPE_BIN, with foreign peers: they print one line about the peer, and end with the exit code of
//! a protocol mismatch.

use crate::devices;
use crate::foreign_peers::{answer, connect_and_be_refused, words};
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::env;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Instant;

/// The tools' code for a peer of another version or protocol.
const PROTOCOL: i32 = 7;
const PORT: u16 = 7473;
/// Far more than a tool takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running tool, which is killed when this is dropped.
struct Tool(Child);

impl Tool {
    fn start(name: &str, arguments: &[&str]) -> Option<Self> {
        let Some(directory) = env::var_os("SUPERPIPE_BIN") else {
            eprintln!("NOT CHECKED: SUPERPIPE_BIN names no directory with {name}");
            return None;
        };
        let mut command = Command::new(PathBuf::from(directory).join(name));
        let child = command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        Some(Self(child.spawn().unwrap()))
    }

    fn errors(&mut self) -> BufReader<ChildStderr> {
        BufReader::new(self.0.stderr.take().unwrap())
    }

    /// Checks that it ends in time with that code, and with this as its only line.
    fn ends(&mut self, mut errors: impl Read, words: &str) {
        let status = self.wait(Instant::now() + PATIENCE);
        let mut text = String::new();
        errors.read_to_string(&mut text).unwrap();
        assert_eq!(status.code(), Some(PROTOCOL), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains(words), "{words}: {text}");
    }

    fn wait(&mut self, deadline: Instant) -> ExitStatus {
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the tool does not end");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns an address as the tools take it.
fn place(ip: IpAddr, port: u16) -> String {
    format!("verbs:{}", SocketAddr::new(ip, port))
}

#[test]
fn rsend_names_a_foreign_listener() {
    for ip in devices() {
        for (says, _, words) in words() {
            answer(ip, &says, |port| {
                let Some(mut rsend) = Tool::start("rsend", &["-q", &place(ip, port), "/dev/null"]) else {
                    return;
                };
                let errors = rsend.errors();
                rsend.ends(errors, words);
            });
        }
    }
}

#[test]
fn rrecv_names_each_foreign_client_and_goes_on() {
    for ip in devices() {
        let Some(mut rrecv) = Tool::start("rrecv", &["-v", "--listen", &place(ip, PORT)]) else { return };
        let mut errors = rrecv.errors();
        let mut next_line = || {
            let mut line = String::new();
            errors.read_line(&mut line).unwrap();
            line
        };
        assert!(next_line().contains("listening at"));
        for (says, _, words) in words() {
            connect_and_be_refused(SocketAddr::new(ip, PORT), &says);
            let line = next_line();
            assert!(line.contains(words) && line.contains("still listening"), "{words}: {line}");
        }
        assert!(rrecv.0.try_wait().unwrap().is_none(), "{ip}");
    }
}
