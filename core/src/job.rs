//! Jobs of a fabric beside the data path: provisioning, registration and release of memory. They take long, so core begins them, and the
//! fabric reports their end.

use crate::wire::grant::{PeerAccess, RemoteClaim};
use crate::wire::layout::Layout;

/// Names a job until it is finished. The number of its place in the table, and how often that place was used: a ticket of a job that
/// has finished names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    pub(crate) index: u8,
    pub(crate) generation: u32,
}

impl Ticket {
    /// Makes a ticket, for tests of a fabric. Core makes those of its jobs itself.
    #[must_use]
    pub const fn new(index: u8, generation: u32) -> Self {
        Self { index, generation }
    }
}

/// Memory of the application that it has lent for an operation, as the fabric names it: core only passes it on. It stays valid until the
/// operation is over and [released](crate::Driver::is_send_released). Memory to be [exposed](crate::Endpoint::expose) stays valid until its
/// job has begun, and the fabric keeps what it needs of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Buffer(pub u64);

/// Memory of the application that is registered, as the fabric names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Registration(pub u64);

/// Memory of this end that [`Endpoint::expose`](crate::Endpoint::expose) has exposed, until it is withdrawn. A stale handle names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Exposed {
    pub(crate) place: u8,
    pub(crate) generation: u32,
}

/// Memory that a message is written from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SendMemory {
    /// Memory that core lets register, and deregister.
    Lent(Buffer),
    /// The same, and the fabric keeps the registration for later messages out of this memory when core lets it go. It makes no difference but to a planner.
    Keepable {
        /// The memory.
        buffer: Buffer,
        /// The fabric remembers an earlier message out of it.
        is_again: bool,
    },
    /// Memory that is registered, and stays so.
    Registered(Registration),
    /// Memory that the peer maps, from this offset on. A message goes through the ring where it cannot use it. Its operation does not wait
    /// until the peer has copied: see [`is_shared`](crate::Endpoint::is_shared).
    Exposed(Exposed, u32),
}

/// Memory that a message is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecvMemory {
    /// Memory that core lets register, and deregister.
    Lent(Buffer),
    /// Memory that is registered, stays so, and may be written by the peer.
    Registered(RemoteClaim),
}

/// The fabric can begin no job now. Try again after another has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// A job. The places of an end are numbered: two landing buffers of its own, and two images of the peer's, can live at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Job<Region, Remote> {
    /// Make a landing buffer of this end: map it, make it resident and zero, and let the peer write it. The outcome is
    /// [`JobOutcome::Landing`].
    ProvisionLanding {
        /// 0 or 1.
        place: u8,
        /// Layout of the landing buffer.
        layout: Layout,
    },
    /// Make what this end writes to reach a landing buffer of the peer: its image, or the mapping. The outcome is [`JobOutcome::Image`].
    ProvisionImage {
        /// 0 or 1.
        place: u8,
        /// Layout of the landing buffer.
        layout: Layout,
        /// The peer's claim, with direct store; the fabric checks it. An image of posted writes may be made before the peer grants anything,
        /// and [`bind_image`](crate::Fabric::bind_image) tells the claim.
        claim: Option<RemoteClaim>,
    },
    /// Take a landing buffer away from the peer, and free it. It is not used again.
    ReleaseLanding(Region),
    /// Free an image. No write out of it is under way, and it is not used again.
    ReleaseImage(Remote),
    /// Register the first `bytes` bytes of memory that the device is to read. The outcome is [`JobOutcome::Registered`].
    RegisterSource {
        /// The memory.
        buffer: Buffer,
        /// Bytes of the message.
        bytes: u64,
    },
    /// Register the first `bytes` bytes of memory that the peer is to write. The outcome is [`JobOutcome::Registered`].
    RegisterDestination {
        /// The memory.
        buffer: Buffer,
        /// Bytes of the message.
        bytes: u64,
    },
    /// Deregister memory that was registered by a job. No write from it or to it is under way, unless the link has ended. A fabric must not
    /// report that this failed: memory that the device may still use cannot be given back.
    Deregister(Registration),
    /// Let the peer map memory of the application: hand it over, with its place. The outcome is [`JobOutcome::Exposed`], by which time the peer's
    /// fabric finds the memory when it is to map it. At most one such job is under way.
    Expose {
        /// Less than [`EXPOSED_MAX`](crate::EXPOSED_MAX). The peer does not map other memory in this place.
        place: u8,
        /// The memory.
        buffer: Buffer,
        /// What the peer may do with the memory.
        access: PeerAccess,
    },
    /// Map memory that the peer has exposed. The fabric checks that it is what the peer says, and that no access to it can fail later; of
    /// memory that this end writes, only while neither end removes pages (wire.md 6.4). Memory comes in the order in which the peer has
    /// exposed it. At most one such job is under way, or one that unmaps. The outcome is [`JobOutcome::Mapped`], or
    /// [`JobOutcome::MappedWritable`] for memory that this end writes.
    Map {
        /// Place that the peer has named.
        place: u8,
        /// Bytes that the peer has named; more than 0.
        bytes: u32,
        /// What this end does with the memory.
        access: PeerAccess,
    },
    /// Unmap memory of the peer. It is not used again.
    Unmap(Region),
    /// Unmap memory of the peer that this end could write. It is not used again.
    UnmapWritable(Remote),
    /// End the link: from then on the device neither reads nor writes memory of the application, and work requests fail.
    EndLink,
}

/// Kind of a job, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobKind {
    /// [`Job::ProvisionLanding`].
    ProvisionLanding,
    /// [`Job::ProvisionImage`].
    ProvisionImage,
    /// [`Job::ReleaseLanding`].
    ReleaseLanding,
    /// [`Job::ReleaseImage`].
    ReleaseImage,
    /// [`Job::RegisterSource`].
    RegisterSource,
    /// [`Job::RegisterDestination`].
    RegisterDestination,
    /// [`Job::Deregister`].
    Deregister,
    /// [`Job::Expose`].
    Expose,
    /// [`Job::Map`].
    Map,
    /// [`Job::Unmap`] and [`Job::UnmapWritable`].
    Unmap,
    /// [`Job::EndLink`].
    EndLink,
}

impl JobKind {
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

impl<Region, Remote> Job<Region, Remote> {
    /// Returns the kind of the job.
    pub(crate) const fn kind(&self) -> JobKind {
        match self {
            Self::ProvisionLanding { .. } => JobKind::ProvisionLanding,
            Self::ProvisionImage { .. } => JobKind::ProvisionImage,
            Self::ReleaseLanding(_) => JobKind::ReleaseLanding,
            Self::ReleaseImage(_) => JobKind::ReleaseImage,
            Self::RegisterSource { .. } => JobKind::RegisterSource,
            Self::RegisterDestination { .. } => JobKind::RegisterDestination,
            Self::Deregister(_) => JobKind::Deregister,
            Self::Expose { .. } => JobKind::Expose,
            Self::Map { .. } => JobKind::Map,
            Self::Unmap(_) | Self::UnmapWritable(_) => JobKind::Unmap,
            Self::EndLink => JobKind::EndLink,
        }
    }

    /// Returns the bytes that the job provisions, registers or maps.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::ProvisionLanding { layout, .. } | Self::ProvisionImage { layout, .. } => {
                layout.bytes().into()
            }
            Self::RegisterSource { bytes, .. } | Self::RegisterDestination { bytes, .. } => *bytes,
            Self::Map { bytes, .. } => (*bytes).into(),
            Self::ReleaseLanding(_)
            | Self::ReleaseImage(_)
            | Self::Deregister(_)
            | Self::Expose { .. }
            | Self::Unmap(_)
            | Self::UnmapWritable(_)
            | Self::EndLink => 0,
        }
    }
}

/// What a finished job made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobOutcome<Region, Remote> {
    /// A landing buffer of this end, and the claim that the peer gets.
    Landing(Region, RemoteClaim),
    /// The way to a landing buffer of the peer.
    Image(Remote),
    /// Registered memory. The claim is for a destination.
    Registered(Registration, RemoteClaim),
    /// Memory of the application was handed to the peer. The bytes are more than 0.
    Exposed {
        /// Bytes of the memory.
        bytes: u32,
        /// The memory as core copies out of it what the peer has written. For [`PeerAccess::Write`] only: without it the memory counts as
        /// refused. It stays valid until its [state](crate::Endpoint::exposed_state) is [`Gone`](crate::ExposedState::Gone), and it [is not
        /// offered](crate::Endpoint::is_offered).
        memory: Option<Region>,
    },
    /// Memory of the peer is mapped, for reading.
    Mapped(Region),
    /// Memory of the peer is mapped, for writing.
    MappedWritable(Remote),
    /// The memory was released, deregistered or unmapped, or the link has ended.
    Released,
}

/// A job that failed. Nothing of it is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobFailed {
    /// The budget has no room.
    OverBudget {
        /// Bytes of a landing buffer for which there is room.
        bytes_max: u32,
    },
    /// The claim names memory that the peer cannot have, or the peer has exposed other memory than it says.
    WrongClaim,
    /// The machine or the device refused.
    Refused,
}

/// End of a job.
pub type JobResult<Region, Remote> = Result<JobOutcome<Region, Remote>, JobFailed>;

/// A finished job, with its ticket.
pub type Finished<Region, Remote> = (Ticket, JobResult<Region, Remote>);
