//! Jobs of a fabric without time. A release takes place when it begins, which is the earliest moment; memory is provisioned when the job is
//! done. The search chooses which job that is, and whether it fails.

use superpipe_core::{
    Buffer, Busy, Finished, Job, JobFailed, JobOutcome, JobResult, Layout, RemoteClaim, Ticket,
};
use superpipe_testkit::Memory;

use super::lent::Way;
use super::memory::Bytes;
use super::write::WrState;
use super::{StepFabric, index};
use crate::explore::cases::{Case, Exposing, Growing, Lending};

/// Jobs of one end.
#[derive(Clone, Debug, Hash)]
pub(super) struct Jobs {
    /// Most under way at a time.
    jobs_max: usize,
    repeats: bool,
    /// Jobs that may fail, and those of them that have not.
    failures_max: u32,
    failures_left: u32,
    pending: Vec<(Ticket, Job<Memory, Memory>)>,
    /// Ticket of the job that was over last, until it is reported once more.
    stale: Option<Ticket>,
    /// End that the next poll takes. It is there only inside one step, so it distinguishes no states.
    finished: Reported,
}

/// End of a job.
#[derive(Clone, Debug)]
struct Reported(Option<Finished<Memory, Memory>>);

impl core::hash::Hash for Reported {
    fn hash<H: core::hash::Hasher>(&self, hasher: &mut H) {
        self.0.is_some().hash(hasher);
    }
}

impl Jobs {
    pub(super) fn new(case: &Case, side: usize) -> Self {
        let of_growth = |it: Growing| (it.jobs_max, it.repeats, it.failures_max[side]);
        let of_exposing = |it: Exposing| (it.jobs_max, it.repeats, it.failures_max[side]);
        let of_lending = |it: Lending| (it.jobs_max, it.repeats, it.failures_max[side]);
        let terms = case.growing.map(of_growth).or(case.exposing.map(of_exposing));
        let terms = terms.or(case.lending.map(of_lending));
        let (jobs_max, repeats, failures_max) = terms.unwrap_or_default();
        Self {
            jobs_max,
            repeats,
            failures_max,
            failures_left: failures_max,
            pending: Vec::new(),
            stale: None,
            finished: Reported(None),
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Returns the lent memory that is being registered.
    pub(super) fn buffers(&self) -> impl Iterator<Item = Buffer> {
        self.pending.iter().filter_map(|(_, job)| match job {
            Job::RegisterSource { buffer, .. } | Job::RegisterDestination { buffer, .. } => Some(*buffer),
            _ => None,
        })
    }

    /// Forgets the jobs of an end that does not exist any more.
    pub(super) fn forget(&mut self) {
        self.pending.clear();
        self.stale = None;
    }
}

/// Returns true if the job may be refused.
const fn provisions(job: &Job<Memory, Memory>) -> bool {
    matches!(
        job,
        Job::ProvisionLanding { .. }
            | Job::ProvisionImage { .. }
            | Job::Expose { .. }
            | Job::Map { .. }
            | Job::RegisterSource { .. }
            | Job::RegisterDestination { .. }
    )
}

impl<const DIRECT: bool> StepFabric<DIRECT> {
    /// Returns the number of jobs of an end that are under way.
    pub(in crate::explore) fn jobs(&self, side: usize) -> usize {
        self.jobs[side].pending.len()
    }

    /// Returns true if this job may fail.
    pub(in crate::explore) fn can_fail(&self, side: usize, job: usize) -> bool {
        let jobs = &self.jobs[side];
        jobs.failures_left > 0 && jobs.pending.get(job).is_some_and(|(_, job)| provisions(job))
    }

    /// Returns true if the end of a job may be reported once more.
    pub(in crate::explore) fn can_repeat(&self, side: usize) -> bool {
        self.jobs[side].repeats && self.jobs[side].stale.is_some()
    }

    /// Returns true if a job of either end has failed.
    pub(in crate::explore) fn has_failed(&self) -> bool {
        self.jobs.iter().any(|jobs| jobs.failures_left < jobs.failures_max)
    }

    /// Returns true if an end of a job waits to be taken.
    pub(in crate::explore) fn has_report(&self, side: usize) -> bool {
        self.jobs[side].finished.0.is_some()
    }

    /// Describes a job.
    pub(in crate::explore) fn describe_job(&self, side: usize, job: usize) -> String {
        match &self.jobs[side].pending[job].1 {
            Job::ProvisionLanding { place, layout } => {
                format!("landing buffer {place} of {} blocks", layout.block_count)
            }
            Job::ProvisionImage { place, .. } => format!("the image of landing buffer {place}"),
            Job::ReleaseLanding(memory) => format!("the release of landing buffer {}", memory.index),
            Job::ReleaseImage(memory) => {
                format!("the release of the image of landing buffer {}", memory.index)
            }
            Job::Expose { place, .. } => format!("memory is handed over for place {place}"),
            Job::Map { place, .. } => format!("memory is mapped at place {place}"),
            Job::Unmap(memory) | Job::UnmapWritable(memory) => {
                format!("memory is unmapped at place {}", memory.index)
            }
            Job::RegisterSource { buffer, .. } => format!("source {} is registered", buffer.0),
            Job::RegisterDestination { buffer, .. } => format!("destination {} is registered", buffer.0),
            Job::Deregister(registration) => format!("buffer {} is deregistered", registration.0),
            Job::EndLink => "its link ends".to_owned(),
        }
    }

    pub(super) fn begin_job(
        &mut self,
        side: usize,
        ticket: Ticket,
        job: Job<Memory, Memory>,
    ) -> Result<(), Busy> {
        let jobs = &self.jobs[side];
        if jobs.pending.len() >= jobs.jobs_max {
            return Err(Busy);
        }
        match job {
            Job::ReleaseLanding(memory) => self.release_landing(side, memory),
            Job::ReleaseImage(memory) => self.release_image(side, memory),
            Job::Unmap(memory) | Job::UnmapWritable(memory) => {
                let unmapped = self.exposed.change().unmap::<Memory>(memory);
                assert!(unmapped.is_ok(), "memory is not unmapped");
            }
            Job::Expose { .. } | Job::Map { .. } => {}
            Job::ProvisionLanding { place, .. } | Job::ProvisionImage { place, .. } => {
                assert!(place < 2, "an end has two places");
            }
            Job::Deregister(registration) => self.begin_deregistration(side, registration),
            Job::RegisterSource { .. } | Job::RegisterDestination { .. } | Job::EndLink => {}
        }
        self.jobs[side].change().pending.push((ticket, job));
        Ok(())
    }

    pub(super) fn take_finished(&mut self, side: usize) -> Option<Finished<Memory, Memory>> {
        self.jobs[side].finished.0.as_ref()?;
        self.jobs[side].change().finished.0.take()
    }

    /// Ends a job, whose end this side takes next.
    pub(in crate::explore) fn finish_job(&mut self, side: usize, job: usize) {
        let (ticket, job) = self.jobs[side].change().pending.remove(job);
        let result = match job {
            Job::ProvisionLanding { place, layout } => self.provision_landing(side, place, layout),
            Job::ProvisionImage { place, layout, claim } => self.provision_image(side, place, layout, claim),
            Job::Expose { place, buffer, access } => {
                self.exposed.change().expose(side, place, buffer, access)
            }
            Job::Map { place, bytes, access } => self.exposed.change().map(side, place, bytes, access),
            Job::ReleaseLanding(_) | Job::ReleaseImage(_) | Job::Unmap(_) | Job::UnmapWritable(_) => {
                Ok(JobOutcome::Released)
            }
            Job::RegisterSource { buffer, .. } => self.register(side, Way::Out, buffer),
            Job::RegisterDestination { buffer, .. } => self.register(side, Way::In, buffer),
            Job::Deregister(registration) => {
                self.end_deregistration(side, registration);
                Ok(JobOutcome::Released)
            }
            Job::EndLink => {
                self.end_link(side);
                Ok(JobOutcome::Released)
            }
        };
        self.report(side, ticket, result);
    }

    /// Lets a job fail. The budget has no room for a landing buffer, and the device refuses an image.
    pub(in crate::explore) fn fail_job(&mut self, side: usize, job: usize) {
        let jobs = self.jobs[side].change();
        jobs.failures_left -= 1;
        let (ticket, job) = jobs.pending.remove(job);
        let failed = match job {
            Job::ProvisionLanding { .. } => JobFailed::OverBudget { bytes_max: 0 },
            Job::Map { .. } => {
                self.exposed.change().drop_handed(side);
                JobFailed::OverBudget { bytes_max: 0 }
            }
            _ => JobFailed::Refused,
        };
        self.report(side, ticket, Err(failed));
    }

    /// Reports the end of the last job once more.
    pub(in crate::explore) fn repeat_job(&mut self, side: usize) {
        if let Some(ticket) = self.jobs[side].change().stale.take() {
            self.report(side, ticket, Err(JobFailed::Refused));
            self.jobs[side].change().stale = None;
        }
    }

    /// Forgets the end of a job that was reported once more, and was not taken.
    pub(in crate::explore) fn forget_report(&mut self, side: usize) {
        self.jobs[side].change().finished.0 = None;
    }

    fn report(&mut self, side: usize, ticket: Ticket, result: JobResult<Memory, Memory>) {
        let jobs = self.jobs[side].change();
        jobs.finished = Reported(Some((ticket, result)));
        if jobs.repeats {
            jobs.stale = Some(ticket);
        }
    }

    fn provision_landing(&mut self, side: usize, place: u8, layout: Layout) -> JobResult<Memory, Memory> {
        let memory = Memory::grown(side, place);
        self.ownership[side].change().provision(memory.index, layout);
        self.memories[index(memory)].change().provision(layout);
        if DIRECT {
            *self.images[index(memory)].change() = Bytes::landing(layout);
        }
        Ok(JobOutcome::Landing(memory, RemoteClaim { address: u64::from(place), key: layout.block_count }))
    }

    fn provision_image(
        &mut self,
        side: usize,
        place: u8,
        layout: Layout,
        claim: Option<RemoteClaim>,
    ) -> JobResult<Memory, Memory> {
        let memory = Memory::grown(1 - side, place);
        if DIRECT {
            self.check_granted(memory, layout, claim);
        } else {
            let image = self.images[index(memory)].change();
            assert_eq!(image.layout(), None, "the image of {memory:?} is made twice");
            *image = Bytes::landing(layout);
        }
        Ok(JobOutcome::Image(memory))
    }

    /// Binds an image to the landing buffer that the peer has granted, which has its layout.
    pub(super) fn bind(&self, side: usize, image: Memory, claim: RemoteClaim) -> bool {
        assert_eq!(image.owner, 1 - side, "an end has images of its peer's memory");
        let layout = self.images[index(image)].layout();
        self.check_granted(image, layout.expect("it is provisioned"), Some(claim));
        true
    }

    /// Panics unless this landing buffer was granted. Both ends use their places in turn, so that the peer's is that of the image.
    fn check_granted(&self, memory: Memory, layout: Layout, claim: Option<RemoteClaim>) {
        let there = self.memories[index(memory)].layout();
        assert_eq!(there, Some(layout), "an epoch is used that was not granted");
        let granted = claim.and_then(|claim| u8::try_from(claim.address).ok());
        assert_eq!(
            granted.map(|place| Memory::grown(memory.owner, place)),
            Some(memory),
            "another is granted"
        );
    }

    fn release_landing(&mut self, side: usize, memory: Memory) {
        assert_eq!(memory.owner, side, "an end releases its own memory");
        let is_under_way =
            self.writes[1 - side].iter().any(|write| write.to == memory && write.invisible != 0);
        assert!(!is_under_way, "{memory:?} is released, and writes to it are on their way");
        self.ownership[side].change().release(memory.index);
        self.memories[index(memory)].change().release();
        if DIRECT {
            *self.images[index(memory)].change() = Bytes::nothing();
        }
    }

    fn release_image(&mut self, side: usize, memory: Memory) {
        assert_eq!(memory.owner, 1 - side, "an end has images of its peer's memory");
        if DIRECT {
            return;
        }
        let is_read =
            self.writes[side].iter().any(|write| write.to == memory && write.wr_state != WrState::Done);
        assert!(!is_read, "the image of {memory:?} is released, and the device may read it");
        let image = self.images[index(memory)].change();
        assert!(image.layout().is_some(), "the image of {memory:?} is released twice");
        *image = Bytes::nothing();
    }

    /// Returns the bytes of the landing buffers of an end that are provisioned besides the base.
    pub(in crate::explore) fn grown_bytes(&self, owner: usize) -> u64 {
        let layouts = [0, 1].map(|place| self.memories[index(Memory::grown(owner, place))].layout());
        layouts.into_iter().flatten().map(|layout| u64::from(layout.bytes())).sum()
    }

    /// Returns how many landing buffers of an end are provisioned besides the base, and how many images of them its peer has.
    pub(in crate::explore) fn grown(&self, owner: usize) -> [usize; 2] {
        let places = [0, 1].map(|place| index(Memory::grown(owner, place)));
        [&self.memories, &self.images]
            .map(|all| places.iter().filter(|place| all[**place].layout().is_some()).count())
    }
}
