//! The shared-memory fabric: direct store into the peer's segment, which is mapped here.
//!
//! A segment is a control page and a landing buffer, and is accessed through spans.

use core::sync::atomic::AtomicU64;
use std::os::fd::AsFd;

#[cfg(feature = "recorder")]
use superpipe_core::recorder::Recorder;
use superpipe_core::{
    Attachment, CONTROL_PAGE_BYTES, Caps, Completion, CopyHint, Endpoint, Fabric, Landing, Layout, Line,
    Nanos, Notification, SqFull, WrId, control_page,
};

use super::liveness::Liveness;
use super::segment::Segment;
use super::sleep::{SleepOutcome, Sleeper, wake_if_asleep};
use super::socket::Socket;
use crate::copy::{CopyKernels, crc32c, prefetch_for_write};
use crate::fabric::{HostFabric, SleepEnd, Span};
use crate::os::poll::{PollFd, Polled};
use crate::os::{OsError, monotonic_ns};

/// Limit of bytes that are prefetched before a write, as many as a core can request at once. With more, it waits for its own
/// requests, and the hardware's prefetcher does better (docs/performance.md, "Messages between two resident buffers").
const EXPECTED_BYTES_MAX: u32 = 2048;

/// The shared-memory fabric: the copy kernels of this CPU, and the recorder of its one connection.
#[derive(Debug)]
pub struct Shm {
    kernels: &'static CopyKernels,
    #[cfg(feature = "recorder")]
    recorder: Option<Box<Recorder>>,
}

/// A connection: the two segments, and the socket, which shows whether the peer lives and wakes the ends.
#[derive(Debug)]
pub struct ShmLink {
    /// mapped for as long as the spans into it are used
    mine: Segment,
    theirs: Segment,
    socket: Socket,
    liveness: Liveness,
    /// none while it is in use
    sleeper: Option<Sleeper>,
}

/// Returns a span of `segment`.
fn part(segment: &Segment, at: u32, bytes: u32) -> Span {
    let fits = segment.len().checked_sub(at as usize).is_some_and(|room| bytes as usize <= room);
    assert!(fits, "the segment was made to hold this");
    // SAFETY: 1. The assertion keeps the part inside the mapping, which the link holds for as long as its spans are used.
    // 2. A segment gives out no reference.
    unsafe { Span::new(segment.as_ptr().add(at as usize), bytes) }
}

/// Returns the bytes of a segment for this layout.
#[must_use]
pub const fn segment_bytes(layout: Layout) -> u32 {
    CONTROL_PAGE_BYTES + layout.bytes()
}

impl Shm {
    /// Makes a fabric for one connection.
    #[must_use]
    pub fn new() -> Self {
        Self {
            kernels: CopyKernels::get(),
            #[cfg(feature = "recorder")]
            recorder: None,
        }
    }

    /// Attaches an endpoint to two segments of [`segment_bytes`] bytes at least. `serves` is true if the process that the
    /// kernel names at the other end of the socket is the one that serves this connection.
    #[must_use]
    pub fn attach(
        mine: Segment,
        theirs: Segment,
        layout: Layout,
        socket: Socket,
        fenced: bool,
        serves: bool,
    ) -> Attachment<Self> {
        let control_page_of = |segment| part(segment, 0, CONTROL_PAGE_BYTES);
        let landing_of =
            |segment| Landing { memory: part(segment, CONTROL_PAGE_BYTES, layout.bytes()), layout };
        Attachment {
            control_page: control_page_of(&mine),
            peer_control_page: control_page_of(&theirs),
            landing: landing_of(&mine),
            peer_landing: landing_of(&theirs),
            growth: None,
            link: ShmLink {
                liveness: if serves { Liveness::of_peer(&socket) } else { Liveness::of_socket() },
                mine,
                theirs,
                socket,
                sleeper: Some(Sleeper::new(fenced)),
            },
        }
    }
}

impl Default for Shm {
    fn default() -> Self {
        Self::new()
    }
}

impl Fabric for Shm {
    const DIRECT: bool = true;
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
    fn copy_out(&mut self, _: &mut ShmLink, from: Span, at: u32, to: &mut [u8], hint: CopyHint) {
        from.copy_out(self.kernels, at, to, hint);
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
    fn expect_write(&mut self, _: &mut ShmLink, to: Span, at: u32, bytes: u32) {
        if bytes <= EXPECTED_BYTES_MAX {
            prefetch_for_write(to.at(at, bytes as usize), bytes as usize);
        }
    }

    #[inline]
    fn copy_in(&mut self, _: &mut ShmLink, to: Span, at: u32, from: &[u8]) {
        to.copy_in(self.kernels, at, from);
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
        wake_if_asleep(sleep_flag(&link.theirs), &link.socket);
    }

    fn poll_cq(&mut self, _: &mut ShmLink) -> Option<Completion> {
        None
    }

    #[cfg(feature = "recorder")]
    #[inline]
    fn recorder(&mut self, _: &ShmLink) -> Option<&mut Recorder> {
        self.recorder.as_deref_mut()
    }
}

/// Returns the sleep flag of the owner of a segment: in its own control page, where its peer reads it.
#[inline]
fn sleep_flag(owner: &Segment) -> &AtomicU64 {
    const _: () =
        assert!(control_page::FABRIC + 8 <= CONTROL_PAGE_BYTES && control_page::FABRIC.is_multiple_of(8));
    // SAFETY: every segment begins with a control page, is page-aligned, and lives as long as the borrow; and it
    // is accessed by atomics only.
    unsafe { AtomicU64::from_ptr(owner.as_ptr().as_ptr().add(control_page::FABRIC as usize).cast()) }
}

// SAFETY: spans point into the two segments, which are mapped and populated until the link is dropped; `at` checks that
// the named bytes are inside them.
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
        self.recorder = on.then(Box::default);
    }

    fn is_alive(&self, link: &ShmLink) -> bool {
        link.liveness.is_alive(&link.socket)
    }

    fn interests<'a>(&self, link: &'a ShmLink) -> [PollFd<'a>; 1] {
        // Not readiness to read: a wake-up that comes late stays in the queue until the next sleep.
        [PollFd::new(link.socket.as_fd(), libc::POLLRDHUP)]
    }

    fn begin_sleep(&self, endpoint: &mut Endpoint<Self>, timeout_ns: u64) -> Result<u64, SleepEnd> {
        let Some(mut sleeper) = endpoint.link_mut().sleeper.take() else { return Err(SleepEnd::Poll) };
        let longest_ns = sleeper.begin(sleep_flag(&endpoint.link().mine), || endpoint.has_arrivals(self));
        endpoint.link_mut().sleeper = Some(sleeper);
        longest_ns.map(|longest_ns| timeout_ns.min(longest_ns)).ok_or(SleepEnd::Poll)
    }

    fn sleep_interests<'a>(&self, link: &'a ShmLink) -> [PollFd<'a>; 2] {
        link.liveness.interests(&link.socket)
    }

    fn end_sleep(
        &self,
        endpoint: &mut Endpoint<Self>,
        polled: Result<Polled, OsError>,
        fds: [PollFd<'_>; 2],
    ) -> SleepEnd {
        let ShmLink { mine, socket, sleeper, .. } = endpoint.link_mut();
        let Some(sleeper) = sleeper else { return SleepEnd::Poll };
        match sleeper.end(sleep_flag(mine), socket, polled, &fds) {
            Ok(SleepOutcome::PeerGone) => SleepEnd::PeerGone,
            // After the handshake the socket carries wake bytes only; a peer that sends a message breaks the protocol.
            Ok(SleepOutcome::Message) => SleepEnd::PeerGone,
            Ok(SleepOutcome::TimedOut) => SleepEnd::TimedOut,
            Ok(SleepOutcome::Woken | SleepOutcome::Interrupted) | Err(_) => SleepEnd::Poll,
        }
    }
}

#[cfg(test)]
mod tests;
