//! Recorded events in a form that can be written to a file, sent to the other end, and checked there.

use super::planned::Planned;
use serde::{Deserialize, Serialize};
use superpipe::recorder::{CAPACITY, ChosenKernel, ControlKind, JobKind, Record, Step};
use superpipe::{CopyKernel, Length};

/// Limit on the marks of one connection: the capacity of its recorder.
pub const MARKS_MAX: usize = CAPACITY;

/// Limit on the text of a failure, in bytes.
const TEXT_BYTES_MAX: usize = 256;

/// One recorded event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// begin, by the host's monotonic clock
    #[serde(rename = "begin")]
    pub begin_ns: u64,
    /// end, by the same clock
    #[serde(rename = "end")]
    pub end_ns: u64,
    /// kind of the event
    pub what: MarkKind,
}

/// Kinds of events: the steps of `superpipe::recorder`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the fields are those of `superpipe::recorder::Step`")]
pub enum MarkKind {
    /// a transfer's first chunk is about to be sent; a stream has no length
    SendBegin { transfer: u64, length: Option<u64> },
    /// the last chunk of a transfer was sent
    SendEnd { transfer: u64 },
    /// the receiver saw a transfer at the head of the ring
    ReceiveBegin { transfer: u64, length: Option<u64> },
    /// a transfer was received completely, or ended early
    ReceiveEnd { transfer: u64 },
    /// payload was copied into blocks
    CopyIn { sequence: u64, block: u64, bytes: u32 },
    /// payload was copied out of blocks
    CopyOut { sequence: u64, block: u64, bytes: u32 },
    /// a chunk's write was posted
    Post { sequence: u64, bytes: u32 },
    /// a chunk's write was completed
    Complete { sequence: u64 },
    /// an inline message was sent
    LineOut { sequence: u64, bytes: u32 },
    /// an inline message was received
    LineIn { sequence: u64, bytes: u32 },
    /// an acknowledgement was written
    AckOut { blocks: u64 },
    /// the peer's acknowledgement freed blocks
    AckIn { blocks: u64 },
    /// a control message was sent
    ControlOut { kind: Control },
    /// a control message was received
    ControlIn { kind: Control },
    /// the sender had no free block
    NoCredit { sequence: u64 },
    /// the sender had to wait for a CTS
    NoCts { sequence: u64 },
    /// a size was compared with the threshold of the provision protocol
    Compared { bytes: u64, threshold_bytes: u32, element: Option<u32> },
    /// a job of the fabric began
    JobBegin { number: u8, job: Job, bytes: u64 },
    /// a job of the fabric was over; its span is that of the job
    JobEnd { number: u8, job: Job, has_failed: bool, visible_ns: u64 },
    /// another kernel was chosen for copies of a class of messages
    KernelChosen { out: bool, class_bytes: u64, kernel: Kernel },
    /// another window was chosen
    WindowChosen { bytes: u32 },
    /// a planned message was over; its span is its service time
    Planned(Planned),
    /// the connection failed
    Failed { why: String },
}

/// Copy kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "they are those of `superpipe::CopyKernel`")]
pub enum Kernel {
    Plain,
    String,
    Fetching,
    Streaming,
}

impl Kernel {
    /// Returns the library's type.
    #[must_use]
    pub const fn kernel(self) -> CopyKernel {
        match self {
            Self::Plain => CopyKernel::Plain,
            Self::String => CopyKernel::String,
            Self::Fetching => CopyKernel::Fetching,
            Self::Streaming => CopyKernel::Streaming,
        }
    }
}

impl From<CopyKernel> for Kernel {
    fn from(kernel: CopyKernel) -> Self {
        match kernel {
            CopyKernel::Plain => Self::Plain,
            CopyKernel::String => Self::String,
            CopyKernel::Fetching => Self::Fetching,
            CopyKernel::Streaming => Self::Streaming,
        }
    }
}

/// Kinds of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Job {
    /// a landing buffer of this end is provisioned
    ProvisionLanding,
    /// the image of a landing buffer of the peer is provisioned
    ProvisionImage,
    /// a landing buffer of this end is released
    ReleaseLanding,
    /// the image of a landing buffer of the peer is released
    ReleaseImage,
    /// memory that a message is written from is registered
    RegisterSource,
    /// memory that a message is written to is registered
    RegisterDestination,
    /// memory of the application is deregistered
    Deregister,
    /// memory of the application is handed to the peer
    Expose,
    /// memory of the peer is mapped
    Map,
    /// memory of the peer is unmapped
    Unmap,
    /// the link ends
    EndLink,
}

impl Job {
    /// Returns its name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ProvisionLanding => "provision landing buffer",
            Self::ProvisionImage => "provision image",
            Self::ReleaseLanding => "release landing buffer",
            Self::ReleaseImage => "release image",
            Self::RegisterSource => "register source",
            Self::RegisterDestination => "register destination",
            Self::Deregister => "deregister",
            Self::Expose => "expose",
            Self::Map => "map",
            Self::Unmap => "unmap",
            Self::EndLink => "end link",
        }
    }
}

impl Job {
    /// Returns true for a job that takes memory back, and false for one that provisions or registers it.
    #[must_use]
    pub const fn takes_back(self) -> bool {
        match self {
            Self::ProvisionLanding
            | Self::ProvisionImage
            | Self::RegisterSource
            | Self::RegisterDestination
            | Self::Expose
            | Self::Map => false,
            Self::ReleaseLanding | Self::ReleaseImage | Self::Deregister | Self::Unmap | Self::EndLink => {
                true
            }
        }
    }
}

impl From<JobKind> for Job {
    fn from(kind: JobKind) -> Self {
        match kind {
            JobKind::ProvisionLanding => Self::ProvisionLanding,
            JobKind::ProvisionImage => Self::ProvisionImage,
            JobKind::ReleaseLanding => Self::ReleaseLanding,
            JobKind::ReleaseImage => Self::ReleaseImage,
            JobKind::RegisterSource => Self::RegisterSource,
            JobKind::RegisterDestination => Self::RegisterDestination,
            JobKind::Deregister => Self::Deregister,
            JobKind::Expose => Self::Expose,
            JobKind::Map => Self::Map,
            JobKind::Unmap => Self::Unmap,
            JobKind::EndLink => Self::EndLink,
        }
    }
}

/// Kinds of control messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Control {
    /// the receiver is ready: go on
    Cts,
    /// the receiver gives the transfer up
    Reject,
    /// the connection ends
    Close,
    /// the sender asks for a larger landing buffer
    Grow,
    /// a larger landing buffer is granted
    Grown,
    /// no larger landing buffer is granted
    GrowRefused,
    /// the landing buffer that was grown is to be left
    Shrink,
    /// a landing buffer was left
    Retired,
    /// memory of the sender can be mapped
    Expose,
    /// memory of the sender is mapped, or refused
    Mapped,
    /// memory of the sender is to be unmapped
    Withdrawn,
    /// a part of the next transfer may be written into memory of the receiver
    Offer,
}

impl Control {
    /// Returns its name in the protocol.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cts => "CTS",
            Self::Reject => "REJECT",
            Self::Close => "CLOSE",
            Self::Grow => "GROW",
            Self::Grown => "GROWN",
            Self::GrowRefused => "GROW-REFUSED",
            Self::Shrink => "SHRINK",
            Self::Retired => "RETIRED",
            Self::Expose => "EXPOSE",
            Self::Mapped => "MAPPED",
            Self::Withdrawn => "WITHDRAWN",
            Self::Offer => "OFFER",
        }
    }
}

impl Mark {
    /// Returns true if a recorder can have held this mark.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let is_short = !matches!(&self.what, MarkKind::Failed { why } if why.len() > TEXT_BYTES_MAX);
        self.begin_ns <= self.end_ns && is_short
    }
}

impl From<Record> for Mark {
    fn from(record: Record) -> Self {
        Self { begin_ns: record.begin.0, end_ns: record.end.0, what: record.step.into() }
    }
}

impl From<Step> for MarkKind {
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
            Step::Compared { bytes, threshold_bytes, element } => {
                Self::Compared { bytes, threshold_bytes, element }
            }
            Step::JobBegin { number, job, bytes } => Self::JobBegin { number, job: job.into(), bytes },
            Step::JobEnd { number, job, has_failed, visible_ns } => {
                Self::JobEnd { number, job: job.into(), has_failed, visible_ns }
            }
            Step::KernelChosen(ChosenKernel { is_out, class_bytes, kernel }) => {
                Self::KernelChosen { out: is_out, class_bytes, kernel: kernel.into() }
            }
            Step::WindowChosen { bytes } => Self::WindowChosen { bytes },
            Step::Planned { bytes, memory, way, reason, predicted_ns, is_declined } => {
                Self::Planned(Planned { bytes, memory, way, reason, predicted_ns, declined: is_declined })
            }
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
            ControlKind::Grow => Self::Grow,
            ControlKind::Grown => Self::Grown,
            ControlKind::GrowRefused => Self::GrowRefused,
            ControlKind::Shrink => Self::Shrink,
            ControlKind::Retired => Self::Retired,
            ControlKind::Expose => Self::Expose,
            ControlKind::Mapped => Self::Mapped,
            ControlKind::Withdrawn => Self::Withdrawn,
            ControlKind::Offer => Self::Offer,
        }
    }
}

const fn known(length: Length) -> Option<u64> {
    match length {
        Length::Exact(bytes) => Some(bytes),
        Length::Stream => None,
    }
}
