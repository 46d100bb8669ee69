//! One direction: what its sender has handed over, and what of it has come. Compared at every step.

use superpipe_core::driver::{Receive, Send};
use superpipe_core::{End, Incoming, Length, Reason, TransferId};

use super::case::{Case, Transfer};

/// What became of one transfer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Sent {
    /// Something of it may be on its way.
    pub(super) begun: bool,
    /// Its number; of a message that is driven, once its receiver has seen it.
    pub(super) number: Option<u64>,
    /// Bytes that the endpoint took.
    pub(super) bytes: usize,
    pub(super) ended: bool,
    pub(super) cancelled: Option<Reason>,
    pub(super) rejected: Option<Reason>,
    /// The sender's application knows of the rejection.
    pub(super) told: bool,
    /// Bytes that came out, once its receiver has seen it.
    pub(super) received: Option<usize>,
    pub(super) whole: bool,
}

/// Transfer that is open at the sender.
#[derive(Clone, Debug, Hash)]
pub(super) enum Open {
    /// A stream, or a message that is written like one.
    Stream(TransferId),
    /// A message as an operation, which may not have begun.
    Message(Send),
}

/// One direction.
#[derive(Clone, Debug, Hash)]
pub(super) struct Flow {
    from: usize,
    pub(super) sent: Vec<Sent>,
    pub(super) next: usize,
    pub(super) open: Option<(usize, Open)>,
    /// The operation that has begun to receive what is at the head.
    pub(super) receive: Option<Receive>,
    /// Transfer at the head, as the receiver knows it.
    pub(super) head: Option<usize>,
    /// Indices below this were seen, or passed over.
    seen: usize,
}

/// The payload of a transfer: words of which every other may be the flag of a chunk that is to come.
pub(super) fn payload(from: usize, index: usize, bytes: usize) -> Vec<u8> {
    let word = |at: u64| {
        let unlike = (at + 1 + 64 * (index as u64 + 4 * from as u64)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        if at.is_multiple_of(2) { unlike } else { 1 + at / 2 % 4 }
    };
    (0..).flat_map(|at| word(at).to_le_bytes()).take(bytes).collect()
}

/// What is said of a transfer when it is given up or refused.
#[expect(clippy::cast_possible_truncation, reason = "few transfers")]
pub(super) const fn reason(from: usize, index: usize, kind: u32) -> Reason {
    Reason(kind << 16 | (from as u32) << 15 | (index as u32 + 1))
}

impl Flow {
    pub(super) fn new(case: &Case, from: usize) -> Self {
        let sent = vec![Sent::default(); case.transfers[from].len()];
        Self { from, sent, next: 0, open: None, receive: None, head: None, seen: 0 }
    }

    /// Nothing more is to be sent.
    pub(super) fn is_sent(&self) -> bool {
        self.next == self.sent.len() && self.open.is_none()
    }

    /// Everything came exactly once or was given up, and both ends know which; or, where they close while something is under
    /// way, need not be told any more which they gave up (wire.md 5.3).
    pub(super) fn is_right(&self, moot: bool) -> bool {
        let ended = |index: usize| moot && self.sent[index].cancelled.is_some();
        self.is_sent()
            && self.head.is_none_or(ended)
            && self.sent.iter().all(|sent| {
                let given_up = !sent.begun || sent.cancelled.is_some() || sent.rejected.is_some();
                (sent.whole || given_up) && (moot || sent.rejected.is_some() == sent.told)
            })
    }

    /// Its receiver has a transfer at the head: it must be the next one of which anything was sent.
    pub(super) fn meet(&mut self, transfers: &[Transfer], incoming: Incoming) {
        let index = self.meet_tag(incoming.tag);
        let Transfer { bytes, stream, .. } = transfers[index];
        let length = if stream { Length::Stream } else { Length::Exact(bytes as u64) };
        assert_eq!(incoming.length, length);
        let number = *self.sent[index].number.get_or_insert(incoming.transfer);
        assert_eq!(number, incoming.transfer);
    }

    /// The same, of which only the tag is told. Returns its index.
    pub(super) fn meet_tag(&mut self, tag: u64) -> usize {
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

    /// One that was given up for this reason begins and ends in one call, after so many bytes.
    pub(super) fn meet_cancelled(&mut self, reason: Reason, bytes: usize) {
        let is_it = |sent: &Sent| sent.begun && sent.cancelled == Some(reason) && sent.bytes == bytes;
        let found = (self.seen..self.next).find(|index| is_it(&self.sent[*index]));
        if let (None, Some(index)) = (self.head, found) {
            self.meet_tag(index as u64);
        }
    }

    /// Bytes of the transfer at the head came out, and perhaps its end.
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
                sent.whole = true;
            }
            End::Cancelled(reason) => {
                assert_eq!(sent.cancelled, Some(reason));
                assert_eq!(
                    sent.received,
                    Some(sent.bytes),
                    "transfer {index}: CANCEL comes after what was sent"
                );
            }
        }
        (self.head, self.receive) = (None, None);
    }

    /// Its sender was told that a transfer is not wanted.
    pub(super) fn told(&mut self, transfer: u64, reason: Reason) {
        // One that was given up before anything was sent has left its number to the next.
        let sent = self.sent.iter_mut().rfind(|sent| sent.number == Some(transfer));
        let Some(sent) = sent else { panic!("{transfer} was rejected, and never sent") };
        assert_eq!(sent.rejected, Some(reason));
        assert!(!core::mem::replace(&mut sent.told, true), "told twice");
    }
}
