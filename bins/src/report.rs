//! What `--json` writes: one object a line. `start` comes first and `end` last, whatever happens in between.

use crate::exit::Failure;
use crate::lines::Lines;
use crate::options::{Checksum, Common, Core, Crossing, Moving, Seen, Wait};
use crate::signals::Signals;
use core::time::Duration;
use serde::Serialize;
use std::fmt;
use std::path::Path;
use std::sync::Mutex;
use superpipe::Description;
use superpipe::os::Bytes;
use superpipe::tuning::arrival_name;

/// Options of the run: those of waiting, timeouts and tuning.
#[derive(Debug, Clone, Serialize)]
pub struct Settings {
    core: Option<Core>,
    wait: Wait,
    checksum: Option<Checksum>,
    protocol: Option<Crossing>,
    block_bytes: Option<u32>,
    chunk_bytes: Option<u32>,
    folds: Option<u8>,
    arrival: Seen,
    device: Option<String>,
    gid_index: Option<u32>,
    peer_uid: Option<u32>,
    idle_timeout_s: f64,
    /// of rsend: connect; of rrecv: accept
    connect_timeout_s: f64,
}

/// How a connection came out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Joined {
    /// what carries it
    pub fabric: &'static str,
    /// the RDMA device, where it is one
    pub device: Option<String>,
    /// how data cross
    pub protocol: &'static str,
    /// how what has arrived is seen
    pub arrival: &'static str,
    /// why so
    pub arrival_reason: &'static str,
    /// of a block
    pub block_bytes: u32,
    /// in a landing buffer
    pub block_count: u32,
    /// of the largest chunk; 0: as the protocol sees fit
    pub chunk_bytes: u32,
    /// chunks in a landing buffer, at least
    pub folds: u8,
    provisioned_bytes: u64,
}

/// One line.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event<'a> {
    /// The tool has begun, and has not connected.
    Start {
        /// rsend or rrecv
        tool: &'a str,
        /// of the tool
        version: &'a str,
        /// its process
        pid: u32,
        /// where to connect or listen
        address: String,
        /// what is read or written
        file: &'a str,
        /// bytes that FILE has, where that is known
        size: Option<u64>,
        /// options of waiting, timeouts and tuning
        settings: &'a Settings,
    },
    /// The tool listens at port 0, which is this one.
    Listening {
        /// with that port
        address: String,
    },
    /// A second went by.
    Interval {
        /// since the transfer began: for rsend since the HELLOs, for rrecv since its first byte
        seconds: f64,
        /// since then
        bytes: u64,
        /// of this interval, in 10^9 bytes a second
        gb_per_s: f64,
    },
    /// The tool ends.
    End {
        /// from where the transfer began, as in an interval, to its end
        seconds: f64,
        /// that went through this end
        bytes: u64,
        /// over all, in 10^9 bytes a second
        gb_per_s: f64,
        /// of the process
        exit_code: u8,
        /// why, where that is not 0
        error: Option<&'a str>,
        /// why the trace could not be written, which changes no exit code
        report_error: Option<&'a str>,
        /// which checksum was compared
        checksum: Option<&'a str>,
        /// its value
        checksum_value: Option<String>,
        /// the core that this end was pinned to
        core: Option<u32>,
        /// how the connection came out: fabric, device, layout, arrival, protocol
        connection: Option<&'a Joined>,
    },
}

/// Where events go.
#[derive(Debug)]
pub struct Events {
    out: Mutex<Out>,
}

#[derive(Debug)]
struct Out {
    lines: Lines,
    /// the first write that failed, until it is told
    failed: Option<Failure>,
    over: bool,
}

impl Settings {
    /// What the options say, and the tool's own timeout.
    #[must_use]
    pub fn new(options: &Moving, connect_timeout: Duration) -> Self {
        let Common { core, idle_timeout, peer_uid, routed, tuned, .. } = &options.common;
        Self {
            core: *core,
            wait: options.wait,
            checksum: options.checksum,
            protocol: tuned.protocol,
            block_bytes: tuned.block_bytes,
            chunk_bytes: tuned.chunk_bytes,
            folds: tuned.folds,
            arrival: tuned.arrival,
            device: routed.device.map(|device| device.to_string()),
            gid_index: routed.gid_index,
            peer_uid: *peer_uid,
            idle_timeout_s: idle_timeout.as_secs_f64(),
            connect_timeout_s: connect_timeout.as_secs_f64(),
        }
    }
}

impl Joined {
    /// In the words of the options.
    #[must_use]
    pub fn new(description: &Description) -> Self {
        let Description { fabric, device, settled, arrival_reason, provisioned_bytes } = description;
        Self {
            fabric,
            device: device.map(|device| device.to_string()),
            protocol: settled.config.protocol.name(),
            arrival: arrival_name(settled.config.arrival),
            arrival_reason,
            block_bytes: settled.layout.block_bytes,
            block_count: settled.layout.block_count,
            chunk_bytes: settled.config.chunk_bytes,
            folds: settled.config.folds,
            provisioned_bytes: *provisioned_bytes,
        }
    }
}

impl fmt::Display for Joined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connected by {}", self.fabric)?;
        if let Some(device) = &self.device {
            write!(f, " on {device}")?;
        }
        write!(
            f,
            ": {}, arrival by {} ({}), {} blocks of {}, {} folds, {} of memory at this end",
            self.protocol,
            self.arrival,
            self.arrival_reason,
            self.block_count,
            Bytes(self.block_bytes.into()),
            self.folds,
            Bytes(self.provisioned_bytes),
        )
    }
}

impl Events {
    /// Opens `--json`: as [`Lines::open`], and `-` is standard error.
    ///
    /// # Errors
    /// When it cannot be written, or a signal came.
    pub fn open(path: &Path, signals: &Signals) -> Result<Self, Failure> {
        let lines = Lines::open(path, 2, signals)?;
        Ok(Self { out: Mutex::new(Out { lines, failed: None, over: false }) })
    }

    /// Writes one line, at once, or as soon as a pipe has room. A failure is remembered, and events are written no more.
    pub fn put(&self, event: &Event<'_>) {
        let Ok(mut out) = self.out.lock() else { return };
        if out.over {
            return;
        }
        let line = serde_json::to_vec(event).map_err(|error| out.lines.failure(&error.into()));
        let written = line.and_then(|mut line| {
            line.push(b'\n');
            out.lines.write(&line)
        });
        out.over = written.is_err();
        out.failed = written.err();
    }

    /// What went wrong with the events, if anything did: once.
    pub fn take_failure(&self) -> Option<Failure> {
        self.out.lock().ok()?.failed.take()
    }
}

/// 10^9 bytes a second.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
pub fn gb_per_s(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { round(bytes as f64 / seconds / 1e9) } else { 0.0 }
}

/// Microseconds are enough, and shorter to read.
#[must_use]
pub fn round(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_one_object_a_line() {
        let event = Event::Interval { seconds: 1.0, bytes: 5, gb_per_s: gb_per_s(2_000_000_000, 0.5) };
        assert_eq!(
            serde_json::to_string(&event).unwrap(),
            r#"{"event":"interval","seconds":1.0,"bytes":5,"gb_per_s":4.0}"#
        );
        assert_eq!(gb_per_s(7, 0.0), 0.0);
    }

    #[test]
    fn a_full_disk_is_told_once() {
        let signals = Signals::install("test").unwrap();
        let events = Events::open(Path::new("/dev/full"), &signals).unwrap();
        let event = Event::Interval { seconds: 1.0, bytes: 5, gb_per_s: 0.0 };
        events.put(&event);
        assert!(events.take_failure().unwrap().text.ends_with("/dev/full: no space left on device"));
        assert_eq!(events.take_failure(), None);
        events.put(&event);
        assert_eq!(events.take_failure(), None);
        assert!(Events::open(Path::new("/nowhere/x"), &signals).is_err());
    }
}
