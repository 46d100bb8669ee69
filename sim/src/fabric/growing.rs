//! Jobs in virtual time: a helper registers and deregisters memory beside the CPU of the end, and may fail.

use superpipe_core::{
    Busy, Finished, GrowthState, Job, JobFailed, JobOutcome, JobResult, Layout, RemoteClaim, Ticket,
};
use superpipe_testkit::{BASE, Memory};

use super::SimFabric;
use crate::faults::{Fault, GrowthCase};
use crate::nic::{Key, MemoryUse, Rights, TraceEvent};

/// Landing buffers of one end: the first, those that jobs have provisioned, and the base. The jobs under way.
#[derive(Debug, Default)]
pub(super) struct Grown {
    /// Landing buffers of this end, and images of the peer's, by [`Memory::index`].
    landings: [Option<Key>; 4],
    images: [Option<Key>; 4],
    jobs: Vec<PendingJob>,
    /// Ticket of the last job that has finished, which is now and then reported once more.
    stale: Option<Ticket>,
    /// The last image was refused.
    is_image_refused: bool,
}

#[derive(Debug)]
struct PendingJob {
    ticket: Ticket,
    job: Job<Memory, Memory>,
    due_ns: u64,
    /// If it is late: when it would have ended, and the newest state of its end for which that was counted.
    late: Option<(u64, GrowthState)>,
}

impl Grown {
    /// Makes the state of an end with these landing buffers and images.
    pub(super) fn new([landings, images]: [[Option<Key>; 4]; 2]) -> Self {
        Self { landings, images, ..Self::default() }
    }

    /// Forgets the jobs, and returns the keys of all memory.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Key> + use<> {
        let Self { landings, images, jobs: _, stale: _, is_image_refused: _ } = core::mem::take(self);
        landings.into_iter().chain(images).flatten()
    }

    pub(super) fn landing(&self, index: u8) -> Option<Key> {
        self.landings[usize::from(index)]
    }

    pub(super) fn image(&self, index: u8) -> Option<Key> {
        self.images[usize::from(index)]
    }

    /// Returns the number of landing buffers, and of images.
    pub(super) fn counts(&self) -> [usize; 2] {
        [&self.landings, &self.images].map(|keys| keys.iter().flatten().count())
    }

    pub(super) fn is_idle(&self) -> bool {
        self.jobs.is_empty()
    }
}

impl<const DIRECT: bool> SimFabric<DIRECT> {
    /// Returns the number of landing buffers of an end, and of its images of the peer's.
    pub(crate) fn landing_counts(&self, side: usize) -> [usize; 2] {
        self.grown[side].counts()
    }

    /// Returns the bytes of the landing buffers of an end beside its base.
    pub(crate) fn grown_bytes(&self, side: usize) -> u64 {
        let has_own_first = self.setup.growth.is_some_and(|growth| growth.base.is_some());
        let base = usize::from(if has_own_first { BASE } else { Memory::landing(side).index });
        let landings = self.grown[side].landings.iter().enumerate().filter(|(index, _)| *index != base);
        landings.filter_map(|(_, key)| *key).map(|key| self.world.whole(key).len() as u64).sum()
    }

    /// Returns when the next job of either end is over.
    pub(crate) fn next_job_ns(&self) -> Option<u64> {
        self.grown.iter().flat_map(|grown| &grown.jobs).map(|job| job.due_ns).min()
    }

    pub(super) fn begin_job(
        &mut self,
        side: usize,
        ticket: Ticket,
        job: Job<Memory, Memory>,
    ) -> Result<(), Busy> {
        if self.grown[side].jobs.len() >= self.world.profile.paging.job_cores {
            self.world.growth_coverage.count_case(GrowthCase::Busy);
            return Err(Busy);
        }
        let is_of_growth = matches!(
            job,
            Job::ProvisionLanding { .. }
                | Job::ProvisionImage { .. }
                | Job::ReleaseLanding(_)
                | Job::ReleaseImage(_)
        );
        if is_of_growth && self.setup.growth.is_none() {
            return Err(Busy);
        }
        let (host, [faults_ns, other_ns]) = (self.hosts[side], self.job_ns(side, &job));
        self.world.count_job(host, faults_ns + other_ns);
        let end_ns = self.world.faulted_ns(host, faults_ns) + other_ns;
        let late_ns = if self.world.strikes(Fault::LateJob) { self.world.late_ns() } else { 0 };
        let late = (late_ns > 0).then_some((end_ns, self.world.growth_state()));
        self.grown[side].jobs.push(PendingJob { ticket, job, due_ns: end_ns + late_ns, late });
        Ok(())
    }

    /// Returns what a job takes: its faults, and all else.
    fn job_ns(&self, side: usize, job: &Job<Memory, Memory>) -> [u64; 2] {
        let profile = &self.world.profile;
        let registers = |bytes: u64, is_resident: bool| {
            let faults_ns = if is_resident { 0 } else { profile.faults_ns(bytes) };
            [faults_ns, profile.resident_registration_ns(bytes)]
        };
        let [is_source_resident, is_destination_resident] = profile.paging.are_resident;
        let taken_back = match job {
            Job::ProvisionLanding { layout, .. } | Job::ProvisionImage { layout, .. } => {
                return registers(u64::from(layout.bytes()), false);
            }
            Job::RegisterSource { bytes, .. } => return registers(*bytes, is_source_resident),
            Job::RegisterDestination { bytes, .. } => return registers(*bytes, is_destination_resident),
            // The pages of a mapping are resident.
            Job::Map { bytes, .. } => return registers(u64::from(*bytes), true),
            Job::ReleaseLanding(memory) => self.grown[side].landing(memory.index),
            Job::ReleaseImage(memory) => self.grown[side].image(memory.index),
            Job::Deregister(registration) => self.lent[side].key(*registration),
            Job::Expose { .. } | Job::Unmap(_) | Job::UnmapWritable(_) | Job::EndLink => None,
        };
        let bytes = taken_back.map_or(0, |key| self.world.whole(key).len() as u64);
        [0, profile.deregistration_ns(bytes)]
    }

    pub(super) fn finish_job(&mut self, side: usize) -> Option<Finished<Memory, Memory>> {
        if let Some(stale) = self.grown[side].stale
            && self.world.rng.one_in(16)
        {
            self.grown[side].stale = None;
            self.world.growth_coverage.count_case(GrowthCase::StaleTicket);
            return Some((stale, Err(JobFailed::Refused)));
        }
        let now_ns = self.world.clock_ns(self.hosts[side]);
        self.count_late_jobs(side, now_ns);
        let index = self.grown[side].jobs.iter().position(|job| job.due_ns <= now_ns)?;
        let PendingJob { ticket, job, .. } = self.grown[side].jobs.swap_remove(index);
        self.grown[side].stale = Some(ticket);
        Some((ticket, self.perform(side, job)))
    }

    /// Counts the jobs that are late now in each step of growth that their end enters meanwhile.
    fn count_late_jobs(&mut self, side: usize, now_ns: u64) {
        let state = self.world.growth_state();
        for PendingJob { due_ns, late, .. } in &mut self.grown[side].jobs {
            if let Some((end_ns, counted)) = late
                && (*end_ns..*due_ns).contains(&now_ns)
                && *counted != state
            {
                *counted = state;
                self.world.count_late_job();
            }
        }
    }

    /// Returns true if the claim is that of the landing buffer that the image is of. Both ends use their places in turn.
    pub(super) fn bind_grown(&self, side: usize, image: Memory, claim: RemoteClaim) -> bool {
        let place = u8::try_from(claim.address).ok().filter(|place| *place < 2);
        let is_right = place.is_some_and(|place| image == Memory::grown(1 - side, place));
        assert!(is_right || self.is_forged, "{image:?} is bound to {claim:?}");
        is_right
    }

    fn perform(&mut self, side: usize, job: Job<Memory, Memory>) -> JobResult<Memory, Memory> {
        match job {
            Job::ProvisionLanding { place, layout } => {
                let key = self.provision(side, layout, true)?;
                let memory = Memory::grown(side, place);
                self.ownership[side].provision(memory.index, layout);
                let old = self.grown[side].landings[usize::from(memory.index)].replace(key);
                assert_eq!(old, None, "landing buffer {place} is provisioned twice");
                let claim = RemoteClaim { address: u64::from(place), key: layout.block_count };
                Ok(JobOutcome::Landing(memory, claim))
            }
            Job::ProvisionImage { place, layout, claim } => {
                let there = claim.map_or(u64::from(place), |claim| claim.address);
                let Ok(place @ 0..=1) = u8::try_from(there) else { return Err(JobFailed::WrongClaim) };
                let memory = Memory::grown(1 - side, place);
                // A mapping must have the size. A device would find out later.
                let has_room = |key| self.world.bytes(key, 0, layout.bytes()).is_ok();
                if DIRECT && !self.key(memory).is_some_and(has_room) {
                    return Err(JobFailed::WrongClaim);
                }
                let slot = usize::from(memory.index);
                if self.grown[side].images[slot].is_some() {
                    // Only a peer that lies grants memory twice.
                    assert!(self.is_forged, "{memory:?} is granted twice");
                    return Err(JobFailed::WrongClaim);
                }
                self.grown[side].images[slot] = Some(self.provision(side, layout, false)?);
                Ok(JobOutcome::Image(memory))
            }
            Job::ReleaseLanding(memory) => {
                assert_eq!(memory.owner, side, "an end releases its own memory");
                self.ownership[side].release(memory.index);
                let key = self.grown[side].landings[usize::from(memory.index)].take();
                self.release_grown(side, key);
                Ok(JobOutcome::Released)
            }
            Job::ReleaseImage(memory) => {
                let (world, qp) = (&self.world, self.qps[side]);
                let is_read = |flight| !world.is_read(qp, flight);
                let in_use = self.owned[side].iter().any(|owned| {
                    owned.span.memory == memory && (owned.wr.is_some() || is_read(owned.flight))
                });
                assert!(!in_use || self.is_forged, "{memory:?} is released, and the NIC may read its image");
                let key = self.grown[side].images[usize::from(memory.index)].take();
                self.release_grown(side, key);
                Ok(JobOutcome::Released)
            }
            Job::RegisterSource { buffer, bytes } => self.register_lent(side, buffer, bytes, false),
            Job::RegisterDestination { buffer, bytes } => self.register_lent(side, buffer, bytes, true),
            Job::Deregister(registration) => {
                self.deregister_lent(side, registration);
                Ok(JobOutcome::Released)
            }
            Job::Expose { place, buffer, access } => self.expose_memory(side, place, buffer, access),
            Job::Map { place, bytes, access } => self.map_memory(side, place, bytes, access),
            Job::Unmap(memory) | Job::UnmapWritable(memory) => self.unmap_memory(side, memory),
            Job::EndLink => {
                self.end_link(side);
                Ok(JobOutcome::Released)
            }
        }
    }

    /// Registers memory, or fails as the seed decides.
    fn provision(&mut self, side: usize, layout: Layout, is_landing: bool) -> Result<Key, JobFailed> {
        let one_in = self.setup.growth.map_or(0, |growth| growth.fail_one_in);
        // Without room for an image there is often none for the second attempt either, after which the sender gives the grant back.
        let was_refused = !is_landing && self.grown[side].is_image_refused;
        let is_refused = self.world.fails_job(if was_refused { one_in.min(1) } else { one_in });
        if !is_landing {
            self.grown[side].is_image_refused = is_refused && !was_refused;
        }
        if is_refused {
            let is_budget = self.world.rng.one_in(2);
            self.world.growth_coverage.count_case(match (is_landing, is_budget) {
                (true, true) => GrowthCase::LandingOverBudget,
                (true, false) => GrowthCase::LandingRefused,
                (false, true) => GrowthCase::ImageOverBudget,
                (false, false) => GrowthCase::ImageRefused,
            });
            return Err(if is_budget { JobFailed::OverBudget { bytes_max: 0 } } else { JobFailed::Refused });
        }
        let bytes = layout.bytes();
        let (host, rights) = (self.hosts[side], Rights { remote_write: is_landing });
        let key = self.world.register_aside(host, bytes, rights);
        let memory_use = if is_landing { MemoryUse::Landing } else { MemoryUse::LandingImage };
        self.world.note_here(host, TraceEvent::Register { key, bytes, memory_use });
        Ok(key)
    }

    fn release_grown(&mut self, side: usize, key: Option<Key>) {
        if let Some(key) = key {
            self.world.deregister_aside(key);
            self.world.note_here(self.hosts[side], TraceEvent::Deregister { key });
        }
    }
}
