//! Sleep until the peer has stored something, with the cost on the sleeper's side.
//!
//! ```text
//! sleeper                                   sender, after the stores of a call
//!   flag = the sleep's number                 store data, flag of the data
//!   membarrier                                compiler fence
//!   check for work once more                  flag is AWAKE? done: one load of a shared line
//!   ppoll the socket                          else flag = AWAKE, if it is still this sleep's; send a wake byte
//!   drain wake bytes; flag = AWAKE
//! ```
//!
//! The barrier also runs on the sender's core, between the sleeper's store and its check. So either the check finds the
//! data, or the sender's load finds the sleep. This requires that both processes have registered with membarrier. Otherwise
//! the sender's store may still be pending while it reads AWAKE: then no sleep of a call that waits lasts longer than 1 ms, and a
//! poller looks after 1 ms, 2 ms, .. 100 ms.
//!
//! Sleeps are numbered, so that a late sender does not end a sleep that it has not woken. A hostile peer can wake this end
//! without reason or not at all, which costs only its own time: no sleep of a call that waits lasts longer than 100 ms.
//!
//! **Two threads may sleep at a time**, the halves of one connection, each between a [`begin`](Sleeper::begin) and an
//! [`end`](Sleeper::end) that do not overlap with the other's. While one sleeps, the other keeps its number: a sender that
//! has read it would not wake the first thread if it found another. A new number is needed only if a sender has already set the
//! flag to AWAKE, with its wake byte on the way. The last thread takes the wake bytes out and sets AWAKE; until then they wake
//! both.

use super::liveness::Liveness;
use super::receive_queue::Head;
use super::sent_buffers::{self, BUFFER, Next, SentBuffers};
use super::socket::Socket;
use crate::fabric::{ConcurrentSleeps, Span};
use crate::os::poll::{PollFd, Polled, poll};
use crate::os::{OsError, membarrier};
use core::sync::atomic::{AtomicU64, Ordering, compiler_fence, fence};
pub use superpipe_core::sleep_word::AWAKE;
use superpipe_core::{CONTROL_PAGE_BYTES, control_page, sleep_word};

/// The packet that wakes. Any other packet is a message for [`Socket::receive`], and also ends a sleep. So does one with a registered buffer,
/// where the peer may send such packets; it is taken in.
pub const WAKE: [u8; 1] = sent_buffers::WAKE;
/// Longest sleep of a call that waits: a bound on the delay by a signal just before it, by a peer that does not wake this end, or by a virtual machine that
/// loses a membarrier (docs/architecture/waiting.md). The driver lets no sleep last longer than 50 ms.
pub const SLEEP_NS_MAX: u64 = 100_000_000;
/// Longest sleep without membarrier: the delay of a message whose sender read AWAKE while its store was not yet visible. Longer ones would
/// delay it more, and shorter ones cost the sleeper more polls.
pub const SLEEP_NS_MAX_UNFENCED: u64 = 1_000_000;
/// Limit of wake bytes drained per call: an honest peer sends one per sleep, and the queue of a hostile one must not hold this end up.
const DRAIN_MAX: usize = 64;

/// Returns the sleep flag in the control page of its owner, where the peer reads it.
#[inline]
pub(super) fn sleep_flag(page: &Span) -> &AtomicU64 {
    const _: () =
        assert!(control_page::FABRIC + 8 <= CONTROL_PAGE_BYTES && control_page::FABRIC.is_multiple_of(8));
    // SAFETY: the link's control pages are page-aligned, and mapped as long as the borrow; and the word is accessed by atomics only.
    unsafe { AtomicU64::from_ptr(page.start().as_ptr().add(control_page::FABRIC as usize).cast()) }
}

/// An end that can sleep.
#[derive(Debug)]
pub struct Sleeper {
    /// the number of the last sleep
    sleeps: u64,
    concurrent: ConcurrentSleeps,
    /// true if both ends have registered with membarrier
    fenced: bool,
}

/// Result of a sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SleepOutcome {
    /// There is work, or there was a wake byte.
    Woken,
    /// The socket holds a packet that is no wake byte: receive it. Until then every sleep ends at once.
    Message,
    /// The timeout expired, or the limit of a single sleep: check deadlines, and sleep again.
    TimedOut,
    /// The peer closed its end, or its process ended. Data that it stored before is still there.
    PeerGone,
    /// A signal handler ran: check your flags, and sleep again.
    Interrupted,
}

impl Sleeper {
    /// Makes a sleeper. `fenced` is true if this process and the peer's have both registered with [`membarrier::register`].
    #[must_use]
    pub const fn new(fenced: bool) -> Self {
        Self { sleeps: 0, concurrent: ConcurrentSleeps::new(), fenced }
    }

    /// Sleeps until `has_work` returns true, the peer wakes this end, dies or sends a message, a signal arrives, or `timeout_ns`
    /// or the longest sleep has passed. `flag` is the sleep flag, which the peer reads; only this end sets it to anything
    /// but [`AWAKE`]. `has_work` is called once.
    ///
    /// # Errors
    /// The system refuses to poll. The flag is AWAKE then.
    pub fn sleep(
        &mut self,
        flag: &AtomicU64,
        socket: &Socket,
        liveness: &Liveness,
        has_work: impl FnOnce() -> bool,
        timeout_ns: u64,
    ) -> Result<SleepOutcome, OsError> {
        self.sleep_at_most(flag, socket, liveness, has_work, timeout_ns, SLEEP_NS_MAX)
    }

    fn sleep_at_most(
        &mut self,
        flag: &AtomicU64,
        socket: &Socket,
        liveness: &Liveness,
        has_work: impl FnOnce() -> bool,
        timeout_ns: u64,
        max_ns: u64,
    ) -> Result<SleepOutcome, OsError> {
        let Some(longest_ns) = self.begin_at_most(flag, has_work, max_ns) else {
            return Ok(SleepOutcome::Woken);
        };
        let mut fds = liveness.interests(socket);
        let polled = poll(&mut fds, timeout_ns.min(longest_ns));
        self.end(flag, socket, polled, &fds)
    }

    /// Sets the sleep flag, and checks for work once more. Returns the nanoseconds for which the descriptors of [`Liveness`] may be
    /// polled before [`end`](Self::end) is called. None if there is work, or a sleep of another thread is about to end: then no
    /// sleep was begun.
    pub fn begin(&mut self, flag: &AtomicU64, has_work: impl FnOnce() -> bool) -> Option<u64> {
        self.begin_at_most(flag, has_work, SLEEP_NS_MAX)
    }

    fn begin_at_most(
        &mut self,
        flag: &AtomicU64,
        has_work: impl FnOnce() -> bool,
        max_ns: u64,
    ) -> Option<u64> {
        if self.concurrent.is_ending() {
            return None;
        }
        if self.concurrent.is_empty() || sleep_word::is_awake(flag) {
            self.sleeps = self.sleeps.wrapping_add(1).max(1);
            sleep_word::fall_asleep(flag, self.sleeps);
        }
        let fenced = barrier_on_both(self.fenced);
        if has_work() {
            self.set_awake(flag);
            return None;
        }
        self.concurrent.begin();
        Some(if fenced { max_ns } else { max_ns.min(SLEEP_NS_MAX_UNFENCED) })
    }

    /// Ends a sleep, after a poll of the descriptors.
    ///
    /// # Errors
    /// The error of the poll. The sleep has ended.
    pub fn end(
        &mut self,
        flag: &AtomicU64,
        socket: &Socket,
        polled: Result<Polled, OsError>,
        fds: &[PollFd<'_>; 2],
    ) -> Result<SleepOutcome, OsError> {
        self.end_with(flag, socket, None, polled, fds)
    }

    /// Ends a sleep as [`end`](Self::end) does, and takes in buffers that the peer has sent.
    pub(super) fn end_with(
        &mut self,
        flag: &AtomicU64,
        socket: &Socket,
        buffers: Option<&mut SentBuffers>,
        polled: Result<Polled, OsError>,
        fds: &[PollFd<'_>; 2],
    ) -> Result<SleepOutcome, OsError> {
        let is_woken = polled == Ok(Polled::Ready) && fds[0].is_readable();
        let drains = self.concurrent.end(is_woken);
        let takes_buffers = buffers.is_some();
        let outcome = match polled {
            // Packets that another thread may have seen, and left here.
            _ if drains => Ok(match buffers {
                Some(buffers) => take_in(buffers, socket, Liveness::is_gone(fds)),
                None => drain(socket, Liveness::is_gone(fds)),
            }),
            Ok(Polled::Ready) if is_woken => {
                let outcome = classify(socket.head().as_ref(), takes_buffers, Liveness::is_gone(fds));
                if let (SleepOutcome::Message, Some(buffers)) = (outcome, buffers) {
                    // It stays there, and is named.
                    buffers.take_next(socket);
                }
                Ok(outcome)
            }
            Ok(Polled::Ready) => Ok(SleepOutcome::PeerGone),
            Ok(Polled::TimedOut) => Ok(SleepOutcome::TimedOut),
            Ok(Polled::Interrupted) => Ok(SleepOutcome::Interrupted),
            Err(error) => Err(error),
        };
        self.set_awake(flag);
        outcome
    }

    /// Returns true while a thread sleeps.
    pub(super) const fn has_sleeps(&self) -> bool {
        !self.concurrent.is_empty()
    }

    /// Sets the flag to AWAKE, unless another thread still sleeps.
    fn set_awake(&self, flag: &AtomicU64) {
        if self.concurrent.is_empty() {
            sleep_word::wake_up(flag);
        }
    }
}

/// Wakes the peer if it sleeps. The sender calls this after the stores that the peer may wait for, once for all stores of a push: a
/// load, a compare, a branch.
#[inline]
pub fn wake_if_asleep(flag: &AtomicU64, socket: &Socket) {
    // Keeps the load after the publishing store in the code; the sleeper's membarrier does the same in the CPU.
    compiler_fence(Ordering::SeqCst);
    if let Some(sleep) = sleep_word::sleep_of(flag) {
        wake(flag, sleep, socket);
    }
}

#[cold]
#[inline(never)]
fn wake(flag: &AtomicU64, sleep: u64, socket: &Socket) {
    // Another of our threads may have woken it.
    if sleep_word::take(flag, sleep) {
        // A full queue has wake bytes already, and a peer that is gone needs none.
        let _ = socket.send(&WAKE, None);
    }
}

/// Orders our store before our next loads, and every sender's stores before its next loads. Returns true if the second worked.
fn barrier_on_both(fenced: bool) -> bool {
    fence(Ordering::SeqCst);
    fenced && membarrier::issue()
}

/// Discards the wake bytes at the head of the socket's queue, and nothing else.
fn drain(socket: &Socket, is_gone: bool) -> SleepOutcome {
    for wakes in 0..DRAIN_MAX {
        let head = socket.head();
        if !is_wake(head.as_ref()) {
            return if wakes > 0 { SleepOutcome::Woken } else { classify(head.as_ref(), false, is_gone) };
        }
        socket.discard_head();
    }
    SleepOutcome::Woken
}

/// Discards the wake bytes at the head of the socket's queue, and takes in buffers.
fn take_in(buffers: &mut SentBuffers, socket: &Socket, is_gone: bool) -> SleepOutcome {
    for taken in 0..DRAIN_MAX {
        match buffers.take_next(socket) {
            Next::Wake => socket.discard_head(),
            Next::Buffer => {}
            Next::Nothing if taken == 0 && is_gone => return SleepOutcome::PeerGone,
            Next::Nothing | Next::Starved => return SleepOutcome::Woken,
            Next::Breach => return SleepOutcome::Message,
        }
    }
    SleepOutcome::Woken
}

fn is_wake(head: Option<&Head>) -> bool {
    matches!(head, Some(Head { bytes: 1, first, has_fds: false }) if [*first] == WAKE)
}

/// Classifies the head of a queue that is readable.
fn classify(head: Option<&Head>, takes_buffers: bool, is_gone: bool) -> SleepOutcome {
    match head {
        head if is_wake(head) => SleepOutcome::Woken,
        // The thread that takes it in judges it.
        Some(Head { first: BUFFER, has_fds: true, .. }) if takes_buffers => SleepOutcome::Woken,
        Some(Head { bytes, has_fds, .. }) if *bytes > 0 || *has_fds => SleepOutcome::Message,
        // The end, or a packet without bytes, which counts as a message.
        _ if is_gone => SleepOutcome::PeerGone,
        _ => SleepOutcome::Message,
    }
}

#[cfg(test)]
mod tests;
