//! The mailbox: a ring of control lines in each seat, with as many places as can be outstanding, so that a control
//! message never waits for data, and one polled word tells of any. wire.md 2.3.

use core::hash::{Hash, Hasher};

use crate::arrival::Arrival;
use crate::control::{Control, KINDS, Kind};
use crate::error::ProtocolError;
use crate::fabric::Fabric;
use crate::layout::seat;
use crate::line::{LINE_BYTES, Line};
use crate::notice::{Low, Notices, Subject};
use crate::planted::{Bug, is_planted};
use crate::sequence::{Advance, after, before, distance, is_before, judge};

const fn place(slot: u32) -> u32 {
    seat::MAILBOX + slot * LINE_BYTES
}

const fn next_slot(slot: u32) -> u32 {
    if slot + 1 == seat::MAILBOX_SLOTS { 0 } else { slot + 1 }
}

/// The sending side: what is on the way, by kind.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    /// Sequence of the next control message.
    sequence: u64,
    /// Sequence of the newest one that the peer has consumed.
    acked: u64,
    slot: u32,
    /// Sequences that are not acknowledged yet, by kind.
    on_the_way: [heapless::Deque<u64, 8>; KINDS],
}

impl Outbox {
    pub(crate) const fn new(first: u64) -> Self {
        Self {
            sequence: first,
            acked: before(first),
            slot: 0,
            on_the_way: [const { heapless::Deque::new() }; KINDS],
        }
    }

    /// Whether another message of this kind may go out.
    pub(crate) fn has_room(&self, kind: Kind) -> bool {
        self.on_the_way.get(kind.index()).is_some_and(|q| q.len() < kind.outstanding_max() as usize)
            || is_planted(Bug::MailboxOverwritten)
    }

    /// Returns true if every message that was sent is acknowledged.
    pub(crate) fn is_idle(&self) -> bool {
        self.acked == before(self.sequence)
    }

    /// Writes a message, if there is room for its kind; false if not, and then it is to be tried again.
    pub(crate) fn post<F: Fabric>(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        to: F::Remote,
        notices: &mut Notices,
        control: Control,
    ) -> bool {
        let kind = control.kind();
        if !self.has_room(kind) {
            return false;
        }
        let mut line = control.line();
        line.0[7] = notices.arrival().line_flag(fabric, &line, self.sequence);
        let at = place(self.slot);
        fabric.write_line(link, to, at, &line);
        let subject = Subject::Control(self.sequence);
        if !F::DIRECT && notices.post(fabric, link, to, at, LINE_BYTES, None, subject).is_err() {
            return false;
        }
        let kept = self.on_the_way.get_mut(kind.index()).is_some_and(|q| q.push_back(self.sequence).is_ok());
        debug_assert!(kept, "has_room said so");
        self.sequence = after(self.sequence);
        self.slot = next_slot(self.slot);
        true
    }

    /// Returns true if an acknowledgement of `said` would give places back.
    pub(crate) fn has_news(&self, said: u64) -> bool {
        judge(said, self.acked, before(self.sequence)) == Advance::Forward
    }

    /// The peer has consumed all up to and including the sequence `said`.
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

/// The receiving side.
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

    /// Sequence of the newest message consumed.
    pub(crate) const fn consumed(&self) -> u64 {
        before(self.expected)
    }

    /// Returns true if [`poll`](Self::poll) would take a message: the next one has arrived, whole.
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
            && self.is_whole(fabric, arrival, &fabric.take_line(link, from, at))
    }

    /// Returns true if a line matches its flag, which may be the awaited one.
    fn is_whole<F: Fabric>(&self, fabric: &F, arrival: Arrival, line: &Line) -> bool {
        arrival != Arrival::CheckedFlag || arrival.line_flag(fabric, line, self.expected) == line.flag()
    }

    /// The peer notifies of a message.
    pub(crate) fn handle_notice(&mut self, low: Low) -> Result<(), ProtocolError> {
        let next = after(self.notified);
        low.check(next, distance(self.consumed(), next), u64::from(seat::MAILBOX_SLOTS))?;
        self.notified = next;
        Ok(())
    }

    /// Whether the next message was notified.
    const fn is_notified(&self) -> bool {
        !is_before(self.notified, self.expected)
    }

    /// The next message, if it has arrived.
    #[inline]
    pub(crate) fn poll<F: Fabric>(
        &mut self,
        fabric: &F,
        link: &F::Link,
        from: F::Region,
        arrival: Arrival,
    ) -> Option<Result<Control, ProtocolError>> {
        let notify = !F::DIRECT && arrival == Arrival::Notify;
        if notify && !self.is_notified() && !is_planted(Bug::NoticeNotRead) {
            return None;
        }
        let at = place(self.slot);
        let flag = fabric.flag(link, from, at + LINE_BYTES - 8);
        if !arrival.may_be(flag, self.expected) {
            if !notify || !self.is_notified() {
                return None;
            }
            // Said once: it will never be there.
            self.notified = before(self.expected);
            return Some(Err(ProtocolError::NoticeWithoutFlag));
        }
        let line = fabric.take_line(link, from, at);
        if !self.is_whole(fabric, arrival, &line) {
            return None;
        }
        self.expected = after(self.expected);
        self.slot = next_slot(self.slot);
        Some(Control::parse(&line))
    }
}
