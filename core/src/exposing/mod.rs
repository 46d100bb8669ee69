//! Memory of the application that the peer maps, and copies messages out of: one copy instead of two. wire.md 4.9, 5.6.
//!
//! ```text
//! exposer   the sender's half: has the fabric hand memory over, asks the peer to map it, withdraws it
//! mapper    the receiver's half: maps what the peer exposes, and unmaps what it has withdrawn
//! sources   the memories of the peer that are mapped, by their places
//! offer     memory of the peer that the next transfer may be written into
//! ```
//!
//! A chunk names memory by its place. Nothing waits for a place: until it is mapped, and after a refusal, messages go through the ring.
//!
//! Each half has one job at a time, and at most one EXPOSE is not answered. So memory that is handed over beside the messages, such as a
//! descriptor on a socket, comes in the order of the messages.

mod exposer;
mod mapper;
mod offer;
mod sources;

pub(crate) use exposer::Exposer;
pub(crate) use mapper::Mapper;
pub(crate) use offer::Offers;
use sources::Mapped;
pub(crate) use sources::Sources;

use core::hash::{Hash, Hasher};

use crate::error::ProtocolError;
use crate::fabric::Fabric;
use crate::job::{JobKind, JobResult, Ticket};
use crate::job_time::JobTime;
use crate::nanos::Nanos;
use crate::wire::control::Control;
use crate::wire::grant::PeerAccess;
use crate::wire::sequence::after;

/// Most memories of one direction that the peer maps at a time, each in a place of its own.
pub const EXPOSED_MAX: usize = 8;

/// State of memory that was exposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExposedState {
    /// The peer has not answered. Messages out of the memory go through the ring.
    Pending,
    /// The peer has mapped the memory. Messages of [`Config::one_copy_bytes`](crate::Config::one_copy_bytes) and more out of it are copied
    /// by the peer. Memory that the peer may write can be [offered](crate::Endpoint::offer).
    Ready,
    /// The fabric or the peer refused. Messages go through the ring. The place is taken until the memory is
    /// [withdrawn](crate::Endpoint::withdraw_exposed).
    Refused,
    /// The memory was withdrawn, or the connection has ended.
    Gone,
}

/// Both halves at one end.
#[derive(Clone, Debug)]
pub(crate) struct Exposing<R, A> {
    /// Access to memory of an end that both ends agreed on, over direct store.
    pub(crate) agreed: Option<PeerAccess>,
    /// Anything may have to be done by [`Endpoint::progress`](crate::Endpoint::progress).
    pub(crate) is_active: bool,
    pub(crate) exposer: Exposer<R>,
    pub(crate) mapper: Mapper<R, A>,
    pub(crate) offers: Offers,
    /// Times of the two jobs.
    times: [JobTime; 2],
}

impl<R: Copy, A: Copy> Exposing<R, A> {
    pub(crate) const fn new(agreed: Option<PeerAccess>) -> Self {
        let times = [JobTime::new(Nanos(0)); 2];
        Self {
            agreed,
            is_active: false,
            exposer: Exposer::new(),
            mapper: Mapper::new(),
            offers: Offers::new(),
            times,
        }
    }

    /// Returns true if memory may be exposed for such access: what may be written may also be read.
    pub(crate) fn agrees_to(&self, access: PeerAccess) -> bool {
        self.agreed.is_some_and(|agreed| agreed as u8 >= access as u8)
    }

    /// Begins the jobs that are due. Returns their number.
    pub(crate) fn begin_jobs<F: Fabric<Region = R, Remote = A>>(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
    ) -> usize {
        let begun = [self.exposer.begin_job(fabric, link), self.mapper.begin_job(fabric, link)];
        for (time, begun) in self.times.iter_mut().zip(begun) {
            *time = begun.unwrap_or(*time);
        }
        begun.iter().flatten().count()
    }

    /// Returns the times of the jobs under way.
    pub(crate) fn times(&mut self) -> [Option<(JobKind, &mut JobTime)>; 2] {
        let [of_exposer, of_mapper] = &mut self.times;
        let exposes = self.exposer.awaits_job().then_some(JobKind::Expose);
        [exposes.map(|job| (job, of_exposer)), self.mapper.job().map(|job| (job, of_mapper))]
    }

    /// Handles the end of a job, and returns its kind and its time. A stale ticket is ignored.
    pub(crate) fn handle_finished(
        &mut self,
        ticket: Ticket,
        result: JobResult<R, A>,
        sources: &mut Sources<R, A>,
    ) -> Option<(JobKind, JobTime)> {
        let [of_exposer, of_mapper] = self.times;
        match ticket.index {
            exposer::TICKET => self.exposer.handle_finished(ticket, result).map(|job| (job, of_exposer)),
            mapper::TICKET => {
                self.mapper.handle_finished(ticket, result, sources).map(|job| (job, of_mapper))
            }
            _ => None,
        }
    }

    /// Handles a control message of the peer. `newest` is the sequence of the newest chunk that this end has consumed, `read` the place that
    /// the chunk after it names, if it is being taken out.
    pub(crate) fn handle_control(
        &mut self,
        control: Control,
        newest: u64,
        read: Option<u8>,
        sources: &mut Sources<R, A>,
    ) -> Result<(), ProtocolError> {
        self.is_active = true;
        match control {
            Control::Expose { place, bytes, access } => {
                self.mapper.collect(newest, sources);
                self.mapper.handle_expose(place, bytes, access, sources)
            }
            Control::Mapped { place, cause } => self.exposer.handle_answer(place, cause),
            Control::Withdrawn { place, last } => {
                let next = (read == Some(place)).then_some(after(newest));
                sources.withdraw(place, last, next)
            }
            _ => Ok(()),
        }
    }

    /// Notes whether a later round may have to do anything.
    pub(crate) fn judge_activity(&mut self, sources: &Sources<R, A>) {
        self.is_active = self.exposer.is_busy()
            || self.exposer.awaits_ack()
            || self.mapper.is_busy()
            || sources.awaits_chunks();
    }

    /// Returns true while a job is under way, which ends soon.
    pub(crate) fn awaits_job(&self) -> bool {
        self.exposer.awaits_job() || self.mapper.awaits_job()
    }
}

impl<R, A> Hash for Exposing<R, A> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let Self { agreed: _, is_active, exposer, mapper, offers, times: _ } = self;
        (is_active, exposer, mapper, offers).hash(hasher);
    }
}
