//! The shared-memory fabric: direct store into the peer's segment, which is mapped here.
//!
//! A segment is a seat and a landing buffer, one after the other. Every access is checked against it. Flags and lines
//! go word by word through atomics; payload is copied by raw pointers, since the peer may write at any time: no
//! reference to shared memory is ever made but to single atomic words.

use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use std::os::fd::AsFd;

#[cfg(feature = "recorder")]
use superpipe_core::recorder::Recorder;
use superpipe_core::{
    Attachment, Caps, Completion, CopyHint, Endpoint, Fabric, Landing, Layout, Line, Nanos, SEAT_BYTES,
    SqFull, WrId, seat, word,
};

use super::doze::{Doze, Slept, wake_if_asleep};
use super::liveness::{Life, Liveness};
use super::segment::Segment;
use super::socket::Socket;
use crate::copy::{CopyKernels, crc32c, crc32c_of_shared, prefetch_for_write};
use crate::os::monotonic_ns;
use crate::os::poll::PollFd;
use crate::port::{Port, Woken};

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

/// A part of a segment.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    start: NonNull<u8>,
    bytes: u32,
}

// SAFETY: a span is an address and a length; what it points to is shared between processes anyway, is accessed by
// atomics and raw copies only, and lives as long as the link, which moves along with the endpoint that has the span.
unsafe impl Send for Span {}

impl Span {
    /// The part of `segment` from `at` on.
    fn of(segment: &Segment, at: u32, bytes: u32) -> Self {
        assert!(at as usize + bytes as usize <= segment.len(), "the segment was made to hold this");
        // SAFETY: the assertion keeps the sum inside the mapping.
        let start = unsafe { segment.as_ptr().add(at as usize) };
        Self { start, bytes }
    }

    /// The address of `bytes` bytes at `at`.
    #[inline]
    fn at(self, at: u32, bytes: usize) -> *mut u8 {
        assert!(at as usize + bytes <= self.bytes as usize, "offsets come from a validated layout");
        // SAFETY: the assertion keeps the sum inside the span, which lies inside a mapping.
        unsafe { self.start.as_ptr().add(at as usize) }
    }

    #[inline]
    fn word(&self, at: u32) -> &AtomicU64 {
        let place = self.at(at, 8).cast::<u64>();
        assert!(place.is_aligned(), "words are aligned in every layout");
        // SAFETY: 1. `place` is aligned and valid for 8 bytes for as long as the link lives, which outlives every use of
        // the span. 2. Every process that maps the segment accesses this word by atomics, or is hostile, and then a
        // race costs it its own data: an atomic load yields some value.
        unsafe { AtomicU64::from_ptr(place) }
    }
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

    /// What an endpoint is made of. Both segments have [`segment_bytes`] bytes at least.
    #[must_use]
    pub fn attach(
        mine: Segment,
        theirs: Segment,
        layout: Layout,
        socket: Socket,
        fenced: bool,
    ) -> Attachment<Self> {
        let seat_of = |segment| Span::of(segment, 0, SEAT_BYTES);
        let landing_of = |segment| Landing { memory: Span::of(segment, SEAT_BYTES, layout.bytes()), layout };
        Attachment {
            seat: seat_of(&mine),
            peer_seat: seat_of(&theirs),
            landing: landing_of(&mine),
            peer_landing: landing_of(&theirs),
            link: ShmLink {
                liveness: Liveness::of_peer(&socket),
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
        Caps { order_inside_write: true }
    }

    fn now(&mut self) -> Nanos {
        Nanos(monotonic_ns())
    }

    #[inline]
    fn flag(&self, _: &ShmLink, from: Span, at: u32) -> u64 {
        word::observe(from.word(at))
    }

    #[inline]
    fn take_line(&self, _: &ShmLink, from: Span, at: u32) -> Line {
        word::take_line(line_words(&from, at))
    }

    #[inline]
    fn take_line_if(&self, _: &ShmLink, from: Span, at: u32, flag: u64) -> Option<Line> {
        let words = line_words(&from, at);
        (word::observe(words[7]) == flag).then(|| word::take_line(words))
    }

    #[inline]
    fn copy_out(&mut self, _: &mut ShmLink, from: Span, at: u32, to: &mut [u8], hint: CopyHint) {
        let src = from.at(at, to.len());
        // SAFETY: `src` is valid for this many bytes (checked in `at`), `to` is private memory of this process, and
        // shared memory is never behind a reference; so they do not overlap either.
        unsafe {
            match hint {
                CopyHint::Cached => self.kernels.copy(to.as_mut_ptr(), src, to.len()),
                CopyHint::Streaming => self.kernels.copy_streaming(to.as_mut_ptr(), src, to.len()),
            }
        }
    }

    fn crc_out(&self, _: &ShmLink, from: Span, at: u32, bytes: u32, seed: u32) -> u32 {
        // SAFETY: the span is valid for this many bytes (checked in `at`).
        unsafe { crc32c_of_shared(seed, from.at(at, bytes as usize), bytes as usize) }
    }

    #[inline]
    fn write_line(&mut self, _: &mut ShmLink, to: Span, at: u32, line: &Line) {
        word::write_line(line_words(&to, at), line);
    }

    #[inline]
    fn publish(&mut self, _: &mut ShmLink, to: Span, at: u32, flag: u64) {
        word::publish(to.word(at), flag);
    }

    #[inline]
    fn expect_write(&mut self, _: &mut ShmLink, to: Span, at: u32, bytes: u32) {
        if bytes <= EXPECTED_BYTES_MAX {
            prefetch_for_write(to.at(at, bytes as usize), bytes as usize);
        }
    }

    #[inline]
    fn copy_in(&mut self, _: &mut ShmLink, to: Span, at: u32, from: &[u8]) {
        let dst = to.at(at, from.len());
        // SAFETY: `dst` is valid for this many bytes (checked in `at`), `from` is private memory of this process, and
        // shared memory is never behind a reference; so they do not overlap either.
        unsafe { self.kernels.copy(dst, from.as_ptr(), from.len()) }
    }

    fn crc_in(&self, link: &ShmLink, to: Span, at: u32, bytes: u32, seed: u32) -> u32 {
        self.crc_out(link, to, at, bytes, seed)
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

/// The eight words of a line.
#[inline]
fn line_words(span: &Span, at: u32) -> [&AtomicU64; 8] {
    let first = span.at(at, 64).cast::<u64>();
    assert!(first.is_aligned(), "lines are aligned in every layout");
    core::array::from_fn(|i| {
        // SAFETY: as in `Span::word`; `i` is less than 8, and 64 bytes from `first` on are inside the span.
        unsafe { AtomicU64::from_ptr(first.add(i)) }
    })
}

/// The word that says whether the owner of the segment sleeps: in its own seat, where its peer looks.
#[inline]
fn asleep(owner: &Segment) -> &AtomicU64 {
    const _: () = assert!(seat::FABRIC + 8 <= SEAT_BYTES && seat::FABRIC.is_multiple_of(8));
    // SAFETY: every segment begins with a seat, is page-aligned, and lives as long as the borrow; as in `Span::word` it
    // is accessed by atomics only.
    unsafe { AtomicU64::from_ptr(owner.as_ptr().as_ptr().add(seat::FABRIC as usize).cast()) }
}

// SAFETY: spans point into the two segments, which are mapped and populated until the link is dropped; `at` checks that
// the named bytes are inside them.
unsafe impl Port for Shm {
    const NAME: &'static str = "shm";

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
        [PollFd::new(link.socket.as_fd(), libc::POLLIN)]
    }

    fn sleep(&self, endpoint: &mut Endpoint<Self>, timeout_ns: u64) -> Woken {
        let Some(mut doze) = endpoint.link_mut().doze.take() else { return Woken::Look };
        let link = endpoint.link();
        let look = || endpoint.has_arrivals(self);
        let slept = doze.sleep(asleep(&link.mine), &link.socket, &link.liveness, look, timeout_ns);
        endpoint.link_mut().doze = Some(doze);
        match slept {
            Ok(Slept::PeerGone) => Woken::PeerGone,
            // After the handshake the socket carries wake bytes only; a message is a peer that talks out of turn.
            Ok(Slept::Message) => Woken::PeerGone,
            Ok(Slept::Woken | Slept::TimedOut | Slept::Interrupted) | Err(_) => Woken::Look,
        }
    }
}
