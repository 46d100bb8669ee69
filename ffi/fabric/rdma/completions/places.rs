//! The places of a shared CQ: whose completions are whose, who sleeps, and who is to be woken.
//!
//! ```text
//!            sleep_by_poller              a completion                taken by the poller
//! AWAKE ----------------------> BY POLLER -------------> WOKEN -------------------------------> AWAKE
//!   |  ^                                                                                          ^
//!   |  +-- wake: the sleeper itself, from any state                                               |
//!   +------------------------> ALONE     a completion rings its bell, and it wakes itself --------+
//!            sleep_alone
//! ```
//!
//! A place is free, or has one connection, whose generation is in the ids of its work requests: a completion of a connection that is gone has no owner, and is dropped.
//! There is no device here and no lock. What is to be rung is returned.

use super::inbox::Inbox;
use super::work_id::{WorkIds, next_generation, owner};
use super::{Completed, POLLED};
use crate::os::wakeup::Wakeup;

/// Places of one shard.
#[derive(Debug)]
pub(super) struct Places {
    all: Box<[Place]>,
    /// Connections that the poller wakes, and those of them that have completions; connections that wake themselves.
    by_poller: u32,
    woken: u32,
    alone: u32,
    /// The poller has asked for an event, and may sleep: it is to be rung for.
    pub(super) does_poller_sleep: bool,
}

#[derive(Debug, Default)]
struct Place {
    generation: u16,
    is_taken: bool,
    sleep: Sleep,
    /// Number of the connection's key, for the poller.
    number: u64,
    bell: Option<Wakeup>,
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

/// Sleepers to ring for.
#[derive(Debug)]
pub(super) enum Ring {
    Nobody,
    Poller,
    Sleeper(Wakeup),
}

impl Places {
    pub(super) fn new(count: u16) -> Self {
        let all = (0..count).map(|_| Place::default()).collect();
        Self { all, by_poller: 0, woken: 0, alone: 0, does_poller_sleep: false }
    }

    /// Takes a free place, and returns it with the ids of its work requests. None if there is none.
    pub(super) fn take(&mut self) -> Option<(u16, WorkIds)> {
        let (index, place) = (0..).zip(&mut self.all).find(|(_, place)| !place.is_taken)?;
        place.is_taken = true;
        Some((index, WorkIds::new(index, place.generation)))
    }

    /// Frees a place. The device has completed all that was posted from there, and all of it was polled.
    pub(super) fn free(&mut self, at: u16) {
        self.wake(at);
        let place = self.at(at);
        place.is_taken = false;
        place.generation = next_generation(place.generation);
        place.inbox.clear();
    }

    /// Keeps a completion for its connection.
    pub(super) fn keep(&mut self, id: u64, completed: Completed) -> Ring {
        let (at, generation) = owner(id);
        let Some(place) = self.all.get_mut(usize::from(at)) else { return Ring::Nobody };
        if !place.is_taken || place.generation != generation {
            return Ring::Nobody;
        }
        let is_first = place.inbox.is_empty();
        place.inbox.push(completed);
        match place.sleep {
            Sleep::ByPoller => {
                place.sleep = Sleep::Woken;
                self.woken += 1;
                if self.does_poller_sleep { Ring::Poller } else { Ring::Nobody }
            }
            Sleep::Alone if is_first => place.bell.clone().map_or(Ring::Nobody, Ring::Sleeper),
            Sleep::Awake | Sleep::Woken | Sleep::Alone => Ring::Nobody,
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
        let place = self.at(at);
        place.number = number;
        place.sleep = Sleep::ByPoller;
        self.by_poller += 1;
    }

    /// Has a bell wake a connection.
    pub(super) fn sleep_alone(&mut self, at: u16, bell: Wakeup) {
        self.wake(at);
        let place = self.at(at);
        place.bell = Some(bell);
        place.sleep = Sleep::Alone;
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
                self.at(at).bell = None;
            }
        }
    }

    /// Wakes everybody: the CQ is broken.
    pub(super) fn alarm(&mut self, mut ring: impl FnMut(Ring)) {
        for place in &mut self.all {
            match place.sleep {
                Sleep::ByPoller => {
                    place.sleep = Sleep::Woken;
                    self.woken += 1;
                    ring(Ring::Poller);
                }
                Sleep::Alone => ring(place.bell.clone().map_or(Ring::Nobody, Ring::Sleeper)),
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
        let at = self.all.iter().position(|place| place.sleep == Sleep::Woken)?;
        let place = self.all.get_mut(at)?;
        place.sleep = Sleep::Awake;
        let number = place.number;
        self.woken -= 1;
        self.by_poller -= 1;
        Some(number)
    }

    /// Returns true if somebody sleeps whom the next event must wake.
    pub(super) const fn needs_event(&self) -> bool {
        self.alone > 0 || self.does_poller_sleep && self.by_poller > self.woken
    }

    /// Returns the number of places.
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// Returns a place that a connection has.
    fn at(&mut self, at: u16) -> &mut Place {
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

    fn collected(places: &mut Places, at: u16) -> Vec<Completed> {
        let mut some = [Completed::NONE; POLLED];
        let count = places.collect(at, &mut some);
        some[..count].to_vec()
    }

    #[test]
    fn a_completion_of_one_that_is_gone_reaches_nobody() {
        let mut places = Places::new(2);
        let (first, its) = places.take().unwrap();
        let (second, other) = places.take().unwrap();
        assert!(places.take().is_none() && first != second);
        places.keep(its.send(1), sent(1));
        assert!(collected(&mut places, second).is_empty());
        places.free(first);
        // It is late, or its number was never given.
        places.keep(its.send(2), sent(2));
        places.keep(WorkIds::new(9, 0).send(2), sent(2));
        let (again, ids) = places.take().unwrap();
        assert!(again == first && ids != its);
        places.keep(its.receive(3), sent(3));
        assert!(!places.has_some(again));
        places.keep(ids.send(4), sent(4));
        places.keep(other.send(5), sent(5));
        assert_eq!(collected(&mut places, again), [sent(4)]);
        assert_eq!(collected(&mut places, second), [sent(5)]);
    }

    #[test]
    fn the_poller_wakes_those_that_have_completions_once() {
        let mut places = Places::new(3);
        let all: Vec<_> = (0..3).map(|_| places.take().unwrap()).collect();
        places.sleep_by_poller(0, 70);
        places.sleep_by_poller(1, 71);
        assert!(
            places.has_sleepers() && !places.needs_event(),
            "the poller looks by itself while it is awake"
        );
        assert!(matches!(places.keep(all[2].1.send(0), sent(0)), Ring::Nobody), "it is awake");
        assert!(matches!(places.keep(all[1].1.send(0), sent(0)), Ring::Nobody), "the poller is awake");
        assert!(places.has_woken());
        assert_eq!((places.take_woken(), places.take_woken()), (Some(71), None));
        places.does_poller_sleep = true;
        assert!(places.needs_event());
        let failed = Completed { outcome: Outcome::Failed(super::super::BROKEN), ..sent(0) };
        assert!(matches!(places.keep(all[0].1.send(0), failed), Ring::Poller));
        assert!(matches!(places.keep(all[0].1.send(1), failed), Ring::Nobody), "it is rung for");
        assert!(!places.needs_event(), "nobody sleeps any more");
        // One that wakes itself is not reported.
        places.wake(0);
        assert!(!places.has_sleepers());
        assert_eq!(places.take_woken(), None);
        places.sleep_by_poller(2, 72);
        places.free(2);
        assert!(!places.has_sleepers() && !places.needs_event());
    }

    #[test]
    fn one_that_sleeps_alone_is_rung_for() {
        let mut places = Places::new(2);
        let (at, ids) = places.take().unwrap();
        places.sleep_alone(at, Wakeup::new().unwrap());
        assert!(places.needs_event() && !places.has_sleepers());
        assert!(matches!(places.keep(ids.send(0), sent(0)), Ring::Sleeper(_)));
        assert!(matches!(places.keep(ids.send(1), sent(1)), Ring::Nobody), "once");
        places.wake(at);
        places.wake(at);
        assert!(!places.needs_event());
        assert_eq!(places.take_woken(), None);
    }

    #[test]
    fn a_broken_queue_wakes_everybody() {
        let mut places = Places::new(3);
        (0..3).for_each(|_| assert!(places.take().is_some()));
        places.sleep_alone(0, Wakeup::new().unwrap());
        places.sleep_by_poller(2, 72);
        let mut rung = Vec::new();
        places.alarm(|ring| rung.push(ring));
        assert!(matches!(rung[..], [Ring::Sleeper(_), Ring::Poller]), "{rung:?}");
        assert_eq!((places.take_woken(), places.take_woken()), (Some(72), None));
    }
}
