//! Planned messages of an end, from their plan to their observation. docs/model.md.
//!
//! Core keeps no planner. The fabric lends one for each end whose messages are planned ([`Fabric::planning`](crate::Fabric::planning)), as it lends a
//! recorder, so an end without one is no larger, and the compiler removes every call for a fabric that never lends one.
//!
//! ```text
//!        plan          begin          its last chunk is sent            acknowledged, and its memory is released
//!  -------------> HELD -------> OPEN --------------------------> AWAITED --------------------------------------> observed, or over
//!                  |             |  cancelled                       |
//!                  +-> forgotten +-> forgotten                      +-- rejected: it stays, and its time does not count
//! ```
//!
//! A message that the receiver declines goes on in blocks, and is reported as declined when it is over. One whose end was seen late, or that had others in its time, is over without an observation.

use heapless::Deque;

use crate::nanos::Nanos;
use crate::plan::{Explanation, Memory, Plan, Planner, Reason, Terms, Way};

/// A message that was begun: its number, and the count of those begun before it.
pub(crate) type MessageKey = (u64, u32);

/// Most planned messages that are not observed. More are sent as the planner would have them, and not observed. As many as a default ring of posted writes has blocks.
const PENDING_MAX: usize = 32;

/// The end of a message was seen in time, and counts, if it was seen within an eighth of the message's time after the look before, or after its last chunk, or
/// within [`ROUND_NS`].
const LOOKS_PER_TIME: u64 = 8;

/// Nanoseconds within which a wait, or the next call, looks again. Without it only those of the messages of a microsecond or two would count that took unusually
/// long.
const ROUND_NS: u64 = 1_000;

/// A message that was planned and is not observed yet.
#[derive(Clone, Copy, Debug)]
struct Pending {
    id: MessageKey,
    bytes: u64,
    memory: Memory,
    plan: Plan,
    begin: Nanos,
    /// Blocks sent with its last chunk, and the time, once that is sent.
    end: Option<(u64, Nanos)>,
    is_declined: bool,
    /// All messages before it are over, or are the ones before it in the queue. Otherwise its time has a part of theirs.
    is_timed: bool,
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
    /// Nanoseconds that it took: until it was acknowledged and its memory released, in the middle of the two looks between which that was.
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
    /// Number of the newest message that has a place in the queue, or had one.
    newest: Option<u64>,
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
    is_idle: bool,
}

impl Planning {
    /// Begins with a planner that has observed nothing, or not on this connection.
    #[must_use]
    pub const fn new(planner: Planner) -> Self {
        let begin = Nanos(0);
        Self {
            planner,
            pending: Deque::new(),
            over: begin,
            looked: begin,
            newest: None,
            last: None,
            held: None,
        }
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

    /// Plans a message, or returns the plan of the same one that has not begun. `is_idle`: next to nothing that was sent before is on its way. It is timed from
    /// the last call on: a wait for room is no part of its time, and another message of this length and memory may have been meant before.
    pub(crate) fn plan(&mut self, bytes: u64, memory: Memory, now: Nanos, is_idle: bool) -> Plan {
        let held = self.held.filter(|held| held.bytes == bytes && held.memory == memory);
        let plan = held.map_or_else(|| self.planner.plan(bytes, memory), |held| held.plan);
        self.held = Some(Held { bytes, memory, plan, begin: now, is_idle });
        plan
    }

    /// Notes that the landing buffer of the peer has so many bytes.
    pub(crate) fn fit_landing(&mut self, landing_bytes: u64) {
        let terms = *self.planner.terms();
        if terms.landing_bytes != landing_bytes {
            self.planner.set_terms(Terms { landing_bytes, ..terms });
        }
    }

    /// Forgets the message that was planned and has not begun.
    pub(crate) const fn forget_held(&mut self) {
        self.held = None;
    }

    /// Forgets a message that was cancelled or rejected.
    pub(crate) fn forget(&mut self, is_it: impl Fn(MessageKey) -> bool) {
        if let Some(pending) = self.pending.iter_mut().find(|pending| is_it(pending.id)) {
            pending.is_timed = false;
        }
        // One that has sent nothing leaves its number to the next one.
        if self.pending.back().is_some_and(|pending| is_it(pending.id) && pending.end.is_none()) {
            self.pending.pop_back();
        }
    }

    /// Notes that the message that was planned last has begun. Forgets the plan if it was for another length.
    pub(crate) fn begin(&mut self, id: MessageKey, length: u64) {
        let Some(Held { bytes, memory, plan, begin, is_idle }) = self.held.take() else { return };
        if bytes != length {
            return;
        }
        let is_timed = is_idle || self.newest.is_some_and(|newest| newest.wrapping_add(1) == id.0);
        let pending = Pending { id, bytes, memory, plan, begin, end: None, is_declined: false, is_timed };
        // One that has no place is not observed.
        if self.pending.push_back(pending).is_ok() {
            self.newest = Some(id.0);
        }
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
            pending.end = Some((blocks, now));
        }
    }

    /// Returns true while messages are to be observed.
    pub(crate) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns true while the acknowledgement of a message is awaited.
    pub(crate) fn awaits_ack(&self) -> bool {
        self.pending.front().is_some_and(|pending| pending.end.is_some())
    }

    /// Begins a look for messages that are over. Returns the time of the look before.
    pub(crate) const fn begin_look(&mut self, now: Nanos) -> Nanos {
        core::mem::replace(&mut self.looked, now)
    }

    /// Takes out the next messages that are over, up to the first one whose time counts, which is observed and returned. `looked`: time of the look before this one.
    /// `is_open`: the last chunk of this message may still be sent. `is_over`: the peer has acknowledged so many blocks, and the memory of this message is released.
    pub(crate) fn next_over(
        &mut self,
        [looked, now]: [Nanos; 2],
        is_open: impl Fn(MessageKey) -> bool,
        is_over: impl Fn(MessageKey, u64) -> bool,
    ) -> Option<Planned> {
        while let Some(&pending) = self.pending.front() {
            match pending.end {
                None if is_open(pending.id) => return None,
                None => _ = self.pending.pop_front(),
                Some((blocks, ended)) if is_over(pending.id, blocks) => {
                    self.pending.pop_front();
                    let observed = self.observe(&pending, now, now.0.saturating_sub(looked.0.max(ended.0)));
                    if observed.is_some() {
                        return observed;
                    }
                }
                Some(_) => return None,
            }
        }
        None
    }

    fn observe(&mut self, pending: &Pending, now: Nanos, gap_ns: u64) -> Option<Planned> {
        let Pending { bytes, memory, plan, is_declined, .. } = *pending;
        let seen_ns = now.0.saturating_sub(pending.begin.0.max(self.over.0));
        let is_seen_in_time = gap_ns <= ROUND_NS.max(seen_ns / LOOKS_PER_TIME);
        // It ended at some time since the look before: on average in the middle.
        let late_ns = if is_seen_in_time { (gap_ns / 2).min(seen_ns) } else { 0 };
        let took_ns = seen_ns - late_ns;
        self.over = Nanos(now.0 - late_ns);
        if !pending.is_timed {
            return None;
        }
        let Plan { way, reason, predicted_ns, .. } = plan;
        if is_declined {
            self.planner.declined(bytes, memory, way);
        } else if is_seen_in_time {
            self.planner.observe(bytes, memory, way, took_ns as f64);
        } else {
            return None;
        }
        self.last = Some(Planned { bytes, memory, way, reason, predicted_ns, took_ns, is_declined });
        self.last
    }
}

#[cfg(test)]
mod tests;
