//! The shared-memory fabric: direct store into the peer's segment, which is mapped here.
//!
//! A segment is a seat and a landing buffer, one after the other, and is accessed through spans of it.

use core::sync::atomic::AtomicU64;
use std::os::fd::AsFd;

#[cfg(feature = "recorder")]
use superpipe_core::recorder::Recorder;
use superpipe_core::{
    Attachment, Caps, Completion, CopyHint, Endpoint, Fabric, Landing, Layout, Line, Nanos, Notice,
    SEAT_BYTES, SqFull, WrId, seat,
};

use super::doze::{Doze, Slept, wake_if_asleep};
use super::liveness::{Life, Liveness};
use super::segment::Segment;
use super::socket::Socket;
use crate::copy::{CopyKernels, crc32c, prefetch_for_write};
use crate::os::poll::{PollFd, Polled};
use crate::os::{OsError, monotonic_ns};
use crate::port::{Port, Woken};
use crate::span::Span;

/// The most that is fetched before it is written: what a core can ask for at once. With more it waits for its own
/// questions, and its own prefetcher does better (docs/performance.md).
const EXPECTED_BYTES_MAX: u32 = 2048;

/// The port: the copy kernels of this CPU, and the flight recorder of its one connection.
#[derive(Debug)]
pub struct Shm {
    kernels: &'static CopyKernels,
    #[cfg(feature = "recorder")]
    recorder: Option<Box<Recorder>>,
}

/// One connection: the two segments, and the socket that the peer's life and sleep are seen by.
#[derive(Debug)]
pub struct ShmLink {
    /// Mapped for as long as the spans below are used.
    mine: Segment,
    theirs: Segment,
    socket: Socket,
    liveness: Liveness,
    /// Away while it is used.
    doze: Option<Doze>,
}

/// The part of `segment` from `at` on.
fn part(segment: &Segment, at: u32, bytes: u32) -> Span {
    let fits = segment.len().checked_sub(at as usize).is_some_and(|room| bytes as usize <= room);
    assert!(fits, "the segment was made to hold this");
    // SAFETY: 1. The assertion keeps the part inside the mapping, which the link holds for as long as its spans are used.
    // 2. A segment gives out no reference.
    unsafe { Span::new(segment.as_ptr().add(at as usize), bytes) }
}

/// Bytes of a segment for this layout.
#[must_use]
pub const fn segment_bytes(layout: Layout) -> u32 {
    SEAT_BYTES + layout.bytes()
}

impl Shm {
    /// The fabric of this process.
    #[must_use]
    pub fn new() -> Self {
        Self {
            kernels: CopyKernels::get(),
            #[cfg(feature = "recorder")]
            recorder: None,
        }
    }

    /// Attaches an endpoint to two segments of [`segment_bytes`] bytes at least. `serves`: the process that the
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
        let seat_of = |segment| part(segment, 0, SEAT_BYTES);
        let landing_of = |segment| Landing { memory: part(segment, SEAT_BYTES, layout.bytes()), layout };
        Attachment {
            seat: seat_of(&mine),
            peer_seat: seat_of(&theirs),
            landing: landing_of(&mine),
            peer_landing: landing_of(&theirs),
            link: ShmLink {
                liveness: if serves { Liveness::of_peer(&socket) } else { Liveness::of_socket() },
                mine,
                theirs,
                socket,
                doze: Some(Doze::new(fenced)),
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
        Caps { order_inside_write: true, notices: 0 }
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
        _: Option<Notice>,
    ) -> Result<(), SqFull> {
        unreachable!("nothing is posted where stores go direct")
    }

    #[inline]
    fn ring_doorbell(&mut self, link: &mut ShmLink) {
        wake_if_asleep(asleep(&link.theirs), &link.socket);
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

/// The word that says whether the owner of the segment sleeps: in its own seat, where its peer looks.
#[inline]
fn asleep(owner: &Segment) -> &AtomicU64 {
    const _: () = assert!(seat::FABRIC + 8 <= SEAT_BYTES && seat::FABRIC.is_multiple_of(8));
    // SAFETY: every segment begins with a seat, is page-aligned, and lives as long as the borrow; and it
    // is accessed by atomics only.
    unsafe { AtomicU64::from_ptr(owner.as_ptr().as_ptr().add(seat::FABRIC as usize).cast()) }
}

// SAFETY: spans point into the two segments, which are mapped and populated until the link is dropped; `at` checks that
// the named bytes are inside them.
unsafe impl Port for Shm {
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
        link.liveness.check(&link.socket) == Life::Alive
    }

    fn interests<'a>(&self, link: &'a ShmLink) -> [PollFd<'a>; 1] {
        // Not what it sends: a wake-up that comes late stays there until the next sleep.
        [PollFd::new(link.socket.as_fd(), libc::POLLRDHUP)]
    }

    fn begin_sleep(&self, endpoint: &mut Endpoint<Self>, timeout_ns: u64) -> Result<u64, Woken> {
        let Some(mut doze) = endpoint.link_mut().doze.take() else { return Err(Woken::Look) };
        let longest_ns = doze.begin(asleep(&endpoint.link().mine), || endpoint.has_arrivals(self));
        endpoint.link_mut().doze = Some(doze);
        longest_ns.map(|longest_ns| timeout_ns.min(longest_ns)).ok_or(Woken::Look)
    }

    fn sleep_interests<'a>(&self, link: &'a ShmLink) -> [PollFd<'a>; 2] {
        link.liveness.interests(&link.socket)
    }

    fn end_sleep(
        &self,
        endpoint: &mut Endpoint<Self>,
        polled: Result<Polled, OsError>,
        fds: [PollFd<'_>; 2],
    ) -> Woken {
        let ShmLink { mine, socket, doze, .. } = endpoint.link_mut();
        let Some(doze) = doze else { return Woken::Look };
        match doze.end(asleep(mine), socket, polled, &fds) {
            Ok(Slept::PeerGone) => Woken::PeerGone,
            // After the handshake the socket carries wake bytes only; a message is a peer that talks out of turn.
            Ok(Slept::Message) => Woken::PeerGone,
            Ok(Slept::TimedOut) => Woken::Nothing,
            Ok(Slept::Woken | Slept::Interrupted) | Err(_) => Woken::Look,
        }
    }
}

#[cfg(test)]
#[path = "fabric_tests.rs"]
mod tests;
