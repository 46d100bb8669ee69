//! A member without others, which a program waits for itself.

use super::member::Member;
use super::naps::Naps;
use super::pollable::{Owner, Pollable};
use crate::driver::Interest;

/// Result of a request for a wake-up: whether the program may wait for its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// There is something to do.
    Busy,
    /// There is nothing to do, but something goes on whose end wakes nobody: to be looked at at this time.
    Pending {
        /// The time, in nanoseconds.
        at_ns: u64,
    },
    /// Everyone with work for this end wakes it.
    Armed {
        /// Time at which to look in any case, in nanoseconds. `u64::MAX`: none.
        at_ns: u64,
    },
}

/// A connection alone in its set.
#[derive(Debug)]
pub struct Single {
    member: Member,
    /// Requests in a row that found nothing to do, and nobody to wake this end.
    naps: Naps,
}

impl Single {
    /// Begins to watch a connection, which is active.
    ///
    /// # Errors
    /// The set cannot watch it. Nobody watches it then.
    pub fn new<C: Pollable>(
        owner: Owner,
        connection: &mut C,
        set: &mut C::Set,
        now_ns: u64,
    ) -> Result<Self, C::Error> {
        let mut member = Member::new(now_ns);
        member.set_owner(owner);
        // Its first keepalive is due at once.
        member.activate(connection, set, now_ns);
        match member.watch(connection, set) {
            Ok(()) => Ok(Self { member, naps: Naps::default() }),
            Err(error) => {
                member.release(connection, set);
                Err(error)
            }
        }
    }

    /// Returns the state of the connection.
    pub const fn member(&mut self) -> &mut Member {
        &mut self.member
    }

    /// Asks for a wake-up once something can be done of what `interest` names, or the connection has ended, and looks once more. Sends a keepalive if one is due. `was_ready`: the set has reported it since
    /// the last call. `most_ns`: time after which to look in any case.
    pub fn arm<C: Pollable>(
        &mut self,
        connection: &mut C,
        set: &mut C::Set,
        (interest, was_ready): (Interest, bool),
        (now_ns, most_ns): (u64, u64),
    ) -> Arm {
        let member = &mut self.member;
        if was_ready {
            member.wake(connection, set, now_ns);
        }
        let _ = member.set_interest(interest);
        let is_watched = member.watch(connection, set).is_ok();
        let [is_busy, has_fallen_silent] = member.keep_alive(connection, set, now_ns);
        if is_busy && !has_fallen_silent {
            member.activate(connection, set, now_ns);
        }
        if has_fallen_silent || Self::finds_work(member, connection, set) {
            self.naps.reset();
            return Arm::Busy;
        }
        // Nobody wakes this end when a job ends.
        if connection.has_jobs(set) {
            member.activate(connection, set, now_ns);
        }
        if member.is_armed() {
            member.note_look(connection, set, now_ns);
        } else if !is_watched || !member.arm(connection, set, now_ns) {
            return self.nap(connection, set, now_ns);
        }
        self.naps.reset();
        let at_ns = if connection.looks_while_armed(set) { self.member.due_ns() } else { u64::MAX };
        Arm::Armed { at_ns: at_ns.min(now_ns.saturating_add(most_ns)) }
    }

    /// Returns when to look again where nobody wakes this end: a job goes on, something that is not wanted has arrived, or something is there now.
    fn nap<C: Pollable>(&mut self, connection: &mut C, set: &mut C::Set, now_ns: u64) -> Arm {
        let nap_ns = self.naps.next_ns();
        if nap_ns == 0 || Self::finds_work(&mut self.member, connection, set) {
            return Arm::Busy;
        }
        Arm::Pending { at_ns: self.member.due_ns().min(now_ns.saturating_add(nap_ns)) }
    }

    /// Looks for what is wanted, and for the end.
    fn finds_work<C: Pollable>(member: &mut Member, connection: &mut C, set: &mut C::Set) -> bool {
        let look = member.look(connection, set);
        look.is_readable || look.is_writable || look.has_ended
    }
}
