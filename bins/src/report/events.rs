//! Events of `--json`: one JSON object per line. `start` comes first and `end` last, whatever happens in between.

use crate::command_line::options::{
    ArrivalOption, Checksum, Common, Core, LandingOption, ProtocolOption, Switch, TransferOptions, Wait,
};
use crate::exit::{Code, Failure, explain};
use crate::report::copying::Copying;
use crate::report::growth::Growth;
use crate::report::lines::Lines;
use crate::signals::Signals;
use core::time::Duration;
use serde::Serialize;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::thread::{self, JoinHandle};
use superpipe::Description;
use superpipe::os::Bytes;
use superpipe::setup::arrival_name;

/// Options of the run: waiting, timeouts and tuning.
#[derive(Debug, Clone, Serialize)]
pub struct Settings {
    core: Option<Core>,
    wait: Wait,
    checksum: Option<Checksum>,
    protocol: Option<ProtocolOption>,
    block_bytes: Option<u32>,
    chunk_bytes: Option<u32>,
    folds: Option<u8>,
    c0_bytes: Option<u32>,
    growth: Option<f64>,
    sub_blocks: Option<Switch>,
    overlap: Option<Switch>,
    optimistic: Option<Switch>,
    triple_buffer: Option<Switch>,
    arrival: ArrivalOption,
    landing: Option<LandingOption>,
    small_buffer_bytes: Option<u32>,
    threshold_bytes: Option<u32>,
    device: Option<String>,
    gid_index: Option<u32>,
    ack_timeout_s: Option<f64>,
    peer_uid: Option<u32>,
    pinned_max_bytes: Option<u64>,
    shared_max_bytes: Option<u64>,
    memory_node: String,
    idle_timeout_s: f64,
    /// rsend: `--connect-timeout`; rrecv: `--accept-timeout`
    connect_timeout_s: f64,
}

/// Properties of an established connection.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConnectionProperties {
    /// name of the fabric
    pub fabric: &'static str,
    /// RDMA device, if the fabric uses one
    pub device: Option<String>,
    /// name of the transfer protocol
    pub protocol: &'static str,
    /// name of the arrival mode
    pub arrival: &'static str,
    /// reason for the arrival mode
    pub arrival_reason: &'static str,
    /// when landing buffers are provisioned
    pub landing: &'static str,
    /// size of a block; of the largest landing buffer, if landing is on demand
    pub block_bytes: u32,
    /// blocks in a landing buffer, or in the largest one
    pub block_count: u32,
    /// size of the largest chunk; 0: the protocol chooses it
    pub chunk_bytes: u32,
    /// least number of chunks that a landing buffer holds
    pub folds: u8,
    /// size of the first chunk
    pub c0_bytes: u32,
    /// growth of chunks
    pub growth: f64,
    /// when the first chunk is sent
    pub first_chunk: &'static str,
    /// chunks are copied out block by block
    pub sub_blocks: bool,
    /// chunks wait for the acknowledgement of the last but one
    pub triple_buffer: bool,
    provisioned_bytes: u64,
    /// bytes of these that are posted receives; 0 over shared memory
    receive_bytes: u64,
    /// memory node that this end's memory was taken from, if one was chosen
    memory_node: Option<u32>,
    /// reason for that
    memory_node_reason: &'static str,
}

/// One event, and so one line.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event<'a> {
    /// The tool has started, and is not connected yet.
    Start {
        /// name of the tool: rsend or rrecv
        tool: &'a str,
        /// version of the tool
        version: &'a str,
        /// process id
        pid: u32,
        /// address to connect to or to listen at
        address: String,
        /// file that is read or written
        file: &'a str,
        /// length of FILE, if it is known
        size: Option<u64>,
        /// options of waiting, timeouts and tuning
        settings: &'a Settings,
    },
    /// The tool listens at a port that the system chose, because port 0 was requested.
    Listening {
        /// address with that port
        address: String,
    },
    /// One second has passed.
    Interval {
        /// time since the transfer began: in rsend after the exchange of HELLOs, in rrecv at the first byte
        seconds: f64,
        /// bytes since the transfer began
        bytes: u64,
        /// rate of this interval, in 10^9 bytes per second
        gb_per_s: f64,
    },
    /// A transfer to `rrecv --keep` has ended, complete or not, of which the data had begun.
    Transfer {
        /// name that the sender sent
        name: &'a str,
        /// duration, from the first byte to the end
        seconds: f64,
        /// bytes that arrived
        bytes: u64,
        /// average rate, in 10^9 bytes per second
        gb_per_s: f64,
        /// exit code that a receiver of this transfer alone would have
        exit_code: u8,
        /// cause of the failure, if the exit code is not 0
        error: Option<&'a str>,
        /// name of the checksum that was compared
        checksum: &'a str,
        /// value of that checksum
        checksum_value: String,
    },
    /// The tool ends.
    End {
        /// duration of the transfer, from the same start as in an interval
        seconds: f64,
        /// bytes that went through this end
        bytes: u64,
        /// average rate, in 10^9 bytes per second
        gb_per_s: f64,
        /// exit code of the process
        exit_code: u8,
        /// cause of the failure, if the exit code is not 0
        error: Option<&'a str>,
        /// cause for which the trace could not be written; it does not change the exit code
        report_error: Option<&'a str>,
        /// name of the checksum that was compared
        checksum: Option<&'a str>,
        /// value of that checksum
        checksum_value: Option<String>,
        /// core that this end was pinned to
        core: Option<u32>,
        /// properties of the connection: fabric, device, layout, arrival, protocol
        connection: Option<&'a ConnectionProperties>,
        /// landing buffers that came and went
        growth: Option<&'a Growth>,
        /// choices of this end for its copies
        copying: Option<&'a Copying>,
        /// transfers that were complete, of `rrecv --keep`
        #[serde(skip_serializing_if = "Option::is_none")]
        complete: Option<u64>,
        /// transfers and attempts that failed, of `rrecv --keep`
        #[serde(skip_serializing_if = "Option::is_none")]
        failed: Option<u64>,
    },
}

/// Writer of events, which several threads may use.
#[derive(Debug)]
pub struct Events {
    out: Mutex<Out>,
}

#[derive(Debug)]
struct Out {
    writer: Writer,
    /// failure of the first failed write, until it is taken
    failed: Option<Failure>,
    over: bool,
}

/// Writer of the events.
#[derive(Debug)]
enum Writer {
    /// the caller, who waits while a pipe is full
    Caller(Lines),
    /// a thread, whose queue the caller fills
    Thread(SyncSender<Vec<u8>>, JoinHandle<Result<(), Failure>>),
    /// nobody any more
    Nobody,
}

/// Events that a thread has at most to write. So many fill no more than some MiB.
const QUEUE: usize = 8192;

impl Settings {
    /// Collects the settings from the options and the tool's own timeout.
    #[must_use]
    pub fn new(options: &TransferOptions, connect_timeout: Duration) -> Self {
        let Common { core, idle_timeout, peer_uid, route, tuning, memory, .. } = &options.common;
        Self {
            core: *core,
            wait: options.wait,
            checksum: options.checksum,
            protocol: tuning.protocol,
            block_bytes: tuning.block_bytes,
            chunk_bytes: tuning.chunk_bytes,
            folds: tuning.folds,
            c0_bytes: tuning.c0,
            growth: tuning.growth.map(|growth| f64::from(growth) / 256.0),
            sub_blocks: tuning.sub_blocks,
            overlap: tuning.overlap,
            optimistic: tuning.optimistic,
            triple_buffer: tuning.triple_buffer,
            arrival: tuning.arrival,
            landing: tuning.landing,
            small_buffer_bytes: tuning.small_buffer,
            threshold_bytes: tuning.threshold,
            device: route.device.map(|device| device.to_string()),
            gid_index: route.gid_index,
            ack_timeout_s: route.ack_timeout.map(|timeout| timeout.duration().as_secs_f64()),
            peer_uid: *peer_uid,
            pinned_max_bytes: memory.pinned_max,
            shared_max_bytes: memory.shared_max,
            memory_node: memory.memory_node.to_string(),
            idle_timeout_s: idle_timeout.as_secs_f64(),
            connect_timeout_s: connect_timeout.as_secs_f64(),
        }
    }
}

impl ConnectionProperties {
    /// Converts the library's description to the words of the options.
    #[must_use]
    pub fn new(description: &Description) -> Self {
        let Description { fabric, device, arrival_reason, folds, block_bytes, landing_bytes, .. } =
            description;
        Self {
            fabric,
            device: device.map(|device| device.to_string()),
            protocol: description.protocol.name(),
            arrival: arrival_name(description.arrival),
            arrival_reason,
            landing: description.landing.name(),
            block_bytes: *block_bytes,
            block_count: landing_bytes / block_bytes,
            chunk_bytes: description.chunk_bytes.unwrap_or(0),
            folds: *folds,
            c0_bytes: description.c0_bytes,
            growth: f64::from(description.growth_q8) / 256.0,
            first_chunk: description.first_chunk.name(),
            sub_blocks: description.sub_blocks,
            triple_buffer: description.triple_buffer,
            provisioned_bytes: description.provisioned_bytes,
            receive_bytes: description.receive_bytes,
            memory_node: description.memory.node(),
            memory_node_reason: description.memory.reason(),
        }
    }
}

impl fmt::Display for ConnectionProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connected by {}", self.fabric)?;
        if let Some(device) = &self.device {
            write!(f, " on {device}")?;
        }
        write!(
            f,
            ": {}, arrival by {} ({}), landing {}: {} blocks of {}, {} folds, {} of memory at this end",
            self.protocol,
            self.arrival,
            self.arrival_reason,
            self.landing,
            self.block_count,
            Bytes(self.block_bytes.into()),
            self.folds,
            Bytes(self.provisioned_bytes),
        )?;
        match self.receive_bytes {
            0 => Ok(()),
            bytes => write!(f, ", {} of it receives", Bytes(bytes)),
        }
    }
}

impl Events {
    /// Opens the file of `--json` as [`Lines::open`] does; `-` is standard error.
    ///
    /// # Errors
    /// The file cannot be written, or a signal arrived.
    pub fn open(path: &Path, signals: &Signals) -> Result<Self, Failure> {
        let lines = Lines::open(path, 2, signals)?;
        Ok(Self { out: Mutex::new(Out { writer: Writer::Caller(lines), failed: None, over: false }) })
    }

    /// Has a thread write all further events, so that [`put`](Self::put) never waits: for a tool that serves others meanwhile. A reader that is too slow for
    /// thousands of events is a failure to write them.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn detach(&self) -> Result<(), Failure> {
        let Ok(mut out) = self.out.lock() else { return Ok(()) };
        let Writer::Caller(mut lines) = core::mem::replace(&mut out.writer, Writer::Nobody) else {
            return Ok(());
        };
        let (queue, queued) = mpsc::sync_channel::<Vec<u8>>(QUEUE);
        let work = move || queued.into_iter().try_for_each(|line| lines.write(&line));
        let started = thread::Builder::new().name("events".into()).spawn(work);
        let thread =
            started.map_err(|error| Failure::new(Code::Device, explain("cannot start a thread", &error)))?;
        out.writer = Writer::Thread(queue, thread);
        Ok(())
    }

    /// Writes one event at once, or as soon as a pipe has room. The first failure is kept, and disables all later events.
    pub fn put(&self, event: &Event<'_>) {
        let Ok(mut out) = self.out.lock() else { return };
        if out.over {
            return;
        }
        let line = serde_json::to_vec(event)
            .map_err(|error| Failure::local_io("cannot write events", &io::Error::from(error)));
        let written = line.and_then(|mut line| {
            line.push(b'\n');
            out.write(line)
        });
        out.over = written.is_err();
        out.failed = written.err();
    }

    /// Waits until all events are written. Returns the failure to write them, if there was one, and only once. Nothing can be written after that by a thread.
    pub fn take_failure(&self) -> Option<Failure> {
        let mut out = self.out.lock().ok()?;
        let ended = out.end_thread();
        out.failed.take().or(ended)
    }
}

impl Out {
    /// Writes a line, or has it written.
    fn write(&mut self, line: Vec<u8>) -> Result<(), Failure> {
        let refused = match &mut self.writer {
            Writer::Caller(lines) => return lines.write(&line),
            Writer::Thread(queue, _) => queue.try_send(line),
            Writer::Nobody => return Ok(()),
        };
        match refused {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_)) => Err(Failure::new(
                Code::LocalIo,
                format!("cannot write events: their reader has not read {QUEUE} of them yet"),
            )),
            // it has failed, and says why
            Err(TrySendError::Disconnected(_)) => self.end_thread().map_or(Ok(()), Err),
        }
    }

    /// Waits for the thread, if there is one. Returns its failure.
    fn end_thread(&mut self) -> Option<Failure> {
        match core::mem::replace(&mut self.writer, Writer::Nobody) {
            Writer::Thread(queue, thread) => {
                drop(queue);
                thread.join().ok()?.err()
            }
            other => {
                self.writer = other;
                None
            }
        }
    }
}

/// Returns a rate in 10^9 bytes per second.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
pub fn gb_per_s(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { round(bytes as f64 / seconds / 1e9) } else { 0.0 }
}

/// Rounds to 6 decimals: microseconds are precise enough, and shorter to read.
#[must_use]
pub fn round(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::fs;

    #[test]
    fn events_are_one_object_per_line() {
        let event = Event::Interval { seconds: 1.0, bytes: 5, gb_per_s: gb_per_s(2_000_000_000, 0.5) };
        assert_eq!(
            serde_json::to_string(&event).unwrap(),
            r#"{"event":"interval","seconds":1.0,"bytes":5,"gb_per_s":4.0}"#
        );
        assert_eq!(gb_per_s(7, 0.0), 0.0);
    }

    #[test]
    fn a_reader_that_stalls_does_not_stop_a_tool_that_serves() {
        let signals = Signals::install("test").unwrap();
        let scratch = Scratch::new("events-stalled");
        let path = scratch.join("fifo");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let opening = path.clone();
        let reader = thread::spawn(move || fs::File::open(opening).unwrap());
        let events = Events::open(&path, &signals).unwrap();
        let reader = reader.join().unwrap();
        events.detach().unwrap();
        // more than the pipe holds: a put that waited would fail after 10 s
        let begin = std::time::Instant::now();
        for number in 0..5000 {
            events.put(&Event::Interval { seconds: 1.0, bytes: number, gb_per_s: 0.0 });
        }
        assert!(begin.elapsed() < Duration::from_secs(9));
        let reading = thread::spawn(move || io::read_to_string(reader).unwrap());
        assert_eq!(events.take_failure(), None);
        drop(events);
        let lines = reading.join().unwrap();
        assert_eq!(lines.lines().count(), 5000);
        assert!(lines.lines().last().unwrap().contains("4999"));
    }

    #[test]
    fn a_full_disk_is_reported_once() {
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
