//! In-memory fabrics, and what a [`Pair`](crate::Pair) and tests need of them.

mod buffers;
mod direct;
mod exposed;
mod jobs;
mod log;
mod memory;
mod ownership;
mod posted;

pub use direct::{Direct, Hints};
pub use exposed::ExposedMemories;
pub use jobs::GrowthSetup;
pub use log::{LogEntry, Logged};
pub use memory::{BASE, Memories, Memory, Place, Span};
pub use ownership::BlockOwnership;
pub use posted::{Image, Posted};

use superpipe_core::recorder::Recorder;
use superpipe_core::{Attachment, Fabric, GrowthTerms, Landing, Layout, Line};

/// Link of one end, which is the end's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndLink(pub usize);

/// Recorders of both ends, if they record.
pub type Recorders = [Option<Box<Recorder>>; 2];

/// Parameters of a fabric.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Landing buffers of the two ends.
    pub layouts: [Layout; 2],
    /// Bytes of one write become visible in ascending order.
    pub order_inside_write: bool,
    /// Work requests that an end's send queue holds.
    pub send_queue: usize,
    /// Receives that each end keeps posted for notifications of posted writes.
    pub notifications_max: u16,
    /// Seed that decides what becomes visible when.
    pub seed: u64,
    /// Growth of the landing buffers, of which `layouts` are the base. `None`: they stay as they are.
    pub growth: Option<GrowthSetup>,
}

impl Setup {
    /// Returns a setup with this layout at both ends, order inside a write, a send queue of 2, and 6 receives.
    #[must_use]
    pub const fn new(layout: Layout, seed: u64) -> Self {
        Self {
            layouts: [layout; 2],
            order_inside_write: true,
            send_queue: 2,
            notifications_max: 6,
            seed,
            growth: None,
        }
    }
}

/// Makes the ownership of an end's first landing buffer, and of its base if that is another one.
#[must_use]
pub fn ownership(first: Layout, setup: &Setup) -> BlockOwnership {
    let mut ownership = BlockOwnership::new(first);
    if let Some(base) = setup.growth.and_then(|growth| growth.base) {
        ownership.provision(BASE, base);
    }
    ownership
}

/// A fabric on which a [`Pair`](crate::Pair) can run.
pub trait PairFabric: Fabric<Link = EndLink, Region = Memory> + Sized {
    /// Returns the attachment of an end's endpoint.
    fn attachment(&self, side: usize) -> Attachment<Self> {
        Attachment {
            link: EndLink(side),
            control_page: Memory::control_page(side),
            peer_control_page: self.remote(Memory::control_page(1 - side)),
            landing: Landing { memory: Memory::landing(side), layout: self.setup().layouts[side] },
            peer_landing: self.peer_landing(side),
            growth: self.setup().growth.map(|growth| {
                let [base, peer_base] = match growth.base {
                    Some(layout) => [side, 1 - side].map(|owner| (Memory::base(owner), layout)),
                    None => {
                        [side, 1 - side].map(|owner| (Memory::landing(owner), self.setup().layouts[owner]))
                    }
                };
                GrowthTerms {
                    base: Landing { memory: base.0, layout: base.1 },
                    peer_base: Landing { memory: self.remote(peer_base.0), layout: peer_base.1 },
                    largest: growth.largest,
                    slab_bytes: growth.slab_bytes,
                    delay: growth.delay,
                    first_is_own: growth.base.is_some(),
                }
            }),
        }
    }
    /// Returns the peer's first landing buffer, as this end writes it.
    fn peer_landing(&self, side: usize) -> Landing<Self::Remote> {
        Landing { memory: self.remote(Memory::landing(1 - side)), layout: self.setup().layouts[1 - side] }
    }
    /// Returns the peer's memory as this end writes it.
    fn remote(&self, memory: Memory) -> Self::Remote;
    /// Returns the parameters of the fabric.
    fn setup(&self) -> &Setup;
    /// Starts at a count of `blocks` blocks produced and consumed by both ends.
    fn start(&mut self, blocks: u64);
    /// Returns true if nothing is on its way and no completion waits.
    fn is_quiescent(&self) -> bool;
    /// Returns visible bytes of the end's own memory, read in place as writev would.
    fn visible(&self, memory: Memory, at: u32, bytes: u32) -> &[u8];
    /// Writes into reserved payload, as readv would.
    fn fill(&mut self, remote: Self::Remote, at: u32, bytes: &[u8]);
}

/// A fabric that a test can inspect.
pub trait TestFabric: PairFabric {
    /// Name for messages.
    const NAME: &'static str;

    /// Makes a fabric whose memory is all zero.
    fn new(setup: &Setup) -> Self;
    /// Lets something become visible or complete, or nothing.
    fn step(&mut self);
    /// Returns the recorders. To record, put recorders in.
    fn recorders(&mut self) -> &mut Recorders;
    /// Returns the visible bytes.
    fn memories(&self) -> &Memories;
    /// Returns the bytes of all landing buffers and images that jobs have provisioned and not released.
    fn grown_bytes(&self) -> u64;
    /// Begins to keep a log.
    fn begin_log(&mut self);
    /// Returns the log.
    fn log(&self) -> &[LogEntry];
    /// Returns the counts of this end's writes.
    fn write_counts(&self, side: usize) -> WriteCounts;
    /// Writes a line that is visible at once, as a hostile peer can.
    fn forge(&mut self, memory: Memory, at: u32, line: &Line);
}

/// Counts of an end's writes for which its peer may sleep: lines and flags by direct store, or posted writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteCounts {
    /// All writes.
    pub writes: u64,
    /// Writes since the last doorbell. A peer that sleeps does not notice them.
    pub unrung: u64,
}

impl WriteCounts {
    pub(crate) const fn write(&mut self) {
        self.writes += 1;
        self.unrung += 1;
    }

    pub(crate) const fn ring(&mut self) {
        self.unrung = 0;
    }
}
