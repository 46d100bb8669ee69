//! Registered buffers over shared memory: the jobs that core begins for them. wire.md 5.6, 6.4, 7.2.
//!
//! | job | what it does | share of the budget |
//! |---|---|---|
//! | `Expose` | sends the descriptor of a buffer of ours to the peer | taken before, kept until the buffer is withdrawn |
//! | `Map` | takes the peer's descriptor, and maps the memory in steps ([`Adopt`]) | taken before, kept while the memory is mapped |
//! | `Unmap`, `UnmapWritable` | unmaps it in steps ([`Discard`]) | given back at the end |
//!
//! A connection has this only if it uses the protocol register-cached or auto. Otherwise it takes no descriptor after the handshake.

use core::fmt;
use std::sync::Arc;

use superpipe_core::{
    Busy, EXPOSED_MAX, Finished, Job, JobFailed, JobOutcome, JobResult, PeerAccess, Ticket as JobId,
};

use super::exposed::{Adopt, Discard, PeerMemory};
use super::own_buffers::OwnBuffers;
use super::own_trusted::OwnTrusted;
use super::segment::SegmentError;
use super::sent_buffers::{self, Breach, Next, SentBuffer, SentBuffers};
use super::socket::Socket;
use super::turns::Turns;
use crate::budget::BudgetShare;
use crate::budget::Charge;
use crate::fabric::Span;
use crate::fabric::recent_buffers::RecentBuffers;
use crate::os::jobs::{JobError, Step, Steps};
use crate::os::page::round_to_pages;
use crate::os::{self, ExposedMemory};

/// Jobs under way at a time: core exposes one buffer, and maps or unmaps one.
const JOBS_MAX: usize = 2;
/// Packets that one poll takes out of the socket: those of all places, and some wake bytes.
const PACKETS_MAX: usize = 32;

/// Registered buffers of both ends.
pub(super) struct Exposing {
    pub(super) own: OwnBuffers,
    pub(super) trusted: OwnTrusted,
    /// Buffers that are not exposed, of long messages.
    pub(super) unexposed: RecentBuffers,
    pub(super) share: Arc<BudgetShare>,
    /// Most bytes of the peer's buffers that are mapped.
    mapped_bytes_max: u64,
    sent: SentBuffers,
    mapped: [Option<Mapped>; EXPOSED_MAX],
    running: heapless::Deque<Running, JOBS_MAX>,
}

/// Memory of the peer that is mapped here.
struct Mapped {
    memory: PeerMemory,
    charge: Option<Charge>,
}

/// A job under way.
struct Running {
    id: JobId,
    work: Work,
}

enum Work {
    /// Waits for the descriptor.
    Receive {
        place: u8,
        bytes: u32,
        access: PeerAccess,
    },
    Map {
        place: u8,
        bytes: u32,
        access: PeerAccess,
        turns: Turns<Charged<Adopt>>,
    },
    Unmap(Turns<Charged<Discard>>),
    /// It was over when it began.
    Over(JobResult<Span, Span>),
}

/// Steps on memory that counts against the budget. The charge outlives the steps, which unmap what they have when they are dropped.
struct Charged<S> {
    steps: S,
    charge: Option<Charge>,
}

impl Exposing {
    pub(super) fn new(share: Arc<BudgetShare>, mapped_bytes_max: u64) -> Self {
        Self {
            own: OwnBuffers::default(),
            trusted: OwnTrusted::default(),
            unexposed: RecentBuffers::default(),
            share,
            mapped_bytes_max,
            sent: SentBuffers::default(),
            mapped: [const { None }; EXPOSED_MAX],
            running: heapless::Deque::new(),
        }
    }

    /// Returns the number of places that no buffer of this end has. One that a buffer is leaving is among them.
    pub(super) fn free_places(&self) -> usize {
        EXPOSED_MAX.saturating_sub(self.own.exposed_count() + self.trusted.exposed_count())
    }

    /// Returns true while a job is under way that this end has to poll for.
    pub(super) fn has_jobs(&self) -> bool {
        !self.running.is_empty() && !self.sent.is_starved()
    }

    /// Returns true if this end has buffers that the peer may map, which their owners may drop.
    pub(super) fn has_own(&self) -> bool {
        !self.own.is_empty() || !self.trusted.is_empty()
    }

    /// Returns the packets of the peer with descriptors.
    pub(super) const fn sent_mut(&mut self) -> &mut SentBuffers {
        &mut self.sent
    }

    /// Returns true if a packet with a descriptor waits in the socket, and makes it readable all the time.
    pub(super) const fn is_starved(&self) -> bool {
        self.sent.is_starved()
    }

    /// Returns the packet by which the peer broke a rule.
    pub(super) const fn breach(&self) -> Option<Breach> {
        self.sent.breach()
    }

    /// Begins a job. None if it is not of this kind.
    pub(super) fn begin(
        &mut self,
        socket: &Socket,
        id: JobId,
        job: &Job<Span, Span>,
    ) -> Option<Result<(), Busy>> {
        let is_full = self.running.is_full();
        let work = match *job {
            Job::Expose { .. } | Job::Map { .. } | Job::Unmap(_) | Job::UnmapWritable(_) if is_full => {
                return Some(Err(Busy));
            }
            Job::Expose { place, buffer, access: PeerAccess::Read } => {
                Work::Over(self.expose(socket, place, buffer.0))
            }
            Job::Expose { place, buffer, access: PeerAccess::Write } => {
                Work::Over(self.expose_trusted(socket, place, buffer.0))
            }
            Job::Map { place, bytes, access } => Work::Receive { place, bytes, access },
            Job::Unmap(memory) | Job::UnmapWritable(memory) => self.unmap(memory),
            _ => return None,
        };
        Some(self.running.push_back(Running { id, work }).map_err(|_| Busy))
    }

    /// Sends the descriptor of a buffer.
    fn expose(&mut self, socket: &Socket, place: u8, id: u64) -> JobResult<Span, Span> {
        let entry = self.own.named(id).ok_or(JobFailed::Refused)?;
        let memory = entry.memory().ok_or(JobFailed::Refused)?;
        let (bytes, charge) = hand_over(&self.share, socket, place, memory.exposed())?;
        entry.charge = Some(charge);
        Ok(JobOutcome::Exposed { bytes, memory: None })
    }

    /// Sends the descriptor of a buffer that the peer may write.
    fn expose_trusted(&mut self, socket: &Socket, place: u8, id: u64) -> JobResult<Span, Span> {
        let entry = self.trusted.named(id).ok_or(JobFailed::Refused)?;
        let exposed = entry.memory.exposed();
        let (bytes, charge) = hand_over(&self.share, socket, place, exposed)?;
        // SAFETY: 1. The memory has these bytes, and the table keeps it until core does not use it any more, or the link is dropped. 2. No
        // reference to it is made but by `TrustedBuf::as_slice`, whose callers promise that it is not written meanwhile.
        let memory = unsafe { Span::new(exposed.as_ptr(), bytes) };
        entry.charge = Some(charge);
        Ok(JobOutcome::Exposed { bytes, memory: Some(memory) })
    }

    /// Takes the descriptor of a buffer that the peer has named. None: later. `is_asleep`: another thread sleeps, and is to see the wake byte
    /// at the head first.
    fn receive(
        &mut self,
        socket: &Socket,
        is_asleep: bool,
        place: u8,
        bytes: u32,
    ) -> Option<Result<SentBuffer, JobFailed>> {
        for _ in 0..PACKETS_MAX {
            if let Some(sent) = self.sent.take(place) {
                return Some(if sent.bytes == bytes { Ok(sent) } else { Err(JobFailed::WrongClaim) });
            }
            match self.sent.take_next(socket) {
                Next::Buffer => {}
                Next::Wake if !is_asleep => socket.discard_head(),
                Next::Wake | Next::Starved => return None,
                Next::Nothing | Next::Breach => return Some(Err(JobFailed::WrongClaim)),
            }
        }
        None
    }

    fn map(&self, sent: SentBuffer, place: u8, bytes: u32, access: PeerAccess) -> Result<Work, JobFailed> {
        let mapped = self.mapped.iter().flatten().map(|mapped| mapped.memory.len() as u64);
        if mapped.sum::<u64>() + u64::from(bytes) > self.mapped_bytes_max {
            return Err(JobFailed::OverBudget { bytes_max: 0 });
        }
        let charge = Some(charge(&self.share, bytes)?);
        let steps = Charged { steps: Adopt::new(sent.fd, bytes.into(), access_of_mapping(access)), charge };
        Ok(Work::Map { place, bytes, access, turns: Turns::begin(steps, bytes as usize) })
    }

    fn unmap(&mut self, region: Span) -> Work {
        let is_it = |mapped: &&mut Option<Mapped>| {
            mapped.as_ref().is_some_and(|mapped| mapped.memory.as_ptr() == region.start())
        };
        let Some(Mapped { memory, charge }) = self.mapped.iter_mut().find(is_it).and_then(Option::take)
        else {
            return Work::Over(Ok(JobOutcome::Released));
        };
        let bytes = memory.len();
        Work::Unmap(Turns::begin(Charged { steps: Discard::new(memory), charge }, bytes))
    }

    /// Takes the end of a job. Makes one step at most, of the jobs in turn.
    pub(super) fn finished(&mut self, socket: &Socket, is_asleep: bool) -> Option<Finished<Span, Span>> {
        let Running { id, work } = self.running.pop_front()?;
        match self.poll(socket, is_asleep, work) {
            Ok(result) => Some((id, result)),
            Err(work) => {
                let kept = self.running.push_back(Running { id, work });
                debug_assert!(kept.is_ok(), "it was just taken out");
                None
            }
        }
    }

    /// Polls a job. Returns the job if it is not over.
    fn poll(&mut self, socket: &Socket, is_asleep: bool, work: Work) -> Result<JobResult<Span, Span>, Work> {
        match work {
            Work::Over(result) => Ok(result),
            Work::Receive { place, bytes, access } => match self.receive(socket, is_asleep, place, bytes) {
                None => Err(work),
                Some(sent) => match sent.and_then(|sent| self.map(sent, place, bytes, access)) {
                    Ok(mapping) => Err(mapping),
                    Err(failed) => Ok(Err(failed)),
                },
            },
            Work::Map { place, bytes, access, mut turns } => match turns.poll() {
                None => Err(Work::Map { place, bytes, access, turns }),
                Some(ended) => Ok(self.end_map(place, bytes, access, ended)),
            },
            Work::Unmap(mut turns) => match turns.poll() {
                None => Err(Work::Unmap(turns)),
                Some(_) => Ok(Ok(JobOutcome::Released)),
            },
        }
    }

    fn end_map(
        &mut self,
        place: u8,
        bytes: u32,
        access: PeerAccess,
        ended: Result<Adopted, JobError>,
    ) -> JobResult<Span, Span> {
        let (adopted, charge) = ended.map_err(|_| JobFailed::Refused)?;
        let memory = adopted.map_err(|error| match error {
            SegmentError::Os(_) => JobFailed::Refused,
            _ => JobFailed::WrongClaim,
        })?;
        let free = self.mapped.get_mut(usize::from(place)).filter(|mapped| mapped.is_none());
        let mapped = free.ok_or(JobFailed::WrongClaim)?;
        // SAFETY: 1. The mapping has these bytes, since the file has them, and is kept until core begins the job that unmaps it, or the link is
        // dropped. Core only reads a region that a job has mapped for reading. 2. A mapping gives out no reference.
        let span = unsafe { Span::new(memory.as_ptr(), bytes) };
        *mapped = Some(Mapped { memory, charge });
        Ok(match access {
            PeerAccess::Read => JobOutcome::Mapped(span),
            PeerAccess::Write => JobOutcome::MappedWritable(span),
        })
    }
}

/// Sends the descriptor of a buffer, and takes its bytes of the budget.
fn hand_over(
    share: &Arc<BudgetShare>,
    socket: &Socket,
    place: u8,
    exposed: &ExposedMemory,
) -> Result<(u32, Charge), JobFailed> {
    let bytes = u32::try_from(exposed.bytes()).map_err(|_| JobFailed::Refused)?;
    let charge = charge(share, bytes)?;
    // A peer whose queue is full, or which takes no descriptors in, gets the messages through the ring.
    let sent = socket.send(&sent_buffers::packet(place, bytes), Some(exposed.fd()));
    sent.map_err(|_| JobFailed::Refused)?;
    Ok((bytes, charge))
}

/// Returns the access that memory of the peer must grant.
const fn access_of_mapping(access: PeerAccess) -> os::PeerAccess {
    match access {
        PeerAccess::Read => os::PeerAccess::Read,
        PeerAccess::Write => os::PeerAccess::ReadWrite,
    }
}

/// Takes the pages of a buffer of either end out of the budget.
fn charge(share: &Arc<BudgetShare>, bytes: u32) -> Result<Charge, JobFailed> {
    let page_bytes = round_to_pages(bytes as usize).ok_or(JobFailed::Refused)? as u64;
    Charge::cache(share, page_bytes).map_err(|_| JobFailed::OverBudget { bytes_max: 0 })
}

/// Memory of the peer, with the bytes of the budget for it.
type Adopted = (Result<PeerMemory, SegmentError>, Option<Charge>);

impl Steps for Charged<Adopt> {
    type Output = Adopted;

    fn step(&mut self) -> Step<Adopted> {
        match self.steps.step() {
            Step::More => Step::More,
            Step::Done(adopted) => Step::Done((adopted, self.charge.take())),
        }
    }
}

impl Steps for Charged<Discard> {
    type Output = ();

    fn step(&mut self) -> Step<()> {
        self.steps.step()
    }
}

impl fmt::Debug for Exposing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exposing")
            .field("mapped", &self.mapped.iter().flatten().count())
            .field("jobs", &self.running.len())
            .finish_non_exhaustive()
    }
}
