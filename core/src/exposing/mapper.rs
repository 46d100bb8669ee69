//! The receiver's half: it maps what the peer exposes, and unmaps what the peer has withdrawn. wire.md 5.6.
//!
//! ```text
//!           EXPOSE           job begins            job ends           answer is sent
//! STEADY ----------> ASKED -------------> MAPPING -----------> DUE -------------------> STEADY
//! ```
//!
//! Memory that was withdrawn is unmapped before other memory is mapped, so that its part of the budget is free again.

use core::hash::{Hash, Hasher};

use super::{EXPOSED_MAX, Sources};
use crate::error::ProtocolError;
use crate::fabric::Fabric;
use crate::job::{Job, JobFailed, JobOutcome, JobResult, Ticket};
use crate::memory::JOBS_MAX;
use crate::wire::control::Control;
use crate::wire::grant::MapCause;
use crate::wire::sequence::after;

/// Ticket of the job that maps or unmaps memory.
pub(super) const TICKET: u8 = JOBS_MAX + 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Steady,
    Asked { place: u8, bytes: u32 },
    Mapping { place: u8, bytes: u32 },
    Due { place: u8, cause: Option<MapCause> },
}

/// The receiver's half.
#[derive(Clone, Debug)]
pub(crate) struct Mapper<R> {
    step: Step,
    /// Memories to be unmapped. No more than there are places: nothing is mapped until they are.
    withdrawn: heapless::Deque<R, EXPOSED_MAX>,
    is_unmapping: bool,
    /// Generation of the ticket.
    ticket: u32,
    /// Memories that were not mapped, by cause: budget, machine, not what the peer said.
    pub(crate) refusals: [u64; 3],
}

impl<R: Copy> Mapper<R> {
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
        sources: &Sources<R>,
    ) -> Result<(), ProtocolError> {
        if self.step != Step::Steady || bytes == 0 || !sources.is_free(place) {
            return Err(ProtocolError::ExposeWrong);
        }
        self.step = Step::Asked { place, bytes };
        Ok(())
    }

    /// Moves memories that were withdrawn, and of which all is consumed, to those that are to be unmapped. `newest` is the sequence of the
    /// newest chunk that was consumed.
    pub(crate) fn collect(&mut self, newest: u64, sources: &mut Sources<R>) {
        while !self.withdrawn.is_full()
            && let Some(memory) = sources.take_over(after(newest))
        {
            let kept = self.withdrawn.push_back(memory);
            debug_assert!(kept.is_ok(), "it is not full");
        }
    }

    /// Begins the job that is due. Returns true if it was begun.
    pub(super) fn begin_job<F: Fabric<Region = R>>(&mut self, fabric: &mut F, link: &mut F::Link) -> bool {
        if self.awaits_job() {
            return false;
        }
        let ticket = Ticket { index: TICKET, generation: self.ticket };
        if let Some(memory) = self.withdrawn.front() {
            self.is_unmapping = fabric.begin(link, ticket, Job::Unmap(*memory)).is_ok();
            return self.is_unmapping;
        }
        let Step::Asked { place, bytes } = self.step else { return false };
        let has_begun = fabric.begin(link, ticket, Job::Map { place, bytes }).is_ok();
        if has_begun {
            self.step = Step::Mapping { place, bytes };
        }
        has_begun
    }

    /// Handles the end of the job.
    pub(super) fn handle_finished<A>(
        &mut self,
        ticket: Ticket,
        result: JobResult<R, A>,
        sources: &mut Sources<R>,
    ) {
        if ticket.generation != self.ticket || !self.awaits_job() {
            return;
        }
        self.ticket = self.ticket.wrapping_add(1);
        if self.is_unmapping {
            self.is_unmapping = false;
            self.withdrawn.pop_front();
            return;
        }
        let Step::Mapping { place, bytes } = self.step else { return };
        let cause = match result {
            Ok(JobOutcome::Mapped(memory)) => {
                sources.insert(place, memory, bytes);
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

    /// Returns true while a job is under way.
    pub(super) const fn awaits_job(&self) -> bool {
        self.is_unmapping || matches!(self.step, Step::Mapping { .. })
    }
}

impl<R> Hash for Mapper<R> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let Self { step, withdrawn, is_unmapping, ticket, refusals: _ } = self;
        (step, withdrawn.len(), is_unmapping, ticket).hash(hasher);
    }
}
