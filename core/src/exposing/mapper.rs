//! The receiver's half: it maps what the peer exposes, and unmaps what the peer has withdrawn. wire.md 5.6.
//!
//! ```text
//!           EXPOSE           job begins            job ends           answer is sent
//! STEADY ----------> ASKED -------------> MAPPING -----------> DUE -------------------> STEADY
//! ```
//!
//! Memory that was withdrawn is unmapped before other memory is mapped, so that its part of the budget is free again.

use core::hash::{Hash, Hasher};

use super::{EXPOSED_MAX, Mapped, Sources};
use crate::error::ProtocolError;
use crate::fabric::Fabric;
use crate::job::{Job, JobFailed, JobKind, JobOutcome, JobResult, Ticket};
use crate::job_time::{self, JobTime};
use crate::memory::JOBS_MAX;
use crate::wire::control::Control;
use crate::wire::grant::{MapCause, PeerAccess};
use crate::wire::sequence::after;

/// Ticket of the job that maps or unmaps memory.
pub(super) const TICKET: u8 = JOBS_MAX + 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Steady,
    Asked { place: u8, bytes: u32, access: PeerAccess },
    Mapping { place: u8, bytes: u32, access: PeerAccess },
    Due { place: u8, cause: Option<MapCause> },
}

/// The receiver's half.
#[derive(Clone, Debug)]
pub(crate) struct Mapper<R, A> {
    step: Step,
    /// Memories to be unmapped. No more than there are places: nothing is mapped until they are.
    withdrawn: heapless::Deque<Mapped<R, A>, EXPOSED_MAX>,
    is_unmapping: bool,
    /// Generation of the ticket.
    ticket: u32,
    /// Memories that were not mapped, by cause: budget, machine, not what the peer said.
    pub(crate) refusals: [u64; 3],
}

impl<R: Copy, A: Copy> Mapper<R, A> {
    pub(super) const fn new() -> Self {
        Self {
            step: Step::Steady,
            withdrawn: heapless::Deque::new(),
            is_unmapping: false,
            ticket: 0,
            refusals: [0; 3],
        }
    }

    /// Handles EXPOSE.
    pub(super) fn handle_expose(
        &mut self,
        place: u8,
        bytes: u32,
        access: PeerAccess,
        sources: &Sources<R, A>,
    ) -> Result<(), ProtocolError> {
        if self.step != Step::Steady || bytes == 0 || !sources.is_free(place) {
            return Err(ProtocolError::ExposeWrong);
        }
        self.step = Step::Asked { place, bytes, access };
        Ok(())
    }

    /// Moves memories that were withdrawn, and of which all is consumed, to those that are to be unmapped. `newest` is the sequence of the
    /// newest chunk that was consumed.
    pub(crate) fn collect(&mut self, newest: u64, sources: &mut Sources<R, A>) {
        while !self.withdrawn.is_full()
            && let Some(memory) = sources.take_over(after(newest))
        {
            let kept = self.withdrawn.push_back(memory);
            debug_assert!(kept.is_ok(), "it is not full");
        }
    }

    /// Begins the job that is due, and returns its time.
    pub(super) fn begin_job<F: Fabric<Region = R, Remote = A>>(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
    ) -> Option<JobTime> {
        if self.awaits_job() {
            return None;
        }
        let ticket = Ticket { index: TICKET, generation: self.ticket };
        if let Some(memory) = self.withdrawn.front() {
            let job = match *memory {
                Mapped::Source(memory) => Job::Unmap(memory),
                Mapped::Destination(memory) => Job::UnmapWritable(memory),
            };
            let time = job_time::begin(fabric, link, ticket, job).ok();
            self.is_unmapping = time.is_some();
            return time;
        }
        let Step::Asked { place, bytes, access } = self.step else { return None };
        let time = job_time::begin(fabric, link, ticket, Job::Map { place, bytes, access }).ok()?;
        self.step = Step::Mapping { place, bytes, access };
        Some(time)
    }

    /// Handles the end of the job, and returns its kind. A stale ticket is ignored.
    pub(super) fn handle_finished(
        &mut self,
        ticket: Ticket,
        result: JobResult<R, A>,
        sources: &mut Sources<R, A>,
    ) -> Option<JobKind> {
        if ticket.generation != self.ticket || !self.awaits_job() {
            return None;
        }
        self.ticket = self.ticket.wrapping_add(1);
        if self.is_unmapping {
            self.is_unmapping = false;
            self.withdrawn.pop_front();
            return Some(JobKind::Unmap);
        }
        let Step::Mapping { place, bytes, access } = self.step else { return None };
        let cause = match result {
            Ok(JobOutcome::Mapped(memory)) if access == PeerAccess::Read => {
                sources.insert(place, Mapped::Source(memory), bytes);
                None
            }
            Ok(JobOutcome::MappedWritable(memory)) if access == PeerAccess::Write => {
                sources.insert(place, Mapped::Destination(memory), bytes);
                None
            }
            Err(JobFailed::OverBudget { .. }) => Some(MapCause::Budget),
            Err(JobFailed::WrongClaim) => Some(MapCause::Wrong),
            Err(JobFailed::Refused) | Ok(_) => Some(MapCause::Machine),
        };
        if let Some(cause) = cause
            && let Some(count) = self.refusals.get_mut(cause as usize - 1)
        {
            *count += 1;
        }
        self.step = Step::Due { place, cause };
        Some(JobKind::Map)
    }

    /// Returns the answer that is due.
    pub(crate) const fn due(&self) -> Option<Control> {
        match self.step {
            Step::Due { place, cause } => Some(Control::Mapped { place, cause }),
            Step::Steady | Step::Asked { .. } | Step::Mapping { .. } => None,
        }
    }

    /// Notes that the answer was sent.
    pub(crate) const fn note_sent(&mut self) {
        self.step = Step::Steady;
    }

    /// Returns true while a job or an answer is due, or a job is under way.
    pub(crate) fn is_busy(&self) -> bool {
        self.step != Step::Steady || !self.withdrawn.is_empty()
    }

    /// Returns the kind of the job under way.
    pub(super) const fn job(&self) -> Option<JobKind> {
        match self.step {
            _ if self.is_unmapping => Some(JobKind::Unmap),
            Step::Mapping { .. } => Some(JobKind::Map),
            Step::Steady | Step::Asked { .. } | Step::Due { .. } => None,
        }
    }

    /// Returns true while a job is under way.
    pub(super) const fn awaits_job(&self) -> bool {
        self.is_unmapping || matches!(self.step, Step::Mapping { .. })
    }
}

impl<R, A> Hash for Mapper<R, A> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let Self { step, withdrawn, is_unmapping, ticket, refusals: _ } = self;
        (step, withdrawn.len(), is_unmapping, ticket).hash(hasher);
    }
}
