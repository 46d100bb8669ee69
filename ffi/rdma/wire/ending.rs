//! What is left of a peer that is gone, and the end of a wire: what was posted reaches the peer before the QP goes.
//!
//! To disconnect flushes what the device has not sent yet, the CLOSE with it. A completion says that the peer's device has
//! what it stands for (iWARP: that it is on its way, and the peer's agreement to the disconnect that it has arrived). Only a connection
//! that both ends agreed on waits for that: whoever spoiled a handshake would hold up others.

use super::Wire;
use super::end::End;
use super::posting::Letter;
use crate::os::clock::until;
use crate::os::poll::PollFd;
use crate::port::Gone;
use crate::rdma::mail::Word;
use crate::rdma::wrong::Wrong;
use crate::verbs::WcStatus;
use core::time::Duration;
use std::os::fd::AsFd;
use std::thread;
use superpipe_core::WcError;

const DEVICE_GONE: &str = "the RDMA device of this host is gone, and the connection with it";
/// Looks before the core is given to others between them.
const SPINS: u32 = 1000;

impl Wire {
    /// Something that was posted to be sent failed.
    #[cold]
    pub(super) fn send_failed(&mut self, error: WcError) {
        self.finish(end_of_send(error, self.is_iwarp));
    }

    /// A receive failed.
    #[cold]
    pub(super) fn receive_failed(&mut self, error: WcError) {
        self.finish(end_of_receive(error, self.is_iwarp));
    }

    /// Nothing more is sent, and what was is done with.
    #[cold]
    pub(in crate::rdma) fn finish(&mut self, end: End) {
        // Why comes after that: a queue pair that fails flushes both queues, and rdma_cm tells as well.
        if self.end == End::Not || self.end == End::Gone && matches!(end, End::Failed(_) | End::Wrong(_)) {
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

    /// What becomes readable when something comes that was asked for, or the connection ends.
    pub(in crate::rdma) fn sleep_interests(&self) -> [PollFd<'_>; 2] {
        [PollFd::new(self.events.as_fd(), libc::POLLIN), self.interest()]
    }

    /// Whether the peer is there. A system call.
    pub(in crate::rdma) fn is_alive(&self) -> bool {
        self.end == End::Not && self.cm.borrow_mut().is_connected()
    }

    /// Why the peer is gone, where it did not just go.
    pub(in crate::rdma) fn why_gone(&self) -> Option<Gone> {
        match self.end {
            End::Wrong(wrong) => Some(Gone::Wrong(wrong.to_string())),
            _ if self.cm.borrow().is_device_gone() => Some(Gone::Device(DEVICE_GONE)),
            _ => None,
        }
    }

    /// The handshake is through: from now on this end owes the peer its last word, and lets it agree to the end.
    /// No packet is due any more.
    pub(in crate::rdma) fn keep_open(&mut self) {
        self.cm.get_mut().keep_open();
    }

    /// Bounds the drop, from now on: the drain, and the peer's agreement.
    pub(in crate::rdma) fn end_by(&mut self, by_ns: u64) {
        self.cm.get_mut().end_by(by_ns);
    }

    /// Has the device tell when all that was posted is done: by one word more, which says nothing new.
    fn ask_for_completion(&mut self) -> bool {
        self.queue.ends_signaled() || matches!(self.send_alone(Letter::Word(Word::Wake), true), Ok(true))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // Others may be waiting behind a handshake that failed.
        if !self.cm.get_mut().is_kept_open() {
            return;
        }
        if self.end != End::Not || self.queue.is_idle() || !self.ask_for_completion() {
            return;
        }
        let deadline_ns = self.cm.get_mut().ends_by();
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

/// iWARP's words for a TCP connection that ended below what was being sent, or for what it does not take.
const LOCAL_OPERATION: WcStatus = WcStatus(2);
const GENERAL: WcStatus = WcStatus(21);

/// Judges how a send ended. wire.md 10.5.
fn end_of_send(error: WcError, is_iwarp: bool) -> End {
    const REMOTE_INVALID: WcStatus = WcStatus(9);
    match WcStatus(error.status) {
        REMOTE_INVALID => End::Wrong(Wrong::Refusal(error)),
        status if is_loss(status, is_iwarp) => End::Gone,
        _ => End::Failed(error),
    }
}

/// Judges how a receive ended: what is wrong with one is wrong with what came, but for what is of this host alone, its
/// memory and its device. One that is flushed had nothing. wire.md 10.5.
fn end_of_receive(error: WcError, is_iwarp: bool) -> End {
    const LOCAL_PROTECTION: WcStatus = WcStatus(4);
    const FATAL: WcStatus = WcStatus(19);
    match WcStatus(error.status) {
        WcStatus::FLUSHED => End::Gone,
        LOCAL_PROTECTION | FATAL => End::Failed(error),
        GENERAL if !is_iwarp => End::Failed(error),
        _ => End::Wrong(Wrong::Receive(error)),
    }
}

/// Returns true if a send that ended so means that the peer is gone, and not that the device failed.
fn is_loss(status: WcStatus, is_iwarp: bool) -> bool {
    // The kernel takes the memory of a process that was killed before its queue pairs: a write in between is refused.
    const REMOTE_ACCESS: WcStatus = WcStatus(10);
    const REMOTE_OPERATION: WcStatus = WcStatus(11);
    const RNR_RETRY_EXCEEDED: WcStatus = WcStatus(13);
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

    fn ends(end: fn(WcError, bool) -> End, is_iwarp: bool) -> impl Fn(u32) -> char {
        move |status| match end(WcError { status, vendor_err: 0 }, is_iwarp) {
            End::Gone => 'g',
            End::Wrong(_) => 'w',
            End::Failed(_) => 'f',
            End::Not | End::Told => '?',
        }
    }

    #[test]
    fn each_status_has_its_cause_by_the_queue_that_it_is_of() {
        let all = |end, is_iwarp| (1..25).map(ends(end, is_iwarp)).collect::<String>();
        // By number: 1 LOC_LEN, 2 LOC_QP_OP, 4 LOC_PROT, 5 WR_FLUSH, 9 REM_INV_REQ, 19 FATAL, 21 GENERAL; 24 has no name.
        assert_eq!(all(end_of_receive, false), "wwwfgwwwwwwwwwwwwwfwfwww");
        assert_eq!(all(end_of_receive, true), "wwwfgwwwwwwwwwwwwwfwwwww");
        assert_eq!(all(end_of_send, false), "ffffgfffwggggfffffffffff");
        assert_eq!(all(end_of_send, true), "fgffgfffwggggfffffffgfff");
    }

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
