//! The fabric on an RC QP, for core.

use super::connection::RdmaConnection;
use super::growth;
use super::image::Image;
use super::memory::LinkMemory;
use crate::copy::{CopyKernels, crc32c};
use crate::fabric::observers::Observers;
use crate::fabric::{ConcurrentSleeps, Span};
use crate::os::monotonic_ns;
use crate::os::step_time::add_steps;
use superpipe_core::Planning;
use superpipe_core::driver::setup::{GROWTH_SLAB_BYTES, LandingMode, Negotiated};
use superpipe_core::plan::{Machine, Terms};
#[cfg(feature = "recorder")]
use superpipe_core::recorder::Recorder;
use superpipe_core::{
    Arrival, Attachment, Busy, Caps, Completion, CopyKernel, DestinationClaim, Fabric, Finished, GrowthDelay,
    GrowthTerms, Job, Landing, Layout, Line, Nanos, Notification, Registration, RemoteClaim, SqFull, Ticket,
    WrId,
};
use superpipe_verbs::{RemoteAddr, Rkey};

/// The RDMA fabric: the copy kernels of this CPU, and the recorder of its one connection.
#[derive(Debug)]
pub struct Rdma {
    kernels: &'static CopyKernels,
    /// The peer is trusted with memory of registered buffers.
    pub(super) trusts_peer: bool,
    /// Time that calls of the connection have spent on steps of its jobs.
    job_steps_ns: u64,
    pub(super) observers: Observers,
}

/// One connection, and the memory that is registered for it.
#[derive(Debug)]
pub struct RdmaLink {
    pub(super) connection: RdmaConnection,
    // After the connection, whose drop still sends out of it: the QP is gone before a region is.
    pub(super) memory: LinkMemory,
    keeps_order: bool,
    notifications_max: u16,
    /// Notify mode: each write of the peer comes with a notification.
    pub(super) is_notified: bool,
    pub(super) sleepers: ConcurrentSleeps,
}

/// What both ends agreed on, as far as a link has to know.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkTerms {
    pub(super) arrival: Arrival,
    pub(super) notifications_max: u16,
    /// Layout of the largest landing buffer, if they grow.
    pub(super) largest: Option<Layout>,
    /// Layout of the small buffers, by the provision protocol.
    pub(super) small: Option<Layout>,
}

impl LinkTerms {
    pub(super) fn of(negotiated: &Negotiated) -> Self {
        Self {
            arrival: negotiated.config.arrival,
            notifications_max: negotiated.notifications_max(),
            largest: (negotiated.landing == LandingMode::OnDemand).then_some(negotiated.layout),
            small: negotiated.small_buffer(),
        }
    }
}

impl Rdma {
    /// Makes the fabric of one connection.
    #[must_use]
    pub fn new() -> Self {
        Self {
            kernels: CopyKernels::get(),
            trusts_peer: false,
            job_steps_ns: 0,
            observers: Observers::default(),
        }
    }
}

impl Rdma {
    /// Sets whether the peer is trusted with memory of registered buffers.
    ///
    /// # Safety
    /// As [`PeerTrust::declare`](crate::PeerTrust::declare), if it is.
    pub unsafe fn trust_peer(&mut self, is_trusted: bool) {
        self.trusts_peer = is_trusted;
    }
}

impl Default for Rdma {
    fn default() -> Self {
        Self::new()
    }
}

impl RdmaLink {
    pub(super) fn attach(
        connection: RdmaConnection,
        memory: LinkMemory,
        terms: LinkTerms,
    ) -> Attachment<Rdma> {
        let mut connection = connection;
        connection.set_notified(terms.arrival == Arrival::Notify);
        let LinkMemory { mine, image, growth, .. } = &memory;
        let Landing { memory: span, layout } = image.landing();
        let (base, peer_base) =
            (mine.landing(), Landing { memory: Image { span, base: image.landing_at() }, layout });
        let small = growth.as_ref().zip(terms.small).and_then(|(growth, layout)| growth.small(layout));
        let (landing, peer_landing) = small.unwrap_or((base, peer_base));
        Attachment {
            control_page: mine.control_page(),
            landing,
            peer_control_page: Image { span: image.control_page(), base: 0 },
            peer_landing,
            growth: terms.largest.map(|largest| GrowthTerms {
                base,
                peer_base,
                largest,
                slab_bytes: GROWTH_SLAB_BYTES,
                // The helper thread and the device provision while the ring goes on, a round trip each time.
                delay: GrowthDelay::NONE,
                first_is_own: small.is_some(),
            }),
            link: Self {
                keeps_order: connection.keeps_order(),
                is_notified: terms.arrival == Arrival::Notify,
                notifications_max: terms.notifications_max,
                sleepers: ConcurrentSleeps::new(),
                connection,
                memory,
            },
        }
    }
}

impl Drop for RdmaLink {
    /// Bounds the wait for jobs by the end of the connection's own drop, which comes first.
    fn drop(&mut self) {
        if let Some(growth) = &mut self.memory.growth {
            growth.end_by(self.connection.ends_by());
        }
    }
}

/// Makes what a NIC wrote before a flag readable after it: on x86 loads are in order, elsewhere a barrier that devices
/// take part in is needed.
#[inline]
fn after_arrival() {
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier for loads; it touches neither memory nor registers.
    unsafe {
        core::arch::asm!("dmb oshld", options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
}

impl Fabric for Rdma {
    const DIRECT: bool = false;
    type Link = RdmaLink;
    type Region = Span;
    type Remote = Image;

    fn caps(&self, link: &RdmaLink) -> Caps {
        Caps { order_inside_write: link.keeps_order, notifications_max: link.notifications_max }
    }

    fn now(&mut self) -> Nanos {
        Nanos(monotonic_ns())
    }

    #[inline]
    fn flag(&self, _: &RdmaLink, from: Span, at: u32) -> u64 {
        let flag = from.flag(at);
        after_arrival();
        flag
    }

    #[inline]
    fn take_line(&self, _: &RdmaLink, from: Span, at: u32) -> Line {
        from.take_line(at)
    }

    #[inline]
    fn copy_out(&mut self, _: &mut RdmaLink, from: Span, at: u32, to: &mut [u8], kernel: CopyKernel) {
        from.copy_out(self.kernels, at, to, kernel);
    }

    fn crc_out(&self, _: &RdmaLink, from: Span, at: u32, bytes: u32, seed: u32) -> u32 {
        from.crc(at, bytes, seed)
    }

    #[inline]
    fn write_line(&mut self, _: &mut RdmaLink, to: Image, at: u32, line: &Line) {
        to.span.write_line(at, line);
    }

    #[inline]
    fn publish(&mut self, _: &mut RdmaLink, to: Image, at: u32, flag: u64) {
        to.span.publish(at, flag);
    }

    #[inline]
    fn copy_in(&mut self, _: &mut RdmaLink, to: Image, at: u32, from: &[u8], kernel: CopyKernel) {
        to.span.copy_in(self.kernels, at, from, kernel);
    }

    fn crc_in(&self, _: &RdmaLink, to: Image, at: u32, bytes: u32, seed: u32) -> u32 {
        to.span.crc(at, bytes, seed)
    }

    fn crc(&self, bytes: &[u8], seed: u32) -> u32 {
        crc32c(seed, bytes)
    }

    #[inline]
    fn post_write(
        &mut self,
        link: &mut RdmaLink,
        to: Image,
        at: u32,
        bytes: u32,
        wr: Option<WrId>,
        notice: Option<Notification>,
    ) -> Result<(), SqFull> {
        let RdmaLink { connection, memory, .. } = link;
        if connection.write(to.base + at, bytes, wr, notice, memory) { Ok(()) } else { Err(SqFull) }
    }

    #[inline]
    fn ring_doorbell(&mut self, link: &mut RdmaLink) {
        let RdmaLink { connection, memory, .. } = link;
        connection.ring_doorbell(memory);
    }

    #[inline]
    fn poll_cq(&mut self, link: &mut RdmaLink) -> Option<Completion> {
        link.connection.next_completion()
    }

    #[inline]
    fn poll_notification(&mut self, link: &mut RdmaLink) -> Option<Notification> {
        link.connection.take_notification(&link.memory, self.kernels)
    }

    #[inline]
    fn has_notification(&self, link: &RdmaLink) -> bool {
        link.connection.has_notification()
    }

    fn post_remote_write(
        &mut self,
        link: &mut RdmaLink,
        from: Registration,
        to: DestinationClaim,
        at: u64,
        bytes: u32,
    ) -> Result<(), SqFull> {
        let RdmaLink { connection, memory, .. } = link;
        debug_assert!(memory.lending.is_source(from), "core writes out of memory that it holds");
        // Core has checked that the claim does not wrap; the peer's device checks the rest.
        let RemoteClaim { address, key } = to.memory;
        let to = RemoteAddr { addr: address.wrapping_add(at), rkey: Rkey(key) };
        if connection.write_remote(at, bytes, to, memory) { Ok(()) } else { Err(SqFull) }
    }

    fn begin(&mut self, link: &mut RdmaLink, ticket: Ticket, job: Job<Span, Image>) -> Result<(), Busy> {
        let RdmaLink { connection, memory, .. } = link;
        match job {
            Job::RegisterSource { .. } | Job::RegisterDestination { .. } | Job::Deregister(_) => {
                memory.lending.begin(ticket, job)
            }
            Job::EndLink => {
                connection.end_link();
                memory.lending.report_end(ticket)
            }
            job => memory.growth.as_mut().map_or(Err(Busy), |growth| growth.begin(ticket, job)),
        }
    }

    fn finished(&mut self, link: &mut RdmaLink) -> Option<Finished<Span, Image>> {
        let LinkMemory { growth, lending, .. } = &mut link.memory;
        add_steps(&mut self.job_steps_ns, || {
            growth.as_mut().and_then(|growth| growth.finished()).or_else(|| lending.finished())
        })
    }

    fn bind_image(&mut self, link: &mut RdmaLink, image: Image, claim: RemoteClaim) -> bool {
        link.memory.growth.as_mut().is_some_and(|growth| growth.bind(image, claim))
    }

    #[inline]
    fn job_steps_ns(&self, _: &RdmaLink) -> u64 {
        self.job_steps_ns
    }

    fn must_release(&self, link: &RdmaLink) -> bool {
        link.memory.growth.as_ref().is_some_and(|growth| growth.must_shrink())
    }

    fn note_idle(&self, link: &RdmaLink, is_idle: bool) {
        if let Some(growth) = &link.memory.growth {
            growth.note_idle(is_idle);
        }
    }

    fn is_memory_short(&self, _: &RdmaLink) -> bool {
        growth::is_memory_short()
    }

    fn set_quiet(&mut self, link: &mut RdmaLink, is_quiet: bool) {
        link.connection.set_quiet(is_quiet);
    }

    #[cfg(feature = "recorder")]
    #[inline]
    fn recorder(&mut self, _: &RdmaLink) -> Option<&mut Recorder> {
        self.observers.recorder()
    }

    fn begin_planning(&mut self, _: &RdmaLink, terms: Terms) {
        self.observers.begin_planning(Machine::NIC_100G.profile, terms);
    }

    #[inline]
    fn planning(&mut self, _: &RdmaLink) -> Option<&mut Planning> {
        self.observers.planning()
    }
}
