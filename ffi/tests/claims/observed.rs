//! A fabric of the library, and the log of what core has it do: jobs with their ends, and the writes to each memory of the peer. It also
//! lends the recorder, whose clock it is: a count of all events of both ends.

use core::cell::{Cell, RefCell};
use std::rc::Rc;

use superpipe_core::recorder::Recorder;
use superpipe_core::{
    Attachment, Busy, Caps, Completion, CopyKernel, Fabric, Finished, GrowthTerms, Job, JobFailed,
    JobOutcome, Layout, Line, Nanos, Notification, RemoteClaim, SqFull, Ticket, WrId,
};

use superpipe::fabric::HostFabric;

use crate::events::{Memory, What, Work};

/// A fabric that the claims are shown on.
pub(crate) trait Real: HostFabric + 'static {
    /// Makes it.
    fn make() -> Self;

    /// Returns true if both are the same memory.
    fn is_same_region(one: Self::Region, other: Self::Region) -> bool;

    /// Returns true if both are the same memory of the peer.
    fn is_same_remote(one: Self::Remote, other: Self::Remote) -> bool;

    /// Returns the bytes that the kernel counts as memory of this process's connections.
    fn kernel_bytes() -> u64;

    /// Returns the bytes of the regions that the kernel lists, if there are regions, and no other process has any.
    fn listed_bytes() -> Option<u64>;

    /// Returns the bytes that the budget counts, for as much as [`kernel_bytes`](Self::kernel_bytes).
    fn budget_bytes() -> u64;
}

/// An event: time, end, what.
pub(crate) type Entry = (u64, usize, What);

/// The log of both ends, and their clock.
#[derive(Clone, Default)]
pub(crate) struct Log {
    entries: Rc<RefCell<Vec<Entry>>>,
    clock: Rc<Cell<u64>>,
}

impl Log {
    fn tick(&self) -> u64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    /// Returns what was logged so far.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.entries.borrow().clone()
    }
}

/// Memories of one end: its own landing buffers, and those of the peer.
struct Known<F: Real> {
    page: F::Remote,
    bases: (F::Region, F::Remote),
    small: (F::Region, F::Remote),
}

/// A fabric with the log.
pub(crate) struct Observed<F: Real> {
    fabric: F,
    side: usize,
    log: Log,
    known: Known<F>,
    pub(crate) recorder: Box<Recorder>,
    jobs: Vec<(Ticket, Work)>,
}

impl<F: Real> Observed<F> {
    /// Makes the fabric of an end, and what its endpoint is made of.
    pub(crate) fn new(attachment: Attachment<F>, side: usize, log: &Log) -> (Self, Attachment<Self>) {
        let Attachment { link, control_page, peer_control_page, landing, peer_landing, growth } = attachment;
        let terms = growth.expect("provision has landing on demand");
        let GrowthTerms { base, peer_base, largest, slab_bytes, delay, first_is_own } = terms;
        assert!(first_is_own, "the small buffer is memory of its own");
        let known = Known {
            page: peer_control_page,
            bases: (base.memory, peer_base.memory),
            small: (landing.memory, peer_landing.memory),
        };
        let fabric = Self {
            fabric: F::make(),
            side,
            log: log.clone(),
            known,
            recorder: Box::default(),
            jobs: Vec::new(),
        };
        let growth = Some(GrowthTerms { base, peer_base, largest, slab_bytes, delay, first_is_own });
        (fabric, Attachment { link, control_page, peer_control_page, landing, peer_landing, growth })
    }

    fn note(&self, what: What) {
        let at = self.log.tick();
        self.log.entries.borrow_mut().push((at, self.side, what));
    }

    fn note_written(&self, to: F::Remote) {
        let known = &self.known;
        let memory = if F::is_same_remote(to, known.page) {
            return;
        } else if F::is_same_remote(to, known.bases.1) {
            Memory::Base
        } else if F::is_same_remote(to, known.small.1) {
            Memory::Small
        } else {
            Memory::Larger
        };
        self.note(What::Written(memory));
    }

    fn work_of(&self, job: &Job<F::Region, F::Remote>) -> Work {
        let which = |is_small: bool| if is_small { Memory::Small } else { Memory::Larger };
        match *job {
            Job::ProvisionLanding { layout, .. } => Work::MakeLanding(layout),
            Job::ProvisionImage { layout, .. } => Work::MakeImage(layout),
            Job::ReleaseLanding(region) => {
                assert!(!F::is_same_region(region, self.known.bases.0), "the base stays");
                Work::FreeLanding(which(F::is_same_region(region, self.known.small.0)))
            }
            Job::ReleaseImage(image) => Work::FreeImage(which(F::is_same_remote(image, self.known.small.1))),
            Job::RegisterSource { .. }
            | Job::RegisterDestination { .. }
            | Job::Deregister(_)
            | Job::Expose { .. }
            | Job::Map { .. }
            | Job::Unmap(_)
            | Job::UnmapWritable(_)
            | Job::EndLink => unreachable!("of other protocols"),
        }
    }
}

impl<F: Real> Fabric for Observed<F> {
    const DIRECT: bool = F::DIRECT;
    const TIMES_COPIES: bool = F::TIMES_COPIES;
    type Link = F::Link;
    type Region = F::Region;
    type Remote = F::Remote;

    fn caps(&self, link: &F::Link) -> Caps {
        self.fabric.caps(link)
    }

    fn now(&mut self) -> Nanos {
        Nanos(self.log.tick())
    }

    fn flag(&self, link: &F::Link, from: F::Region, at: u32) -> u64 {
        self.fabric.flag(link, from, at)
    }

    fn take_line(&self, link: &F::Link, from: F::Region, at: u32) -> Line {
        self.fabric.take_line(link, from, at)
    }

    fn copy_out(&mut self, link: &mut F::Link, from: F::Region, at: u32, to: &mut [u8], kernel: CopyKernel) {
        self.fabric.copy_out(link, from, at, to, kernel);
    }

    fn crc_out(&self, link: &F::Link, from: F::Region, at: u32, bytes: u32, seed: u32) -> u32 {
        self.fabric.crc_out(link, from, at, bytes, seed)
    }

    fn write_line(&mut self, link: &mut F::Link, to: F::Remote, at: u32, line: &Line) {
        if F::DIRECT {
            self.note_written(to);
        }
        self.fabric.write_line(link, to, at, line);
    }

    fn publish(&mut self, link: &mut F::Link, to: F::Remote, at: u32, flag: u64) {
        if F::DIRECT {
            self.note_written(to);
        }
        self.fabric.publish(link, to, at, flag);
    }

    fn expect_read(
        &mut self,
        link: &mut F::Link,
        from: F::Region,
        flag_at: u32,
        flag: u64,
        at: u32,
        bytes: u32,
    ) {
        self.fabric.expect_read(link, from, flag_at, flag, at, bytes);
    }

    fn expect_write(&mut self, link: &mut F::Link, to: F::Remote, at: u32, bytes: u32, follows_answer: bool) {
        self.fabric.expect_write(link, to, at, bytes, follows_answer);
    }

    fn copy_in(&mut self, link: &mut F::Link, to: F::Remote, at: u32, from: &[u8], kernel: CopyKernel) {
        if F::DIRECT {
            self.note_written(to);
        }
        self.fabric.copy_in(link, to, at, from, kernel);
    }

    fn crc_in(&self, link: &F::Link, to: F::Remote, at: u32, bytes: u32, seed: u32) -> u32 {
        self.fabric.crc_in(link, to, at, bytes, seed)
    }

    fn crc(&self, bytes: &[u8], seed: u32) -> u32 {
        self.fabric.crc(bytes, seed)
    }

    fn post_write(
        &mut self,
        link: &mut F::Link,
        to: F::Remote,
        at: u32,
        bytes: u32,
        wr: Option<WrId>,
        notification: Option<Notification>,
    ) -> Result<(), SqFull> {
        self.fabric.post_write(link, to, at, bytes, wr, notification)?;
        self.note_written(to);
        Ok(())
    }

    fn ring_doorbell(&mut self, link: &mut F::Link) {
        self.fabric.ring_doorbell(link);
    }

    fn poll_cq(&mut self, link: &mut F::Link) -> Option<Completion> {
        self.fabric.poll_cq(link)
    }

    fn poll_notification(&mut self, link: &mut F::Link) -> Option<Notification> {
        self.fabric.poll_notification(link)
    }

    fn has_notification(&self, link: &F::Link) -> bool {
        self.fabric.has_notification(link)
    }

    fn set_quiet(&mut self, link: &mut F::Link, is_quiet: bool) {
        self.fabric.set_quiet(link, is_quiet);
    }

    fn begin(
        &mut self,
        link: &mut F::Link,
        ticket: Ticket,
        job: Job<F::Region, F::Remote>,
    ) -> Result<(), Busy> {
        let (work, kernel_bytes) = (self.work_of(&job), F::kernel_bytes());
        self.fabric.begin(link, ticket, job)?;
        self.note(What::Begun(work, kernel_bytes));
        self.jobs.push((ticket, work));
        Ok(())
    }

    fn finished(&mut self, link: &mut F::Link) -> Option<Finished<F::Region, F::Remote>> {
        let (ticket, result) = self.fabric.finished(link)?;
        let index = self.jobs.iter().position(|job| job.0 == ticket).expect("it was begun");
        let (_, work) = self.jobs.swap_remove(index);
        self.note(match result {
            Ok(JobOutcome::Landing(..) | JobOutcome::Image(_) | JobOutcome::Released) => {
                What::Done(work, F::kernel_bytes())
            }
            Ok(
                JobOutcome::Registered(..)
                | JobOutcome::Exposed { .. }
                | JobOutcome::Mapped(_)
                | JobOutcome::MappedWritable(_),
            ) => {
                unreachable!("of other protocols")
            }
            Err(JobFailed::OverBudget { .. } | JobFailed::WrongClaim | JobFailed::Refused) => {
                panic!("{}: {work:?} failed: {result:?}", F::NAME, result = result.err())
            }
        });
        Some((ticket, result))
    }

    fn bind_image(&mut self, link: &mut F::Link, image: F::Remote, claim: RemoteClaim) -> bool {
        self.fabric.bind_image(link, image, claim)
    }

    fn recorder(&mut self, _: &F::Link) -> Option<&mut Recorder> {
        Some(&mut self.recorder)
    }
}

/// Returns the bytes of the pages that hold a landing buffer.
pub(crate) const fn page_bytes_of(layout: Layout) -> u64 {
    (layout.bytes() as u64).next_multiple_of(4096)
}
