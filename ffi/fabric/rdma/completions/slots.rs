//! The slots of a shared CQ: whose completions are whose, who sleeps, and who is to be woken.
//!
//! ```text
//!            sleep_by_poller              a completion                taken by the poller
//! AWAKE ----------------------> BY POLLER -------------> WOKEN -------------------------------> AWAKE
//!   |  ^                                                                                          ^
//!   |  +-- wake: the sleeper itself, from any state                                               |
//!   +------------------------> ALONE     a completion signals its wakeup, and it wakes itself ------+
//!            sleep_alone
//! ```
//!
//! A slot is free, or has one connection, whose generation is in the ids of its work requests: a completion of a connection that is gone has no owner, and is dropped.
//! There is no device here and no lock. What is to be woken is returned.

use super::inbox::Inbox;
use super::work_id::{WorkIds, next_generation, owner};
use super::{Completed, POLLED};
use crate::os::wakeup::Wakeup;

/// Slots of one shard.
#[derive(Debug)]
pub(super) struct Slots {
    all: Box<[Slot]>,
    /// Connections that the poller wakes, and those of them that have completions; connections that wake themselves.
    by_poller: u32,
    woken: u32,
    alone: u32,
    /// The poller has asked for an event, and may sleep: it is to be woken.
    pub(super) does_poller_sleep: bool,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u16,
    is_taken: bool,
    sleep: Sleep,
    /// Number of the connection's key, for the poller.
    number: u64,
    wakeup: Option<Wakeup>,
    inbox: Inbox,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sleep {
    #[default]
    Awake,
    ByPoller,
    Woken,
    Alone,
}

/// Who is to be woken.
#[derive(Debug)]
pub(super) enum Wake {
    Nobody,
    Poller,
    Sleeper(Wakeup),
}

impl Slots {
    pub(super) fn new(count: u16) -> Self {
        let all = (0..count).map(|_| Slot::default()).collect();
        Self { all, by_poller: 0, woken: 0, alone: 0, does_poller_sleep: false }
    }

    /// Takes a free slot, and returns it with the ids of its work requests. None if there is none.
    pub(super) fn take(&mut self) -> Option<(u16, WorkIds)> {
        let (index, slot) = (0..).zip(&mut self.all).find(|(_, slot)| !slot.is_taken)?;
        slot.is_taken = true;
        Some((index, WorkIds::new(index, slot.generation)))
    }

    /// Frees a slot. The device has completed all that was posted from there, and all of it was polled.
    pub(super) fn free(&mut self, at: u16) {
        self.wake(at);
        let slot = self.at(at);
        slot.is_taken = false;
        slot.generation = next_generation(slot.generation);
        slot.inbox.clear();
    }

    /// Delivers a completion to its connection.
    pub(super) fn deliver(&mut self, id: u64, completed: Completed) -> Wake {
        let (at, generation) = owner(id);
        let Some(slot) = self.all.get_mut(usize::from(at)) else { return Wake::Nobody };
        if !slot.is_taken || slot.generation != generation {
            return Wake::Nobody;
        }
        let is_first = slot.inbox.is_empty();
        slot.inbox.push(completed);
        match slot.sleep {
            Sleep::ByPoller => {
                slot.sleep = Sleep::Woken;
                self.woken += 1;
                if self.does_poller_sleep { Wake::Poller } else { Wake::Nobody }
            }
            Sleep::Alone if is_first => slot.wakeup.clone().map_or(Wake::Nobody, Wake::Sleeper),
            Sleep::Awake | Sleep::Woken | Sleep::Alone => Wake::Nobody,
        }
    }

    /// Takes completions of a connection.
    pub(super) fn collect(&mut self, at: u16, into: &mut [Completed; POLLED]) -> usize {
        self.at(at).inbox.take(into)
    }

    /// Returns true if there are completions for a connection.
    pub(super) fn has_some(&mut self, at: u16) -> bool {
        !self.at(at).inbox.is_empty()
    }

    /// Has the poller wake a connection by this number.
    pub(super) fn sleep_by_poller(&mut self, at: u16, number: u64) {
        self.wake(at);
        let slot = self.at(at);
        slot.number = number;
        slot.sleep = Sleep::ByPoller;
        self.by_poller += 1;
    }

    /// Has a descriptor wake a connection.
    pub(super) fn sleep_alone(&mut self, at: u16, wakeup: Wakeup) {
        self.wake(at);
        let slot = self.at(at);
        slot.wakeup = Some(wakeup);
        slot.sleep = Sleep::Alone;
        self.alone += 1;
    }

    /// Ends the sleep of a connection, if it sleeps.
    pub(super) fn wake(&mut self, at: u16) {
        match core::mem::take(&mut self.at(at).sleep) {
            Sleep::Awake => {}
            Sleep::ByPoller => self.by_poller -= 1,
            Sleep::Woken => {
                self.by_poller -= 1;
                self.woken -= 1;
            }
            Sleep::Alone => {
                self.alone -= 1;
                self.at(at).wakeup = None;
            }
        }
    }

    /// Wakes everybody: the CQ is broken.
    pub(super) fn wake_all(&mut self, mut wake: impl FnMut(Wake)) {
        for slot in &mut self.all {
            match slot.sleep {
                Sleep::ByPoller => {
                    slot.sleep = Sleep::Woken;
                    self.woken += 1;
                    wake(Wake::Poller);
                }
                Sleep::Alone => wake(slot.wakeup.clone().map_or(Wake::Nobody, Wake::Sleeper)),
                Sleep::Awake | Sleep::Woken => {}
            }
        }
    }

    /// Returns true if the poller is to wake anybody.
    pub(super) const fn has_sleepers(&self) -> bool {
        self.by_poller > 0
    }

    /// Returns true if any of those has completions.
    pub(super) const fn has_woken(&self) -> bool {
        self.woken > 0
    }

    /// Takes the number of a connection that has completions, for the poller to wake it.
    pub(super) fn take_woken(&mut self) -> Option<u64> {
        if self.woken == 0 {
            return None;
        }
        let at = self.all.iter().position(|slot| slot.sleep == Sleep::Woken)?;
        let slot = self.all.get_mut(at)?;
        slot.sleep = Sleep::Awake;
        let number = slot.number;
        self.woken -= 1;
        self.by_poller -= 1;
        Some(number)
    }

    /// Returns true if somebody sleeps whom the next event must wake.
    pub(super) const fn needs_event(&self) -> bool {
        self.alone > 0 || self.does_poller_sleep && self.by_poller > self.woken
    }

    /// Returns the number of slots.
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// Returns a slot that a connection has.
    fn at(&mut self, at: u16) -> &mut Slot {
        &mut self.all[usize::from(at)]
    }
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;

    fn sent(number: u32) -> Completed {
        Completed { number, ..Completed::NONE }
    }

    fn collected(slots: &mut Slots, at: u16) -> Vec<Completed> {
        let mut some = [Completed::NONE; POLLED];
        let count = slots.collect(at, &mut some);
        some[..count].to_vec()
    }

    #[test]
    fn a_completion_of_one_that_is_gone_reaches_nobody() {
        let mut slots = Slots::new(2);
        let (first, its) = slots.take().unwrap();
        let (second, other) = slots.take().unwrap();
        assert!(slots.take().is_none() && first != second);
        slots.deliver(its.send(1), sent(1));
        assert!(collected(&mut slots, second).is_empty());
        slots.free(first);
        // It is late, or its number was never given.
        slots.deliver(its.send(2), sent(2));
        slots.deliver(WorkIds::new(9, 0).send(2), sent(2));
        let (again, ids) = slots.take().unwrap();
        assert!(again == first && ids != its);
        slots.deliver(its.receive(3), sent(3));
        assert!(!slots.has_some(again));
        slots.deliver(ids.send(4), sent(4));
        slots.deliver(other.send(5), sent(5));
        assert_eq!(collected(&mut slots, again), [sent(4)]);
        assert_eq!(collected(&mut slots, second), [sent(5)]);
    }

    #[test]
    fn the_poller_wakes_those_that_have_completions_once() {
        let mut slots = Slots::new(3);
        let all: Vec<_> = (0..3).map(|_| slots.take().unwrap()).collect();
        slots.sleep_by_poller(0, 70);
        slots.sleep_by_poller(1, 71);
        assert!(slots.has_sleepers() && !slots.needs_event(), "the poller looks by itself while it is awake");
        assert!(matches!(slots.deliver(all[2].1.send(0), sent(0)), Wake::Nobody), "it is awake");
        assert!(matches!(slots.deliver(all[1].1.send(0), sent(0)), Wake::Nobody), "the poller is awake");
        assert!(slots.has_woken());
        assert_eq!((slots.take_woken(), slots.take_woken()), (Some(71), None));
        slots.does_poller_sleep = true;
        assert!(slots.needs_event());
        let failed = Completed { outcome: Outcome::Failed(super::super::BROKEN), ..sent(0) };
        assert!(matches!(slots.deliver(all[0].1.send(0), failed), Wake::Poller));
        assert!(matches!(slots.deliver(all[0].1.send(1), failed), Wake::Nobody), "it was woken");
        assert!(!slots.needs_event(), "nobody sleeps any more");
        // One that wakes itself is not reported.
        slots.wake(0);
        assert!(!slots.has_sleepers());
        assert_eq!(slots.take_woken(), None);
        slots.sleep_by_poller(2, 72);
        slots.free(2);
        assert!(!slots.has_sleepers() && !slots.needs_event());
    }

    #[test]
    fn one_that_sleeps_alone_is_rung_for() {
        let mut slots = Slots::new(2);
        let (at, ids) = slots.take().unwrap();
        slots.sleep_alone(at, Wakeup::new().unwrap());
        assert!(slots.needs_event() && !slots.has_sleepers());
        assert!(matches!(slots.deliver(ids.send(0), sent(0)), Wake::Sleeper(_)));
        assert!(matches!(slots.deliver(ids.send(1), sent(1)), Wake::Nobody), "once");
        slots.wake(at);
        slots.wake(at);
        assert!(!slots.needs_event());
        assert_eq!(slots.take_woken(), None);
    }

    #[test]
    fn a_broken_queue_wakes_everybody() {
        let mut slots = Slots::new(3);
        (0..3).for_each(|_| assert!(slots.take().is_some()));
        slots.sleep_alone(0, Wakeup::new().unwrap());
        slots.sleep_by_poller(2, 72);
        let mut woken = Vec::new();
        slots.wake_all(|wake| woken.push(wake));
        assert!(matches!(woken[..], [Wake::Sleeper(_), Wake::Poller]), "{woken:?}");
        assert_eq!((slots.take_woken(), slots.take_woken()), (Some(72), None));
    }
}
