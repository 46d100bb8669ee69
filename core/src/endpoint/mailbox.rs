//! The mailbox: a ring of control lines in each control page. It has room for all control messages that can be outstanding, so
//! that none waits for data. The reader polls one word. wire.md 2.3.

use core::hash::{Hash, Hasher};

use crate::error::ProtocolError;
use crate::fabric::Fabric;
use crate::memory::RETIRED_WR;
use crate::receive::notifies;
use crate::send::Sender;
use crate::wire::arrival::Arrival;
use crate::wire::control::{Control, GROUPS, Kind};
use crate::wire::layout::control_page;
use crate::wire::line::{LINE_BYTES, Line};
use crate::wire::notification::{LowBits, Subject};
use crate::wire::sequence::{Advance, after, before, distance, is_before, judge};

const fn place(slot: u32) -> u32 {
    control_page::MAILBOX + slot * LINE_BYTES
}

const fn next_slot(slot: u32) -> u32 {
    if slot + 1 == control_page::MAILBOX_SLOTS { 0 } else { slot + 1 }
}

/// Sending side of the mailbox, with the messages that are not acknowledged.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    /// Sequence of the next control message.
    sequence: u64,
    /// Sequence of the newest one that the peer has consumed.
    acked: u64,
    slot: u32,
    /// Sequences that are not acknowledged yet, by the group of their kind.
    on_the_way: [heapless::Deque<u64, 8>; GROUPS],
}

impl Outbox {
    pub(crate) const fn new(first: u64) -> Self {
        Self {
            sequence: first,
            acked: before(first),
            slot: 0,
            on_the_way: [const { heapless::Deque::new() }; GROUPS],
        }
    }

    /// Returns true if another message of this kind may go out.
    pub(crate) fn has_room(&self, kind: Kind) -> bool {
        planted!(MailboxOverwritten => return true);
        self.on_the_way.get(kind.group()).is_some_and(|q| q.len() < kind.outstanding_max() as usize)
    }

    /// Returns the sequences of the newest message that was sent, and of the newest that the peer has consumed.
    pub(crate) const fn sequences(&self) -> [u64; 2] {
        [before(self.sequence), self.acked]
    }

    /// Returns true if every message that was sent is acknowledged.
    pub(crate) fn is_idle(&self) -> bool {
        self.acked == before(self.sequence)
    }

    /// Writes a message. Returns false if there is no room for its kind or in the send queue; the caller tries again later.
    pub(crate) fn post<F: Fabric>(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        to: F::Remote,
        sender: &mut Sender<F>,
        control: Control,
    ) -> bool {
        let kind = control.kind();
        if !self.has_room(kind) {
            return false;
        }
        let mut line = control.line();
        line.0[7] = sender.arrival().line_flag(fabric, &line, self.sequence);
        let at = place(self.slot);
        fabric.write_line(link, to, at, &line);
        let subject = Subject::Control(self.sequence);
        let wr = matches!(kind, Kind::Retired).then_some(RETIRED_WR);
        if !F::DIRECT && sender.post_line(fabric, link, to, at, subject, wr).is_err() {
            return false;
        }
        let kept = self.on_the_way.get_mut(kind.group()).is_some_and(|q| q.push_back(self.sequence).is_ok());
        debug_assert!(kept, "has_room said so");
        self.sequence = after(self.sequence);
        self.slot = next_slot(self.slot);
        true
    }

    /// Returns true if an acknowledgement of `said` would free places.
    pub(crate) fn has_news(&self, said: u64) -> bool {
        judge(said, self.acked, before(self.sequence)) == Advance::Forward
    }

    /// Handles the acknowledgement of all messages up to the sequence `said`. Returns true if places became free.
    pub(crate) fn handle_ack(&mut self, said: u64) -> Result<bool, ProtocolError> {
        match judge(said, self.acked, before(self.sequence)) {
            Advance::Stale => Ok(false),
            Advance::Beyond => Err(ProtocolError::ControlAckBeyondSent),
            Advance::Forward => {
                self.acked = said;
                for queue in &mut self.on_the_way {
                    while queue.front().is_some_and(|s| judge(*s, said, said) == Advance::Stale) {
                        queue.pop_front();
                    }
                }
                Ok(true)
            }
        }
    }
}

impl Hash for Outbox {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let Self { sequence, acked, slot, on_the_way } = self;
        (sequence, acked, slot).hash(hasher);
        for queue in on_the_way {
            queue.len().hash(hasher);
            queue.iter().for_each(|sequence| sequence.hash(hasher));
        }
    }
}

/// Receiving side of the mailbox.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Inbox {
    expected: u64,
    slot: u32,
    /// Sequence of the newest message that was notified.
    notified: u64,
}

impl Inbox {
    pub(crate) const fn new(first: u64) -> Self {
        Self { expected: first, slot: 0, notified: before(first) }
    }

    /// Returns the sequence of the newest message consumed.
    pub(crate) const fn consumed(&self) -> u64 {
        before(self.expected)
    }

    /// Returns true if [`poll`](Self::poll) would take a message: the next one has arrived completely.
    pub(crate) fn has_arrivals<F: Fabric>(
        &self,
        fabric: &F,
        link: &F::Link,
        from: F::Region,
        arrival: Arrival,
    ) -> bool {
        if arrival == Arrival::Notify {
            return self.is_notified();
        }
        let at = place(self.slot);
        arrival.may_be(fabric.flag(link, from, at + LINE_BYTES - 8), self.expected)
            && self.is_intact(fabric, arrival, &fabric.take_line(link, from, at))
    }

    /// Returns true if a line whose flag may be the awaited one matches the CRC in it.
    fn is_intact<F: Fabric>(&self, fabric: &F, arrival: Arrival, line: &Line) -> bool {
        arrival != Arrival::CheckedFlag || arrival.line_flag(fabric, line, self.expected) == line.flag()
    }

    /// Handles the notification of a message.
    pub(crate) fn handle_notification(&mut self, low: LowBits) -> Result<(), ProtocolError> {
        let next = after(self.notified);
        low.check(next, distance(self.consumed(), next), u64::from(control_page::MAILBOX_SLOTS))?;
        self.notified = next;
        Ok(())
    }

    /// Returns true if the next message was notified.
    const fn is_notified(&self) -> bool {
        !is_before(self.notified, self.expected)
    }

    /// Returns true if the next message must not be read, because it was not notified yet.
    #[inline]
    fn awaits_notification<F: Fabric>(&self, arrival: Arrival) -> bool {
        planted!(NotificationNotRead => return false);
        notifies::<F>(arrival) && !self.is_notified()
    }

    /// Takes the next message, if it has arrived.
    #[inline]
    pub(crate) fn poll<F: Fabric>(
        &mut self,
        fabric: &F,
        link: &F::Link,
        from: F::Region,
        arrival: Arrival,
    ) -> Option<Result<Control, ProtocolError>> {
        if self.awaits_notification::<F>(arrival) {
            return None;
        }
        let at = place(self.slot);
        let flag = fabric.flag(link, from, at + LINE_BYTES - 8);
        if !arrival.may_be(flag, self.expected) {
            if !notifies::<F>(arrival) || !self.is_notified() {
                return None;
            }
            // Reported once, since the flag will never be there.
            self.notified = before(self.expected);
            return Some(Err(ProtocolError::NotificationWithoutFlag));
        }
        let line = fabric.take_line(link, from, at);
        if !self.is_intact(fabric, arrival, &line) {
            return None;
        }
        self.expected = after(self.expected);
        self.slot = next_slot(self.slot);
        Some(Control::parse(&line))
    }
}
