//! Trace of a run, one line per event. docs/testing.md has the legend.

use core::fmt;

use superpipe_core::Line;
use superpipe_core::recorder::Step;

use super::{Key, NotRegistered, Op};

/// Events in the order in which they were noted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace(pub Vec<TraceEntry>);

/// An event, which is a line of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// Time by the clock of the noting CPU.
    pub at_ns: u64,
    /// Host of the event.
    pub host: usize,
    /// The event.
    pub event: TraceEvent,
}

/// An event. A WR is named by its number; 0 is a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named as what they are")]
pub enum TraceEvent {
    /// Memory was registered for this use.
    Register { key: Key, bytes: u32, memory_use: MemoryUse },
    /// Memory was deregistered while the connection goes on.
    Deregister { key: Key },
    /// Memory could not be registered, so the connection fails.
    Refused(NotRegistered),
    /// A WR was posted. `id` names its completion, if it has one.
    Post { wr: u64, op: Op, bytes: u32, from: Key, id: Option<u64> },
    /// A packet begins to leave, and the NIC reads these bytes. The last byte leaves and arrives at these times.
    Leave { wr: u64, offset: u32, bytes: u32, left_ns: u64, arrives_ns: u64 },
    /// The CPU of this host can see these bytes.
    Visible { wr: u64, bytes: u32, to: Key, at: u32 },
    /// A receive completed.
    Receive { wr: u64, id: u64, status: u32 },
    /// A WR is over.
    Complete { wr: u64, status: u32, is_lost: bool },
    /// A QP failed.
    Failed { qp: usize },
    /// The CPU has stalled for this time.
    Stall { ns: u64 },
    /// The process of an end was killed, and its peer learns of it.
    Killed { connection: usize },
    /// An end vanished, and its peer does not learn of it.
    Vanished { connection: usize },
    /// A line was written instead of core's.
    Forge { line: Line, to: MemoryUse, at: u32 },
    /// A step that an endpoint recorded, with its begin.
    Core { connection: usize, begin_ns: u64, step: Step },
}

/// Use of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryUse {
    /// Acknowledgements and control messages of the peer.
    ControlPage,
    /// Chunks and inline messages of the peer.
    Landing,
    /// Image of the peer's control page.
    ControlPageImage,
    /// Image of the peer's landing buffer.
    LandingImage,
    /// Notifications that are SENDs.
    Notifications,
    /// Memory that an application sends from.
    Source,
    /// Memory that an application receives into.
    Destination,
}

impl fmt::Display for MemoryUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ControlPage => "control page",
            Self::Landing => "landing buffer",
            Self::ControlPageImage => "image of the peer's control page",
            Self::LandingImage => "image of the peer's landing buffer",
            Self::Notifications => "notifications",
            Self::Source => "source of an application",
            Self::Destination => "destination of an application",
        })
    }
}

impl TraceEvent {
    /// Name in the trace.
    const fn name(&self) -> &'static str {
        match self {
            Self::Register { .. } => "register",
            Self::Deregister { .. } => "release",
            Self::Refused(_) => "refused",
            Self::Post { .. } => "post",
            Self::Leave { .. } => "leave",
            Self::Visible { .. } => "visible",
            Self::Receive { .. } => "receive",
            Self::Complete { .. } => "complete",
            Self::Failed { .. } => "failed",
            Self::Stall { .. } => "stall",
            Self::Killed { .. } => "killed",
            Self::Vanished { .. } => "vanished",
            Self::Forge { .. } => "forge",
            Self::Core { .. } => "core",
        }
    }
}

impl fmt::Display for TraceEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at_ns, host, event } = self;
        write!(f, "{at_ns:>9} {host} {:<8} ", event.name())?;
        match *event {
            TraceEvent::Register { key, bytes, memory_use } => write!(f, "{key} {bytes} B, {memory_use}"),
            TraceEvent::Deregister { key } => write!(f, "{key}"),
            TraceEvent::Refused(error) => write!(f, "{error}"),
            TraceEvent::Post { wr, op, bytes, from, id } => {
                match op {
                    Op::Send => write!(f, "#{wr} send {bytes} B of {from}")?,
                    Op::Write { to, at } | Op::WriteWithImmediate { to, at, .. } => {
                        write!(f, "#{wr} write {bytes} B to {at} of {to}")?;
                        if let Op::WriteWithImmediate { immediate, .. } = op {
                            write!(f, ", immediate {immediate:08x}")?;
                        }
                    }
                }
                id.map_or(Ok(()), |id| write!(f, ", wr {id}"))
            }
            TraceEvent::Leave { wr, offset, bytes, left_ns, arrives_ns } => {
                write!(f, "#{wr} {bytes} B from {offset} on, left {left_ns}, there {arrives_ns}")
            }
            TraceEvent::Visible { wr, bytes, to, at } => write!(f, "#{wr} {bytes} B at {at} of {to}"),
            TraceEvent::Receive { wr, id, status } => write!(f, "#{wr} wr {id} status {status}"),
            TraceEvent::Complete { wr, status, is_lost } => {
                write!(f, "#{wr} status {status}{}", if is_lost { ", and lost" } else { "" })
            }
            TraceEvent::Failed { qp } => write!(f, "qp {qp}"),
            TraceEvent::Stall { ns } => write!(f, "{ns} ns"),
            TraceEvent::Killed { connection } | TraceEvent::Vanished { connection } => {
                write!(f, "c{connection}")
            }
            TraceEvent::Forge { line, to, at } => write!(f, "{line:?} at {at} of the peer's {to}"),
            TraceEvent::Core { connection, begin_ns, step } if begin_ns < *at_ns => {
                write!(f, "c{connection} {step:?} since {begin_ns}")
            }
            TraceEvent::Core { connection, step, .. } => write!(f, "c{connection} {step:?}"),
        }
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|entry| writeln!(f, "{entry}"))
    }
}
