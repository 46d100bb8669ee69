//! What happened, one line an event; the legend is in docs/testing.md.

use core::fmt;

use superpipe_core::Line;
use superpipe_core::recorder::Step;

use super::{Key, NotRegistered, Op};

/// Events, in the order in which they were noted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace(pub Vec<Entry>);

/// An event: a line of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When, by the clock of who notes it.
    pub at_ns: u64,
    /// Where.
    pub host: usize,
    /// What.
    pub what: What,
}

/// What happened. A WR is named by its number; 0 is a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named as what they are")]
pub enum What {
    /// Memory was registered, for this.
    Register { key: Key, bytes: u32, use_of_it: Use },
    /// Memory could not be registered, and nobody connects.
    Refused(NotRegistered),
    /// A WR was posted; `id` is for its completion, if it has one.
    Post { wr: u64, op: Op, bytes: u32, from: Key, id: Option<u64> },
    /// A packet begins to leave: the NIC reads these bytes now. The last of it has left, and is there, at these times.
    Leave { wr: u64, offset: u32, bytes: u32, left_ns: u64, there_ns: u64 },
    /// The CPUs of this host can see these bytes.
    Visible { wr: u64, bytes: u32, to: Key, at: u32 },
    /// A receive completed.
    Receive { wr: u64, id: u64, status: u32 },
    /// A WR is over.
    Complete { wr: u64, status: u32, is_lost: bool },
    /// A QP failed.
    Failed { qp: usize },
    /// The CPU did nothing for so long, and goes on now.
    Stall { ns: u64 },
    /// The process of an end of this connection is gone, which its peer is told.
    Killed { connection: usize },
    /// An end of this connection is gone, which nobody is told.
    Vanished { connection: usize },
    /// This line is not the one that core meant.
    Lie { line: Line, to: Use, at: u32 },
    /// What an endpoint recorded: it began then.
    Core { connection: usize, begin_ns: u64, step: Step },
}

/// What memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The peer writes acknowledgements and control messages there.
    Seat,
    /// The peer writes chunks and messages in lines there.
    Landing,
    /// The image of the peer's seat.
    SeatImage,
    /// The image of the peer's landing buffer.
    LandingImage,
    /// Notifications, where they are sent by themselves.
    Notices,
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Seat => "seat",
            Self::Landing => "landing buffer",
            Self::SeatImage => "image of the peer's seat",
            Self::LandingImage => "image of the peer's landing buffer",
            Self::Notices => "notifications",
        })
    }
}

impl What {
    /// The word for it.
    const fn name(&self) -> &'static str {
        match self {
            Self::Register { .. } => "register",
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
            Self::Lie { .. } => "lie",
            Self::Core { .. } => "core",
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at_ns, host, what } = self;
        write!(f, "{at_ns:>9} {host} {:<8} ", what.name())?;
        match *what {
            What::Register { key, bytes, use_of_it } => write!(f, "{key} {bytes} B, {use_of_it}"),
            What::Refused(error) => write!(f, "{error}"),
            What::Post { wr, op, bytes, from, id } => {
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
            What::Leave { wr, offset, bytes, left_ns, there_ns } => {
                write!(f, "#{wr} {bytes} B from {offset} on, left {left_ns}, there {there_ns}")
            }
            What::Visible { wr, bytes, to, at } => write!(f, "#{wr} {bytes} B at {at} of {to}"),
            What::Receive { wr, id, status } => write!(f, "#{wr} wr {id} status {status}"),
            What::Complete { wr, status, is_lost } => {
                write!(f, "#{wr} status {status}{}", if is_lost { ", and lost" } else { "" })
            }
            What::Failed { qp } => write!(f, "qp {qp}"),
            What::Stall { ns } => write!(f, "{ns} ns"),
            What::Killed { connection } | What::Vanished { connection } => write!(f, "c{connection}"),
            What::Lie { line, to, at } => write!(f, "{line:?} at {at} of the peer's {to}"),
            What::Core { connection, begin_ns, step } if begin_ns < *at_ns => {
                write!(f, "c{connection} {step:?} since {begin_ns}")
            }
            What::Core { connection, step, .. } => write!(f, "c{connection} {step:?}"),
        }
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|entry| writeln!(f, "{entry}"))
    }
}
