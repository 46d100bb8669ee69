//! Planned messages of an end, from their plan to their observation. docs/model.md.
//!
//! Core keeps no planner. The fabric lends one for each end whose messages are planned ([`Fabric::planning`](crate::Fabric::planning)), as it lends a
//! recorder, so an end without one is no larger, and the compiler removes every call for a fabric that never lends one.
//!
//! ```text
//!          plan                   its last chunk is sent               acknowledged, and its memory is released
//!  -------------------> OPEN -----------------------------> AWAITED --------------------------------------------> observed
//!                        |  cancelled, rejected                |  nobody looked for a long time
//!                        +-------------> forgotten <-----------+
//! ```

use heapless::Deque;

use crate::nanos::Nanos;
use crate::plan::{Explanation, Memory, Plan, Planner, Reason, Way};

/// A message that was begun: its number, and the count of those begun before it.
pub(crate) type MessageKey = (u64, u32);

/// Most planned messages that are not observed. More are sent as the planner would have them, and not observed.
const PENDING_MAX: usize = 4;

/// A message counts if the look that saw its end came within this part of its time after the look before, or after its last chunk: otherwise its end was seen late.
const LOOKS_PER_TIME: u64 = 8;

/// A message that was planned and is not observed yet.
#[derive(Clone, Copy, Debug)]
struct Pending {
    id: MessageKey,
    bytes: u64,
    memory: Memory,
    plan: Plan,
    begin: Nanos,
    /// Blocks sent with its last chunk, once that is sent.
    end: Option<u64>,
    is_declined: bool,
}

/// What became of a planned message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Planned {
    /// Bytes of the message.
    pub bytes: u64,
    /// Its memory.
    pub memory: Memory,
    /// The way that was planned.
    pub way: Way,
    /// The reason.
    pub reason: Reason,
    /// Nanoseconds that were predicted.
    pub predicted_ns: f64,
    /// Nanoseconds that it took: until it was acknowledged and its memory released.
    pub took_ns: u64,
    /// It went in blocks instead, since the peer or the fabric could not go that way.
    pub is_declined: bool,
}

/// Planner of the messages that one end sends, with those that are under way.
#[derive(Clone, Debug)]
pub struct Planning {
    planner: Planner,
    pending: Deque<Pending, PENDING_MAX>,
    /// When the message observed last was over, and when pending ones were last looked at.
    over: Nanos,
    looked: Nanos,
    last: Option<Planned>,
    /// A message that was planned and has not begun: one that finds no room is planned once.
    held: Option<Held>,
}

/// A message that was planned and has not begun.
#[derive(Clone, Copy, Debug)]
struct Held {
    bytes: u64,
    memory: Memory,
    plan: Plan,
    begin: Nanos,
}

impl Planning {
    /// Begins with a planner that has observed nothing, or not on this connection.
    #[must_use]
    pub const fn new(planner: Planner) -> Self {
        let begin = Nanos(0);
        Self { planner, pending: Deque::new(), over: begin, looked: begin, last: None, held: None }
    }

    /// Returns the planner.
    #[must_use]
    pub const fn planner(&self) -> &Planner {
        &self.planner
    }

    /// Explains how the next message would go. [`Planner::explain`].
    #[must_use]
    pub fn explain(&self, bytes: u64, memory: Memory) -> Explanation {
        self.planner.explain(bytes, memory)
    }

    /// Returns the message that was observed last.
    #[must_use]
    pub const fn last(&self) -> Option<Planned> {
        self.last
    }

    /// Plans a message, or returns the plan of the same one that has not begun.
    pub(crate) fn plan(&mut self, bytes: u64, memory: Memory, now: Nanos) -> Plan {
        match self.held {
            Some(held) if held.bytes == bytes && held.memory == memory => held.plan,
            Some(_) | None => {
                let plan = self.planner.plan(bytes, memory);
                self.held = Some(Held { bytes, memory, plan, begin: now });
                plan
            }
        }
    }

    /// Returns the memory of a message of this length that was planned and has not begun.
    pub(crate) fn held_memory(&self, bytes: u64) -> Option<Memory> {
        self.held.filter(|held| held.bytes == bytes).map(|held| held.memory)
    }

    /// Notes that the message that was planned last has begun, which must be one of this length.
    pub(crate) fn begin(&mut self, id: MessageKey, length: u64) {
        let Some(Held { bytes, memory, plan, begin }) = self.held.take() else { return };
        if bytes != length {
            return;
        }
        let pending = Pending { id, bytes, memory, plan, begin, end: None, is_declined: false };
        // One that has no place is not observed.
        _ = self.pending.push_back(pending);
    }

    /// Notes that a message goes in blocks although it was to go another way.
    pub(crate) fn decline(&mut self, id: MessageKey) {
        if let Some(pending) = self.pending.iter_mut().find(|pending| pending.id == id) {
            pending.is_declined = true;
        }
    }

    /// Returns the newest message whose last chunk is not sent.
    pub(crate) fn open(&self) -> Option<MessageKey> {
        self.pending.back().filter(|pending| pending.end.is_none()).map(|pending| pending.id)
    }

    /// Notes that the last chunk of the newest message is sent: it was not over before.
    pub(crate) fn end(&mut self, blocks: u64, now: Nanos) {
        if let Some(pending) = self.pending.back_mut() {
            pending.end = Some(blocks);
            self.looked = now;
        }
    }

    /// Returns true while messages are to be observed.
    pub(crate) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Observes the messages that are over. `is_over` tells that of a message whose last chunk was sent with these blocks, and `is_open` of one whose last chunk was
    /// not sent that it may still be.
    pub(crate) fn look(
        &mut self,
        now: Nanos,
        is_open: impl Fn(MessageKey) -> bool,
        is_over: impl Fn(MessageKey, u64) -> bool,
    ) {
        let gap_ns = now.0.saturating_sub(self.looked.0);
        self.looked = now;
        while let Some(&pending) = self.pending.front() {
            match pending.end {
                None if is_open(pending.id) => return,
                None => _ = self.pending.pop_front(),
                Some(blocks) if is_over(pending.id, blocks) => {
                    self.pending.pop_front();
                    self.observe(&pending, now, gap_ns);
                }
                Some(_) => return,
            }
        }
    }

    fn observe(&mut self, pending: &Pending, now: Nanos, gap_ns: u64) {
        let Pending { bytes, memory, plan, is_declined, .. } = *pending;
        let took_ns = now.0.saturating_sub(pending.begin.0.max(self.over.0));
        let is_seen_in_time = gap_ns.saturating_mul(LOOKS_PER_TIME) <= took_ns;
        self.over = now;
        let Plan { way, reason, predicted_ns, .. } = plan;
        self.last = Some(Planned { bytes, memory, way, reason, predicted_ns, took_ns, is_declined });
        if is_declined {
            self.planner.declined(bytes, memory, way);
        } else if is_seen_in_time {
            self.planner.observe(bytes, memory, way, took_ns as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Machine, Terms};

    const BYTES: u64 = 1 << 20;
    const FIRST: MessageKey = (1, 0);
    const SECOND: MessageKey = (2, 1);

    fn planning() -> Planning {
        Planning::new(Planner::new(Machine::NIC_100G.profile, Terms::default()))
    }

    /// Plans and begins a message of this memory at `begin_ns`.
    fn begin(planning: &mut Planning, key: MessageKey, memory: Memory, begin_ns: u64) -> Way {
        let way = planning.plan(BYTES, memory, Nanos(begin_ns)).way;
        planning.begin(key, BYTES);
        way
    }

    /// Returns the observations of a way.
    fn observations(planning: &Planning, memory: Memory, way: Way) -> u8 {
        let explanation = planning.explain(BYTES, memory);
        explanation.ways().find(|known| known.way == way).map_or(0, |known| known.observations)
    }

    fn look(planning: &mut Planning, now_ns: u64, open: Option<MessageKey>, acked: u64) {
        planning.look(Nanos(now_ns), |key| open == Some(key), |_, blocks| acked >= blocks);
    }

    #[test]
    fn a_message_is_observed_once_acknowledged() {
        let mut planning = planning();
        let way = begin(&mut planning, FIRST, Memory::Unnamed, 1000);
        look(&mut planning, 2000, Some(FIRST), 7);
        assert!(planning.is_pending() && planning.open() == Some(FIRST));
        planning.end(8, Nanos(90_000));
        assert_eq!(planning.open(), None);
        look(&mut planning, 100_000, None, 7);
        assert!(planning.is_pending() && planning.last().is_none());
        look(&mut planning, 101_000, None, 8);
        let last = planning.last().unwrap();
        assert_eq!((last.way, last.bytes, last.took_ns, last.is_declined), (way, BYTES, 100_000, false));
        assert_eq!(observations(&planning, Memory::Unnamed, way), 1);
        assert!(!planning.is_pending());
    }

    #[test]
    fn an_end_that_was_seen_late_counts_for_nothing() {
        let mut planning = planning();
        let way = begin(&mut planning, FIRST, Memory::Unnamed, 0);
        planning.end(8, Nanos(80_000));
        look(&mut planning, 95_000, None, 8);
        assert_eq!(planning.last().unwrap().took_ns, 95_000);
        assert_eq!(observations(&planning, Memory::Unnamed, way), 0);
        // An eighth of its time is not late.
        let way = begin(&mut planning, SECOND, Memory::Unnamed, 100_000);
        planning.end(9, Nanos(170_000));
        look(&mut planning, 180_000, None, 9);
        assert_eq!(observations(&planning, Memory::Unnamed, way), 1);
    }

    #[test]
    fn a_message_is_timed_from_the_end_of_the_one_before() {
        let mut planning = planning();
        begin(&mut planning, FIRST, Memory::Unnamed, 0);
        planning.end(8, Nanos(10_000));
        begin(&mut planning, SECOND, Memory::Unnamed, 10_000);
        planning.end(16, Nanos(50_000));
        look(&mut planning, 60_000, None, 8);
        look(&mut planning, 90_000, None, 16);
        assert_eq!(planning.last().unwrap().took_ns, 30_000);
    }

    #[test]
    fn a_message_that_was_cancelled_is_forgotten() {
        let mut planning = planning();
        begin(&mut planning, FIRST, Memory::Unnamed, 0);
        look(&mut planning, 50_000, None, 100);
        assert!(!planning.is_pending() && planning.last().is_none());
    }

    #[test]
    fn a_declined_way_is_left_out() {
        let mut planning = planning();
        let way = begin(&mut planning, FIRST, Memory::Kept, 0);
        assert_eq!(way, Way::RegisterCached);
        planning.decline(FIRST);
        planning.end(8, Nanos(90_000));
        look(&mut planning, 91_000, None, 8);
        assert!(planning.last().unwrap().is_declined);
        let explanation = planning.explain(BYTES, Memory::Kept);
        assert!(explanation.ways().any(|known| known.way == way && known.left_out > 0), "{explanation}");
    }

    #[test]
    fn a_message_that_finds_no_room_is_planned_once() {
        let mut planning = planning();
        let first = planning.plan(BYTES, Memory::Kept, Nanos(0));
        assert_eq!(planning.held_memory(BYTES), Some(Memory::Kept));
        assert_eq!(planning.plan(BYTES, Memory::Kept, Nanos(1000)), first);
        // Another message begins instead.
        planning.begin(FIRST, BYTES / 2);
        assert!(!planning.is_pending() && planning.held_memory(BYTES).is_none());
    }

    #[test]
    fn more_messages_than_have_a_place_are_not_observed() {
        let mut planning = planning();
        for number in 0..2 * PENDING_MAX as u64 {
            begin(&mut planning, (number, 0), Memory::Unnamed, number);
            planning.end(8 + number, Nanos(10 + number));
        }
        look(&mut planning, 1000, None, 7);
        assert_eq!(planning.pending.len(), PENDING_MAX);
        look(&mut planning, 1001, None, 100);
        assert!(!planning.is_pending());
    }
}
