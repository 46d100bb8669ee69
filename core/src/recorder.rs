//! The flight recorder: the last events of an endpoint in a ring of fixed capacity. Without the feature `recorder` it
//! has no size and its calls are empty.

use crate::fabric::Nanos;

/// Events that are kept.
pub const CAPACITY: usize = 4096;

/// What happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Step {
    /// Payload is about to be copied into blocks: sequence, bytes.
    #[default]
    CopyIn,
    /// A chunk was posted, or published by direct store: sequence, bytes.
    Post,
    /// A chunk's write was completed: sequence, 0.
    Complete,
    /// What has arrived is about to be copied out: sequence before it, 0.
    Arrive,
    /// Payload was copied out of blocks: newest sequence consumed, bytes.
    CopyOut,
    /// A control message went out: kind, 0.
    ControlOut,
    /// A control message came in: kind, 0.
    ControlIn,
    /// An acknowledgement was written: blocks, 0.
    Ack,
    /// No free block: newest sequence sent, bytes wanted.
    NoCredit,
}

/// One event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// When, by the fabric's clock.
    pub at: Nanos,
    /// What.
    pub step: Step,
    /// Two numbers whose meaning the step gives.
    pub values: [u64; 2],
}

#[cfg(feature = "recorder")]
mod kept {
    use super::{CAPACITY, Record, Step};
    use crate::fabric::Fabric;

    /// The ring of the newest records.
    #[derive(Debug, Default)]
    pub struct Recorder {
        ring: heapless::Deque<Record, CAPACITY>,
        on: bool,
    }

    impl Recorder {
        pub(crate) const fn new() -> Self {
            Self { ring: heapless::Deque::new(), on: false }
        }

        /// Starts or stops recording.
        pub const fn set(&mut self, on: bool) {
            self.on = on;
        }

        /// Takes the oldest record out.
        pub fn take(&mut self) -> Option<Record> {
            self.ring.pop_front()
        }

        #[inline]
        pub(crate) fn record<F: Fabric>(&mut self, fabric: &mut F, step: Step, values: [u64; 2]) {
            if self.on {
                if self.ring.is_full() {
                    self.ring.pop_front();
                }
                let kept = self.ring.push_back(Record { at: fabric.now(), step, values });
                debug_assert!(kept.is_ok(), "there is room");
            }
        }
    }
}

#[cfg(not(feature = "recorder"))]
mod kept {
    use super::{Record, Step};
    use crate::fabric::Fabric;

    /// Nothing: the feature `recorder` is not compiled in.
    #[derive(Debug, Default)]
    pub struct Recorder;

    impl Recorder {
        pub(crate) const fn new() -> Self {
            Self
        }

        /// Does nothing.
        pub const fn set(&mut self, on: bool) {
            let _ = on;
        }

        /// There is none.
        pub const fn take(&mut self) -> Option<Record> {
            None
        }

        #[inline]
        #[expect(clippy::unused_self, reason = "the same shape as the one that records")]
        pub(crate) const fn record<F: Fabric>(&mut self, _: &mut F, _: Step, _: [u64; 2]) {}
    }
}

pub use kept::Recorder;
