//! Ends that say what they are told to, and rounds over them.

use std::vec;
use std::vec::Vec;

use super::super::arm_limits::QUIET_LOOKS;
use super::super::*;
use crate::driver::{Interest, Look, Seen, Tended};
use crate::nanos::Nanos;

pub(super) const MS: u64 = 1_000_000;
pub(super) const IDLE_TIMEOUT_NS: u64 = 30_000 * MS;

/// An end, and what was done with it.
#[derive(Debug, Default)]
pub(super) struct Fake {
    pub(super) number: u64,
    pub(super) owner: Option<Owner>,
    pub(super) has_message: bool,
    pub(super) has_ended: bool,
    /// A message comes while it is being armed, of which nobody wakes it.
    pub(super) misses_message: bool,
    pub(super) is_armed: bool,
    /// It has work that no look reports.
    pub(super) refuses_to_arm: bool,
    pub(super) has_jobs: bool,
    pub(super) needs_regular_looks: bool,
    pub(super) is_busy: bool,
    /// Time of the next look, and its idle timeout; 0: the default.
    pub(super) look_again_ns: u64,
    pub(super) idle_timeout_ns: u64,
    pub(super) looks: u32,
    /// Attempts to arm it.
    pub(super) requests: u32,
    pub(super) keepalives: Vec<u64>,
    pub(super) activity: u64,
}

/// A set that watches everything until it is full.
#[derive(Default)]
pub(super) struct FakeSet {
    pub(super) is_full: bool,
    pub(super) watched: Vec<u64>,
}

impl Pollable for Fake {
    type Set = FakeSet;
    type Error = &'static str;

    fn owner(&mut self, _: &mut FakeSet) -> Option<Owner> {
        self.owner
    }
    fn watch(&mut self, set: &mut FakeSet, owner: Owner) -> Result<(), &'static str> {
        if set.is_full {
            return Err("full");
        }
        set.watched.push(owner.number);
        self.owner = Some(owner);
        Ok(())
    }
    fn forget(&mut self, set: &mut FakeSet) {
        let owner = self.owner.take();
        set.watched.retain(|number| Some(*number) != owner.map(|owner| owner.number));
    }
    fn number(&mut self, _: &mut FakeSet) -> u64 {
        self.number
    }
    fn look(&mut self, _: &mut FakeSet, wanted: Interest, _: &mut Seen) -> Look {
        self.looks += 1;
        let is_readable = self.has_message && wanted.readable;
        Look { is_readable, is_writable: wanted.writable, has_moved: false, has_ended: self.has_ended }
    }
    fn arm(&mut self, _: &mut FakeSet, _: Interest) -> Option<u64> {
        self.requests += 1;
        if self.has_message || self.refuses_to_arm {
            return None;
        }
        self.has_message = core::mem::take(&mut self.misses_message);
        self.is_armed = true;
        Some(if self.look_again_ns == 0 { 100 * MS } else { self.look_again_ns })
    }
    fn disarm(&mut self, _: &mut FakeSet) {
        assert!(self.is_armed, "{} is not armed", self.number);
        self.is_armed = false;
    }
    fn tend(&mut self, _: &mut FakeSet, now: Nanos) -> Tended {
        self.keepalives.push(now.0);
        Tended { activity: self.activity, next: Nanos(now.0 + 7500 * MS), is_busy: self.is_busy }
    }
    fn check_peer(&mut self, _: &mut FakeSet) {}
    fn has_jobs(&mut self, _: &mut FakeSet) -> bool {
        self.has_jobs
    }
    fn needs_regular_looks(&mut self, _: &mut FakeSet) -> bool {
        self.needs_regular_looks
    }
    fn activity(&mut self, _: &mut FakeSet) -> u64 {
        self.activity
    }
    fn idle_timeout_ns(&mut self, _: &mut FakeSet) -> u64 {
        if self.idle_timeout_ns == 0 { IDLE_TIMEOUT_NS } else { self.idle_timeout_ns }
    }
}

impl Occupant for (Member, Fake) {
    type Connection = Fake;
    fn member(&mut self) -> Option<(&mut Member, &mut Fake)> {
        Some((&mut self.0, &mut self.1))
    }
}

pub(super) struct Events(pub(super) Vec<(Key, Report)>, pub(super) usize);

impl Reports for Events {
    fn has_room(&self) -> bool {
        self.1 - self.0.len() >= 2
    }
    fn report(&mut self, key: Key, report: Report) {
        self.0.push((key, report));
    }
}

pub(super) type Fakes = Rounds<(Member, Fake), Vec<Slot<(Member, Fake)>>, Vec<u32>, Vec<u64>>;

pub(super) fn rounds(count: usize) -> (Fakes, FakeSet, Vec<Key>) {
    rounds_with(count, MS)
}

pub(super) fn rounds_with(count: usize, quiet_ns: u64) -> (Fakes, FakeSet, Vec<Key>) {
    let memory = ((0..count).map(|_| Slot::default()).collect(), vec![0; count], vec![0; count]);
    let (mut rounds, mut set) = (Rounds::new(7, quiet_ns, memory), FakeSet::default());
    let keys = (0..count).map(|number| add(&mut rounds, &mut set, number as u64)).collect();
    (rounds, set, keys)
}

pub(super) fn add(rounds: &mut Fakes, set: &mut FakeSet, number: u64) -> Key {
    let key = rounds.insert((Member::new(0), Fake { number, ..Fake::default() })).unwrap();
    rounds.establish(key, set, 0).unwrap();
    key
}

/// Makes as many rounds as it takes at least to arm a connection, at one time, and drops their reports.
pub(super) fn look_often(rounds: &mut Fakes, set: &mut FakeSet, now_ns: u64) {
    for _ in 0..QUIET_LOOKS {
        round(rounds, set, now_ns, 100);
    }
}

pub(super) fn round(rounds: &mut Fakes, set: &mut FakeSet, now_ns: u64, room: usize) -> Vec<(Key, Report)> {
    let mut events = Events(Vec::new(), room);
    rounds.round(set, Some(now_ns), &mut events);
    events.0
}

pub(super) fn fake(rounds: &mut Fakes, key: Key) -> &mut Fake {
    &mut rounds.get_mut(key).unwrap().1
}

/// Does what is due until a time, as a poller that sleeps does.
pub(super) fn pass(rounds: &mut Fakes, set: &mut FakeSet, until_ns: u64) -> Vec<(Key, Report)> {
    let mut events = Events(Vec::new(), 1000);
    while rounds.earliest_ns() <= until_ns {
        let now_ns = rounds.earliest_ns();
        while let Some(key) = rounds.take_due(now_ns, true) {
            rounds.tend(key, set, now_ns, &mut events);
        }
    }
    events.0
}

/// All are armed after their first keepalives.
pub(super) fn armed(count: usize) -> (Fakes, FakeSet, Vec<Key>) {
    let (mut rounds, mut set, keys) = rounds(count);
    assert_eq!(pass(&mut rounds, &mut set, 0), []);
    rounds.arm_all(&mut set, 0);
    assert_eq!((rounds.active_count(), rounds.armed_count()), (0, u32::try_from(count).unwrap()));
    (rounds, set, keys)
}
