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
        let is_loss = is_loss(WcStatus(error.status), self.is_iwarp);
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

/// Whether a work request that ended so says that the peer is gone, and not that the device failed. wire.md 10.5.
fn is_loss(status: WcStatus, is_iwarp: bool) -> bool {
    // The kernel takes the memory of a process that was killed before its queue pairs: a write in between is refused.
    const REMOTE_ACCESS: WcStatus = WcStatus(10);
    const REMOTE_OPERATION: WcStatus = WcStatus(11);
    const RNR_RETRY_EXCEEDED: WcStatus = WcStatus(13);
    // siw's words for a TCP connection that ended below what it was doing.
    const LOCAL_OPERATION: WcStatus = WcStatus(2);
    const GENERAL: WcStatus = WcStatus(21);
    match status {
        WcStatus::FLUSHED
        | WcStatus::RETRY_EXCEEDED
        | REMOTE_ACCESS
        | REMOTE_OPERATION
        | RNR_RETRY_EXCEEDED => true,
        LOCAL_OPERATION | GENERAL => is_iwarp,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_peer_is_told_from_a_device_that_failed() {
        let named = |text: &str, is_iwarp| {
            let all = (0..32).map(WcStatus).filter(|status| is_loss(*status, is_iwarp));
            let names: Vec<String> = all.map(|status| status.to_string()).collect();
            names.iter().any(|name| name.contains(text))
        };
        for is_iwarp in [false, true] {
            for text in ["WR_FLUSH_ERR", "RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR", "REM_ACCESS_ERR", "REM_OP_ERR"]
            {
                assert!(named(&format!("IBV_WC_{text}"), is_iwarp), "{text}");
            }
            for text in ["LOC_PROT_ERR", "LOC_LEN_ERR", "BAD_RESP_ERR", "REM_INV_REQ_ERR", "FATAL_ERR"] {
                assert!(!named(&format!("IBV_WC_{text}"), is_iwarp), "{text}");
            }
            for text in ["LOC_QP_OP_ERR", "GENERAL_ERR"] {
                assert_eq!(named(&format!("IBV_WC_{text}"), is_iwarp), is_iwarp, "{text}");
            }
            assert!(!is_loss(WcStatus::SUCCESS, is_iwarp));
        }
    }
}
