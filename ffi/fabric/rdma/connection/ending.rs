//! The end of a connection: what was posted reaches the peer before the QP is destroyed.
//!
//! Disconnecting flushes what the device has not sent yet, including CLOSE. A completion proves that the peer's device has
//! the data (iWARP: that it is on its way; the peer's answer to the disconnect proves that it arrived). Only an established
//! connection waits for that: a peer that failed a handshake must not hold up others, and neither must one whose program does something else.

use super::RdmaConnection;
use super::posting::Message;
use super::state::State;
use crate::fabric::LossCause;
use crate::fabric::rdma::send_queue::SendQueue;
use crate::fabric::rdma::signal::Signal;
use crate::fabric::rdma::violation::Violation;
use crate::os::clock::until;
use crate::os::monotonic_ns;
use crate::os::poll::PollFd;
use core::time::Duration;
use std::os::fd::AsFd;
use std::thread;
use superpipe_core::WcError;
use superpipe_verbs::WcStatus;

const DEVICE_GONE: &str = "the RDMA device of this host is gone, and the connection with it";
/// Bound of the wait for the peer's answer to the disconnect where the answer proves nothing. A peer gives it once its program drives the connection again, which may
/// take long. The wait is for the request, which is withdrawn with the id if it has not left.
pub(super) const ANSWER_NS: u64 = 100_000_000;
/// Polls before the thread sleeps between them: a device that is not behind completes meanwhile.
const SPINS: u32 = 1000;

impl RdmaConnection {
    /// Handles a send that failed.
    #[cold]
    pub(super) fn send_failed(&mut self, error: WcError) {
        self.finish(state_after_send(error, self.is_iwarp));
    }

    /// Handles a receive that failed.
    #[cold]
    pub(super) fn recv_failed(&mut self, error: WcError) {
        self.finish(state_after_receive(error, self.is_iwarp));
    }

    /// Ends the connection: nothing more is sent, and all that was posted counts as done.
    #[cold]
    pub(in crate::fabric::rdma) fn finish(&mut self, state: State) {
        // The cause may come after the loss: a queue pair that fails flushes both queues, and rdma_cm reports as well.
        if self.state == State::Open
            || self.state == State::Gone && matches!(state, State::Failed(_) | State::Violation(_))
        {
            self.state = state;
        }
        // Work requests that were not posted count as done as well.
        for (_, wr) in &self.waiting {
            self.queue.take(*wr);
        }
        self.waiting.clear();
        // The device flushes what it still has.
        let _ = self.qp.fail();
        self.queue.complete_all();
    }

    /// Ends the connection, since memory of the application is to be given back that the device or the peer may still use.
    #[cold]
    pub(in crate::fabric::rdma) fn end_link(&mut self) {
        self.finish(State::Gone);
        self.cm.get_mut().disconnect();
    }

    /// Returns the descriptor that becomes readable when the connection ends.
    pub(in crate::fabric::rdma) fn interest(&self) -> PollFd<'_> {
        PollFd::new(self.channel.as_fd(), libc::POLLIN)
    }

    /// Returns the descriptors that become readable when an armed completion arrives, or the connection ends.
    pub(in crate::fabric::rdma) fn sleep_interests(&self) -> [PollFd<'_>; 2] {
        [self.completions.interest(), self.interest()]
    }

    /// Returns true if the peer is there. Makes a system call.
    pub(in crate::fabric::rdma) fn is_alive(&self) -> bool {
        self.state == State::Open && self.cm.borrow_mut().is_connected()
    }

    /// Returns the cause that the peer is gone, if it is not a disconnect.
    pub(in crate::fabric::rdma) fn why_gone(&self) -> Option<LossCause> {
        match self.state {
            State::Violation(wrong) => Some(LossCause::Violation(wrong.to_string())),
            _ if self.cm.borrow().is_device_gone() => Some(LossCause::Device(DEVICE_GONE)),
            _ => None,
        }
    }

    /// Marks the connection as established: its drop waits for what was posted and for the peer's answer to the disconnect.
    /// No packet is due any more.
    pub(in crate::fabric::rdma) fn keep_open(&mut self) {
        self.cm.get_mut().keep_open();
        self.completions.note_established();
    }

    /// Bounds the drop, from now on: the drain, and the peer's answer.
    pub(in crate::fabric::rdma) fn end_by(&mut self, by_ns: u64) {
        self.cm.get_mut().end_by(by_ns);
    }

    /// Returns the time by which the drop is over, fixed by the first call.
    pub(in crate::fabric::rdma) fn ends_by(&mut self) -> u64 {
        self.cm.get_mut().ends_by()
    }

    /// Makes sure that the last work request is signaled, by sending one more signal, which changes nothing.
    fn ask_for_completion(&mut self) -> bool {
        self.queue.ends_signaled()
            || matches!(self.send_at_once(Message::Signal(Signal::Wake), true), Ok(true))
    }

    /// Waits until the device has completed what is posted now, and returns true if it has. What is posted meanwhile answers the peer's signals, which nobody needs any more.
    fn drain(&mut self) -> bool {
        if self.queue.is_idle() {
            return true;
        }
        // To a peer that has left nothing can be delivered, and a device may retry for eight ACK timeouts.
        if !self.is_alive() {
            return false;
        }
        if !self.poll_until(|queue| queue.room() > 0) || !self.ask_for_completion() {
            return false;
        }
        let end = self.queue.position();
        self.poll_until(|queue| queue.has_completed(end))
    }

    /// Polls until this is true of the send queue. Returns false if the connection ends first, or the time of the drop is over.
    fn poll_until(&mut self, is_done: impl Fn(&SendQueue) -> bool) -> bool {
        let deadline_ns = self.ends_by();
        let mut polls = 0;
        while self.state == State::Open && !is_done(&self.queue) && until(deadline_ns) > 0 {
            if self.poll() == 0 {
                polls += 1;
                if polls > SPINS {
                    if !self.is_alive() {
                        return false;
                    }
                    thread::sleep(Duration::from_micros(50));
                }
            }
        }
        self.state == State::Open && is_done(&self.queue)
    }
}

impl Drop for RdmaConnection {
    fn drop(&mut self) {
        // Other handshakes may be waiting behind one that failed.
        if !self.cm.get_mut().is_kept_open() {
            return;
        }
        let is_drained = self.drain();
        // A connection that has failed delivers nothing more, and on iWARP only the answer proves that what was sent has arrived.
        let needs_answer = self.state == State::Open && (self.is_iwarp || !is_drained);
        if !needs_answer {
            let by_ns = self.ends_by().min(monotonic_ns().saturating_add(ANSWER_NS));
            self.end_by(by_ns);
        }
    }
}

/// Statuses by which iWARP reports that its TCP connection ended while sending, or data that it does not take.
const LOCAL_OPERATION: WcStatus = WcStatus(2);
const GENERAL: WcStatus = WcStatus(21);

/// Returns the state that a failed send leads to. wire.md 10.5.
fn state_after_send(error: WcError, is_iwarp: bool) -> State {
    const REMOTE_INVALID: WcStatus = WcStatus(9);
    match WcStatus(error.status) {
        REMOTE_INVALID => State::Violation(Violation::Refusal(error)),
        status if is_loss(status, is_iwarp) => State::Gone,
        _ => State::Failed(error),
    }
}

/// Returns the state that a failed receive leads to. The peer's message is at fault, unless the status is about the memory or the
/// device of this host. A flushed receive had no message. wire.md 10.5.
fn state_after_receive(error: WcError, is_iwarp: bool) -> State {
    const LOCAL_PROTECTION: WcStatus = WcStatus(4);
    const FATAL: WcStatus = WcStatus(19);
    match WcStatus(error.status) {
        WcStatus::FLUSHED => State::Gone,
        LOCAL_PROTECTION | FATAL => State::Failed(error),
        GENERAL if !is_iwarp => State::Failed(error),
        _ => State::Violation(Violation::Receive(error)),
    }
}

/// Returns true if a send that ended so means that the peer is gone, and not that the device failed.
fn is_loss(status: WcStatus, is_iwarp: bool) -> bool {
    // The kernel releases the memory of a killed process before its queue pairs: a write in between is refused.
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

    fn ends(end: fn(WcError, bool) -> State, is_iwarp: bool) -> impl Fn(u32) -> char {
        move |status| match end(WcError { status, vendor_err: 0 }, is_iwarp) {
            State::Gone => 'g',
            State::Violation(_) => 'w',
            State::Failed(_) => 'f',
            State::Open | State::Reported => '?',
        }
    }

    #[test]
    fn each_status_has_its_cause_by_the_queue_that_it_is_of() {
        let all = |end, is_iwarp| (1..25).map(ends(end, is_iwarp)).collect::<String>();
        // By number: 1 LOC_LEN, 2 LOC_QP_OP, 4 LOC_PROT, 5 WR_FLUSH, 9 REM_INV_REQ, 19 FATAL, 21 GENERAL; 24 has no name.
        assert_eq!(all(state_after_receive, false), "wwwfgwwwwwwwwwwwwwfwfwww");
        assert_eq!(all(state_after_receive, true), "wwwfgwwwwwwwwwwwwwfwwwww");
        assert_eq!(all(state_after_send, false), "ffffgfffwggggfffffffffff");
        assert_eq!(all(state_after_send, true), "fgffgfffwggggfffffffgfff");
    }

    #[test]
    fn a_lost_peer_is_distinguished_from_a_failed_device() {
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
