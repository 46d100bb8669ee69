//! Memory that comes and goes: epochs of a landing buffer, the jobs that provision and release them, and the two halves of growth.
//! wire.md 2.5, 5.4.
//!
//! ```text
//! delay      what a sender waits for before it asks for its first larger epoch
//! requester  the sender's half of growth: asks for a larger epoch, moves over, retires the one before
//! image      the sender's next image, beside the owner's landing buffer or after its grant
//! provider   the owner's half: provisions what was asked for, grants it, releases what was retired
//! jobs       table of the jobs under way; a ticket names one, and a stale ticket is refused
//! sizes      sizes of landing buffers that grow
//! ```
//!
//! An **epoch** is one landing buffer, from the grant until its sender has retired it. The owner numbers the epochs of a direction. At most
//! two live at a time. Sequences and acknowledgements count over the connection, so an epoch changes neither.
//!
//! The **base** is the landing buffer that never goes: a few small blocks of the control page. A connection falls back on it when it
//! shrinks.

mod delay;
mod image;
mod jobs;
mod provider;
mod requester;
mod sizes;

pub use delay::GrowthDelay;
pub(crate) use delay::Wish;
pub(crate) use jobs::{JOBS_MAX, Jobs, Purpose};
pub(crate) use provider::{Provider, Retired, Tally};
pub(crate) use requester::{Demand, RETIRED_WR, Requester};

use core::hash::{Hash, Hasher};

use crate::fabric::Fabric;
use crate::job::{Busy, Job};
use crate::job_time;
use crate::state::GrowthState;
use crate::wire::layout::{Landing, Layout};

/// Terms of growth that both ends agreed on, with the base of both directions. The landing buffers of an
/// [`Attachment`](crate::Attachment) that has them can be the base or any other memory.
pub struct GrowthTerms<F: Fabric> {
    /// Base of this end.
    pub base: Landing<F::Region>,
    /// Base of the peer.
    pub peer_base: Landing<F::Remote>,
    /// Layout of the largest landing buffer.
    pub largest: Layout,
    /// Bytes of the blocks of the first landing buffer that a connection grows to. Sizes at least double from there.
    pub slab_bytes: u32,
    /// Delay of the first GROW of this end.
    pub delay: GrowthDelay,
    /// The landing buffers of the attachment are memory of their own, which is released once it was left. Otherwise they are the base.
    pub first_is_own: bool,
}

/// Growth of both directions at one end.
#[derive(Clone)]
pub(crate) struct Growth<F: Fabric> {
    pub(crate) requester: Requester<F>,
    pub(crate) provider: Provider<F>,
    pub(crate) jobs: Jobs,
}

impl<F: Fabric> Growth<F> {
    /// Makes the growth of an end whose first landing buffers are these.
    pub(crate) fn new(terms: &GrowthTerms<F>, first: Landing<F::Region>, peer_first: F::Remote) -> Self {
        Self {
            requester: Requester::new(terms, terms.first_is_own.then_some(peer_first)),
            provider: Provider::new(terms, terms.first_is_own.then_some(first)),
            jobs: Jobs::default(),
        }
    }

    /// Returns the state of both directions.
    pub(crate) fn state(&self) -> GrowthState {
        let (requesting, leaving) = self.requester.state();
        GrowthState { requesting, leaving, providing: self.provider.state() }
    }

    /// Returns true if nothing is under way in either direction.
    pub(crate) fn is_steady(&self) -> bool {
        self.requester.is_steady() && self.provider.is_steady() && self.jobs.is_empty()
    }
}

impl<F: Fabric> Hash for Growth<F> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let Self { requester, provider, jobs } = self;
        (requester, provider, jobs).hash(hasher);
    }
}

/// Begins a job under a new ticket.
fn begin<F: Fabric>(
    fabric: &mut F,
    link: &mut F::Link,
    jobs: &mut Jobs,
    purpose: Purpose,
    job: Job<F::Region, F::Remote>,
) -> Result<(), Busy> {
    let ticket = jobs.open(purpose).ok_or(Busy)?;
    let begun = job_time::begin(fabric, link, ticket, job);
    match begun {
        Ok(time) => jobs.note_begun(ticket, time),
        Err(Busy) => jobs.withdraw(ticket),
    }
    begun.map(|_| ())
}
