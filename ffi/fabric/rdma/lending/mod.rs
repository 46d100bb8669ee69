//! Memory of the application, while messages are written out of it and into it. wire.md 4.8.
//!
//! ```text
//! steps   jobs that register and deregister
//! cache   registrations of buffers that are kept
//!
//!           lend                begin: a share of the budget     job done
//! nothing --------> LENT ------------------------> REGISTERING ---------> REGISTERED
//!    ^               |  no share: refused, and still LENT                   |
//!    |               |                                                      | begin: the same for memory that is not kept
//!    +-- take back --+-----------------------------------------------------+
//!        from any state: waits for the step under way, and deregisters
//! ```
//!
//! **Memory goes back to its owner by [`take_back`](Lending::take_back) only**, which deregisters whatever core or the peer do. Before it, the
//! link is ended, unless core has released the memory. What core asks for later about memory that was taken back finds nothing.

mod cache;
mod lent;
mod steps;

use crate::budget::{BudgetShare, Charge, MemoryKind};
use crate::fabric::rdma::image::Image;
use crate::fabric::recent_buffers::RecentBuffers;
use crate::fabric::{RegisteredMemory, Span, Way};
use crate::os::jobs::{Busy as JobsBusy, Jobs, Step, Steps, Ticket as JobTicket};
use crate::os::page::page_bytes;
use cache::{Cache, Kept};
use core::ptr::NonNull;
use core::{fmt, mem};
use heapless::Deque;
use lent::Lent;
use std::sync::Arc;
use steps::{Deregister, Extent, Held, Register};
use superpipe_core::{
    Buffer, Busy, Finished, Job, JobFailed, JobOutcome, RecvMemory, Registration, RemoteClaim, SendMemory,
    Ticket,
};
use superpipe_verbs::{Access, LentMr, Pd, Sge};

/// Ends of jobs that no step makes: two refusals, two deregistrations of what is not there, and the end of the link for both.
const REPORTS_MAX: usize = 8;

/// Memory that the application has lent, one at a time for each direction, and the registrations that are kept.
pub(in crate::fabric::rdma) struct Lending {
    /// By [`Way`].
    sides: [Side; 2],
    cache: Cache,
    /// Made with the first registration.
    share: Option<Arc<BudgetShare>>,
    pd: Pd,
    jobs: &'static Jobs,
    /// Remote writes can be made on this device.
    is_possible: bool,
    reports: Deque<Finished<Span, Image>, REPORTS_MAX>,
    /// Buffers of the newest messages that found no registration.
    missed: RecentBuffers,
    /// Number of the next buffer or registration. Never used twice.
    next: u64,
}

/// One direction.
#[derive(Default)]
struct Side {
    lent: Option<Lent>,
    state: State,
}

#[derive(Default)]
enum State {
    #[default]
    Nothing,
    Registering {
        ticket: Ticket,
        work: JobTicket<Register>,
    },
    Registered {
        number: u64,
        region: Region,
    },
    Deregistering {
        ticket: Ticket,
        work: JobTicket<Deregister>,
    },
}

/// A registration.
enum Region {
    /// For one message.
    Held(Held),
    Kept(Arc<Kept>),
}

const fn access(way: Way) -> Access {
    match way {
        Way::Out => Access::LocalRead,
        Way::In => Access::RemoteWrite,
    }
}

impl Region {
    fn mr(&self) -> &LentMr {
        match self {
            Self::Held(held) => &held.mr,
            Self::Kept(kept) => &kept.held().mr,
        }
    }
}

impl Lending {
    pub(in crate::fabric::rdma) fn new(pd: &Pd, is_possible: bool, jobs: &'static Jobs) -> Self {
        Self {
            sides: [Side::default(), Side::default()],
            cache: Cache::new(),
            share: None,
            pd: pd.clone(),
            jobs,
            is_possible,
            reports: Deque::new(),
            missed: RecentBuffers::default(),
            next: 1,
        }
    }

    /// Lends memory of a caller for a message. None if other memory is lent, or if the device cannot.
    ///
    /// # Safety
    /// The caller has borrowed `len` bytes from `start` on, mutably for [`Way::In`], until [`take_back`](Self::take_back) has returned.
    pub(in crate::fabric::rdma) unsafe fn lend(
        &mut self,
        way: Way,
        start: NonNull<u8>,
        len: usize,
    ) -> Option<Buffer> {
        let extent = Extent { start, len };
        self.put(way, |number| Lent {
            number,
            extent,
            offset: 0,
            memory: None,
            is_kept: false,
            or_once: true,
        })
    }

    /// Lends a part of a buffer, from `offset` on, for a message out of it. Its registration is kept. `is_default`: nobody asked for that, so it is
    /// registered only where there is room to keep it beside others.
    pub(in crate::fabric::rdma) fn lend_source(
        &mut self,
        memory: &Arc<RegisteredMemory>,
        offset: usize,
        is_default: bool,
    ) -> Option<SendMemory> {
        if let Some(number) = self.hit(Way::Out, memory, offset) {
            return Some(SendMemory::Registered(Registration(number)));
        }
        let is_again = self.missed.note(memory);
        let lent = |number| {
            let lent = Lent::of_buffer(number, Arc::clone(memory), true);
            Lent { offset, or_once: !is_default, ..lent }
        };
        let buffer = self.put(Way::Out, lent)?;
        Some(SendMemory::Keepable { buffer, is_again })
    }

    /// Lends a buffer for a message into it. Its registration is kept if `is_trusted`.
    ///
    /// # Safety
    /// 1. The caller has borrowed the buffer mutably until [`take_back`](Self::take_back) has returned.
    /// 2. If `is_trusted`, the application has declared that the peer writes to it at no other time.
    pub(in crate::fabric::rdma) unsafe fn lend_destination(
        &mut self,
        memory: &Arc<RegisteredMemory>,
        is_trusted: bool,
    ) -> Option<RecvMemory> {
        if is_trusted && self.hit(Way::In, memory, 0).is_some() {
            let State::Registered { region, .. } = &self.sides[Way::In as usize].state else { return None };
            return Some(RecvMemory::Registered(claim_of(region)));
        }
        let memory = Arc::clone(memory);
        let buffer = self.put(Way::In, |number| Lent::of_buffer(number, memory, is_trusted));
        buffer.map(RecvMemory::Lent)
    }

    /// Registers a buffer for messages out of it, ahead of the first, in this call. Returns false if the budget or the device refuses.
    pub(in crate::fabric::rdma) fn register_ahead(&mut self, memory: &Arc<RegisteredMemory>) -> bool {
        if !self.is_possible || self.cache.find(memory, access(Way::Out)).is_some() {
            return self.is_possible;
        }
        let Lent { extent, memory, .. } = Lent::of_buffer(0, Arc::clone(memory), true);
        let Some(charge) = self.charge(extent, true, true).filter(Charge::is_cached) else { return false };
        // SAFETY: the buffer owns the memory.
        let mut work = unsafe { Register::new(&self.pd, extent, access(Way::Out), charge, memory) };
        let Step::Done(Some(held)) = work.step() else { return false };
        self.cache.keep(held, access(Way::Out)).is_ok()
    }

    fn put(&mut self, way: Way, lent: impl FnOnce(u64) -> Lent) -> Option<Buffer> {
        let side = &mut self.sides[way as usize];
        if !self.is_possible || side.lent.is_some() || !matches!(side.state, State::Nothing) {
            return None;
        }
        let number = take_number(&mut self.next);
        side.lent = Some(lent(number));
        Some(Buffer(number))
    }

    /// Lends a buffer that has a registration. Returns its number.
    fn hit(&mut self, way: Way, memory: &Arc<RegisteredMemory>, offset: usize) -> Option<u64> {
        let side = &mut self.sides[way as usize];
        if !self.is_possible || side.lent.is_some() || !matches!(side.state, State::Nothing) {
            return None;
        }
        let kept = self.cache.find(memory, access(way))?;
        let number = take_number(&mut self.next);
        side.lent = Some(Lent { offset, ..Lent::of_buffer(number, Arc::clone(memory), true) });
        side.state = State::Registered { number, region: Region::Kept(kept) };
        Some(number)
    }

    /// Begins a job of core: to register or to deregister memory of the application.
    pub(in crate::fabric::rdma) fn begin(
        &mut self,
        ticket: Ticket,
        job: Job<Span, Image>,
    ) -> Result<(), Busy> {
        match job {
            Job::RegisterSource { buffer, bytes } => self.register(Way::Out, ticket, buffer, bytes),
            Job::RegisterDestination { buffer, bytes } => self.register(Way::In, ticket, buffer, bytes),
            Job::Deregister(registration) => self.deregister(ticket, registration),
            _ => Err(Busy),
        }
    }

    /// Takes the end of a job, in any order. Makes at most one step of each.
    pub(in crate::fabric::rdma) fn finished(&mut self) -> Option<Finished<Span, Image>> {
        if let Some(report) = self.reports.pop_front() {
            return Some(report);
        }
        [Way::Out, Way::In].into_iter().find_map(|way| self.poll(way))
    }

    /// Reports later that the link has ended.
    pub(in crate::fabric::rdma) fn report_end(&mut self, ticket: Ticket) -> Result<(), Busy> {
        self.reports.push_back((ticket, Ok(JobOutcome::Released))).map_err(|_| Busy)
    }

    /// Returns true if this names memory that is lent for a message out of it.
    pub(in crate::fabric::rdma) fn is_source(&self, registration: Registration) -> bool {
        let State::Registered { number, .. } = &self.sides[Way::Out as usize].state else { return false };
        *number == registration.0
    }

    /// Returns bytes of the memory that messages are written from.
    pub(in crate::fabric::rdma) fn sge(&self, at: u64, bytes: u32) -> Option<Sge<'_>> {
        let Side { lent: Some(Lent { offset, .. }), state: State::Registered { region, .. } } =
            &self.sides[Way::Out as usize]
        else {
            return None;
        };
        region.mr().sge(offset.checked_add(usize::try_from(at).ok()?)?, bytes)
    }

    /// Returns true if memory is lent that the device or the peer may use.
    pub(in crate::fabric::rdma) const fn is_in_use(&self, way: Way) -> bool {
        !matches!(self.sides[way as usize].state, State::Nothing)
    }

    /// Takes the memory back that was lent, and deregisters it unless its registration is kept. Waits for a step under way. The link has ended
    /// if core has not released the memory. With `has_ended` its registration is not kept: the device may still use the memory.
    pub(in crate::fabric::rdma) fn take_back(&mut self, way: Way, has_ended: bool) {
        let side = &mut self.sides[way as usize];
        let Some(lent) = side.lent.take() else { return };
        match mem::take(&mut side.state) {
            State::Nothing => {}
            State::Registering { ticket, work } => {
                work.end();
                self.report(ticket, Err(JobFailed::Refused));
            }
            // Deregisters, or aborts.
            State::Registered { region: Region::Held(held), .. } => drop(held),
            State::Registered { region: Region::Kept(kept), .. } => {
                if has_ended {
                    cache::release(&kept);
                    // What a cache elsewhere has of it is weak, so this is the last.
                    drop(Arc::into_inner(kept).map(Kept::into_held));
                }
            }
            State::Deregistering { ticket, work } => {
                work.end();
                self.report(ticket, Ok(JobOutcome::Released));
            }
        }
        drop(lent);
    }

    /// Deregisters what is kept, as much as others wait for.
    pub(in crate::fabric::rdma) fn trim(&mut self) {
        let Some(share) = &self.share else { return };
        let mut excess = share.cached_excess_bytes();
        while excess > 0 {
            let Some(kept) = self.take_oldest() else { return };
            excess = excess.saturating_sub(kept.held().charge.bytes());
            cache::retire(kept, self.jobs);
        }
    }

    fn take_oldest(&mut self) -> Option<Arc<Kept>> {
        let pinned = self.sides.each_ref().map(|side| match &side.state {
            State::Registered { region: Region::Kept(kept), .. } => Some(kept),
            _ => None,
        });
        self.cache.take_oldest(pinned)
    }

    fn register(&mut self, way: Way, ticket: Ticket, buffer: Buffer, bytes: u64) -> Result<(), Busy> {
        let side = &self.sides[way as usize];
        if !matches!(side.state, State::Nothing) {
            return Err(Busy);
        }
        let lent = side.lent.as_ref().filter(|lent| lent.number == buffer.0);
        let wanted = lent.and_then(|lent| Some((lent.extent_of(bytes)?, lent.is_kept, lent.or_once)));
        let Some((extent, is_kept, or_once)) = wanted else { return self.refuse(ticket) };
        let Some(charge) = self.charge(extent, is_kept, or_once) else { return self.refuse(ticket) };
        let side = &mut self.sides[way as usize];
        let memory = side.lent.as_ref().and_then(|lent| lent.memory.clone());
        // SAFETY: a buffer owns the memory, or it is borrowed until `take_back` has returned, which drops what the job is, or made.
        let work = unsafe { Register::new(&self.pd, extent, access(way), charge, memory) };
        match self.jobs.begin(work) {
            Ok(work) => {
                side.state = State::Registering { ticket, work };
                Ok(())
            }
            Err(JobsBusy(_)) => Err(Busy),
        }
    }

    /// Takes a share of the budget for a registration. One that is kept takes the place of the least recently used ones. If there is no room
    /// among those that are kept, it is for one message. Unless `or_once` it is refused then, and no room is made for it: others are not worth less.
    fn charge(&mut self, extent: Extent, is_kept: bool, or_once: bool) -> Option<Charge> {
        let share = match &self.share {
            Some(share) => Arc::clone(share),
            None => {
                let share = Arc::new(BudgetShare::open(MemoryKind::Registered, 0).ok()?);
                Arc::clone(self.share.insert(share))
            }
        };
        let bytes = pages_of(extent);
        let mut cached = None;
        while is_kept && cached.is_none() {
            if !self.cache.is_full() {
                cached = Charge::cache(&share, bytes).ok();
            }
            if cached.is_none() {
                if !or_once && !self.cache.is_full() {
                    break;
                }
                let Some(kept) = self.take_oldest() else { break };
                // Its bytes are to be used at once.
                drop(kept);
            }
        }
        if cached.is_some() || !or_once {
            return cached;
        }
        Charge::grow(&share, bytes).ok()
    }

    fn deregister(&mut self, ticket: Ticket, Registration(wanted): Registration) -> Result<(), Busy> {
        let is_of =
            |side: &&mut Side| matches!(&side.state, State::Registered { number, .. } if *number == wanted);
        let Some(side) = self.sides.iter_mut().find(is_of) else {
            // It was taken back.
            return self.report_end(ticket);
        };
        match mem::take(&mut side.state) {
            State::Registered { number, region: Region::Held(held) } => {
                match self.jobs.begin(Deregister::new(held)) {
                    Ok(work) => {
                        side.state = State::Deregistering { ticket, work };
                        Ok(())
                    }
                    Err(JobsBusy(steps)) => {
                        if let Some(held) = steps.undo() {
                            side.state = State::Registered { number, region: Region::Held(held) };
                        }
                        Err(Busy)
                    }
                }
            }
            kept => {
                side.state = kept;
                self.report_end(ticket)
            }
        }
    }

    fn poll(&mut self, way: Way) -> Option<Finished<Span, Image>> {
        let Side { lent, state } = &mut self.sides[way as usize];
        match state {
            State::Registering { ticket, work } => {
                let (ticket, done) = (*ticket, work.poll()?);
                *state = State::Nothing;
                let Ok(Some(held)) = done else { return Some((ticket, Err(JobFailed::Refused))) };
                let is_kept = lent.as_ref().is_some_and(|lent| lent.is_kept) && held.charge.is_cached();
                let region = match is_kept.then_some(()) {
                    Some(()) => self.cache.keep(held, access(way)).map_or_else(Region::Held, Region::Kept),
                    None => Region::Held(held),
                };
                let number = take_number(&mut self.next);
                let claim = claim_of(&region);
                *state = State::Registered { number, region };
                Some((ticket, Ok(JobOutcome::Registered(Registration(number), claim))))
            }
            State::Deregistering { ticket, work } => {
                let ticket = *ticket;
                // A step that panicked has dropped the region while it unwound.
                let _ = work.poll()?;
                *state = State::Nothing;
                Some((ticket, Ok(JobOutcome::Released)))
            }
            State::Nothing | State::Registered { .. } => None,
        }
    }

    fn refuse(&mut self, ticket: Ticket) -> Result<(), Busy> {
        self.reports.push_back((ticket, Err(JobFailed::Refused))).map_err(|_| Busy)
    }

    fn report(&mut self, ticket: Ticket, result: superpipe_core::JobResult<Span, Image>) {
        let kept = self.reports.push_back((ticket, result));
        debug_assert!(kept.is_ok(), "core has two jobs at most, and takes their ends in each round");
    }
}

impl Drop for Lending {
    fn drop(&mut self) {
        for way in [Way::Out, Way::In] {
            self.take_back(way, true);
        }
    }
}

fn take_number(next: &mut u64) -> u64 {
    let number = *next;
    *next += 1;
    number
}

fn claim_of(region: &Region) -> RemoteClaim {
    RemoteClaim { address: region.mr().remote_addr(), key: region.mr().rkey().0 }
}

/// Returns the bytes of the pages that have these bytes, which is what the kernel counts.
fn pages_of(Extent { start, len }: Extent) -> u64 {
    let page = page_bytes();
    let first = start.addr().get() / page * page;
    let end = start.addr().get().saturating_add(len);
    (end.saturating_sub(first) as u64).next_multiple_of(page as u64)
}

impl fmt::Debug for Lending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = |side: &Side| match (&side.lent, &side.state) {
            (None, State::Nothing) => "NOTHING",
            (Some(_), State::Nothing) => "LENT",
            (_, State::Registering { .. }) => "REGISTERING",
            (_, State::Registered { .. }) => "REGISTERED",
            (_, State::Deregistering { .. }) => "DEREGISTERING",
        };
        f.debug_tuple("Lending").field(&self.sides.each_ref().map(state)).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
