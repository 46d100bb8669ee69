//! Cases to explore: two ends, a small fabric, and the calls of each end.

use superpipe_core::{Arrival, Config, FlagPlace, Layout, Origin, Protocol};

/// Bytes of every block: the fewest that there can be.
const BLOCK_BYTES: u32 = 128;

/// Call that hands a transfer to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// At once.
    TrySend,
    /// An operation, from two slices.
    Drive,
    /// In pushes of at most so many bytes.
    Push(usize),
    /// Written in place, at most so many bytes at a time.
    Reserve(u32),
}

/// Call that takes a transfer out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// An operation, into one slice for 0, otherwise into two, of which the first has this many bytes; a stream by `pull`.
    Drive(usize),
    /// By `pull`, so many bytes at most.
    Pull(usize),
    /// Read in place, so many bytes at most.
    InPlace(u32),
    /// By `try_recv` where that takes it, as an operation elsewhere.
    Whole,
}

/// One transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Payload bytes.
    pub bytes: usize,
    /// Length unknown.
    pub stream: bool,
    /// By which protocol.
    pub protocol: Protocol,
    /// How it is sent.
    pub how: How,
    /// Its sender may give it up at any step.
    pub cancel: bool,
    /// Its receiver may refuse it at any step.
    pub reject: bool,
}

/// In which order the writes of acknowledgements become visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// As they were posted.
    InOrder,
    /// In any.
    Overtaken,
}

/// When an end closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// Never: everything is over once it was exchanged and acknowledged.
    Not,
    /// Once everything was exchanged.
    Done,
    /// As soon as it has nothing more to send, or at any step after that.
    Sent,
    /// At any step, with a reason that ends everything at once; otherwise as `Done`.
    Any,
}

/// A case.
#[derive(Clone, Debug)]
pub struct Case {
    /// What to call it.
    pub name: &'static str,
    /// Direct store instead of posted writes.
    pub direct: bool,
    /// How arrival is seen.
    pub arrival: Arrival,
    /// The bytes of one write become visible in ascending order. Plain flags need that.
    pub ordered: bool,
    /// Where the slot lines are.
    pub flags: FlagPlace,
    /// Blocks of each ring: two folds.
    pub blocks: u32,
    /// C0: what is sent before a CTS, and at once at the most.
    pub c0_bytes: u32,
    /// WRs that an end's send queue holds.
    pub send_queue: usize,
    /// Receives that each end keeps posted for notifications.
    pub notices: u16,
    /// Writes are torn before each flag, and acknowledgements between their counts; otherwise only between blocks.
    pub torn: bool,
    /// Writes of an end that may be completed and not wholly visible.
    pub late: usize,
    /// The device reads an image when it makes it visible or completes it, instead of when it is posted.
    pub reads_late: bool,
    /// Whether acknowledgements overtake each other.
    pub acks: Acks,
    /// While nothing is under way, the ends show life as often as they like. Only what was overtaken may need it.
    pub life: bool,
    /// The ends may look at what is not looked at each round, at any step.
    pub looks: bool,
    /// Where counting starts.
    pub origin: Origin,
    /// When each end closes.
    pub closing: [Closing; 2],
    /// How each end takes out.
    pub take: [Take; 2],
    /// What each end sends.
    pub transfers: [Vec<Transfer>; 2],
}

impl Case {
    pub(super) const fn layout(&self) -> Layout {
        Layout { block_bytes: BLOCK_BYTES, block_count: self.blocks, flags: self.flags }
    }

    /// The policy of both ends: two folds, chunks of C0 first and then a fold.
    pub(super) fn config(&self) -> Config {
        let Self { arrival, c0_bytes, .. } = *self;
        Config { arrival, c0_bytes, growth_q8: 1024, folds: 2, order_asserted: true, ..Config::default() }
    }
}
