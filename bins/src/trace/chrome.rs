//! Chrome's trace format: one JSON object with a list of events. A process has one lane for each kind of span, and one for
//! instant events.
//!
//! Times are microseconds of the host's monotonic clock, without an offset, so that the traces of two processes of one host can
//! be joined.

use super::mark::{Job, Mark, MarkKind};
use super::planned::Planned;
use super::track::Track;
use core::mem;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// A lane, in the order from top to bottom. Writes that overlap have one lane each, and so do jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    Send,
    Planned,
    CopyIn,
    Wire(u32),
    CopyOut,
    Receive,
    Waits,
    Jobs(u32),
    Signals,
}

/// One event that is not metadata.
#[derive(Debug, Serialize)]
struct Event<'a> {
    name: String,
    cat: &'a str,
    ph: &'a str,
    ts: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    /// scope of an instant event: its lane
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'a str>,
    pid: u32,
    tid: u32,
    args: Value,
}

/// Events of one process, and their lanes.
struct ProcessEvents<'a> {
    pid: u32,
    events: Vec<Event<'a>>,
    lanes: BTreeSet<Lane>,
    /// time until which each lane of writes is in use
    wires: Vec<u64>,
    /// the same of each lane of jobs
    jobs: Vec<u64>,
}

/// Writes a complete trace.
///
/// # Errors
/// The errors of `out`.
pub fn write(tracks: &[Track], out: &mut impl Write) -> io::Result<()> {
    let mut events = Vec::new();
    for (index, track) in tracks.iter().enumerate() {
        let process = ProcessEvents::of(track);
        let about = |name: &str, tid: u32, args: Value| json!({"name": name, "ph": "M", "pid": track.pid, "tid": tid, "args": args});
        events.push(about("process_name", 0, json!({"name": track.name})));
        events.push(about("process_sort_index", 0, json!({"sort_index": index})));
        for lane in &process.lanes {
            events.push(about("thread_name", lane.number(), json!({"name": lane.name()})));
            events.push(about("thread_sort_index", lane.number(), json!({"sort_index": lane.number()})));
        }
        for event in &process.events {
            events.push(serde_json::to_value(event)?);
        }
    }
    let whole = json!({
        "displayTimeUnit": "ns",
        "otherData": {"program": "superpipe", "version": env!("CARGO_PKG_VERSION")},
        "traceEvents": events,
    });
    serde_json::to_writer(&mut *out, &whole)?;
    out.write_all(b"\n")
}

impl Lane {
    const fn number(self) -> u32 {
        match self {
            Self::Send => 1,
            Self::Planned => 2,
            Self::CopyIn => 3,
            Self::Wire(index) => 4 + index,
            Self::CopyOut => 10_001,
            Self::Receive => 10_002,
            Self::Waits => 10_003,
            Self::Jobs(index) => 10_004 + index,
            Self::Signals => 20_001,
        }
    }

    fn name(self) -> String {
        match self {
            Self::Send => "send".into(),
            Self::Planned => "planned".into(),
            Self::CopyIn => "copy in".into(),
            Self::Wire(0) => "wire".into(),
            Self::Wire(index) => format!("wire {}", index + 1),
            Self::CopyOut => "copy out".into(),
            Self::Receive => "receive".into(),
            Self::Waits => "waits".into(),
            Self::Jobs(0) => "jobs".into(),
            Self::Jobs(index) => format!("jobs {}", index + 1),
            Self::Signals => "signals".into(),
        }
    }
}

impl ProcessEvents<'_> {
    fn of(track: &Track) -> Self {
        let (events, lanes) = (Vec::new(), BTreeSet::new());
        let mut process = Self { pid: track.pid, events, lanes, wires: Vec::new(), jobs: Vec::new() };
        let mut unfinished = Unfinished::default();
        for mark in &track.marks {
            process.add(mark, &mut unfinished);
        }
        for (number, (at, job, bytes)) in mem::take(&mut unfinished.jobs) {
            let args = json!({"number": number, "bytes": bytes, "state": "not ended"});
            process.instant(Lane::Jobs(0), at, format!("{} begins", job.name()), args);
        }
        // Transfers and writes that had not ended with the recording appear with their begin.
        for (sequence, (at, bytes)) in unfinished.posts {
            let args = json!({"sequence": sequence, "bytes": bytes, "state": "not completed"});
            process.instant(Lane::Signals, at, "post".into(), args);
        }
        for (lane, transfers) in [(Lane::Send, unfinished.sends), (Lane::Receive, unfinished.receives)] {
            for (transfer, (at, length)) in transfers {
                let args = json!({"transfer": transfer, "bytes": length, "state": "not ended"});
                process.instant(lane, at, format!("transfer {transfer} begins"), args);
            }
        }
        process
    }

    fn add(&mut self, mark: &Mark, unfinished: &mut Unfinished) {
        let Mark { begin_ns: begin, end_ns: end, ref what } = *mark;
        match *what {
            MarkKind::SendBegin { transfer, length } => {
                unfinished.sends.insert(transfer, (begin, length));
            }
            MarkKind::ReceiveBegin { transfer, length } => {
                unfinished.receives.insert(transfer, (begin, length));
            }
            MarkKind::SendEnd { transfer } => {
                self.transfer(Lane::Send, transfer, unfinished.sends.remove(&transfer), end)
            }
            MarkKind::ReceiveEnd { transfer } => {
                self.transfer(Lane::Receive, transfer, unfinished.receives.remove(&transfer), end);
            }
            MarkKind::CopyIn { sequence, block, bytes } => {
                self.copy(Lane::CopyIn, mark, [sequence, block], bytes)
            }
            MarkKind::CopyOut { sequence, block, bytes } => {
                self.copy(Lane::CopyOut, mark, [sequence, block], bytes)
            }
            MarkKind::Post { sequence, bytes } => {
                unfinished.posts.insert(sequence, (begin, bytes));
            }
            MarkKind::Complete { sequence } => match unfinished.posts.remove(&sequence) {
                Some((posted, bytes)) => {
                    let lane = Lane::Wire(first_free(&mut self.wires, posted, end));
                    let args = json!({"sequence": sequence, "bytes": bytes});
                    self.span(lane, [posted, end], format!("chunk {sequence}"), args);
                }
                None => self.instant(Lane::Signals, end, "complete".into(), json!({"sequence": sequence})),
            },
            MarkKind::LineOut { sequence, bytes } => self.line(Lane::Send, begin, sequence, bytes),
            MarkKind::LineIn { sequence, bytes } => self.line(Lane::Receive, begin, sequence, bytes),
            MarkKind::NoCredit { sequence } => self.wait(mark, "no credit", sequence),
            MarkKind::NoCts { sequence } => self.wait(mark, "no CTS", sequence),
            MarkKind::AckOut { blocks } => self.signal(begin, "ACK out".into(), json!({"blocks": blocks})),
            MarkKind::AckIn { blocks } => self.signal(begin, "ACK in".into(), json!({"blocks": blocks})),
            MarkKind::ControlOut { kind } => self.signal(begin, format!("{} out", kind.name()), json!({})),
            MarkKind::ControlIn { kind } => self.signal(begin, format!("{} in", kind.name()), json!({})),
            MarkKind::Compared { bytes, threshold_bytes, element } => {
                let args = json!({"bytes": bytes, "threshold": threshold_bytes, "element": element});
                self.signal(begin, "compared".into(), args);
            }
            MarkKind::JobBegin { number, job, bytes } => {
                unfinished.jobs.insert(number, (begin, job, bytes));
            }
            MarkKind::JobEnd { number, job, has_failed, visible_ns } => {
                // The begin is not known any more if the recorder's ring was full.
                let bytes = unfinished.jobs.remove(&number).map(|(_, _, bytes)| bytes);
                let args = json!({
                    "number": number,
                    "bytes": bytes,
                    "failed": has_failed,
                    "visible_us": microseconds(visible_ns),
                });
                let lane = Lane::Jobs(first_free(&mut self.jobs, begin, end));
                self.span(lane, [begin, end], job.name().into(), args);
            }
            MarkKind::KernelChosen { out, class_bytes, kernel } => {
                let direction = if out { "out" } else { "in" };
                let args =
                    json!({"copies": direction, "class": class_bytes, "kernel": kernel.kernel().name()});
                self.signal(begin, "kernel chosen".into(), args);
            }
            MarkKind::WindowChosen { bytes } => {
                self.signal(begin, "window chosen".into(), json!({"bytes": bytes}));
            }
            MarkKind::Planned(Planned { bytes, memory, way, reason, predicted_ns, declined }) => {
                let args = json!({
                    "bytes": bytes,
                    "memory": memory.name(),
                    "reason": reason.name(),
                    "predicted_us": microseconds(predicted_ns),
                    "took_us": microseconds(end - begin),
                    "declined": declined,
                });
                self.span(Lane::Planned, [begin, end], way.name().into(), args);
            }
            MarkKind::Failed { ref why } => self.signal(begin, "failed".into(), json!({"why": why})),
        }
    }

    /// Adds a transfer, or only its end if the recorder's ring no longer holds the begin.
    fn transfer(&mut self, lane: Lane, transfer: u64, begun: Option<(u64, Option<u64>)>, end: u64) {
        match begun {
            Some((begin, bytes)) => {
                let args = json!({"transfer": transfer, "bytes": bytes});
                self.span(lane, [begin, end], format!("transfer {transfer}"), args);
            }
            None => {
                let args = json!({"transfer": transfer});
                self.instant(lane, end, format!("transfer {transfer} ends"), args);
            }
        }
    }

    fn copy(&mut self, lane: Lane, mark: &Mark, [sequence, block]: [u64; 2], bytes: u32) {
        let args = json!({"sequence": sequence, "block": block, "bytes": bytes});
        self.span(lane, [mark.begin_ns, mark.end_ns], format!("chunk {sequence}"), args);
    }

    fn line(&mut self, lane: Lane, at: u64, sequence: u64, bytes: u32) {
        self.instant(lane, at, "line".into(), json!({"sequence": sequence, "bytes": bytes}));
    }

    fn wait(&mut self, mark: &Mark, name: &str, sequence: u64) {
        let args = json!({"sequence": sequence});
        self.span(Lane::Waits, [mark.begin_ns, mark.end_ns], name.into(), args);
    }

    fn signal(&mut self, at: u64, name: String, args: Value) {
        self.instant(Lane::Signals, at, name, args);
    }

    fn span(&mut self, lane: Lane, [begin, end]: [u64; 2], name: String, args: Value) {
        self.put(lane, name, begin, Some(end.saturating_sub(begin)), args);
    }

    fn instant(&mut self, lane: Lane, at: u64, name: String, args: Value) {
        self.put(lane, name, at, None, args);
    }

    fn put(&mut self, lane: Lane, name: String, at: u64, ns: Option<u64>, args: Value) {
        self.lanes.insert(lane);
        let cat = match lane {
            Lane::Send | Lane::Receive => "transfer",
            Lane::Planned => "plan",
            Lane::CopyIn | Lane::CopyOut => "copy",
            Lane::Wire(_) => "wire",
            Lane::Waits => "wait",
            Lane::Jobs(_) => "job",
            Lane::Signals => "signal",
        };
        let (ph, s) = if ns.is_some() { ("X", None) } else { ("i", Some("t")) };
        let event = Event {
            name,
            cat,
            ph,
            ts: microseconds(at),
            dur: ns.map(microseconds),
            s,
            pid: self.pid,
            tid: lane.number(),
            args,
        };
        self.events.push(event);
    }
}

/// Transfers, writes and jobs that have not ended: number, time of the begin, and bytes.
#[derive(Default)]
struct Unfinished {
    sends: BTreeMap<u64, (u64, Option<u64>)>,
    receives: BTreeMap<u64, (u64, Option<u64>)>,
    posts: BTreeMap<u64, (u64, u32)>,
    jobs: BTreeMap<u8, (u64, Job, u64)>,
}

/// Takes the first of these lanes that is free at `begin`, until `end`, and returns its index.
fn first_free(lanes: &mut Vec<u64>, begin: u64, end: u64) -> u32 {
    let free = lanes.iter().position(|&taken| taken <= begin);
    let index = free.unwrap_or_else(|| {
        lanes.push(0);
        lanes.len() - 1
    });
    lanes[index] = end;
    u32::try_from(index).unwrap_or(u32::MAX)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "nanoseconds are exact for 104 days, and a microsecond for longer"
)]
fn microseconds(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::mark::Control;

    fn written(marks: &[(u64, u64, MarkKind)]) -> Vec<Value> {
        let marks = marks.iter().cloned().map(|(begin_ns, end_ns, what)| Mark { begin_ns, end_ns, what });
        let track = Track { name: "rsend".into(), pid: 7, marks: marks.collect() };
        let mut out = Vec::new();
        write(&[track], &mut out).unwrap();
        let whole: Value = serde_json::from_slice(&out).unwrap();
        whole["traceEvents"].as_array().unwrap().clone()
    }

    /// Returns lane, phase, name, begin and duration of all events but metadata.
    fn shapes(events: &[Value]) -> Vec<(&str, &str, &str, f64, Option<f64>)> {
        let lane_of = |event: &Value| {
            let lane =
                events.iter().find(|lane| lane["name"] == "thread_name" && lane["tid"] == event["tid"]);
            lane.unwrap()["args"]["name"].as_str().unwrap()
        };
        let events = events.iter().filter(|event| event["ph"] != "M");
        events
            .map(|event| {
                let (ph, name) = (event["ph"].as_str().unwrap(), event["name"].as_str().unwrap());
                (lane_of(event), ph, name, event["ts"].as_f64().unwrap(), event["dur"].as_f64())
            })
            .collect()
    }

    #[test]
    fn overlapping_writes_have_a_lane_each() {
        let bytes = 64;
        let events = written(&[
            (1000, 1000, MarkKind::Post { sequence: 1, bytes }),
            (2000, 2000, MarkKind::Post { sequence: 2, bytes }),
            (4500, 4500, MarkKind::Complete { sequence: 1 }),
            (5000, 5000, MarkKind::Post { sequence: 3, bytes }),
            (6000, 6000, MarkKind::Complete { sequence: 2 }),
            (7000, 7000, MarkKind::Complete { sequence: 3 }),
            (8000, 8000, MarkKind::Post { sequence: 4, bytes }),
            (9000, 9000, MarkKind::Complete { sequence: 0 }),
        ]);
        assert_eq!(
            shapes(&events),
            [
                ("wire", "X", "chunk 1", 1.0, Some(3.5)),
                ("wire 2", "X", "chunk 2", 2.0, Some(4.0)),
                ("wire", "X", "chunk 3", 5.0, Some(2.0)),
                ("signals", "i", "complete", 9.0, None),
                ("signals", "i", "post", 8.0, None),
            ]
        );
    }

    #[test]
    fn jobs_have_lanes_of_their_own() {
        let begin = |number, job, bytes| MarkKind::JobBegin { number, job, bytes };
        let end = |number, job| MarkKind::JobEnd { number, job, has_failed: false, visible_ns: 250 };
        let events = written(&[
            (1000, 1000, begin(0, Job::ProvisionLanding, 65536)),
            (2000, 2000, begin(1, Job::ReleaseImage, 0)),
            (2000, 3000, end(1, Job::ReleaseImage)),
            (1000, 5000, end(0, Job::ProvisionLanding)),
            (6000, 7000, end(6, Job::RegisterSource)),
            (8000, 8000, begin(0, Job::ReleaseLanding, 0)),
        ]);
        assert_eq!(
            shapes(&events),
            [
                ("jobs", "X", "release image", 2.0, Some(1.0)),
                ("jobs 2", "X", "provision landing buffer", 1.0, Some(4.0)),
                ("jobs", "X", "register source", 6.0, Some(1.0)),
                ("jobs", "i", "release landing buffer begins", 8.0, None),
            ]
        );
        let args = |name: &str| events.iter().find(|event| event["name"] == name).unwrap()["args"].clone();
        let provisioned = args("provision landing buffer");
        assert_eq!(
            (provisioned["bytes"].as_u64(), provisioned["visible_us"].as_f64()),
            (Some(65536), Some(0.25))
        );
        assert_eq!(args("register source")["bytes"], Value::Null, "its begin is not in the ring any more");
    }

    #[test]
    fn a_transfer_is_a_span_or_an_instant() {
        let events = written(&[
            (1, 1, MarkKind::SendEnd { transfer: 1 }),
            (2, 2, MarkKind::SendBegin { transfer: 2, length: None }),
            (3, 1503, MarkKind::CopyIn { sequence: 5, block: 9, bytes: 100 }),
            (1600, 1600, MarkKind::ControlIn { kind: Control::Cts }),
            (2002, 2002, MarkKind::SendEnd { transfer: 2 }),
            (3000, 3000, MarkKind::SendBegin { transfer: 3, length: Some(8) }),
            (4000, 9000, MarkKind::NoCredit { sequence: 5 }),
        ]);
        assert_eq!(
            shapes(&events),
            [
                ("send", "i", "transfer 1 ends", 0.001, None),
                ("copy in", "X", "chunk 5", 0.003, Some(1.5)),
                ("signals", "i", "CTS in", 1.6, None),
                ("send", "X", "transfer 2", 0.002, Some(2.0)),
                ("waits", "X", "no credit", 4.0, Some(5.0)),
                ("send", "i", "transfer 3 begins", 3.0, None),
            ]
        );
    }
}
