//! What is left of a peer that is gone, and the end of a wire: what was posted reaches the peer before the QP goes.
//!
//! To disconnect flushes what the device has not sent yet, the CLOSE with it. A completion says that the peer's device has
//! what it stands for (iWARP: that it is on its way, and the peer's agreement to the disconnect that it has arrived).

use super::Wire;
use super::posting::Letter;
use crate::os::clock::until;
use crate::os::monotonic_ns;
use crate::os::poll::PollFd;
use crate::rdma::mail::Word;
use crate::verbs::WcStatus;
use core::time::Duration;
use std::os::fd::AsFd;
use std::thread;
use superpipe_core::WcError;

/// For a peer that takes everything in.
const DRAIN_NS: u64 = 1_000_000_000;
/// Looks before the core is given to others between them.
const SPINS: u32 = 1000;

/// What is left of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::rdma) enum End {
    /// It is there.
    Not,
    /// It disconnected, died or does not answer.
    Gone,
    /// A work request failed for another reason; told once.
    Failed(WcError),
    /// Told.
    Told,
}

impl Wire {
    /// A work request failed.
    #[cold]
    pub(super) fn broken(&mut self, error: WcError) {
        // The kernel takes the memory of a process that was killed before its queue pairs: a write in between is refused.
        const REMOTE_ACCESS: u32 = 10;
        const REMOTE_OPERATION: u32 = 11;
        const RNR_RETRY_EXCEEDED: u32 = 13;
        // siw's words for a TCP connection that ended below what it was doing.
        const LOCAL_OPERATION: u32 = 2;
        const GENERAL: u32 = 21;
        let status = WcStatus(error.status);
        let is_loss = status == WcStatus::FLUSHED
            || status == WcStatus::RETRY_EXCEEDED
            || [REMOTE_ACCESS, REMOTE_OPERATION, RNR_RETRY_EXCEEDED].contains(&error.status)
            || self.is_iwarp && [LOCAL_OPERATION, GENERAL].contains(&error.status);
        self.finish(if is_loss { End::Gone } else { End::Failed(error) });
    }

    /// Nothing more is sent, and what was is done with.
    #[cold]
    pub(in crate::rdma) fn finish(&mut self, end: End) {
        if self.end == End::Not || self.end == End::Gone && matches!(end, End::Failed(_)) {
            self.end = end;
        }
        // What nobody posts any more is done with as well.
        for (_, wr) in &self.waiting {
            self.queue.take(*wr);
        }
        self.waiting.clear();
        // Whatever the device still has, it flushes.
        let _ = self.qp.fail();
        self.queue.complete_all();
    }

    /// What becomes readable when the connection ends.
    pub(in crate::rdma) fn interest(&self) -> PollFd<'_> {
        PollFd::new(self.channel.as_fd(), libc::POLLIN)
    }

    /// Whether the peer is there. A system call.
    pub(in crate::rdma) fn is_alive(&self) -> bool {
        self.end == End::Not && self.cm.borrow_mut().is_connected()
    }

    /// Has the device tell when all that was posted is done: by one word more, which says nothing new.
    fn ask_for_completion(&mut self) -> bool {
        self.queue.ends_signaled() || matches!(self.send_alone(Letter::Word(Word::Wake), true), Ok(true))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if self.end != End::Not || self.queue.is_idle() || !self.ask_for_completion() {
            return;
        }
        let deadline_ns = monotonic_ns() + DRAIN_NS;
        let mut looks = 0;
        while self.end == End::Not && !self.queue.is_idle() && until(deadline_ns) > 0 {
            if self.poll() == 0 {
                looks += 1;
                if looks > SPINS {
                    thread::sleep(Duration::from_micros(50));
                }
            }
        }
    }
}
