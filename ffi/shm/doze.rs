//! Sleeping until the peer has stored something, at the sleeper's expense.
//!
//! ```text
//! sleeper                                   sender, for every store
//!   word = the sleep's number (ASLEEP)        store data, flag
//!   membarrier                                compiler fence
//!   look once more                            word AWAKE? done: one load of a shared line
//!   ppoll the socket                          else word = AWAKE, if it is still this sleep's; send a wake byte
//!   drain wake bytes; word = AWAKE
//! ```
//!
//! The barrier runs on the sender's core, too, between the sleeper's store and its look: so either the look sees the
//! data, or the sender's load sees the sleep. That needs both processes to have registered with membarrier. Where one
//! could not, the sender's store may still be on its way while it reads AWAKE: then no sleep lasts longer than 1 ms.
//!
//! Sleeps are numbered, so that a sender that is late does not end a sleep it has not woken. A hostile peer can wake us
//! for nothing or not at all, which costs it its own time: no sleep lasts longer than 100 ms.
//!
//! **Two threads may sleep at a time**, the halves of one connection, each between a [`begin`](Doze::begin) and an
//! [`end`](Doze::end) that do not overlap with the other's. While one sleeps, the other leaves the number as it is: a sender that
//! has read it would not wake the first one if it found another. Only where a sender has set the word to AWAKE already, and its wake
//! byte is on the way, a new number is due. The last of them takes the wake bytes out and says AWAKE; until then they wake both.

use super::liveness::{Life, Liveness};
use super::queue::Head;
use super::socket::Socket;
use crate::os::OsError;
use crate::os::membarrier;
use crate::os::poll::{PollFd, Polled, poll};
use crate::sleepers::Sleepers;
use core::sync::atomic::{AtomicU64, Ordering, compiler_fence, fence};

/// What the word says of a peer that looks by itself.
pub const AWAKE: u64 = 0;
/// The packet that wakes. Any other is a message, for [`Socket::receive`], and also ends a sleep.
pub const WAKE: [u8; 1] = *b"W";
/// The longest sleep: so that a signal just before it, or a peer that does not wake, costs no more.
pub const SLEEP_NS_MAX: u64 = 100_000_000;
/// The longest sleep without membarrier.
pub const SLEEP_NS_MAX_UNFENCED: u64 = 1_000_000;
/// Wake bytes that are drained at once.
const DRAIN_MAX: usize = 64;

/// One end that can sleep.
#[derive(Debug)]
pub struct Doze {
    /// the number of the last sleep
    sleeps: u64,
    sleepers: Sleepers,
    /// both ends have registered with membarrier
    fenced: bool,
}

/// Why a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slept {
    /// There is work, or there was a wake byte: look.
    Woken,
    /// The socket holds a packet that is no wake byte: receive it. Until then no sleep lasts.
    Message,
    /// The time went by, or as much of it as one sleep may take: look at deadlines, and sleep again.
    TimedOut,
    /// The peer closed its end, or its process ended. What it stored before is still there.
    PeerGone,
    /// A signal handler ran: look at your flags, and sleep again.
    Interrupted,
}

impl Doze {
    /// `fenced`: this process and the peer's have both registered with [`membarrier::register`].
    #[must_use]
    pub const fn new(fenced: bool) -> Self {
        Self { sleeps: 0, sleepers: Sleepers::new(), fenced }
    }

    /// Sleeps until `look` finds work, the peer wakes us, dies or sends a message, a signal arrives, or `timeout_ns` or
    /// the longest sleep went by. `asleep` is the word where the peer looks before it wakes, which only this end sets to
    /// anything but [`AWAKE`]. `look` is called once.
    ///
    /// # Errors
    /// When the system refuses to poll. The word then says AWAKE.
    pub fn sleep(
        &mut self,
        asleep: &AtomicU64,
        socket: &Socket,
        liveness: &Liveness,
        look: impl FnOnce() -> bool,
        timeout_ns: u64,
    ) -> Result<Slept, OsError> {
        self.sleep_at_most(asleep, socket, liveness, look, timeout_ns, SLEEP_NS_MAX)
    }

    fn sleep_at_most(
        &mut self,
        asleep: &AtomicU64,
        socket: &Socket,
        liveness: &Liveness,
        look: impl FnOnce() -> bool,
        timeout_ns: u64,
        max_ns: u64,
    ) -> Result<Slept, OsError> {
        let Some(longest_ns) = self.begin_at_most(asleep, look, max_ns) else { return Ok(Slept::Woken) };
        let mut fds = liveness.interests(socket);
        let polled = poll(&mut fds, timeout_ns.min(longest_ns));
        self.end(asleep, socket, polled, &fds)
    }

    /// Says that this end sleeps, and looks once more. Returns for how long the descriptors of [`Liveness`] may be polled, after which
    /// comes [`end`](Self::end); none if there is work, or a sleep of another thread is about to end: then no sleep was begun.
    pub fn begin(&mut self, asleep: &AtomicU64, look: impl FnOnce() -> bool) -> Option<u64> {
        self.begin_at_most(asleep, look, SLEEP_NS_MAX)
    }

    fn begin_at_most(&mut self, asleep: &AtomicU64, look: impl FnOnce() -> bool, max_ns: u64) -> Option<u64> {
        if self.sleepers.is_ending() {
            return None;
        }
        if self.sleepers.is_empty() || asleep.load(Ordering::Relaxed) == AWAKE {
            self.sleeps = self.sleeps.wrapping_add(1).max(1);
            asleep.store(self.sleeps, Ordering::Relaxed);
        }
        let fenced = barrier_on_both(self.fenced);
        if look() {
            self.say_awake(asleep);
            return None;
        }
        self.sleepers.begin();
        Some(if fenced { max_ns } else { max_ns.min(SLEEP_NS_MAX_UNFENCED) })
    }

    /// Ends a sleep, after a poll of the descriptors.
    ///
    /// # Errors
    /// What the poll failed with. The sleep has ended.
    pub fn end(
        &mut self,
        asleep: &AtomicU64,
        socket: &Socket,
        polled: Result<Polled, OsError>,
        fds: &[PollFd<'_>; 2],
    ) -> Result<Slept, OsError> {
        let is_told = polled == Ok(Polled::Ready) && fds[0].is_readable();
        let takes_out = self.sleepers.end(is_told);
        let slept = match polled {
            // What another thread was told of, and has left here.
            _ if takes_out => Ok(drain(socket, Liveness::told_by(fds))),
            Ok(Polled::Ready) if is_told => Ok(judge(socket.head().as_ref(), Liveness::told_by(fds))),
            Ok(Polled::Ready) => Ok(Slept::PeerGone),
            Ok(Polled::TimedOut) => Ok(Slept::TimedOut),
            Ok(Polled::Interrupted) => Ok(Slept::Interrupted),
            Err(error) => Err(error),
        };
        self.say_awake(asleep);
        slept
    }

    /// Unless another thread sleeps on.
    fn say_awake(&self, asleep: &AtomicU64) {
        if self.sleepers.is_empty() {
            asleep.store(AWAKE, Ordering::Relaxed);
        }
    }
}

/// The sender's half, after every store that a sleeping peer waits for: a load, a compare and a branch.
#[inline]
pub fn wake_if_asleep(asleep: &AtomicU64, socket: &Socket) {
    // Keeps the load after the publishing store in the code; the sleeper's membarrier does the CPU's part.
    compiler_fence(Ordering::SeqCst);
    let sleep = asleep.load(Ordering::Relaxed);
    if sleep != AWAKE {
        wake(asleep, sleep, socket);
    }
}

#[cold]
#[inline(never)]
fn wake(asleep: &AtomicU64, sleep: u64, socket: &Socket) {
    // Fails when this sleep is over already, or another of our threads woke it.
    if asleep.compare_exchange(sleep, AWAKE, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        // A full queue holds wake bytes enough, and a peer that is gone is noticed by liveness.
        let _ = socket.send(&WAKE, None);
    }
}

/// Orders our store before our next loads, and every sender's stores before its next loads. Whether the second held.
fn barrier_on_both(fenced: bool) -> bool {
    fence(Ordering::SeqCst);
    fenced && membarrier::issue()
}

/// Takes the wake bytes at the head of the socket's queue, and nothing else.
fn drain(socket: &Socket, life: Life) -> Slept {
    for wakes in 0..DRAIN_MAX {
        let head = socket.head();
        if !is_wake(head.as_ref()) {
            return if wakes > 0 { Slept::Woken } else { judge(head.as_ref(), life) };
        }
        socket.skip();
    }
    Slept::Woken
}

fn is_wake(head: Option<&Head>) -> bool {
    matches!(head, Some(Head { bytes: 1, first, has_fds: false }) if [*first] == WAKE)
}

/// Says what is at the head of a queue that is readable.
fn judge(head: Option<&Head>, life: Life) -> Slept {
    match head {
        head if is_wake(head) => Slept::Woken,
        Some(Head { bytes, has_fds, .. }) if *bytes > 0 || *has_fds => Slept::Message,
        // The end, or a packet without bytes, which is a message of a kind.
        _ if life == Life::Gone => Slept::PeerGone,
        _ => Slept::Message,
    }
}

#[cfg(test)]
#[path = "doze_tests.rs"]
mod tests;
