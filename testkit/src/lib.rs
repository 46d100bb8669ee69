//! In-memory fabrics for superpipe's own tests, in safe code, where one u64 seed decides all.
//!
//! [`Direct`] is direct store: each end writes the other's memory. [`Posted`] is what verbs will be: an image that is
//! written first, then posted; bytes that become visible late, in pieces, and in any order between writes;
//! completions that come late; a short send queue. Both watch what core does and stop at the first wrong step:
//! memory that is not core's to write, blocks that were not consumed, offsets that are out of range.
//!
//! [`Pair`] drives two endpoints over either against a plain oracle; [`wire`] encodes the wire format a second time,
//! by hand, to play a peer that lies.

mod bells;
mod crc;
mod direct;
mod memory;
pub mod pair;
mod posted;
mod rng;
mod watch;
pub mod wire;

pub use bells::Bells;
pub use crc::crc32c;
pub use direct::Direct;
pub use memory::{Memories, Memory, Place};
pub use pair::Pair;
pub use posted::{Image, Posted};
pub use rng::Rng;
pub use watch::Watch;

use superpipe_core::recorder::Recorder;
use superpipe_core::{Attachment, Fabric, Landing, Layout, Line};

/// One end's connection: which end it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side(pub usize);

/// What each end's events are recorded in, if they are.
pub type Recorders = [Option<Box<Recorder>>; 2];

/// How a fabric is made.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The landing buffers of the two ends.
    pub layouts: [Layout; 2],
    /// Bytes of one write become visible in ascending order.
    pub order_inside_write: bool,
    /// Work requests that an end's send queue holds.
    pub send_queue: usize,
    /// Receives that each end keeps posted for notifications, where writes are posted.
    pub notices: u16,
    /// Decides what becomes visible when.
    pub seed: u64,
}

impl Setup {
    /// The same layout at both ends, order inside a write, a send queue of 2, and 6 receives.
    #[must_use]
    pub const fn new(layout: Layout, seed: u64) -> Self {
        Self { layouts: [layout; 2], order_inside_write: true, send_queue: 2, notices: 6, seed }
    }
}

/// A fabric that a [`Pair`] can play on.
pub trait Stage: Fabric<Link = Side, Region = Memory> + Sized {
    /// What the end's endpoint is made with.
    fn attachment(&self, side: usize) -> Attachment<Self> {
        Attachment {
            link: Side(side),
            seat: Memory::seat(side),
            peer_seat: self.remote(Memory::seat(1 - side)),
            landing: Landing { memory: Memory::landing(side), layout: self.setup().layouts[side] },
            peer_landing: Landing {
                memory: self.remote(Memory::landing(1 - side)),
                layout: self.setup().layouts[1 - side],
            },
        }
    }
    /// The peer's memory as this end writes it.
    fn remote(&self, memory: Memory) -> Self::Remote;
    /// What it was made with.
    fn setup(&self) -> &Setup;
    /// Both ends have produced and consumed so many blocks when they begin.
    fn start(&mut self, blocks: u64);
    /// Nothing is on the way and no completion waits.
    fn is_quiescent(&self) -> bool;
    /// What is visible of the end's own memory, read in place, as writev would.
    fn visible(&self, memory: Memory, at: u32, bytes: u32) -> &[u8];
    /// Writes into reserved payload, as readv would.
    fn fill(&mut self, remote: Self::Remote, at: u32, bytes: &[u8]);
}

/// A fabric that a test can look into.
pub trait Rig: Stage {
    /// A name for messages.
    const NAME: &'static str;

    /// New memory, all zero.
    fn new(setup: &Setup) -> Self;
    /// Something becomes visible, or completes, or neither.
    fn step(&mut self);
    /// To record from now on, put recorders in.
    fn recorders(&mut self) -> &mut Recorders;
    /// What is visible.
    fn memories(&self) -> &Memories;
    /// Counts the writes of this end, and those that it has not rung for.
    fn bells(&self, side: usize) -> Bells;
    /// Writes a line behind everyone's back, visible at once: what a hostile peer can do.
    fn forge(&mut self, memory: Memory, at: u32, line: &Line);
}
