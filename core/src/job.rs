//! Jobs of a fabric beside the data path: provisioning and release of memory. They take long, so core begins them, and the fabric reports
//! their end.

use crate::wire::layout::Layout;

use crate::wire::grant::RemoteClaim;

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
    /// Make what this end writes to reach a landing buffer of the peer: its image, or the mapping. The fabric checks the claim. The
    /// outcome is [`JobOutcome::Image`].
    ProvisionImage {
        /// 0 or 1.
        place: u8,
        /// Layout of the landing buffer.
        layout: Layout,
        /// The peer's claim.
        claim: RemoteClaim,
    },
    /// Take a landing buffer away from the peer, and free it. It is not used again.
    ReleaseLanding(Region),
    /// Free an image. No write out of it is under way, and it is not used again.
    ReleaseImage(Remote),
}

/// What a finished job made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobOutcome<Region, Remote> {
    /// A landing buffer of this end, and the claim that the peer gets.
    Landing(Region, RemoteClaim),
    /// The way to a landing buffer of the peer.
    Image(Remote),
    /// The memory was released.
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
    /// The claim names memory that the peer cannot have.
    WrongClaim,
    /// The machine or the device refused.
    Refused,
}

/// End of a job.
pub type JobResult<Region, Remote> = Result<JobOutcome<Region, Remote>, JobFailed>;

/// A finished job, with its ticket.
pub type Finished<Region, Remote> = (Ticket, JobResult<Region, Remote>);
