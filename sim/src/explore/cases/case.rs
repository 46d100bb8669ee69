//! Cases to explore: two ends, a small fabric, and the calls of each end.

use superpipe_core::{Arrival, Config, FirstChunk, FlagPlace, GrowthDelay, Layout, Origin, Protocol};

/// Bytes of every block, which is the least.
pub(in crate::explore) const BLOCK_BYTES: u32 = 128;

/// Call that sends a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMethod {
    /// `try_send`.
    TrySend,
    /// An operation with two slices.
    Drive,
    /// Pushes of at most this many bytes.
    Push(usize),
    /// Reservations of at most this many bytes.
    Reserve(u32),
    /// An operation with two slices, out of memory that is exposed, if there is any.
    Exposed,
    /// The same with so many empty slices in between that one call does not get to the last one.
    ExposedInParts,
}

/// Call that receives a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveMethod {
    /// An operation with one slice for 0, otherwise with two, of which the first has this many bytes. Streams use `pull`.
    Drive(usize),
    /// `pull` of at most this many bytes.
    Pull(usize),
    /// Reads in place of at most this many bytes.
    InPlace(u32),
    /// `try_recv` if it takes the message, otherwise an operation.
    Whole,
    /// Reads in place of at most this many bytes into memory that is offered until the message comes.
    Trusted(u32),
}

/// One transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Payload bytes.
    pub bytes: usize,
    /// The length is unknown.
    pub stream: bool,
    /// Protocol.
    pub protocol: Protocol,
    /// Sending call.
    pub send_method: SendMethod,
    /// Its sender may cancel it at any step.
    pub cancel: bool,
    /// Its receiver may reject it at any step.
    pub reject: bool,
}

/// Order in which acknowledgements become visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckOrder {
    /// Order of posting.
    InOrder,
    /// Any order.
    Overtaken,
}

/// Growth of the landing buffers of both ends. The ring of the case is the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growing {
    /// Blocks of the largest landing buffer, and bytes of each.
    pub largest: (u32, u32),
    /// Bytes of the smallest landing buffer that grows.
    pub slab_bytes: u32,
    /// [`GrowthTerms::delay`](superpipe_core::GrowthTerms::delay)
    pub delay: GrowthDelay,
    /// Each end begins with a landing buffer of this many blocks beside the base, which is released once it was left.
    pub first: Option<u32>,
    /// Jobs of an end under way at a time. Further ones find the fabric busy.
    pub jobs_max: usize,
    /// Jobs of each end that may fail.
    pub failures_max: [u32; 2],
    /// Times that each end may wish to shrink its landing buffer.
    pub shrinks_max: [u32; 2],
    /// The fabric may report the end of a job once more.
    pub repeats: bool,
}

/// Memory that ends expose, a buffer of their own each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exposing {
    /// Times that each end may expose a buffer.
    pub exposes_max: [u32; 2],
    /// Times that each end may withdraw the buffer that is exposed.
    pub withdraws_max: [u32; 2],
    /// Jobs of an end under way at a time.
    pub jobs_max: usize,
    /// Jobs of each end that may fail.
    pub failures_max: [u32; 2],
    /// The fabric may report the end of a job once more.
    pub repeats: bool,
}

/// Memory that ends lend for the messages that they send and receive by operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lending {
    /// Memory that is sent from, and memory that is received into, is registered already and stays so.
    pub is_kept: [bool; 2],
    /// Most bytes of a remote write; 0: no limit.
    pub write_bytes: u32,
    /// Jobs of an end under way at a time.
    pub jobs_max: usize,
    /// Registrations of each end that may fail.
    pub failures_max: [u32; 2],
    /// Times that a deadline of a receive of each end may pass.
    pub give_ups_max: [u32; 2],
    /// Ends that may die at any step.
    pub deaths: [bool; 2],
    /// The fabric may report the end of a job once more.
    pub repeats: bool,
    /// Work requests that are flushed complete with an error; otherwise without, as those of the shipped fabric.
    pub flush_fails: bool,
}

/// Memory of ends that their peers may write, a buffer of their own each time. The ends expose memory as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offering {
    /// Times that each end may expose a buffer for writing.
    pub exposes_max: [u32; 2],
    /// Times that each end may withdraw the buffer that is exposed.
    pub withdraws_max: [u32; 2],
    /// Times that each end may offer it, besides the offers of [`ReceiveMethod::Trusted`].
    pub offers_max: [u32; 2],
    /// Offset of offers.
    pub offset: u32,
    /// Each end begins with the first buffer of either kind that it may expose, mapped by its peer.
    pub is_prepared: bool,
}

/// Time at which an end closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClosePolicy {
    /// Never. The case is over once everything was exchanged and acknowledged.
    Never,
    /// Once everything was exchanged.
    WhenDone,
    /// At any step after it has sent everything.
    WhenSent,
    /// At any step with a reason that ends everything, otherwise as `WhenDone`.
    Abort,
}

/// A case.
#[derive(Clone, Debug)]
pub struct Case {
    /// Name of the case.
    pub name: &'static str,
    /// Direct store instead of posted writes.
    pub direct: bool,
    /// Arrival mode.
    pub arrival: Arrival,
    /// The bytes of one write become visible in ascending order, as plain flags require.
    pub ordered: bool,
    /// Position of the slot lines.
    pub flags: FlagPlace,
    /// Blocks of each ring, which has two folds.
    pub blocks: u32,
    /// C0 in bytes.
    pub c0_bytes: u32,
    /// When the first chunk of a longer message is copied and sent.
    pub first_chunk: FirstChunk,
    /// WRs that a send queue holds.
    pub send_queue: usize,
    /// Receives that each end keeps posted for notifications.
    pub notifications_max: u16,
    /// Writes become visible at once, and their WRs complete.
    pub at_once: bool,
    /// A round of an end that never closes goes on until nothing is left to do, acknowledgements included.
    pub settles: bool,
    /// Splits writes before each flag, and acknowledgements between their counts; otherwise only between blocks.
    pub split: bool,
    /// Writes of an end that may complete before they are visible.
    pub late_max: usize,
    /// The device reads an image when it becomes visible or completes, instead of when it is posted.
    pub reads_late: bool,
    /// Order of acknowledgements.
    pub acks: AckOrder,
    /// The ends may send keepalives while nothing is on its way. Only cases with overtaken acknowledgements may need one to end.
    pub keepalives: bool,
    /// The ends may check the time at any step, which reads the peer's acknowledgements.
    pub checks_time: bool,
    /// Windows, in blocks, that end 0 may choose at any step; without any it never does.
    pub windows: &'static [u32],
    /// Growth of the landing buffers.
    pub growing: Option<Growing>,
    /// Memory that the ends expose.
    pub exposing: Option<Exposing>,
    /// Memory that the ends lend.
    pub lending: Option<Lending>,
    /// Memory that the ends expose for writing.
    pub offering: Option<Offering>,
    /// First values of the counters.
    pub origin: Origin,
    /// Close policy of each end.
    pub close_policy: [ClosePolicy; 2],
    /// Receiving call of each end.
    pub receive_method: [ReceiveMethod; 2],
    /// Transfers of each end.
    pub transfers: [Vec<Transfer>; 2],
}

impl Case {
    pub(in crate::explore) const fn layout(&self) -> Layout {
        Layout { block_bytes: BLOCK_BYTES, block_count: self.blocks, flags: self.flags }
    }

    /// Returns the layout of the first landing buffer of both ends: the base, or a larger one.
    pub(in crate::explore) fn first_layout(&self) -> Layout {
        let block_count = self.growing.and_then(|growing| growing.first).unwrap_or(self.blocks);
        Layout { block_count, ..self.layout() }
    }

    /// Returns true if the first landing buffers are not the base.
    pub(in crate::explore) fn has_own_first(&self) -> bool {
        self.growing.is_some_and(|growing| growing.first.is_some())
    }

    /// Returns the policy of both ends: two folds, a first chunk of C0 and then a fold.
    pub(in crate::explore) fn config(&self) -> Config {
        let Self { arrival, c0_bytes, first_chunk, .. } = *self;
        let exposes = self.exposing.is_some();
        let protocol = if exposes { Protocol::RegisterCached } else { Protocol::default() };
        Config {
            protocol,
            arrival,
            c0_bytes,
            first_chunk,
            one_copy_bytes: c0_bytes + 1,
            chunk_bytes: self.lending.map_or(0, |lending| lending.write_bytes),
            growth_q8: 1024,
            folds: 2,
            order_asserted: true,
            ..Config::default()
        }
    }
}
