//! Memory of the application that a message is written from, or to: its registration, from the job that makes it to the job that ends it.
//! wire.md 4.8.
//!
//! ```text
//!              registered               over
//! REGISTERING -----------> READY ----------------------> DEREGISTERING -----> GONE
//!    |  |                    | writes may be under way      ^                  ^
//!    |  |                    +-----------> ENDING-LINK -----+                  |
//!    |  +-- over: deregistered as soon as it is registered -+                  |
//!    +--------------------- refused -------------------------------------------+
//! ```
//!
//! Memory that was registered before begins at READY, and is GONE once no write of it can be under way.
//!
//! An end has at most one source and one destination at a time, since transfers of one direction follow each other, and a
//! buffer is deregistered before the next is registered. Jobs run beside the messages: registration while RTS and CTS
//! are under way, deregistration of a destination while the sender prepares its next message.

mod lease;

pub(crate) use lease::Lease;

use crate::fabric::Fabric;
use crate::job::{JobKind, JobResult, Ticket};
use crate::job_time::{Direction, JobTime};
use crate::memory::JOBS_MAX;
use crate::nanos::Nanos;
use crate::send::TransferId;

/// Tickets of the source's and the destination's job. Those before belong to landing buffers that grow.
const SOURCE: u8 = JOBS_MAX;
const DESTINATION: u8 = JOBS_MAX + 1;

/// Memory that a message is written from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Source {
    pub(crate) id: TransferId,
    pub(crate) lease: Lease,
    /// Writes out of it were posted.
    pub(crate) is_used: bool,
}

/// Memory that a message is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Destination {
    pub(crate) transfer: u64,
    pub(crate) bytes: u64,
    pub(crate) lease: Lease,
    /// The peer was told, and may write.
    pub(crate) is_granted: bool,
}

/// Registered memory of both directions at one end.
#[derive(Clone, Debug, Hash)]
pub(crate) struct ZeroCopy {
    /// The fabric can notify the end of remote writes.
    pub(crate) is_possible: bool,
    /// The peer is gone, and returns no credits.
    pub(crate) is_peer_gone: bool,
    pub(crate) source: Option<Source>,
    pub(crate) destination: Option<Destination>,
    /// Generations of the two tickets.
    generations: [u32; 2],
    /// Times of the two jobs.
    times: [JobTime; 2],
}

impl ZeroCopy {
    pub(crate) const fn new(is_possible: bool) -> Self {
        Self {
            is_possible,
            is_peer_gone: false,
            source: None,
            destination: None,
            generations: [0; 2],
            times: [JobTime::new(Nanos(0)); 2],
        }
    }

    /// Returns true while this end holds memory of the application.
    pub(crate) const fn is_active(&self) -> bool {
        self.source.is_some() || self.destination.is_some()
    }

    /// Returns true while a job is under way, which ends soon.
    pub(crate) fn awaits_job(&self) -> bool {
        self.source.is_some_and(|source| source.lease.has_begun())
            || self.destination.is_some_and(|destination| destination.lease.has_begun())
    }

    /// Begins the jobs that are due. Returns the number of those that were begun.
    pub(crate) fn begin_jobs<F: Fabric>(&mut self, fabric: &mut F, link: &mut F::Link) -> usize {
        let [of_source, of_destination] = self.generations;
        let [source_time, destination_time] = &mut self.times;
        let mut begun = 0;
        if let Some(source) = &mut self.source {
            let ticket = Ticket { index: SOURCE, generation: of_source };
            if let Some(time) = source.lease.begin_job(fabric, link, ticket) {
                (*source_time, begun) = (time, begun + 1);
            }
        }
        if let Some(destination) = &mut self.destination {
            let ticket = Ticket { index: DESTINATION, generation: of_destination };
            if let Some(time) = destination.lease.begin_job(fabric, link, ticket) {
                (*destination_time, begun) = (time, begun + 1);
            }
        }
        begun
    }

    /// Returns the times of the jobs under way: the source's, and the destination's.
    pub(crate) fn times(&mut self) -> [Option<(JobKind, &mut JobTime)>; 2] {
        let [source_time, destination_time] = &mut self.times;
        let source = self.source.as_ref().and_then(|source| source.lease.job());
        let destination = self.destination.as_ref().and_then(|destination| destination.lease.job());
        [source.map(|job| (job, source_time)), destination.map(|job| (job, destination_time))]
    }

    /// Handles the end of a job, and returns its kind, its time and its direction. A stale ticket is ignored.
    pub(crate) fn handle_finished<A, B>(
        &mut self,
        ticket: Ticket,
        result: JobResult<A, B>,
    ) -> Option<((JobKind, JobTime), Direction)> {
        let [source_time, destination_time] = self.times;
        let [of_source, of_destination] = &mut self.generations;
        let (generation, lease, time, direction) = match ticket.index {
            SOURCE => (of_source, &mut self.source.as_mut()?.lease, source_time, Direction::Sent),
            DESTINATION => {
                let lease = &mut self.destination.as_mut()?.lease;
                (of_destination, lease, destination_time, Direction::Received)
            }
            _ => return None,
        };
        if *generation != ticket.generation {
            return None;
        }
        let job = lease.job()?;
        lease.handle_finished(result);
        *generation = generation.wrapping_add(1);
        Some(((job, time), direction))
    }

    /// Forgets memory that this end does not hold any more.
    pub(crate) fn forget_gone(&mut self) {
        self.source.take_if(|source| source.lease.is_gone());
        self.destination.take_if(|destination| destination.lease.is_gone());
    }
}
