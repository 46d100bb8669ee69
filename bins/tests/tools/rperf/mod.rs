//! Tests of rperf and rperf serve. No test compares a figure with a time.

mod endings;
mod files;
mod hostile;
mod many;
mod results;
mod spread;

use crate::support::{BOUND, Ended, Scratch, Tool, wait_for};
use core::time::Duration;
use serde_json::{Map, Value};
use std::fs;
use std::process::Command;

/// Options for few messages, since both ends may share a core with other tests.
const QUICK: [&str; 4] = ["--iterations", "20", "--warmup", "3"];

impl Tool {
    /// Waits until this server, which is busy only in a run, has had 100 ms of a core.
    #[track_caller]
    fn until_it_measures(&self) {
        let enough = self.cpu_time() + Duration::from_millis(100);
        wait_for("a run to go on", || self.cpu_time() >= enough);
    }
}

impl Scratch {
    pub(super) fn start_server(&self, arguments: &[&str]) -> Tool {
        let mut serve = self.command("rperf");
        let tool = self.start("rperf", serve.args(["serve", "--listen", &self.address()]).args(arguments));
        wait_for("rperf serve to listen", || self.socket().exists());
        tool
    }

    pub(super) fn client(&self, arguments: &[&str]) -> Command {
        let mut client = self.command("rperf");
        client.arg(self.address()).args(arguments);
        client
    }

    /// Runs one client with its server. Returns the client's standard output and both ends.
    pub(super) fn measure(&self, arguments: &[&str]) -> (String, Ended, Ended) {
        self.measure_with(&[], arguments)
    }

    /// Does the same with a server that has these arguments.
    pub(super) fn measure_with(&self, serving: &[&str], arguments: &[&str]) -> (String, Ended, Ended) {
        let server = self.start_server(serving);
        let out = self.root().join("out");
        let mut client = self.client(arguments);
        let client = self.run("rperf", client.stdout(fs::File::create(&out).unwrap()));
        (fs::read_to_string(out).unwrap(), client, server.wait(BOUND))
    }

    /// Runs one client with its server, which must succeed. Returns the client's JSON objects.
    pub(super) fn objects(&self, arguments: &[&str]) -> Vec<Map<String, Value>> {
        let arguments = [&["--json=-", "-q"], arguments].concat();
        let (out, client, server) = self.measure(&arguments);
        client.assert_done();
        server.assert_done();
        assert_eq!((client.said.as_str(), server.said.as_str()), ("", ""));
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}
