//! The flight recorder: the newest events of an endpoint, in a ring of fixed capacity.
//!
//! Core owns no ring. The fabric lends one ([`Fabric::recorder`](crate::Fabric::recorder)) while somebody records.
//!
//! Times are the fabric's clock. A copy is recorded when it is over, a wait again and again as one record that grows, so
//! that a sender without credit does not push everything else out of the ring.

use heapless::Deque;

pub use crate::control::Kind as ControlKind;
use crate::error::Failure;
use crate::header::Length;
use crate::nanos::Nanos;

/// Records that are kept: the newest.
pub const CAPACITY: usize = 4096;

/// What happened. Blocks are counted over the connection, from its first; a chunk is named by its sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The first chunk of a transfer is about to be sent.
    SendBegin {
        /// Its number.
        transfer: u64,
        /// How long it is.
        length: Length,
    },
    /// The last chunk of a transfer was sent.
    SendEnd {
        /// Its number.
        transfer: u64,
    },
    /// The application has seen that a transfer is at the head.
    ReceiveBegin {
        /// Its number.
        transfer: u64,
        /// How long it is.
        length: Length,
    },
    /// The last of a transfer was taken out, or it ended before its end.
    ReceiveEnd {
        /// Its number.
        transfer: u64,
    },
    /// Payload was put into blocks: copied there, or read there from a file. Takes time.
    CopyIn {
        /// Of the chunk.
        sequence: u64,
        /// The first block.
        block: u64,
        /// Payload in it, and in the next ones if that is more than fits.
        bytes: u32,
    },
    /// Payload was taken out of blocks: copied, or written to a file. Takes time.
    CopyOut {
        /// Of the chunk.
        sequence: u64,
        /// The first block.
        block: u64,
        /// Payload of it, and of the next ones if that is more than fits.
        bytes: u32,
    },
    /// A chunk's write was posted.
    Post {
        /// Of the chunk.
        sequence: u64,
        /// That are written, flags included.
        bytes: u32,
    },
    /// A chunk's write was completed.
    Complete {
        /// Of the chunk.
        sequence: u64,
    },
    /// A message left in a line.
    LineOut {
        /// Of the line.
        sequence: u64,
        /// Its payload.
        bytes: usize,
    },
    /// A message that came in a line was taken out.
    LineIn {
        /// Of the line.
        sequence: u64,
        /// Its payload.
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
        /// Of what was sent last.
        sequence: u64,
    },
    /// The sender had to wait for a CTS, from the first attempt to the last. Takes time.
    NoCts {
        /// Of what was sent last.
        sequence: u64,
    },
    /// The connection failed.
    Failed(Failure),
}

impl Step {
    /// Whether it is recorded once for all attempts in a row.
    const fn is_wait(&self) -> bool {
        matches!(self, Self::NoCredit { .. } | Self::NoCts { .. })
    }
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it began.
    pub begin: Nanos,
    /// When it was over; the same for what takes no time.
    pub end: Nanos,
    /// What it was.
    pub step: Step,
}

/// The ring of the newest records.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    ring: Deque<Record, CAPACITY>,
    /// Since when blocks are being filled, or read, in place by the application.
    pub(crate) filling: Option<Nanos>,
    pub(crate) reading: Option<Nanos>,
}

impl Recorder {
    /// An empty one.
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
