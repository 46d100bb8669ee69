//! Jobs of an in-memory fabric: they are refused, fail, and finish in any order, as the seed decides.

use superpipe_core::{
    Buffer, Busy, GrowthDelay, Job, JobFailed, JobOutcome, JobResult, Layout, PeerAccess, Registration,
    RemoteClaim, Ticket,
};

use super::Memory;
use crate::Rng;

/// Parameters of landing buffers that grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrowthSetup {
    /// Layout of the largest landing buffer.
    pub largest: Layout,
    /// Bytes of the first landing buffer that an end grows to.
    pub slab_bytes: u32,
    /// [`GrowthTerms::delay`](superpipe_core::GrowthTerms::delay)
    pub delay: GrowthDelay,
    /// One job in so many fails; 0: none does.
    pub fail_one_in: usize,
    /// There is no room for another landing buffer.
    pub is_memory_short: bool,
    /// Layout of the base, if the first landing buffer is memory of its own that is released once it was left. `None`: the first is the
    /// base.
    pub base: Option<Layout>,
}

impl GrowthSetup {
    /// Growth that is asked for at once, and never fails. The first landing buffer is the base.
    pub const fn new(largest: Layout, slab_bytes: u32) -> Self {
        Self {
            largest,
            slab_bytes,
            delay: GrowthDelay::NONE,
            fail_one_in: 0,
            is_memory_short: false,
            base: None,
        }
    }
}

/// Effects of jobs on a fabric.
pub(super) trait JobEffects<R: Copy> {
    /// Makes a landing buffer of an end, all zero.
    fn provision_landing(&mut self, memory: Memory, layout: Layout);
    /// Makes the image of the peer's landing buffer.
    fn provision_image(&mut self, memory: Memory, layout: Layout) -> R;
    /// Releases a landing buffer. Panics if anything still uses it.
    fn release_landing(&mut self, memory: Memory);
    /// Releases an image. Panics if the device still reads it.
    fn release_image(&mut self, image: R);
    /// Registers memory of an application.
    fn register(&mut self, side: usize, buffer: Buffer, bytes: u64, is_remote: bool) -> JobResult<Memory, R> {
        panic!("end {side} registers {bytes} bytes of {buffer:?}, remote: {is_remote}, and cannot");
    }
    /// Deregisters memory of an application. Panics if the device still uses it.
    fn deregister(&mut self, registration: Registration) {
        panic!("{registration:?} is deregistered, and was never registered");
    }
    /// Hands memory of an application over to the peer.
    fn expose(&mut self, side: usize, place: u8, buffer: Buffer, access: PeerAccess) -> JobResult<Memory, R> {
        panic!("end {side} exposes {buffer:?} in place {place} for {access:?}, and cannot");
    }
    /// Maps memory that was handed over.
    fn map(&mut self, side: usize, place: u8, bytes: u32, access: PeerAccess) -> JobResult<Memory, R> {
        panic!("end {side} maps {bytes} bytes of place {place} for {access:?}, and cannot");
    }
    /// Unmaps memory.
    fn unmap(&mut self, side: usize, memory: Memory) -> JobResult<Memory, R> {
        panic!("end {side} unmaps {memory:?}, and cannot");
    }
    /// Unmaps memory that this end could write.
    fn unmap_writable(&mut self, side: usize, _: R) -> JobResult<Memory, R> {
        panic!("end {side} unmaps memory that it writes, and cannot");
    }
    /// Ends the link.
    fn end_link(&mut self) {}
}

/// Jobs under way at both ends.
#[derive(Clone, Debug)]
pub(super) struct JobQueue<R> {
    growth: Option<GrowthSetup>,
    /// One registration of an application's memory in so many fails, or job that exposes or maps it; 0: none does.
    fail_registrations: usize,
    /// No job ends.
    is_held: bool,
    rng: Rng,
    jobs: [Vec<(Ticket, Job<Memory, R>)>; 2],
    /// Tickets of jobs that have finished, which a device may report once more.
    stale: [Option<Ticket>; 2],
}

/// Result of a poll.
pub(super) enum Polled<R> {
    Nothing,
    /// This job is to be done.
    Do(Ticket, Job<Memory, R>),
    /// This job failed. `None`: it was over already.
    Failed(Ticket, JobFailed, Option<Job<Memory, R>>),
}

impl<R: Copy> JobQueue<R> {
    pub(super) fn new(growth: Option<GrowthSetup>, seed: u64) -> Self {
        let rng = Rng::new(seed ^ 0x10b5);
        Self {
            growth,
            fail_registrations: 0,
            is_held: false,
            rng,
            jobs: [Vec::new(), Vec::new()],
            stale: [None; 2],
        }
    }

    pub(super) const fn fail_registrations(&mut self, one_in: usize) {
        self.fail_registrations = one_in;
    }

    pub(super) const fn hold(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    pub(super) fn is_memory_short(&self) -> bool {
        self.growth.is_some_and(|growth| growth.is_memory_short)
    }

    pub(super) fn begin(&mut self, side: usize, ticket: Ticket, job: Job<Memory, R>) -> Result<(), Busy> {
        if is_growth(&job) && self.growth.is_none() || self.rng.one_in(4) {
            return Err(Busy);
        }
        self.jobs[side].push((ticket, job));
        Ok(())
    }

    pub(super) fn poll(&mut self, side: usize) -> Polled<R> {
        let is_empty = self.jobs[side].is_empty() && self.stale[side].is_none();
        if self.is_held || self.growth.is_none() && is_empty {
            return Polled::Nothing;
        }
        if self.rng.one_in(8)
            && let Some(ticket) = self.stale[side].take()
        {
            return Polled::Failed(ticket, JobFailed::Refused, None);
        }
        let count = self.jobs[side].len();
        if count == 0 || self.rng.one_in(2) {
            return Polled::Nothing;
        }
        let index = self.rng.below(count);
        let (ticket, job) = self.jobs[side].swap_remove(index);
        self.stale[side] = Some(ticket);
        let fail_one_in = match &job {
            Job::ProvisionLanding { .. } | Job::ProvisionImage { .. } => {
                self.growth.map_or(0, |growth| growth.fail_one_in)
            }
            Job::RegisterSource { .. }
            | Job::RegisterDestination { .. }
            | Job::Expose { .. }
            | Job::Map { .. } => self.fail_registrations,
            Job::ReleaseLanding(_)
            | Job::ReleaseImage(_)
            | Job::Deregister(_)
            | Job::Unmap(_)
            | Job::UnmapWritable(_)
            | Job::EndLink => 0,
        };
        if fail_one_in > 0 && self.rng.one_in(fail_one_in) {
            let failed =
                if self.rng.one_in(2) { JobFailed::Refused } else { JobFailed::OverBudget { bytes_max: 0 } };
            return Polled::Failed(ticket, failed, Some(job));
        }
        Polled::Do(ticket, job)
    }

    /// Returns true if no job is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.jobs.iter().all(Vec::is_empty)
    }
}

/// Returns the job with the memory that it is about, for the log.
pub(super) fn logged<R: Into<Memory>>(job: Job<Memory, R>) -> Job<Memory, Memory> {
    match job {
        Job::ProvisionLanding { place, layout } => Job::ProvisionLanding { place, layout },
        Job::ProvisionImage { place, layout, claim } => Job::ProvisionImage { place, layout, claim },
        Job::ReleaseLanding(memory) => Job::ReleaseLanding(memory),
        Job::ReleaseImage(image) => Job::ReleaseImage(image.into()),
        Job::RegisterSource { buffer, bytes } => Job::RegisterSource { buffer, bytes },
        Job::RegisterDestination { buffer, bytes } => Job::RegisterDestination { buffer, bytes },
        Job::Deregister(registration) => Job::Deregister(registration),
        Job::Expose { place, buffer, access } => Job::Expose { place, buffer, access },
        Job::Map { place, bytes, access } => Job::Map { place, bytes, access },
        Job::Unmap(memory) => Job::Unmap(memory),
        Job::UnmapWritable(memory) => Job::UnmapWritable(memory.into()),
        Job::EndLink => Job::EndLink,
    }
}

/// Does a job of an end.
pub(super) fn finish<R: Copy>(
    fabric: &mut impl JobEffects<R>,
    side: usize,
    job: Job<Memory, R>,
) -> JobResult<Memory, R> {
    match job {
        Job::ProvisionLanding { place, layout } => {
            let memory = Memory::grown(side, place);
            fabric.provision_landing(memory, layout);
            let claim = RemoteClaim { address: u64::from(place), key: layout.block_count };
            Ok(JobOutcome::Landing(memory, claim))
        }
        Job::ProvisionImage { place, layout, claim } => {
            assert!(place < 2, "an end has two places");
            // Posted writes get the claim later. Both ends use their places in turn, so that it is that of the image.
            let there = claim.map_or(Some(place), |claim| granted_place(claim, layout));
            there.map_or(Err(JobFailed::WrongClaim), |there| {
                Ok(JobOutcome::Image(fabric.provision_image(Memory::grown(1 - side, there), layout)))
            })
        }
        Job::ReleaseLanding(memory) => {
            assert_eq!(memory.owner, side, "an end releases its own memory");
            fabric.release_landing(memory);
            Ok(JobOutcome::Released)
        }
        Job::ReleaseImage(image) => {
            fabric.release_image(image);
            Ok(JobOutcome::Released)
        }
        Job::RegisterSource { buffer, bytes } => fabric.register(side, buffer, bytes, false),
        Job::RegisterDestination { buffer, bytes } => fabric.register(side, buffer, bytes, true),
        Job::Deregister(registration) => {
            fabric.deregister(registration);
            Ok(JobOutcome::Released)
        }
        Job::Expose { place, buffer, access } => fabric.expose(side, place, buffer, access),
        Job::Map { place, bytes, access } => fabric.map(side, place, bytes, access),
        Job::Unmap(memory) => fabric.unmap(side, memory),
        Job::UnmapWritable(memory) => fabric.unmap_writable(side, memory),
        Job::EndLink => {
            fabric.end_link();
            Ok(JobOutcome::Released)
        }
    }
}

/// Returns the place of a landing buffer of this layout that the peer has granted. `None` if there is none.
fn granted_place(RemoteClaim { address, key }: RemoteClaim, layout: Layout) -> Option<u8> {
    u8::try_from(address).ok().filter(|place| *place < 2 && key == layout.block_count)
}

const fn is_growth<R>(job: &Job<Memory, R>) -> bool {
    match job {
        Job::ProvisionLanding { .. }
        | Job::ProvisionImage { .. }
        | Job::ReleaseLanding(_)
        | Job::ReleaseImage(_) => true,
        Job::RegisterSource { .. }
        | Job::RegisterDestination { .. }
        | Job::Deregister(_)
        | Job::Expose { .. }
        | Job::Map { .. }
        | Job::Unmap(_)
        | Job::UnmapWritable(_)
        | Job::EndLink => false,
    }
}
