//! The shared-memory fabric: direct store into the peer's segment, which is mapped here.
//!
//! A segment has a control page, and landing buffers behind it, and is accessed through spans.

use core::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;

use superpipe_core::driver::setup::{GROWTH_DELAY, GROWTH_SLAB_BYTES};
use superpipe_core::plan::{Machine, Terms};
#[cfg(feature = "recorder")]
use superpipe_core::recorder::Recorder;
use superpipe_core::{
    Attachment, Busy, CONTROL_PAGE_BYTES, Caps, Completion, CopyKernel, Endpoint, Fabric, Finished,
    GrowthTerms, Job, KernelSet, Layout, Line, Nanos, Notification, Planning, SendMemory, SqFull, Ticket,
    WrId,
};

use super::exposing::Exposing;
use super::growing::{self, Growing};
use super::landing::{base_in, landing};
use super::liveness::Liveness;
use super::prefetch;
use super::segments::Segments;
use super::sleep::{SLEEP_NS_MAX_UNFENCED, SleepOutcome, Sleeper, sleep_flag, wake_if_asleep};
use super::socket::Socket;
use crate::budget::BudgetShare;
use crate::copy::{CopyKernels, crc32c, drain_stores};
use crate::fabric::observers::Observers;
use crate::fabric::{HostFabric, LossCause, Registered, RegisteredMemory, SleepEnd, Span, TrustedMemory};
use crate::os::poll::{PollFd, Polled};
use crate::os::step_time::add_steps;
use crate::os::{Mapping, OsError, monotonic_ns};

/// The shared-memory fabric: the copy kernels of this CPU, and the recorder of its one connection.
#[derive(Debug)]
pub struct Shm {
    kernels: &'static CopyKernels,
    /// Time that calls of the connection have spent on steps of its jobs.
    job_steps_ns: u64,
    pub(super) observers: Observers,
}

/// A connection: the two segments, and the socket, which shows whether the peer lives and wakes the ends.
#[derive(Debug)]
pub struct ShmLink {
    /// mapped for as long as the spans into it are used
    memory: Memory,
    /// control pages: of this end, and of the peer
    mine: Span,
    theirs: Span,
    socket: Socket,
    liveness: Liveness,
    /// none while it is in use
    sleeper: Option<Sleeper>,
    /// none unless the connection uses registered buffers
    exposing: Option<Box<Exposing>>,
    /// Writes leave a sleeping peer asleep.
    is_quiet: bool,
}

/// Memory of a connection. Its descriptors are closed.
#[derive(Debug)]
enum Memory {
    Whole {
        /// ours, and the peer's
        _segments: [Mapping; 2],
    },
    Growing(Box<Growing>),
}

impl Shm {
    /// Makes a fabric for one connection.
    #[must_use]
    pub fn new() -> Self {
        Self { kernels: CopyKernels::get(), job_steps_ns: 0, observers: Observers::default() }
    }

    /// Attaches an endpoint to two segments that were made for this layout. `serves` is true if the process that the kernel names at the
    /// other end of the socket is the one that serves this connection. `exposing` is the share of the budget of a connection that uses
    /// registered buffers, and the most bytes of them that the peer may let it map.
    #[must_use]
    pub fn attach(
        segments: Segments,
        layout: Layout,
        socket: Socket,
        fenced: bool,
        serves: bool,
        exposing: Option<(&Arc<BudgetShare>, u64)>,
    ) -> Attachment<Self> {
        let [mine, theirs] = segments.control_pages().map(|page| {
            // SAFETY: 1. Each segment begins with a control page, which the link keeps mapped for as long as its spans are used.
            // 2. A segment gives out no reference.
            unsafe { Span::new(page, CONTROL_PAGE_BYTES) }
        });
        let (landings, growth, memory) = match segments {
            Segments::Whole { mine, theirs } => {
                let segments = [mine.into_mapping(), theirs.into_mapping()];
                let landings = segments.each_ref().map(|segment| landing(segment, layout));
                (landings, None, Memory::Whole { _segments: segments })
            }
            Segments::Sparse { mine: own, theirs: peer, share, small } => {
                let bases @ [base, peer_base] = [mine, theirs].map(base_in);
                let small_layout = small.as_ref().map(|small| small.layout);
                let growing = Box::new(Growing::new(own, peer, share, small));
                let landings = small_layout.map_or(bases, |layout| growing.small_buffers(layout));
                let first_is_own = small_layout.is_some();
                let terms = GrowthTerms {
                    base,
                    peer_base,
                    largest: layout,
                    slab_bytes: GROWTH_SLAB_BYTES,
                    delay: GROWTH_DELAY,
                    first_is_own,
                };
                (landings, Some(terms), Memory::Growing(growing))
            }
        };
        let [landing, peer_landing] = landings;
        let exposing = exposing
            .map(|(share, mapped_bytes_max)| Box::new(Exposing::new(Arc::clone(share), mapped_bytes_max)));
        if exposing.is_some() {
            socket.expect_fd(true);
        }
        Attachment {
            control_page: mine,
            peer_control_page: theirs,
            landing,
            peer_landing,
            growth,
            link: ShmLink {
                liveness: if serves { Liveness::of_peer(&socket) } else { Liveness::of_socket() },
                memory,
                mine,
                theirs,
                socket,
                sleeper: Some(Sleeper::new(fenced)),
                exposing,
                is_quiet: false,
            },
        }
    }
}

impl ShmLink {
    const fn growing(&mut self) -> Option<&mut Growing> {
        match &mut self.memory {
            Memory::Whole { .. } => None,
            Memory::Growing(growing) => Some(growing),
        }
    }

    /// Returns the registered buffers, if the connection uses them.
    pub(super) fn exposing(&mut self) -> Option<&mut Exposing> {
        self.exposing.as_deref_mut()
    }

    /// Returns the registered buffers, if the connection uses them.
    pub(super) fn exposing_ref(&self) -> Option<&Exposing> {
        self.exposing.as_deref()
    }

    #[cfg(test)]
    pub(super) fn growing_mut(&mut self) -> &mut Growing {
        self.growing().expect("landing is on demand")
    }

    /// Returns true while a job is under way.
    fn has_jobs(&self) -> bool {
        matches!(&self.memory, Memory::Growing(growing) if growing.has_jobs())
            || self.exposing_ref().is_some_and(Exposing::has_jobs)
    }

    /// Returns true if a packet with a descriptor, for which this process has no room, makes the socket readable all the time.
    fn is_starved(&self) -> bool {
        self.exposing_ref().is_some_and(Exposing::is_starved)
    }
}

impl Default for Shm {
    fn default() -> Self {
        Self::new()
    }
}

impl Fabric for Shm {
    const DIRECT: bool = true;
    const TIMES_COPIES: bool = true;
    type Link = ShmLink;
    type Region = Span;
    type Remote = Span;

    fn caps(&self, _: &ShmLink) -> Caps {
        Caps { order_inside_write: true, notifications_max: 0 }
    }

    fn now(&mut self) -> Nanos {
        Nanos(monotonic_ns())
    }

    #[inline]
    fn flag(&self, _: &ShmLink, from: Span, at: u32) -> u64 {
        from.flag(at)
    }

    #[inline]
    fn take_line(&self, _: &ShmLink, from: Span, at: u32) -> Line {
        from.take_line(at)
    }

    #[inline]
    fn take_line_if(&self, _: &ShmLink, from: Span, at: u32, flag: u64) -> Option<Line> {
        from.take_line_if(at, flag)
    }

    #[inline]
    fn copy_out(&mut self, _: &mut ShmLink, from: Span, at: u32, to: &mut [u8], kernel: CopyKernel) {
        from.copy_out(self.kernels, at, to, kernel);
    }

    #[inline]
    fn expect_read(&mut self, _: &mut ShmLink, from: Span, flag_at: u32, flag: u64, at: u32, bytes: u32) {
        prefetch::before_read(from, flag_at, flag, at, bytes);
    }

    fn crc_out(&self, _: &ShmLink, from: Span, at: u32, bytes: u32, seed: u32) -> u32 {
        from.crc(at, bytes, seed)
    }

    #[inline]
    fn write_line(&mut self, _: &mut ShmLink, to: Span, at: u32, line: &Line) {
        to.write_line(at, line);
    }

    #[inline]
    fn publish(&mut self, _: &mut ShmLink, to: Span, at: u32, flag: u64) {
        to.publish(at, flag);
    }

    #[inline]
    fn expect_write(&mut self, _: &mut ShmLink, to: Span, at: u32, bytes: u32, follows_answer: bool) {
        prefetch::before_write(to, at, bytes, follows_answer);
    }

    #[inline]
    fn copy_in(&mut self, _: &mut ShmLink, to: Span, at: u32, from: &[u8], kernel: CopyKernel) {
        to.copy_in(self.kernels, at, from, kernel);
    }

    fn copy_kernels(&self, _: &ShmLink) -> KernelSet {
        self.kernels.set()
    }

    #[inline]
    fn settle_stores(&self, _: &ShmLink) {
        drain_stores();
    }

    fn crc_in(&self, _: &ShmLink, to: Span, at: u32, bytes: u32, seed: u32) -> u32 {
        to.crc(at, bytes, seed)
    }

    fn crc(&self, bytes: &[u8], seed: u32) -> u32 {
        crc32c(seed, bytes)
    }

    fn post_write(
        &mut self,
        _: &mut ShmLink,
        _: Span,
        _: u32,
        _: u32,
        _: Option<WrId>,
        _: Option<Notification>,
    ) -> Result<(), SqFull> {
        unreachable!("nothing is posted where stores go direct")
    }

    #[inline]
    fn ring_doorbell(&mut self, link: &mut ShmLink) {
        if !link.is_quiet {
            wake_if_asleep(sleep_flag(&link.theirs), &link.socket);
        }
    }

    fn set_quiet(&mut self, link: &mut ShmLink, is_quiet: bool) {
        link.is_quiet = is_quiet;
    }

    fn begin(&mut self, link: &mut ShmLink, ticket: Ticket, job: Job<Span, Span>) -> Result<(), Busy> {
        let ShmLink { exposing, socket, .. } = link;
        if let Some(exposing) = exposing
            && let Some(begun) = exposing.begin(socket, ticket, &job)
        {
            return begun;
        }
        link.growing().map_or(Err(Busy), |growing| growing.begin(ticket, job))
    }

    fn finished(&mut self, link: &mut ShmLink) -> Option<Finished<Span, Span>> {
        add_steps(&mut self.job_steps_ns, || {
            let ShmLink { exposing, socket, sleeper, .. } = &mut *link;
            if let Some(exposing) = exposing {
                let is_asleep = sleeper.as_ref().is_none_or(Sleeper::has_sleeps);
                if let Some(finished) = exposing.finished(socket, is_asleep) {
                    return Some(finished);
                }
            }
            link.growing()?.finished()
        })
    }

    #[inline]
    fn job_steps_ns(&self, _: &ShmLink) -> u64 {
        self.job_steps_ns
    }

    fn poll_cq(&mut self, _: &mut ShmLink) -> Option<Completion> {
        None
    }

    fn must_release(&self, link: &ShmLink) -> bool {
        matches!(&link.memory, Memory::Growing(growing) if growing.must_shrink())
    }

    fn note_idle(&self, link: &ShmLink, is_idle: bool) {
        if let Memory::Growing(growing) = &link.memory {
            growing.note_idle(is_idle);
        }
    }

    fn is_memory_short(&self, _: &ShmLink) -> bool {
        growing::is_memory_short()
    }

    #[cfg(feature = "recorder")]
    #[inline]
    fn recorder(&mut self, _: &ShmLink) -> Option<&mut Recorder> {
        self.observers.recorder()
    }

    fn begin_planning(&mut self, _: &ShmLink, terms: Terms) {
        self.observers.begin_planning(Machine::SHARED_MEMORY.profile, terms);
    }

    #[inline]
    fn planning(&mut self, _: &ShmLink) -> Option<&mut Planning> {
        self.observers.planning()
    }
}

// SAFETY: spans point into the two segments, which are mapped until the link is dropped; `at` checks that the named bytes are inside
// them. Those in use are populated.
unsafe impl HostFabric for Shm {
    const NAME: &'static str = "shm";
    const DROPS_IN_CHILD: bool = true;

    fn source_of(&self, _: &ShmLink, from: Span, at: u32, bytes: u32) -> *const u8 {
        from.at(at, bytes as usize)
    }

    fn place_in(&self, _: &ShmLink, to: Span, at: u32, bytes: u32) -> *mut u8 {
        to.at(at, bytes as usize)
    }

    #[cfg(feature = "recorder")]
    fn record(&mut self, on: bool) {
        self.observers.record(on);
    }

    fn plan(&mut self, endpoint: &Endpoint<Self>, is_later: bool) {
        self.observers.plan(endpoint, Machine::SHARED_MEMORY.profile, is_later);
    }

    fn is_alive(&self, link: &ShmLink) -> bool {
        link.exposing_ref().is_none_or(|exposing| exposing.breach().is_none())
            && link.liveness.is_alive(&link.socket)
    }

    fn why_gone(&self, link: &ShmLink) -> Option<LossCause> {
        link.exposing_ref()?.breach().map(|breach| LossCause::Violation(breach.to_string()))
    }

    fn source_memory(
        &mut self,
        endpoint: &mut Endpoint<Self>,
        memory: &Arc<RegisteredMemory>,
        part: Range<usize>,
    ) -> Option<SendMemory> {
        self.source_of_message(endpoint, memory, &part)
    }

    fn count_sent(
        &mut self,
        endpoint: &mut Endpoint<Self>,
        memory: &Arc<RegisteredMemory>,
        bytes: usize,
        is_exposed: bool,
    ) {
        Self::count_message(endpoint, memory, bytes, is_exposed);
    }

    fn count_unsent(&mut self, endpoint: &mut Endpoint<Self>, memory: &Arc<RegisteredMemory>, bytes: usize) {
        self.count_try(endpoint, memory, bytes);
    }

    fn register(
        &mut self,
        endpoint: &mut Endpoint<Self>,
        memory: &Arc<RegisteredMemory>,
        is_new: bool,
    ) -> Option<Registered> {
        self.register_buffer(endpoint, memory, is_new)
    }

    fn is_shared(&mut self, endpoint: &mut Endpoint<Self>, memory: &Arc<RegisteredMemory>) -> bool {
        self.is_buffer_shared(endpoint, memory)
    }

    fn offer(&mut self, endpoint: &mut Endpoint<Self>, memory: &Arc<TrustedMemory>) -> bool {
        self.offer_buffer(endpoint, memory)
    }

    fn is_offered(&mut self, endpoint: &mut Endpoint<Self>, memory: &Arc<TrustedMemory>) -> bool {
        Self::is_buffer_offered(endpoint, memory)
    }

    fn registrations(&self, link: &ShmLink) -> [u64; 2] {
        link.exposing_ref().map_or([0; 2], |exposing| exposing.own.counts())
    }

    fn tend(&mut self, endpoint: &mut Endpoint<Self>) {
        if endpoint.link().exposing.is_some() {
            self.tend_buffers(endpoint);
            self.tend_trusted(endpoint);
        }
    }

    fn interests<'a>(&self, link: &'a ShmLink) -> [PollFd<'a>; 1] {
        // Not readiness to read: a wake-up that comes late stays in the queue until the next sleep.
        [PollFd::new(link.socket.as_fd(), libc::POLLRDHUP)]
    }

    fn begin_sleep(&self, endpoint: &mut Endpoint<Self>, timeout_ns: u64) -> Result<u64, SleepEnd> {
        // Nobody wakes this end when a job ends, and it may have to make the steps itself. A job takes a fraction of a millisecond.
        if endpoint.link().has_jobs() {
            return Err(SleepEnd::Poll);
        }
        let Some(mut sleeper) = endpoint.link_mut().sleeper.take() else { return Err(SleepEnd::Poll) };
        let longest_ns = sleeper.begin(sleep_flag(&endpoint.link().mine), || endpoint.has_arrivals(self));
        endpoint.link_mut().sleeper = Some(sleeper);
        let most_ns = if endpoint.link().is_starved() { SLEEP_NS_MAX_UNFENCED } else { timeout_ns };
        longest_ns.map(|longest_ns| timeout_ns.min(longest_ns).min(most_ns)).ok_or(SleepEnd::Poll)
    }

    fn needs_regular_looks(&self, link: &ShmLink) -> bool {
        link.is_starved() || link.exposing_ref().is_some_and(Exposing::has_own)
    }

    fn sleep_interests<'a>(&self, link: &'a ShmLink) -> [PollFd<'a>; 2] {
        let [socket, process] = link.liveness.interests(&link.socket);
        [if link.is_starved() { link.socket.interest_in_end() } else { socket }, process]
    }

    fn end_sleep(
        &self,
        endpoint: &mut Endpoint<Self>,
        polled: Result<Polled, OsError>,
        fds: [PollFd<'_>; 2],
    ) -> SleepEnd {
        let ShmLink { mine, socket, sleeper, exposing, .. } = endpoint.link_mut();
        let Some(sleeper) = sleeper else { return SleepEnd::Poll };
        let mut buffers = exposing.as_deref_mut().map(Exposing::sent_mut);
        if let Some(buffers) = buffers.as_mut().filter(|buffers| buffers.is_starved()) {
            // This process may have a descriptor by now. The poll has not looked for packets.
            buffers.take_next(socket);
        }
        match sleeper.end_with(sleep_flag(mine), socket, buffers, polled, &fds) {
            Ok(SleepOutcome::PeerGone) => SleepEnd::PeerGone,
            // After the handshake the socket carries wake bytes and registered buffers; a peer that sends a message breaks the protocol.
            Ok(SleepOutcome::Message) => SleepEnd::PeerGone,
            Ok(SleepOutcome::TimedOut) => SleepEnd::TimedOut,
            Ok(SleepOutcome::Woken | SleepOutcome::Interrupted) | Err(_) => SleepEnd::Poll,
        }
    }
}

#[cfg(test)]
mod tests;
