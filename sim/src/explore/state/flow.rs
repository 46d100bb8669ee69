//! Oracle of one direction: what its sender has sent, and what has arrived. It checks every step.

use superpipe_core::driver::{RecvOperation, SendOperation};
use superpipe_core::{End, FirstChunk, Incoming, Length, Reason, TransferId};

use crate::explore::cases::{Case, Transfer};

/// Progress of one transfer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Sent {
    /// Something of it may be on its way.
    pub(super) begun: bool,
    /// Number of the transfer. That of an operation is known once its receiver has seen it.
    pub(super) number: Option<u64>,
    /// Bytes that the endpoint took.
    pub(super) bytes: usize,
    /// Bytes of the head, if it is split: all that its receiver gets of it if it is cancelled.
    pub(super) head: Option<usize>,
    pub(super) ended: bool,
    pub(super) cancelled: Option<Reason>,
    pub(super) rejected: Option<Reason>,
    /// The sender's application knows of the rejection.
    pub(super) rejection_reported: bool,
    /// Bytes received, once its receiver has seen it.
    pub(super) received: Option<usize>,
    pub(super) complete: bool,
}

/// Open transfer of the sender.
#[derive(Clone, Debug, Hash)]
pub(super) enum Open {
    /// A stream, or a message that is written like one.
    Stream(TransferId),
    /// An operation, which may not have begun.
    Message(SendOperation),
}

/// Oracle of one direction.
#[derive(Clone, Debug, Hash)]
pub(super) struct Flow {
    from: usize,
    pub(super) sent: Vec<Sent>,
    pub(super) next: usize,
    pub(super) open: Option<(usize, Open)>,
    /// Operation that has begun to receive the head.
    pub(super) receive: Option<RecvOperation>,
    /// Transfer at the head, as the receiver knows it.
    pub(super) head: Option<usize>,
    /// Transfers with a smaller index have arrived or were skipped.
    seen: usize,
    /// A first chunk that waits for its CTS is dropped with a transfer that is cancelled.
    holds_back: bool,
}

/// Returns the payload of a transfer. Every other word may be the flag of a later chunk.
pub(super) fn payload(from: usize, index: usize, bytes: usize) -> Vec<u8> {
    let word = |at: u64| {
        let unlike = (at + 1 + 64 * (index as u64 + 4 * from as u64)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        if at.is_multiple_of(2) { unlike } else { 1 + at / 2 % 4 }
    };
    (0..).flat_map(|at| word(at).to_le_bytes()).take(bytes).collect()
}

impl Flow {
    pub(super) fn new(case: &Case, from: usize) -> Self {
        let sent = vec![Sent::default(); case.transfers[from].len()];
        let holds_back = case.first_chunk == FirstChunk::DuringRendezvous;
        Self { holds_back, from, sent, next: 0, open: None, receive: None, head: None, seen: 0 }
    }

    /// Returns the number of transfers that have arrived or were skipped.
    pub(super) const fn seen(&self) -> usize {
        self.seen
    }

    /// Returns true if nothing more is to be sent.
    pub(super) fn is_sent(&self) -> bool {
        self.next == self.sent.len() && self.open.is_none()
    }

    /// Returns true if everything arrived exactly once or was given up, and both ends know. Ends that close while messages are on their way
    /// need not report which were given up (wire.md 5.3).
    pub(super) fn is_right(&self, closes_early: bool) -> bool {
        let ended = |index: usize| closes_early && self.sent[index].cancelled.is_some();
        self.is_sent()
            && self.head.is_none_or(ended)
            && self.sent.iter().all(|sent| {
                let given_up = !sent.begun || sent.cancelled.is_some() || sent.rejected.is_some();
                (sent.complete || given_up)
                    && (closes_early || sent.rejected.is_some() == sent.rejection_reported)
            })
    }

    /// Checks the transfer that the receiver found at the head, which must be the next of which anything was sent.
    pub(super) fn arrived(&mut self, transfers: &[Transfer], incoming: Incoming) {
        let index = self.arrived_tag(incoming.tag);
        let Transfer { bytes, stream, .. } = transfers[index];
        let length = if stream { Length::Stream } else { Length::Exact(bytes as u64) };
        assert_eq!(incoming.length, length);
        let number = *self.sent[index].number.get_or_insert(incoming.transfer);
        assert_eq!(number, incoming.transfer);
    }

    /// Checks the tag of the transfer at the head. Returns its index.
    pub(super) fn arrived_tag(&mut self, tag: u64) -> usize {
        let index = usize::try_from(tag).unwrap_or(usize::MAX);
        if let Some(head) = self.head {
            assert_eq!(head, index, "the transfer at the head went away");
            return index;
        }
        assert!(index >= self.seen && index < self.next, "{index} comes after {}", self.seen);
        for (passed, sent) in self.sent.iter().enumerate().take(index).skip(self.seen) {
            assert!(sent.cancelled.is_some() && sent.bytes == 0, "transfer {passed} never came");
        }
        let sent = &mut self.sent[index];
        assert!(sent.begun, "transfer {index} was never begun");
        assert_eq!(sent.received.replace(0), None, "transfer {index} came twice");
        self.head = Some(index);
        self.seen = index + 1;
        index
    }

    /// Notes a cancelled transfer that begins and ends in one call, after this many bytes.
    pub(super) fn arrived_cancelled(&mut self, reason: Reason, bytes: usize) {
        let is_it = |sent: &Sent| {
            let is_all = sent.head.unwrap_or(sent.bytes) == bytes || self.holds_back && bytes == 0;
            sent.begun && sent.cancelled == Some(reason) && is_all
        };
        let found = (self.seen..self.next).find(|index| is_it(&self.sent[*index]));
        if let (None, Some(index)) = (self.head, found) {
            self.arrived_tag(index as u64);
        }
    }

    /// Checks bytes of the head, and its end.
    pub(super) fn took(&mut self, transfers: &[Transfer], got: &[u8], end: End) {
        let Some(index) = self.head else { panic!("bytes of no transfer came out") };
        let sent = &mut self.sent[index];
        let at = sent.received.unwrap_or(0);
        let all = payload(self.from, index, transfers[index].bytes);
        assert!(at + got.len() <= sent.bytes, "transfer {index}: more came out than was sent");
        assert!(all[at..].starts_with(got), "transfer {index}: {} bytes at {at} differ", got.len());
        sent.received = Some(at + got.len());
        match end {
            End::No => return,
            End::Fin => {
                assert!(sent.ended && at + got.len() == sent.bytes, "transfer {index} ended early");
                sent.complete = true;
            }
            End::Cancelled(reason) => {
                assert_eq!(sent.cancelled, Some(reason));
                let all = sent.head.unwrap_or(sent.bytes);
                let is_all = sent.received == Some(all) || self.holds_back && sent.received == Some(0);
                assert!(
                    is_all,
                    "transfer {index}: CANCEL after {:?} bytes, and {all} were sent",
                    sent.received
                );
            }
        }
        (self.head, self.receive) = (None, None);
    }

    /// Checks a reported rejection.
    pub(super) fn check_rejected(&mut self, transfer: u64, reason: Reason) {
        // A transfer that was cancelled before anything was sent has left its number to the next.
        let sent = self.sent.iter_mut().rfind(|sent| sent.number == Some(transfer));
        let Some(sent) = sent else { panic!("{transfer} was rejected, and never sent") };
        assert_eq!(sent.rejected, Some(reason));
        assert!(!core::mem::replace(&mut sent.rejection_reported, true), "reported twice");
    }
}
