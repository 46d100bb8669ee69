//! The recorder: the newest events of an endpoint, in a ring of fixed capacity.
//!
//! Core owns no ring. The fabric lends one ([`Fabric::recorder`](crate::Fabric::recorder)) while somebody records.
//!
//! Times are the fabric's clock. A copy is recorded when it is over, a wait again and again as one record that grows, so
//! that a sender without credit does not push everything else out of the ring.

use heapless::Deque;

use crate::copying::CopyKernel;
use crate::error::Failure;
pub use crate::job::JobKind;
use crate::nanos::Nanos;
use crate::plan::{Memory, Reason, Way};
pub use crate::wire::control::Kind as ControlKind;
use crate::wire::header::Length;

/// Most records that are kept, the newest. A group of blocks takes one record at each end, so that is a transfer of about 64 MiB in the
/// default groups of 16 KiB.
pub const CAPACITY: usize = 4096;

/// Kind of an event. Blocks are counted over the connection, from its first; a chunk is named by its sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The first chunk of a transfer is about to be sent.
    SendBegin {
        /// Number of the transfer.
        transfer: u64,
        /// Length of the transfer.
        length: Length,
    },
    /// The last chunk of a transfer was sent.
    SendEnd {
        /// Number of the transfer.
        transfer: u64,
    },
    /// The application saw an incoming transfer for the first time.
    ReceiveBegin {
        /// Number of the transfer.
        transfer: u64,
        /// Length of the transfer.
        length: Length,
    },
    /// The last bytes of a transfer were taken out, or the transfer was cancelled.
    ReceiveEnd {
        /// Number of the transfer.
        transfer: u64,
    },
    /// Payload was put into blocks: copied there, or read there from a file. Takes time.
    CopyIn {
        /// Sequence of the chunk.
        sequence: u64,
        /// First block.
        block: u64,
        /// Payload bytes in it, and in the next blocks if it holds fewer.
        bytes: u32,
    },
    /// Payload was taken out of blocks: copied, or written to a file. Takes time.
    CopyOut {
        /// Sequence of the chunk.
        sequence: u64,
        /// First block.
        block: u64,
        /// Payload bytes of it, and of the next blocks if it holds fewer.
        bytes: u32,
    },
    /// A chunk's write was posted.
    Post {
        /// Sequence of the chunk.
        sequence: u64,
        /// Bytes written, flags included.
        bytes: u32,
    },
    /// A chunk's write was completed.
    Complete {
        /// Sequence of the chunk.
        sequence: u64,
    },
    /// A message left in a line.
    LineOut {
        /// Sequence of the line.
        sequence: u64,
        /// Payload bytes.
        bytes: usize,
    },
    /// A message that came in a line was taken out.
    LineIn {
        /// Sequence of the line.
        sequence: u64,
        /// Payload bytes.
        bytes: usize,
    },
    /// An acknowledgement was written.
    AckOut {
        /// Blocks consumed, over the connection.
        blocks: u64,
    },
    /// The peer's acknowledgement freed blocks.
    AckIn {
        /// Blocks that it consumed, over the connection.
        blocks: u64,
    },
    /// A control message went out.
    ControlOut(ControlKind),
    /// A control message came in.
    ControlIn(ControlKind),
    /// The sender found no free block, from the first attempt to the last. Takes time.
    NoCredit {
        /// Sequence of the chunk sent last.
        sequence: u64,
    },
    /// The sender had to wait for a CTS, from the first attempt to the last. Takes time.
    NoCts {
        /// Sequence of the chunk sent last.
        sequence: u64,
    },
    /// A size was compared with the threshold of the provision protocol.
    Compared {
        /// Bytes of the element or message.
        bytes: u64,
        /// The threshold.
        threshold_bytes: u32,
        /// Index of the element of the I/O vector; `None` for the message as a whole.
        element: Option<u32>,
    },
    /// A job of the fabric began. Its number is free again after its end.
    JobBegin {
        /// Number of the job.
        number: u8,
        /// Kind of the job.
        job: JobKind,
        /// Bytes that it provisions or registers; 0 for a job that takes memory back.
        bytes: u64,
    },
    /// A job of the fabric was seen to be over. Takes the time since its begin.
    JobEnd {
        /// Number of the job.
        number: u8,
        /// Kind of the job.
        job: JobKind,
        /// The fabric reported that it failed.
        has_failed: bool,
        /// Nanoseconds of it that were visible.
        visible_ns: u64,
    },
    /// Another kernel was chosen for copies of a class of messages.
    KernelChosen(ChosenKernel),
    /// Another window was chosen: the bytes of the peer's landing buffer that this end cycles through from its next lap on.
    WindowChosen {
        /// Bytes of the window.
        bytes: u32,
    },
    /// A planned message was over: acknowledged, and its memory released. Takes its service time. docs/model.md.
    Planned {
        /// Bytes of the message.
        bytes: u64,
        /// Its memory.
        memory: Memory,
        /// The way that was chosen.
        way: Way,
        /// The reason.
        reason: Reason,
        /// Nanoseconds that were predicted.
        predicted_ns: u64,
        /// It went in blocks instead.
        is_declined: bool,
    },
    /// The connection failed.
    Failed(Failure),
}

/// A kernel that was chosen. wire.md 4.12.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChosenKernel {
    /// It is for copies out of blocks; otherwise into them.
    pub is_out: bool,
    /// Fewest bytes of a message of the class ([`size_class_bytes`](crate::size_class_bytes)).
    pub class_bytes: u64,
    /// The kernel.
    pub kernel: CopyKernel,
}

impl Step {
    /// Returns true if all attempts in a row are one record.
    const fn is_wait(&self) -> bool {
        matches!(self, Self::NoCredit { .. } | Self::NoCts { .. })
    }
}

/// A recorded event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Time of its begin.
    pub begin: Nanos,
    /// Time of its end; equal to `begin` for an event that takes no time.
    pub end: Nanos,
    /// Kind of the event.
    pub step: Step,
}

/// The ring of the newest records.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    ring: Deque<Record, CAPACITY>,
    /// Times since which the application fills or reads blocks in place.
    pub(crate) filling: Option<Nanos>,
    pub(crate) reading: Option<Nanos>,
}

impl Recorder {
    /// An empty ring.
    #[must_use]
    pub const fn new() -> Self {
        Self { ring: Deque::new(), filling: None, reading: None }
    }

    /// Takes the oldest record out.
    pub fn take(&mut self) -> Option<Record> {
        self.ring.pop_front()
    }

    pub(crate) fn push(&mut self, record: Record) {
        if let Some(last) = self.ring.back_mut()
            && last.step == record.step
            && record.step.is_wait()
        {
            last.end = record.end;
            return;
        }
        if self.ring.is_full() {
            self.ring.pop_front();
        }
        let kept = self.ring.push_back(record);
        debug_assert!(kept.is_ok(), "there is room");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64, step: Step) -> Record {
        Record { begin: Nanos(nanos), end: Nanos(nanos), step }
    }

    #[test]
    fn the_newest_are_kept_in_order() {
        let mut recorder = Recorder::new();
        let step = |sequence| Step::Complete { sequence };
        for nanos in 0..CAPACITY as u64 + 3 {
            recorder.push(at(nanos, step(nanos)));
        }
        for nanos in 3..CAPACITY as u64 + 3 {
            assert_eq!(recorder.take(), Some(at(nanos, step(nanos))));
        }
        assert_eq!(recorder.take(), None);
    }

    #[test]
    fn a_wait_is_one_record_until_something_else_happens() {
        let mut recorder = Recorder::new();
        let (wait, other) = (Step::NoCredit { sequence: 7 }, Step::AckIn { blocks: 1 });
        for (nanos, step) in [(1, wait), (2, wait), (5, wait), (6, other), (7, other), (8, wait)] {
            recorder.push(at(nanos, step));
        }
        let first = Record { end: Nanos(5), ..at(1, wait) };
        let all: [_; 4] = core::array::from_fn(|_| recorder.take());
        assert_eq!(all, [first, at(6, other), at(7, other), at(8, wait)].map(Some));
    }
}
