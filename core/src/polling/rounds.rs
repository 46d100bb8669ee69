//! Rounds over all that a poller has.
//!
//! A round looks at each active connection once, in turn, as long as there is room for reports: the next call goes on with those that were left out, so nobody starves. What became ready is
//! [woken](Rounds::wake), and what is due is [taken](Rounds::take_due).

use super::active::ActiveList;
use super::arm_limits::ArmLimits;
use super::due::DueTimes;
use super::member::{Member, State};
use super::naps::Naps;
use super::occupant::{Occupant, SetOf};
use super::pollable::{Owner, Pollable, Report, Reports};
use super::single::Arm;
use super::slots::{Key, Slot, Slots};
use crate::driver::Interest;

/// Connections, and whatever else is in a poller's slots, with their times.
///
/// Memory is lent for as many slots as each of the three has room for: slots `S`, the list of active ones `A`, and times `D`.
#[derive(Debug)]
pub struct Rounds<T, S, A, D> {
    poller: u32,
    slots: Slots<T, S>,
    active: ActiveList<A>,
    due: DueTimes<D>,
    /// Connections that wait for a wake-up.
    armed: u32,
    round: u32,
    limits: ArmLimits,
}

/// Subject of a report of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// A connection that waited for a wake-up is looked at in each round from now on.
    Armed,
    /// A connection that is looked at anyway, or has ended.
    Polled,
    /// Key of something else than a connection.
    Other(Key),
    /// The key is stale.
    Stale,
}

impl<T, S, A, D> Rounds<T, S, A, D>
where
    T: Occupant,
    S: AsRef<[Slot<T>]> + AsMut<[Slot<T>]>,
    A: AsRef<[u32]> + AsMut<[u32]>,
    D: AsRef<[u64]> + AsMut<[u64]>,
{
    /// Begins without connections. `poller`: its number in this process. `quiet_ns`: time for which nothing must have moved on a connection that is armed in a round.
    pub fn new(poller: u32, quiet_ns: u64, (slots, active, due): (S, A, D)) -> Self {
        Self {
            poller,
            slots: Slots::new(poller, slots),
            active: ActiveList::new(active),
            due: DueTimes::new(due),
            armed: 0,
            round: 0,
            limits: ArmLimits::new(quiet_ns),
        }
    }

    /// Returns the count of connections that are looked at in each round.
    #[inline]
    #[must_use]
    pub const fn active_count(&self) -> u32 {
        self.active.len()
    }

    /// Returns the count of connections that wait for a wake-up.
    #[must_use]
    pub const fn armed_count(&self) -> u32 {
        self.armed
    }

    /// Returns the count of connections that wait for their turn to be armed.
    #[cfg(test)]
    pub(super) const fn waiting(&self) -> u32 {
        self.limits.waiting()
    }

    /// Puts something into a free slot.
    ///
    /// # Errors
    /// There is none. It is in the error.
    pub fn insert(&mut self, occupant: T) -> Result<Key, T> {
        self.slots.insert(occupant)
    }

    /// Takes out what a key names, which is stale from now on. A connection is in the set still: [`Member::release`].
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let limits = &mut self.limits;
        let state = self.slots.get_mut(key)?.member().map(|(member, _)| {
            limits.give_up(member.ticket());
            (member.state(), member.active_index())
        });
        let occupant = self.slots.remove(key)?;
        match state {
            Some((State::Active, index)) => self.leave(index),
            Some((State::Armed, _)) => self.armed -= 1,
            Some((State::Ended, _)) | None => {}
        }
        self.due.set(key.slot(), u64::MAX);
        Some(occupant)
    }

    /// Returns what a key names.
    #[must_use]
    pub fn get(&self, key: Key) -> Option<&T> {
        self.slots.get(key)
    }

    /// Returns what a key names. The state of a connection may be changed by methods of this type only.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.slots.get_mut(key)
    }

    /// Returns the number by which the set is to report what a key names.
    #[must_use]
    pub const fn number(key: Key) -> u64 {
        key.number()
    }

    /// Sets when something is due: [`take_due`](Self::take_due). Connections have times of their own.
    pub fn set_due(&mut self, key: Key, due_ns: u64) {
        if self.slots.get(key).is_some() {
            self.due.set(key.slot(), due_ns);
        }
    }

    /// Has all of this kind be due at once.
    pub fn set_due_where(&mut self, is_meant: impl Fn(&T) -> bool) {
        for slot in 0..self.slots.used() {
            if self.slots.at_mut(slot).is_some_and(|(_, occupant)| is_meant(occupant)) {
                self.due.set(slot, 0);
            }
        }
    }

    /// Returns a time no later than the earliest at which something is due.
    #[inline]
    #[must_use]
    pub const fn earliest_ns(&self) -> u64 {
        self.due.earliest_ns()
    }

    /// Takes the next of what is due: the caller drives what is no connection, and [tends](Self::tend) a connection. `None`: there is no more now. Without room for reports the rest is due at once.
    pub fn take_due(&mut self, now_ns: u64, has_room: bool) -> Option<Key> {
        loop {
            let slot = self.due.take(self.slots.used(), now_ns, has_room)?;
            if let Some(key) = self.slots.key_at(slot) {
                return Some(key);
            }
        }
    }

    /// Begins to look at a connection that was put into its slot.
    ///
    /// # Errors
    /// The set cannot watch it.
    pub fn establish(
        &mut self,
        key: Key,
        set: &mut SetOf<T>,
        now_ns: u64,
    ) -> Result<(), <T::Connection as Pollable>::Error> {
        let Some((member, connection)) = self.slots.get_mut(key).and_then(Occupant::member) else {
            return Ok(());
        };
        member.set_owner(Owner { set: self.poller, number: key.number() });
        member.watch(connection, set)?;
        self.activate(key, set, now_ns);
        Ok(())
    }

    /// Returns a connection for the program, which may do anything with it. It is looked at from now on until it is quiet; one that has ended once more, since the program may put another one there.
    #[inline]
    pub fn touch(&mut self, key: Key, set: &mut SetOf<T>, now_ns: u64) -> Option<&mut T::Connection> {
        let (member, _) = self.slots.get_mut(key)?.member()?;
        if !member.is_active() {
            self.activate(key, set, now_ns);
        }
        let (member, connection) = self.slots.get_mut(key)?.member()?;
        member.touch();
        Some(connection)
    }

    /// Sets what is reported of a connection from now on. Returns false if the key names none.
    pub fn set_interest(&mut self, key: Key, interest: Interest, set: &mut SetOf<T>, now_ns: u64) -> bool {
        let Some((member, _)) = self.slots.get_mut(key).and_then(Occupant::member) else { return false };
        if member.set_interest(interest) && member.is_armed() {
            self.activate(key, set, now_ns);
        }
        true
    }

    /// Has a connection looked at in each round from now on.
    pub fn activate(&mut self, key: Key, set: &mut SetOf<T>, now_ns: u64) {
        self.change(key, |member, connection| member.activate(connection, set, now_ns));
    }

    /// Handles a report of the set, by its number.
    pub fn wake(&mut self, number: u64, set: &mut SetOf<T>, now_ns: u64) -> Woken {
        let Some(key) = self.slots.key_of(number) else { return Woken::Stale };
        match self.change(key, |member, connection| member.wake(connection, set, now_ns)) {
            Some(true) => Woken::Armed,
            Some(false) => Woken::Polled,
            None => Woken::Other(key),
        }
    }

    /// Does what is due at a connection: its keepalive, and a look at one that waits for a wake-up.
    pub fn tend(&mut self, key: Key, set: &mut SetOf<T>, now_ns: u64, reports: &mut impl Reports) {
        let tended = self.change(key, |member, connection| member.tend(connection, set, now_ns));
        if tended == Some(true) {
            reports.report(key, Report::Silent);
        }
    }

    /// Looks at each active connection once. `now_ns`: the time, if it was looked at in this call; without it none is armed.
    #[inline]
    pub fn round(&mut self, set: &mut SetOf<T>, now_ns: Option<u64>, reports: &mut impl Reports) {
        self.round = self.round.wrapping_add(1);
        planted!(RoundUnfair => self.active.start_over());
        if let Some(now_ns) = now_ns {
            self.limits.begin_round(now_ns);
        }
        let count = self.active.len();
        let looked = self.look_at_active(set, now_ns, reports);
        if now_ns.is_some() {
            self.limits.end_round(looked, count);
        }
    }

    /// Looks at each as long as there is room for reports. Returns the count of looks.
    #[inline]
    fn look_at_active(&mut self, set: &mut SetOf<T>, now_ns: Option<u64>, reports: &mut impl Reports) -> u32 {
        let count = self.active.len();
        for looked in 0..count {
            if !reports.has_room() {
                return looked;
            }
            let Some(slot) = self.active.current() else { return looked };
            let Some((key, occupant)) = self.slots.at_mut(slot) else { return looked };
            let Some((member, connection)) = occupant.member() else { return looked };
            if member.begin_round(self.round) {
                member
                    .round(connection, set, (now_ns, &mut self.limits), |report| reports.report(key, report));
                // Then another one has its index.
                if !member.is_active() {
                    self.retire(slot);
                    continue;
                }
            }
            self.active.advance();
        }
        count
    }

    /// Has all active connections wait for a wake-up that have no work.
    pub fn arm_all(&mut self, set: &mut SetOf<T>, now_ns: u64) {
        let mut index = 0;
        while let Some(slot) = self.active.at(index) {
            // The last one gets the index of one that is armed.
            let armed = self.change_at(slot, |member, connection| member.arm(connection, set, now_ns));
            index += u32::from(armed != Some(true));
        }
    }

    /// Has all connections without work wait for a wake-up, for a program that waits for the set itself.
    pub fn arm(&mut self, set: &mut SetOf<T>, now_ns: u64, naps: &mut Naps) -> Arm {
        self.arm_all(set, now_ns);
        if self.finds_work(set) {
            naps.reset();
            return Arm::Busy;
        }
        let is_armed = self.active.len() == 0;
        let nap_ns = if is_armed {
            naps.reset();
            u64::MAX
        } else {
            naps.next_ns()
        };
        let at_ns = self.due.earliest_ns().min(now_ns.saturating_add(nap_ns));
        if at_ns <= now_ns {
            Arm::Busy
        } else if is_armed {
            Arm::Armed { at_ns }
        } else {
            Arm::Pending { at_ns }
        }
    }

    /// Has all connections without work wait for a wake-up. Returns for how long the poller may sleep: until something is due, or for a nap. `naps`: sleeps in a row beside connections that cannot be woken.
    pub fn sleep_ns(&mut self, set: &mut SetOf<T>, now_ns: u64, naps: &mut Naps) -> u64 {
        self.arm_all(set, now_ns);
        if self.finds_work(set) {
            return 0;
        }
        let most_ns = if self.active.len() == 0 {
            naps.reset();
            u64::MAX
        } else if self.has_jobs(set) {
            naps.next_beside_jobs_ns()
        } else {
            naps.next_ns()
        };
        self.due.earliest_ns().saturating_sub(now_ns).min(most_ns)
    }

    /// Returns true if an active connection has something to report, as one may that has refused to be armed.
    fn finds_work(&mut self, set: &mut SetOf<T>) -> bool {
        let Self { active, slots, .. } = self;
        (0..active.len()).filter_map(|index| active.at(index)).any(|slot| {
            let member = slots.at_mut(slot).and_then(|(_, occupant)| occupant.member());
            member.is_some_and(|(member, connection)| member.finds_work(connection, set))
        })
    }

    /// Returns true while a job goes on at an active connection.
    fn has_jobs(&mut self, set: &mut SetOf<T>) -> bool {
        let Self { active, slots, .. } = self;
        (0..active.len()).filter_map(|index| active.at(index)).any(|slot| {
            let member = slots.at_mut(slot).and_then(|(_, occupant)| occupant.member());
            member.is_some_and(|(_, connection)| connection.has_jobs(set))
        })
    }

    /// Changes the state of a connection, and keeps the lists in step. `None`: the key names none.
    fn change<R>(
        &mut self,
        key: Key,
        change: impl FnOnce(&mut Member, &mut T::Connection) -> R,
    ) -> Option<R> {
        self.slots.get(key)?;
        self.change_at(key.slot(), change)
    }

    fn change_at<R>(
        &mut self,
        slot: u32,
        change: impl FnOnce(&mut Member, &mut T::Connection) -> R,
    ) -> Option<R> {
        let (_, occupant) = self.slots.at_mut(slot)?;
        let (member, connection) = occupant.member()?;
        let before = member.state();
        let changed = change(member, connection);
        let (after, due_ns) = (member.state(), member.due_ns());
        match (before, after) {
            (State::Active, State::Armed | State::Ended) => {
                self.retire(slot);
                return Some(changed);
            }
            (State::Armed | State::Ended, State::Active) => {
                if let Some(index) = self.active.push(slot) {
                    member.set_active_index(index);
                }
            }
            (State::Active, State::Active) | (State::Armed | State::Ended, State::Armed | State::Ended) => {}
        }
        self.armed -= u32::from(before == State::Armed);
        self.armed += u32::from(after == State::Armed);
        self.due.set(slot, due_ns);
        Some(changed)
    }

    /// Takes a connection that is not active any more out of the list.
    fn retire(&mut self, slot: u32) {
        let Some((_, occupant)) = self.slots.at_mut(slot) else { return };
        let Some((member, _)) = occupant.member() else { return };
        let (index, due_ns) = (member.active_index(), member.due_ns());
        self.limits.give_up(member.ticket());
        self.armed += u32::from(member.is_armed());
        self.due.set(slot, due_ns);
        self.leave(index);
    }

    /// Frees an index of the list of active ones. The last one takes it.
    fn leave(&mut self, index: u32) {
        if let Some(moved) = self.active.remove(index)
            && let Some((member, _)) = self.slots.at_mut(moved).and_then(|(_, occupant)| occupant.member())
        {
            member.set_active_index(index);
        }
    }
}
