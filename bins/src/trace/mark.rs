//! What was recorded, in numbers and names that can be written to a file and sent to the other end, and checked there.

use serde::{Deserialize, Serialize};
use superpipe::Length;
use superpipe::recorder::{CAPACITY, ControlKind, Record, Step};

/// The most marks of one connection: what its recorder holds.
pub const MARKS_MAX: usize = CAPACITY;

/// The most bytes of a failure's text.
const TEXT_BYTES_MAX: usize = 256;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// when it began, by the host's monotonic clock
    #[serde(rename = "begin")]
    pub begin_ns: u64,
    /// when it was over
    #[serde(rename = "end")]
    pub end_ns: u64,
    /// what it was
    pub what: What,
}

/// The recorder's steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the fields are those of `superpipe::recorder::Step`")]
pub enum What {
    /// a transfer's first chunk is about to be sent; a stream has no length
    SendBegin { transfer: u64, length: Option<u64> },
    /// its last chunk was sent
    SendEnd { transfer: u64 },
    /// a transfer was seen at the head
    ReceiveBegin { transfer: u64, length: Option<u64> },
    /// it was taken out, or ended
    ReceiveEnd { transfer: u64 },
    /// payload was put into blocks
    CopyIn { sequence: u64, block: u64, bytes: u32 },
    /// payload was taken out of blocks
    CopyOut { sequence: u64, block: u64, bytes: u32 },
    /// a chunk's write was posted
    Post { sequence: u64, bytes: u32 },
    /// a chunk's write was completed
    Complete { sequence: u64 },
    /// a message left in a line
    LineOut { sequence: u64, bytes: u32 },
    /// a message in a line was taken out
    LineIn { sequence: u64, bytes: u32 },
    /// an acknowledgement was written
    AckOut { blocks: u64 },
    /// the peer's acknowledgement freed blocks
    AckIn { blocks: u64 },
    /// a control message went out
    ControlOut { kind: Control },
    /// a control message came in
    ControlIn { kind: Control },
    /// the sender had no free block
    NoCredit { sequence: u64 },
    /// the sender had to wait for a CTS
    NoCts { sequence: u64 },
    /// the connection failed
    Failed { why: String },
}

/// Kinds of control messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Control {
    /// go on
    Cts,
    /// the transfer is not wanted
    Reject,
    /// the connection ends
    Close,
}

impl Control {
    /// As the protocol calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cts => "CTS",
            Self::Reject => "REJECT",
            Self::Close => "CLOSE",
        }
    }
}

impl Mark {
    /// Whether it can be what a recorder held.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let is_short = !matches!(&self.what, What::Failed { why } if why.len() > TEXT_BYTES_MAX);
        self.begin_ns <= self.end_ns && is_short
    }
}

impl From<Record> for Mark {
    fn from(record: Record) -> Self {
        Self { begin_ns: record.begin.0, end_ns: record.end.0, what: record.step.into() }
    }
}

impl From<Step> for What {
    fn from(step: Step) -> Self {
        let few = |bytes| u32::try_from(bytes).unwrap_or(u32::MAX);
        match step {
            Step::SendBegin { transfer, length } => Self::SendBegin { transfer, length: known(length) },
            Step::SendEnd { transfer } => Self::SendEnd { transfer },
            Step::ReceiveBegin { transfer, length } => Self::ReceiveBegin { transfer, length: known(length) },
            Step::ReceiveEnd { transfer } => Self::ReceiveEnd { transfer },
            Step::CopyIn { sequence, block, bytes } => Self::CopyIn { sequence, block, bytes },
            Step::CopyOut { sequence, block, bytes } => Self::CopyOut { sequence, block, bytes },
            Step::Post { sequence, bytes } => Self::Post { sequence, bytes },
            Step::Complete { sequence } => Self::Complete { sequence },
            Step::LineOut { sequence, bytes } => Self::LineOut { sequence, bytes: few(bytes) },
            Step::LineIn { sequence, bytes } => Self::LineIn { sequence, bytes: few(bytes) },
            Step::AckOut { blocks } => Self::AckOut { blocks },
            Step::AckIn { blocks } => Self::AckIn { blocks },
            Step::ControlOut(kind) => Self::ControlOut { kind: kind.into() },
            Step::ControlIn(kind) => Self::ControlIn { kind: kind.into() },
            Step::NoCredit { sequence } => Self::NoCredit { sequence },
            Step::NoCts { sequence } => Self::NoCts { sequence },
            Step::Failed(failure) => Self::Failed { why: failure.to_string() },
        }
    }
}

impl From<ControlKind> for Control {
    fn from(kind: ControlKind) -> Self {
        match kind {
            ControlKind::Cts => Self::Cts,
            ControlKind::Reject => Self::Reject,
            ControlKind::Close => Self::Close,
        }
    }
}

const fn known(length: Length) -> Option<u64> {
    match length {
        Length::Exact(bytes) => Some(bytes),
        Length::Stream => None,
    }
}
