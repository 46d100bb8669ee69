//! Completions that were polled for a connection, until it takes them.
//!
//! It has room for all that can come: the last send that completed stands for those before it, there is a slot for each receive, and of a QP that fails one completion is kept
//! of each kind, since the others say nothing new.

use super::{Completed, Outcome, POLLED};
use crate::fabric::rdma::receive_pool::RECEIVES;
use heapless::{Deque, Vec};
use superpipe_verbs::{WcError, WcStatus};

/// Kinds of failures that are kept: the flush of either queue, and the cause.
const FAILURES: usize = 4;
/// IBV_WC_FATAL_ERR: the CQ cannot be polled, or the device completed what was not posted.
pub(in crate::fabric::rdma) const BROKEN: WcError = WcError { status: WcStatus(19), vendor_err: 0 };

#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// The last send that completed.
    sent: Option<Completed>,
    received: Deque<Completed, { RECEIVES as usize }>,
    failed: Vec<Completed, FAILURES>,
}

impl Inbox {
    /// Keeps a completion.
    pub(super) fn push(&mut self, completed: Completed) {
        match completed.outcome {
            Outcome::Sent => self.sent = Some(completed),
            Outcome::Received { .. } => {
                if self.received.push_back(completed).is_err() {
                    debug_assert!(false, "there is a slot for each receive");
                    self.push(Completed { outcome: Outcome::Failed(BROKEN), ..completed });
                }
            }
            Outcome::Failed(WcError { status, .. }) => {
                let is_same = |kept: &Completed| {
                    kept.is_receive == completed.is_receive
                        && matches!(kept.outcome, Outcome::Failed(error) if error.status == status)
                };
                if !self.failed.iter().any(is_same) {
                    // A device that fails in a fifth way says nothing new either.
                    let _ = self.failed.push(completed);
                }
            }
        }
    }

    /// Takes completions, what was complete before a failure first. Returns their number.
    pub(super) fn take(&mut self, into: &mut [Completed; POLLED]) -> usize {
        let mut count = 0;
        let next = |inbox: &mut Self| {
            let next = inbox.sent.take().or_else(|| inbox.received.pop_front());
            next.or_else(|| (!inbox.failed.is_empty()).then(|| inbox.failed.remove(0)))
        };
        while count < POLLED
            && let Some(completed) = next(self)
        {
            into[count] = completed;
            count += 1;
        }
        count
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.sent.is_none() && self.received.is_empty() && self.failed.is_empty()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(slot: u32) -> Completed {
        let outcome = Outcome::Received { bytes: 4, immediate: None };
        Completed { is_receive: true, number: slot, outcome }
    }

    fn failed(is_receive: bool, status: u32) -> Completed {
        let error = WcError { status: WcStatus(status), vendor_err: 3 };
        Completed { is_receive, number: 0, outcome: Outcome::Failed(error) }
    }

    fn all(inbox: &mut Inbox) -> std::vec::Vec<Completed> {
        let mut all = std::vec::Vec::new();
        loop {
            let mut some = [Completed::NONE; POLLED];
            match inbox.take(&mut some) {
                0 => return all,
                count => all.extend_from_slice(&some[..count]),
            }
        }
    }

    #[test]
    fn what_a_connection_can_have_posted_fits() {
        let mut inbox = Inbox::default();
        assert!(inbox.is_empty() && all(&mut inbox).is_empty());
        for slot in 0..u32::from(RECEIVES) {
            inbox.push(Completed { number: slot * 3, ..Completed::NONE });
            inbox.push(receive(slot));
        }
        // Both queues are flushed, with a cause.
        for number in 0..400 {
            inbox.push(failed(number % 2 == 0, 5));
        }
        inbox.push(failed(false, 10));
        assert!(!inbox.is_empty());
        let last = Completed { number: (u32::from(RECEIVES) - 1) * 3, ..Completed::NONE };
        let mut expected = vec![last];
        expected.extend((0..u32::from(RECEIVES)).map(receive));
        expected.extend([failed(true, 5), failed(false, 5), failed(false, 10)]);
        assert_eq!(all(&mut inbox), expected);
        assert!(inbox.is_empty());
        inbox.push(receive(1));
        inbox.clear();
        assert!(inbox.is_empty());
    }
}
