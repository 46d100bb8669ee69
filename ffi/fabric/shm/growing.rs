//! Landing buffers that grow: the jobs that core begins on a connection, as steps on the slots of two sparse segments. wire.md 6.4.
//!
//! | job | steps | share of the budget |
//! |---|---|---|
//! | `ProvisionLanding` | [`Provision`] of a slot of ours | taken before, kept while the slot is provisioned |
//! | `ProvisionImage` | [`Populate`] of a slot of the peer's | the same: a write of this end may allocate the peer's page |
//! | `ReleaseLanding` | [`Release`] | given back once the pages are gone |
//! | `ReleaseImage` | [`Vacate`] | given back once the pages are gone, which the owner need not remove |
//!
//! By the provision protocol the small buffers of both ends are there from the beginning, and are released like the others.
//!
//! The jobs are those of the process ([`Jobs`]), whose helper thread makes the steps. The connection makes those of a first landing
//! buffer itself, one per poll, since they are few (`turns.rs`). It also does if the process has too many jobs. Dropping the
//! connection cancels its jobs. The steps keep the mapping until they are dropped, and their bytes of the share are given back after that.

use core::fmt;
use core::ptr::NonNull;
use std::sync::Arc;

use superpipe_core::driver::setup::GROWTH_SLAB_BYTES;
use superpipe_core::{
    Busy, Finished, Job, JobFailed, JobOutcome, JobResult, Landing, Layout, RemoteClaim, Ticket as JobId,
};

use super::segments::SmallBuffers;
use super::sparse::{PeerSparseSegment, Populate, Provision, Release, Slot, SparseSegment, Vacate};
use super::turns::Turns;
use crate::budget::{Budget, BudgetShare, Charge, MemoryKind, Refused};
use crate::fabric::Span;
use crate::os::OsError;
use crate::os::jobs::{JobError, Step, Steps};
use crate::os::page::page_bytes;

/// Limit of jobs under way: as many as core begins at a time.
const JOBS_MAX: usize = 6;

/// Two sparse segments, and the jobs on them.
pub(super) struct Growing {
    own: SparseSegment,
    peer: PeerSparseSegment,
    running: heapless::Deque<Running, JOBS_MAX>,
    share: Arc<BudgetShare>,
    /// Bytes of the share for the slots that hold memory: ours, and the peer's.
    own_charges: [Option<Charge>; 3],
    peer_charges: [Option<Charge>; 3],
}

/// A job under way.
struct Running {
    id: JobId,
    work: Work,
}

enum Work {
    Provision(Slot, Layout, Turns<Charged<Provision>>),
    Populate(Slot, Layout, Turns<Charged<Populate>>),
    Release(Slot, Turns<Charged<Release>>),
    Vacate(Slot, Turns<Charged<Vacate>>),
    /// It was over when it began.
    Over(JobResult<Span, Span>),
}

/// Steps on memory that counts against the budget. The charge outlives the steps, which may remove pages when they are dropped.
struct Charged<S> {
    steps: S,
    charge: Option<Charge>,
}

impl Growing {
    /// Makes the jobs on these segments, which have small buffers if `small` does.
    pub(super) fn new(
        own: SparseSegment,
        peer: PeerSparseSegment,
        share: Arc<BudgetShare>,
        small: Option<SmallBuffers>,
    ) -> Self {
        let mut charges = [[const { None }; 3], [const { None }; 3]];
        if let Some(SmallBuffers { parts, .. }) = small {
            for (charges, part) in charges.iter_mut().zip(parts) {
                charges[Slot::Small.index()] = Some(Charge::of_part(part));
            }
        }
        let [own_charges, peer_charges] = charges;
        Self { own, peer, share, running: heapless::Deque::new(), own_charges, peer_charges }
    }

    /// Returns the small buffers of this end and of the peer, which have this layout.
    pub(super) fn small_buffers(&self, layout: Layout) -> [Landing<Span>; 2] {
        assert!(layout.bytes() as usize <= self.own.sizes().small_bytes, "the segments were made to hold it");
        [self.own.slot(Slot::Small), self.peer.slot(Slot::Small)].map(|start| {
            // SAFETY: 1. The small buffer of either segment has room for these bytes, since both have the same sizes, and is mapped as
            // long as the link, which holds this value. 2. A segment gives out no reference.
            let memory = unsafe { Span::new(start, layout.bytes()) };
            Landing { memory, layout }
        })
    }

    /// Returns true while a job is under way, or its end was not taken.
    pub(super) fn has_jobs(&self) -> bool {
        !self.running.is_empty()
    }

    /// Returns true while others wait for memory of this connection.
    pub(super) fn must_shrink(&self) -> bool {
        self.share.must_shrink()
    }

    /// Notes whether the connection is used.
    pub(super) fn note_idle(&self, is_idle: bool) {
        self.share.note_idle(is_idle);
    }

    /// Begins a job.
    ///
    /// # Errors
    /// As many as core begins are under way.
    pub(super) fn begin(&mut self, id: JobId, job: Job<Span, Span>) -> Result<(), Busy> {
        if self.running.is_full() {
            return Err(Busy);
        }
        let work = match job {
            Job::ProvisionLanding { place, layout } => self.provision(place, layout),
            Job::ProvisionImage { layout, claim, .. } => {
                claim.ok_or(JobFailed::WrongClaim).and_then(|claim| self.populate(layout, claim))
            }
            Job::ReleaseLanding(region) => self.release(region),
            Job::ReleaseImage(image) => self.vacate(image),
            Job::RegisterSource { .. }
            | Job::RegisterDestination { .. }
            | Job::Expose { .. }
            | Job::Map { .. } => Err(JobFailed::Refused),
            Job::Deregister(_) | Job::Unmap(_) | Job::UnmapWritable(_) | Job::EndLink => {
                Ok(Work::Over(Ok(JobOutcome::Released)))
            }
        };
        let work = work.unwrap_or_else(|failed| Work::Over(Err(failed)));
        self.running.push_back(Running { id, work }).map_err(|_| Busy)
    }

    /// Takes the end of a job. Makes one step at most, of the jobs in turn.
    pub(super) fn finished(&mut self) -> Option<Finished<Span, Span>> {
        let Running { id, mut work } = self.running.pop_front()?;
        let result = self.poll(&mut work);
        match result {
            Some(result) => Some((id, result)),
            None => {
                let kept = self.running.push_back(Running { id, work });
                debug_assert!(kept.is_ok(), "it was just taken out");
                None
            }
        }
    }

    fn provision(&self, place: u8, layout: Layout) -> Result<Work, JobFailed> {
        let slot = Slot::of(place.into()).ok_or(JobFailed::Refused)?;
        if self.own_charges[slot.index()].is_some() {
            // Its pages could not be removed.
            return Err(JobFailed::Refused);
        }
        let bytes = self.fitting(layout).ok_or(JobFailed::Refused)?;
        let charge = Some(self.charge(bytes)?);
        let steps = Charged { steps: self.own.provision(slot, bytes), charge };
        Ok(Work::Provision(slot, layout, Turns::begin(steps, bytes)))
    }

    /// Checks what the peer granted, which is a slot that it has not granted yet.
    fn populate(&self, layout: Layout, claim: RemoteClaim) -> Result<Work, JobFailed> {
        let slot = Slot::of(claim.address).filter(|_| claim.key == 0).ok_or(JobFailed::WrongClaim)?;
        if self.peer_charges[slot.index()].is_some() || self.has_job_on(slot) {
            return Err(JobFailed::WrongClaim);
        }
        let bytes = self.fitting(layout).ok_or(JobFailed::WrongClaim)?;
        let charge = Some(self.charge(bytes)?);
        let steps = Charged { steps: self.peer.populate(slot, bytes), charge };
        Ok(Work::Populate(slot, layout, Turns::begin(steps, bytes)))
    }

    /// Returns the bytes of a landing buffer, if a slot has room for them. Those of both ends have the same size.
    fn fitting(&self, layout: Layout) -> Option<usize> {
        Some(layout.bytes() as usize).filter(|bytes| *bytes <= self.own.sizes().slot_bytes)
    }

    /// Takes the bytes of a landing buffer out of the budget, in whole pages.
    fn charge(&self, bytes: usize) -> Result<Charge, JobFailed> {
        let bytes = bytes.next_multiple_of(page_bytes()) as u64;
        let bytes_max = |refused: Refused| u32::try_from(refused.bytes_max()).unwrap_or(u32::MAX);
        Charge::grow(&self.share, bytes)
            .map_err(|refused| JobFailed::OverBudget { bytes_max: bytes_max(refused) })
    }

    /// Returns true while a job works on this slot of the peer.
    fn has_job_on(&self, wanted: Slot) -> bool {
        self.running.iter().any(|running| {
            matches!(running.work, Work::Populate(slot, ..) | Work::Vacate(slot, ..) if slot == wanted)
        })
    }

    fn release(&mut self, region: Span) -> Result<Work, JobFailed> {
        let slot = self.own.slot_at(region.start()).ok_or(JobFailed::Refused)?;
        let charge = self.own_charges[slot.index()].take().ok_or(JobFailed::Refused)?;
        let steps = Charged { steps: self.own.release(slot), charge: Some(charge) };
        Ok(Work::Release(slot, turns_of_release(slot, steps)))
    }

    fn vacate(&mut self, image: Span) -> Result<Work, JobFailed> {
        let slot = self.peer.slot_at(image.start()).ok_or(JobFailed::Refused)?;
        let charge = self.peer_charges[slot.index()].take().ok_or(JobFailed::Refused)?;
        let steps = Charged { steps: self.peer.vacate(slot), charge: Some(charge) };
        Ok(Work::Vacate(slot, turns_of_release(slot, steps)))
    }

    /// Returns the landing buffer at the beginning of a slot.
    fn span(&self, slot: NonNull<u8>, layout: Layout) -> Span {
        assert!(self.fitting(layout).is_some(), "it was provisioned in a slot");
        // SAFETY: 1. A slot of either segment has room for these bytes, and is mapped as long as the link, which holds this value.
        // 2. A segment gives out no reference.
        unsafe { Span::new(slot, layout.bytes()) }
    }

    /// Polls a job, and keeps the charge for the memory that it leaves.
    fn poll(&mut self, work: &mut Work) -> Option<JobResult<Span, Span>> {
        Some(match work {
            Work::Over(result) => *result,
            Work::Provision(slot, layout, turns) => {
                let (provisioned, charge) = taken(turns.poll()?);
                provisioned.map(|()| {
                    self.own_charges[slot.index()] = charge;
                    let claim = RemoteClaim { address: slot.index() as u64, key: 0 };
                    JobOutcome::Landing(self.span(self.own.slot(*slot), *layout), claim)
                })
            }
            Work::Populate(slot, layout, turns) => {
                let (populated, charge) = taken(turns.poll()?);
                populated.map(|()| {
                    self.peer_charges[slot.index()] = charge;
                    JobOutcome::Image(self.span(self.peer.slot(*slot), *layout))
                })
            }
            Work::Release(slot, turns) => {
                let (released, charge) = taken(turns.poll()?);
                if released.is_err() {
                    // The memory is still there, and goes with the segment.
                    self.own_charges[slot.index()] = charge;
                }
                released.map(|()| JobOutcome::Released)
            }
            Work::Vacate(slot, turns) => {
                let (vacated, charge) = taken(turns.poll()?);
                if vacated.is_err() {
                    // Its pages could not be removed, and are counted as long as the connection lives.
                    self.peer_charges[slot.index()] = charge;
                }
                vacated.map(|()| JobOutcome::Released)
            }
        })
    }
}

impl fmt::Debug for Growing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Growing")
            .field("own", &self.own)
            .field("peer", &self.peer)
            .field("jobs", &self.running.len())
            .finish_non_exhaustive()
    }
}

/// Result of charged steps, with the charge for the memory that they worked on.
type Ended = (Result<(), OsError>, Option<Charge>);

impl<S: Steps<Output = Result<(), OsError>>> Steps for Charged<S> {
    type Output = Ended;

    fn step(&mut self) -> Step<Ended> {
        match self.steps.step() {
            Step::More => Step::More,
            Step::Done(result) => Step::Done((result, self.charge.take())),
        }
    }
}

/// Begins to remove the pages of a slot. Those of a small buffer are one step, which the connection makes itself.
fn turns_of_release<S: Steps>(slot: Slot, steps: S) -> Turns<S> {
    match slot {
        Slot::Small => Turns::Connection(steps),
        Slot::First | Slot::Second => Turns::of_process(steps),
    }
}

/// Returns the result of a job for core, and the charge.
fn taken(ended: Result<Ended, JobError>) -> (Result<(), JobFailed>, Option<Charge>) {
    match ended {
        Ok((result, charge)) => (result.map_err(|_| JobFailed::Refused), charge),
        Err(JobError::Panicked | JobError::OtherProcess) => (Err(JobFailed::Refused), None),
    }
}

/// Returns true if the budget has no room for the first landing buffer that another connection grows to, and for its image.
pub(super) fn is_memory_short() -> bool {
    Budget::left_bytes(MemoryKind::Shared) < 2 * u64::from(GROWTH_SLAB_BYTES)
}

#[cfg(test)]
mod tests;
