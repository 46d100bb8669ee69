//! Oracle of one direction: what was sent, in which order, and what arrived.

use std::collections::VecDeque;

use superpipe_core::{End, Incoming, Length, Protocol, Reason};
use superpipe_testkit::Rng;

/// Bits of a tag that hold the message's index.
const INDEX_BITS: u32 = 20;

/// A message or stream.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) tag: u64,
    pub(super) payload: Vec<u8>,
    pub(super) length: Length,
    /// Bytes that the endpoint took.
    pub(super) bytes: usize,
    pub(super) ended: bool,
    pub(super) cancelled: Option<Reason>,
    pub(super) rejected: Option<Reason>,
    number: Option<u64>,
    received: Option<usize>,
    /// It began by a protocol whose first chunk may be held back.
    prepares: bool,
    /// Its receiver has seen its end, or rejected it.
    over: bool,
}

/// Oracle of one direction.
#[derive(Debug, Default)]
pub(super) struct Flow {
    pub(super) messages: Vec<Message>,
    /// Messages of which something may be on its way, in order.
    order: Vec<usize>,
    /// Number of messages in the order that have arrived or were skipped.
    seen: usize,
    /// Rejected messages, in order, that no event has reported.
    unreported: VecDeque<usize>,
    /// Open transfer of the sender.
    pub(super) open: Option<usize>,
    /// Message at the head, as its receiver knows it, and the bytes taken of it.
    pub(super) head: Option<usize>,
    pub(super) at: usize,
    /// The sender may hold the first chunk of a transfer longer than so many bytes, its C0, back until its CTS is here, and drops it with a transfer that is
    /// cancelled before.
    holds_back: Option<u64>,
    /// A line was forged, and nothing is compared any more.
    pub(super) is_unchecked: bool,
    /// Transfers that were compared.
    pub(super) transfers: u64,
}

impl Message {
    /// Returns true if `bytes` bytes may be all that its receiver gets.
    fn may_be_all(&self, bytes: usize, holds_back: Option<u64>) -> bool {
        bytes == self.bytes || bytes == 0 && self.cancelled.is_some() && self.may_be_held(holds_back)
    }

    /// Returns true if its receiver may see nothing of it.
    fn may_never_come(&self, holds_back: Option<u64>) -> bool {
        self.cancelled.is_some()
            && self.received.is_none()
            && (self.bytes == 0 || self.may_be_held(holds_back))
    }

    /// Returns true if its sender gave it up before it had a byte, so that a receiver which has seen it begin lacks nothing.
    fn has_nothing(&self) -> bool {
        self.cancelled.is_some() && self.bytes == 0
    }

    /// Returns true if its first chunk may be held back until its receiver has seen that it begins.
    fn may_be_held(&self, holds_back: Option<u64>) -> bool {
        let is_longer = |c0_bytes| match self.length {
            Length::Exact(bytes) => bytes > c0_bytes,
            Length::Stream => true,
        };
        self.prepares
            && holds_back.is_some_and(|c0_bytes| self.bytes as u64 <= c0_bytes && is_longer(c0_bytes))
    }
}

impl Flow {
    pub(super) fn new(holds_back: Option<u64>) -> Self {
        Self { holds_back, ..Self::default() }
    }

    /// Draws a message.
    pub(super) fn draw(&mut self, rng: &mut Rng, bytes: usize, is_stream: bool) -> usize {
        let index = self.messages.len();
        let payload = (0..bytes.div_ceil(8)).flat_map(|_| rng.next().to_le_bytes()).take(bytes).collect();
        let length = if is_stream { Length::Stream } else { Length::Exact(bytes as u64) };
        self.messages.push(Message {
            tag: rng.next() << INDEX_BITS | index as u64,
            payload,
            length,
            bytes: 0,
            ended: false,
            cancelled: None,
            rejected: None,
            number: None,
            received: None,
            prepares: false,
            over: false,
        });
        index
    }

    /// Notes that a message was sent by one call.
    pub(super) fn sent_at_once(&mut self, index: usize) {
        assert!(self.is_unchecked || self.open.is_none(), "{index} was sent at once while another is open");
        self.order.push(index);
        let message = &mut self.messages[index];
        (message.bytes, message.ended) = (message.payload.len(), true);
    }

    /// Notes that a transfer starts by the protocol of its end, or if that is planned, by another one.
    pub(super) fn starts(&mut self, index: usize, protocol: Protocol) {
        assert!(self.is_unchecked || self.open.is_none(), "{index} starts while another is open");
        self.order.push(index);
        self.open = Some(index);
        self.messages[index].prepares = match protocol {
            Protocol::Superpipeline | Protocol::Register | Protocol::RegisterCached | Protocol::Auto => true,
            Protocol::Eager | Protocol::Copy | Protocol::Pipeline | Protocol::Provision => false,
        };
    }

    /// Notes that the endpoint took bytes.
    pub(super) fn pushed(&mut self, index: usize, bytes: usize) {
        let message = &mut self.messages[index];
        message.bytes += bytes;
        assert!(self.is_unchecked || message.bytes <= message.payload.len(), "more was taken than was given");
    }

    /// Notes that a transfer was sent completely.
    pub(super) fn ends(&mut self, index: usize) {
        assert!(self.is_unchecked || self.open == Some(index), "{index} ends, and is not open");
        self.messages[index].ended = true;
        self.open = None;
    }

    /// Notes that the sender cancels a transfer, if it is open.
    pub(super) fn gives_up(&mut self, index: usize, reason: Reason) {
        if self.open == Some(index) {
            self.messages[index].cancelled = Some(reason);
            self.open = None;
        }
    }

    /// Checks a rejection that a call of the sender reported.
    pub(super) fn check_rejected(&mut self, index: usize, reason: Reason) {
        if self.open == Some(index) {
            self.open = None;
        }
        assert!(
            self.is_unchecked || self.messages[index].rejected == Some(reason),
            "{index} is said to be rejected for {reason:?}"
        );
    }

    /// Checks a rejection that an event reported. Events report each rejection once and in order. After a close they may leave some out.
    pub(super) fn check_rejected_event(&mut self, transfer: u64, reason: Reason, has_closed: bool) {
        if self.is_unchecked {
            return;
        }
        let number = |index: usize| self.messages[index].number;
        let is_it = |index: &usize| number(*index) == Some(transfer);
        // A message that was rejected before any peek has no number here.
        let may_be = |index: &usize| {
            number(*index).is_none() && (!has_closed || self.messages[*index].rejected == Some(reason))
        };
        let place =
            self.unreported.iter().position(is_it).or_else(|| self.unreported.iter().position(may_be));
        let Some(place) = place else {
            panic!("{transfer} is reported as rejected: it was not, or was reported before")
        };
        let first = self.unreported[0];
        assert!(has_closed || place == 0, "{transfer} is reported before {first}");
        let index = self.unreported[place];
        assert_eq!(self.messages[index].rejected, Some(reason), "the reason of a rejection");
        self.unreported.drain(..=place);
    }

    /// Notes that `count` events were dropped, those of the oldest rejections.
    pub(super) fn missed_events(&mut self, count: u64, has_closed: bool) {
        if self.is_unchecked || has_closed {
            return;
        }
        let missed = usize::try_from(count).unwrap_or(usize::MAX);
        assert!(
            missed <= self.unreported.len(),
            "{count} events were missed, of {} rejections",
            self.unreported.len()
        );
        self.unreported.drain(..missed);
    }

    /// Checks the transfer that the receiver was shown at the head.
    pub(super) fn arrived(&mut self, incoming: Incoming) {
        if self.is_unchecked {
            return;
        }
        self.arrived_tag(incoming.tag);
        let Some(message) = self.head.and_then(|head| self.messages.get_mut(head)) else { return };
        assert_eq!(message.length, incoming.length, "length");
        let number = *message.number.get_or_insert(incoming.transfer);
        assert_eq!(number, incoming.transfer, "another number than before");
    }

    /// Checks the tag of the transfer at the head, which must be the next of which anything was sent.
    pub(super) fn arrived_tag(&mut self, tag: u64) {
        if self.is_unchecked {
            return;
        }
        let index = usize::try_from(tag & ((1 << INDEX_BITS) - 1)).unwrap_or(usize::MAX);
        assert!(self.messages.get(index).is_some_and(|it| it.tag == tag), "a tag that nobody sent");
        if let Some(head) = self.head {
            assert_eq!(head, index, "the transfer at the head went away");
            return;
        }
        let place = self.order[self.seen..].iter().position(|it| *it == index);
        let Some(passed) = place else { panic!("{index} came out of order, or twice") };
        for passed in &self.order[self.seen..self.seen + passed] {
            let message = &self.messages[*passed];
            assert!(message.may_never_come(self.holds_back), "message {passed} never came");
        }
        self.seen += passed + 1;
        self.transfers += 1;
        self.messages[index].received = Some(0);
        (self.head, self.at) = (Some(index), 0);
    }

    /// Returns the message that any poll of the head must find: nothing is at the head, and a part of the next message was sent.
    pub(super) fn certain(&self) -> Option<usize> {
        let next = self.next().filter(|_| self.head.is_none())?;
        let message = &self.messages[next];
        let is_there = message.bytes > 0 || message.ended;
        (is_there && !message.may_never_come(self.holds_back)).then_some(next)
    }

    /// Notes that the message that had to come next has arrived.
    pub(super) fn arrived_certain(&mut self) {
        if let Some(index) = self.certain() {
            self.arrived_tag(self.messages[index].tag);
        }
    }

    /// Notes a cancelled message that begins and ends in one call, with this reason and this many bytes.
    pub(super) fn arrived_cancelled(&mut self, reason: Reason, bytes: usize) {
        let rest = self.order.get(self.seen..).unwrap_or_default();
        let found = rest.iter().find(|index| {
            let message = &self.messages[**index];
            message.cancelled == Some(reason) && message.may_be_all(bytes, self.holds_back)
        });
        if let (None, Some(index)) = (self.head, found) {
            self.arrived_tag(self.messages[*index].tag);
        }
    }

    /// Checks bytes that the receiver took of the head.
    pub(super) fn took(&mut self, got: &[u8]) {
        if self.is_unchecked || got.is_empty() {
            return;
        }
        let Some(head) = self.head else { panic!("{} bytes of no transfer came out", got.len()) };
        let message = &mut self.messages[head];
        let wanted = message.payload.get(self.at..self.at + got.len());
        assert!(
            wanted == Some(got),
            "message {head}: {} bytes at {} differ: {got:x?} for {wanted:x?}",
            got.len(),
            self.at
        );
        self.at += got.len();
        assert!(self.at <= message.bytes, "message {head}: more came out than was sent");
        message.received = Some(self.at);
    }

    /// Checks the end of the message at the head, if it has ended.
    pub(super) fn ended(&mut self, end: End) {
        if self.is_unchecked || end == End::No {
            return;
        }
        let Some(head) = self.head.take() else { panic!("{end:?} of no transfer") };
        let message = &mut self.messages[head];
        let (at, bytes) = (self.at, message.bytes);
        let is_all = message.may_be_all(at, self.holds_back);
        assert!(is_all, "message {head} ends after {at} bytes, and {bytes} were sent");
        message.over = true;
        match end {
            End::No => {}
            End::Fin => assert!(message.ended, "message {head} ended early"),
            End::Cancelled(reason) => assert_eq!(message.cancelled, Some(reason), "message {head}: reason"),
        }
    }

    /// Notes that the receiver rejects the head.
    pub(super) fn reject(&mut self, reason: Reason) {
        if self.is_unchecked {
            return;
        }
        let Some(head) = self.head.take() else { panic!("what was never shown was rejected") };
        let message = &mut self.messages[head];
        (message.rejected, message.over) = (Some(reason), true);
        self.unreported.push_back(head);
    }

    /// Returns true if everything sent has arrived or was given up.
    pub(super) fn is_taken(&self) -> bool {
        let is_over = |index: &usize| {
            let message = &self.messages[*index];
            message.over || message.may_never_come(self.holds_back)
        };
        self.open.is_none() && self.order.iter().all(is_over)
    }

    /// Returns true if a receiver that has closed lacks nothing that was sent. It may have closed before it took the CANCEL of a message without a byte.
    pub(super) fn lacks_nothing(&self) -> bool {
        let is_over = |index: &usize| {
            let message = &self.messages[*index];
            message.over || message.has_nothing() || message.may_never_come(self.holds_back)
        };
        self.open.is_none() && self.order.iter().all(is_over)
    }

    /// Returns true if all bytes that the endpoint took were received or discarded.
    pub(super) fn is_delivered(&self) -> bool {
        self.order.iter().all(|index| {
            let message = &self.messages[*index];
            message.rejected.is_some() || message.may_be_all(message.received.unwrap_or(0), self.holds_back)
        })
    }

    /// Returns the next message of which something may arrive.
    pub(super) fn next(&self) -> Option<usize> {
        self.order.get(self.seen).copied()
    }

    /// Notes bytes of the head that went to an unknown place.
    pub(super) fn skipped(&mut self, bytes: usize) {
        let Some(head) = self.head else { return };
        self.at += bytes;
        let message = &mut self.messages[head];
        assert!(self.is_unchecked || self.at <= message.bytes, "message {head}: more came out than was sent");
        message.received = Some(self.at);
    }
}
