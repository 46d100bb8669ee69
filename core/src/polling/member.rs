//! A connection that is polled beside others: whether it is looked at in each round, or sleeps.
//!
//! ```text
//!              quiet for a while, and armed                    ended, and everything taken
//!  ACTIVE ------------------------------------> ARMED     ACTIVE -------------------------> ENDED
//!    ^                                            |
//!    +--------------------------------------------+  and from ENDED if the program asks for it
//!      woken; its time has come, and there is work; the program asks for it
//! ```
//!
//! An active connection is looked at in each round, by the flag of its landing buffer. An armed one costs nothing until it is woken: its peer sees that this end sleeps
//! (wire.md 7). Each is looked at now and then all the same, since its keepalives are due, and since a wake-up can be lost.
//!
//! Kinds of methods: *transitions* ([`activate`](Member::activate), [`arm`](Member::arm), [`wake`](Member::wake), [`tend`](Member::tend)), *looks*, and answers. [`due_ns`](Member::due_ns) changes with each transition.

use super::arm_limits::{ArmLimits, Ticket};
use super::due::{grid_after, grid_before};
use super::pollable::{Owner, Pollable, Report};
use crate::driver::{Interest, KEEPALIVE_NS, Look, Seen, Silence, Tended};
use crate::nanos::Nanos;

/// Cap on the silence that is counted between two looks, beyond the time after which the second one was due: this process may have been stopped, and the peer with it.
const LATE_SILENCE_NS: u64 = 250_000_000;

/// Looks at the peer's silence within the idle timeout, at least: one of them, which a stop of this process made late, says little.
const LOOKS_PER_IDLE_TIMEOUT: u64 = 4;

/// Time after which a connection that is used again is tended at the latest: an acknowledgement may have to be repeated (wire.md 7.3).
const TEND_AFTER_NS: u64 = KEEPALIVE_NS;

/// Interval of looks at an armed connection after which only keepalives look: the peer has seen the request for a wake-up by then (wire/shm.md 7.2).
const ANSWERED_NS: u64 = 100_000_000;
/// Interval from which on looks do not become rarer, while the peer has not answered the request for a wake-up (RDMA), or something may come that wakes nobody.
const UNANSWERED_NS: u64 = 10_000_000;

/// State of a connection in a poller, or of one alone that a program waits for.
#[derive(Debug)]
pub struct Member {
    /// Poller of the connection, as the connection notes it: the program may put another one here.
    owner: Owner,
    state: State,
    /// Events that are reported of it.
    interest: Interest,
    /// Number of the connection that is here. What was learned of another one says nothing about it.
    number: Option<u64>,
    /// The program may have done anything with it since the last look.
    is_touched: bool,
    /// The last round in which it was looked at.
    round: u32,
    /// Index in the list of active ones.
    active_index: u32,
    seen: Seen,
    /// It has moved since its quiet was last measured: the next look that finds nothing begins anew.
    has_moved: bool,
    /// Time since which it has not moved, and looks since then at which the time was known.
    quiet_since_ns: u64,
    quiet_looks: u32,
    /// It was quiet for long enough, and waits for its turn to be armed.
    ticket: Ticket,
    /// It is looked at while it is armed, though nothing woke it.
    looks_while_armed: bool,
    /// Time after which to look again while it is armed, when that is, and when its keepalive is due.
    look_again_ns: u64,
    look_at_ns: u64,
    keepalive_ns: u64,
    /// Number of the connection whose end was reported.
    ended: Option<u64>,
    silence: Silence,
    /// Time between the last keepalive that was due and the one after it: the peer's silence is counted that rarely.
    tend_after_ns: u64,
    is_silent: bool,
    /// The peer's activity when its silence was last counted.
    activity: u64,
}

/// Polling state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Active,
    Armed,
    Ended,
}

impl Member {
    /// Makes the state of a connection that nobody looks at yet.
    #[must_use]
    pub const fn new(now_ns: u64) -> Self {
        Self {
            owner: Owner { set: 0, number: 0 },
            state: State::Ended,
            interest: Interest::DEFAULT,
            number: None,
            is_touched: true,
            round: 0,
            active_index: 0,
            seen: Seen::NONE,
            has_moved: true,
            quiet_since_ns: now_ns,
            quiet_looks: 0,
            ticket: Ticket::NONE,
            looks_while_armed: true,
            look_again_ns: 0,
            look_at_ns: 0,
            keepalive_ns: 0,
            ended: None,
            silence: Silence::new(),
            tend_after_ns: 0,
            is_silent: false,
            activity: 0,
        }
    }

    /// Sets who polls it.
    pub(super) const fn set_owner(&mut self, owner: Owner) {
        self.owner = owner;
    }

    pub(super) const fn active_index(&self) -> u32 {
        self.active_index
    }

    pub(super) const fn set_active_index(&mut self, active_index: u32) {
        self.active_index = active_index;
    }

    /// Begins a round. Returns false if it was looked at in this round: the last one of the list, which was looked at, may have got the index of one that was armed.
    #[inline]
    pub(super) const fn begin_round(&mut self, round: u32) -> bool {
        core::mem::replace(&mut self.round, round) != round
    }

    #[inline]
    pub(super) const fn state(&self) -> State {
        self.state
    }

    /// Returns true while it waits for a wake-up.
    #[must_use]
    pub const fn is_armed(&self) -> bool {
        matches!(self.state, State::Armed)
    }

    /// Returns true while it is looked at in each round.
    #[inline]
    #[must_use]
    pub const fn is_active(&self) -> bool {
        matches!(self.state, State::Active)
    }

    /// Notes that the program may do anything with the connection, or put another one here.
    #[inline]
    pub const fn touch(&mut self) {
        self.is_touched = true;
    }

    /// Sets what is reported. Returns true if one that is armed has to be looked at: more is wanted than before, or room to send.
    pub(super) const fn set_interest(&mut self, interest: Interest) -> bool {
        let has_more = interest.readable && !self.interest.readable || interest.writable;
        self.interest = interest;
        has_more
    }

    /// Returns when it is to be looked at at the latest: at its keepalive, and while it is armed, when a lost wake-up would be found.
    pub(super) const fn due_ns(&self) -> u64 {
        match self.state {
            State::Active => self.keepalive_ns,
            State::Armed => self.armed_until_ns(),
            State::Ended => u64::MAX,
        }
    }

    const fn armed_until_ns(&self) -> u64 {
        if !self.looks_while_armed || self.keepalive_ns < self.look_at_ns {
            self.keepalive_ns
        } else {
            self.look_at_ns
        }
    }

    /// Has the set watch the connection. Does nothing unless the program may have put another connection here.
    ///
    /// # Errors
    /// The set cannot watch more. The next call tries again.
    #[inline]
    pub fn watch<C: Pollable>(&mut self, connection: &mut C, set: &mut C::Set) -> Result<(), C::Error> {
        if self.is_touched { self.watch_again(connection, set) } else { Ok(()) }
    }

    fn watch_again<C: Pollable>(&mut self, connection: &mut C, set: &mut C::Set) -> Result<(), C::Error> {
        self.has_moved = true;
        self.looks_while_armed = connection.looks_while_armed(set);
        let number = connection.number(set);
        let is_another = self.number.replace(number) != Some(number);
        if is_another {
            (self.seen, self.silence, self.is_silent) = (Seen::NONE, Silence::new(), false);
        }
        // One that was here before may have been reported while another one was.
        if is_another || connection.owner(set) != Some(self.owner) {
            // Another one was put here, which nobody has armed.
            if self.is_armed() {
                self.state = State::Active;
            }
            connection.watch(set, self.owner)?;
        }
        self.is_touched = false;
        Ok(())
    }

    /// Notes that the connection is not armed, if the program has put it in the place of the one that is.
    fn note_exchange<C: Pollable>(&mut self, connection: &mut C, set: &mut C::Set) {
        if self.is_touched
            && self.is_armed()
            && self.number.is_some_and(|number| number != connection.number(set))
        {
            self.state = State::Active;
        }
    }

    /// Takes the request for a wake-up back, and has nobody watch it.
    pub fn release<C: Pollable>(&mut self, connection: &mut C, set: &mut C::Set) {
        self.note_exchange(connection, set);
        if self.is_armed() {
            connection.disarm(set);
        }
        self.state = State::Ended;
        connection.forget(set);
    }

    /// Has it looked at in each round from now on, and takes the request for a wake-up back. One that has ended is looked at once more: the program may have put another one here.
    pub fn activate<C: Pollable>(&mut self, connection: &mut C, set: &mut C::Set, now_ns: u64) {
        self.note_exchange(connection, set);
        match self.state {
            State::Active => return,
            State::Armed => connection.disarm(set),
            State::Ended => {}
        }
        self.state = State::Active;
        self.has_moved = true;
        // On the grid: those that were woken one after the other are tended together.
        self.keepalive_ns = self.keepalive_ns.min(grid_after(now_ns, now_ns.saturating_add(TEND_AFTER_NS)));
    }

    /// Handles a report of the set: its peer has woken it, or is gone. Returns true if it is active from now on.
    pub fn wake<C: Pollable>(&mut self, connection: &mut C, set: &mut C::Set, now_ns: u64) -> bool {
        match self.state {
            State::Armed => {
                self.activate(connection, set, now_ns);
                true
            }
            State::Active => {
                connection.check_peer(set);
                false
            }
            State::Ended => false,
        }
    }

    /// Looks for what is wanted.
    #[inline]
    pub fn look<C: Pollable>(&mut self, connection: &mut C, set: &mut C::Set) -> Look {
        let look = connection.look(set, self.interest, &mut self.seen);
        self.has_moved |= look.is_readable || look.is_writable || look.has_moved;
        look
    }

    /// Returns true if there is something to report. The next look reports it as if there had been none.
    pub(super) fn finds_work<C: Pollable>(&mut self, connection: &mut C, set: &mut C::Set) -> bool {
        let seen = self.seen;
        let mut look = self.look(connection, set);
        // A look sees what is there before it makes progress.
        if look.has_moved {
            look = self.look(connection, set);
        }
        self.seen = seen;
        look.is_readable || look.is_writable || look.has_ended
    }

    /// Looks in a round at one that is active, and has it wait for a wake-up once it was quiet for long. `now_ns`: the time, if that was looked at.
    #[inline]
    pub(super) fn round<C: Pollable>(
        &mut self,
        connection: &mut C,
        set: &mut C::Set,
        (now_ns, limits): (Option<u64>, &mut ArmLimits),
        mut report: impl FnMut(Report),
    ) {
        // One that cannot be watched is not armed either.
        let _ = self.watch(connection, set);
        let look = self.look(connection, set);
        if look.has_ended {
            if self.note_ended(connection, set) {
                report(Report::Ended);
            }
            self.state = State::Ended;
            return;
        }
        if look.is_readable {
            report(Report::Readable);
        }
        if look.is_writable {
            report(Report::Writable);
        }
        let Some(now_ns) = now_ns else { return };
        if look.has_work() || !self.is_quiet(now_ns, limits) {
            limits.give_up(&mut self.ticket);
        } else if limits.take(&mut self.ticket) {
            self.arm(connection, set, now_ns);
        }
    }

    /// Returns its ticket, which is taken back once it is not active any more.
    #[inline]
    pub(super) const fn ticket(&mut self) -> &mut Ticket {
        &mut self.ticket
    }

    /// Counts a look that found nothing. Returns true if it has not moved for long enough.
    const fn is_quiet(&mut self, now_ns: u64, limits: &ArmLimits) -> bool {
        if self.has_moved {
            (self.has_moved, self.quiet_since_ns, self.quiet_looks) = (false, now_ns, 0);
        }
        self.quiet_looks = self.quiet_looks.saturating_add(1);
        limits.is_quiet(now_ns.saturating_sub(self.quiet_since_ns), self.quiet_looks)
    }

    /// Notes that the connection has ended. Returns true if that was not reported.
    fn note_ended<C: Pollable>(&mut self, connection: &mut C, set: &mut C::Set) -> bool {
        let number = connection.number(set);
        self.ended.replace(number) != Some(number)
    }

    /// Has it wait for a wake-up. Returns false if it has work or cannot be watched, and stays active.
    pub fn arm<C: Pollable>(&mut self, connection: &mut C, set: &mut C::Set, now_ns: u64) -> bool {
        let is_watched = self.watch(connection, set).is_ok();
        let Some(look_again_ns) = is_watched.then(|| connection.arm(set, self.interest)).flatten() else {
            // No look has found that, and the next attempt is to wait as after a movement.
            self.has_moved = true;
            return false;
        };
        self.state = State::Armed;
        self.look_again(look_again_ns, now_ns);
        true
    }

    const fn look_again(&mut self, after_ns: u64, now_ns: u64) {
        self.look_again_ns = after_ns;
        self.look_at_ns = grid_before(now_ns, now_ns.saturating_add(after_ns));
    }

    /// Notes a look that found nothing while it is armed. The next one is half as often if this one was due, and in the end with its keepalives only.
    pub(super) fn note_look<C: Pollable>(&mut self, connection: &mut C, set: &mut C::Set, now_ns: u64) {
        if now_ns < self.look_at_ns {
            return;
        }
        let needs_regular_looks = connection.needs_regular_looks(set);
        let most_ns = if needs_regular_looks { UNANSWERED_NS } else { ANSWERED_NS };
        let after_ns = if self.look_again_ns < most_ns {
            2 * self.look_again_ns
        } else if needs_regular_looks {
            self.look_again_ns
        } else {
            u64::MAX
        };
        self.look_again(after_ns, now_ns);
    }

    /// Does what is due: sends the keepalive, and looks at one that is armed, since a wake-up may have been lost. Returns true if the peer has just been silent for the idle timeout.
    pub fn tend<C: Pollable>(&mut self, connection: &mut C, set: &mut C::Set, now_ns: u64) -> bool {
        if self.state == State::Ended {
            return false;
        }
        // The silence of the one that was here before is not that of this one.
        let _ = self.watch(connection, set);
        let [is_busy, has_fallen_silent] = self.keep_alive(connection, set, now_ns);
        if self.is_armed() && self.looks_while_armed {
            // What is there is not reported by this look.
            let seen = self.seen;
            let look = self.look(connection, set);
            self.seen = seen;
            if is_busy || look.has_work() {
                self.activate(connection, set, now_ns);
            } else {
                self.note_look(connection, set, now_ns);
            }
        }
        has_fallen_silent
    }

    /// Sends a keepalive that is due, and sets when the next one is. Returns true if the connection is to be looked at in each round, and true if the peer has just been silent for the idle timeout.
    pub(super) fn keep_alive<C: Pollable>(
        &mut self,
        connection: &mut C,
        set: &mut C::Set,
        now_ns: u64,
    ) -> [bool; 2] {
        if now_ns < self.keepalive_ns {
            return [false; 2];
        }
        let Tended { activity, next: Nanos(mut next_ns), is_busy } = connection.tend(set, Nanos(now_ns));
        let idle_timeout_ns = connection.idle_timeout_ns(set);
        let part_ns = idle_timeout_ns / LOOKS_PER_IDLE_TIMEOUT;
        let mut most_ns = self.tend_after_ns.saturating_add(LATE_SILENCE_NS.min(part_ns));
        planted!(StopIsSilence => most_ns = u64::MAX);
        self.activity = activity;
        let silent_ns = self.silence.count(activity, Nanos(now_ns), most_ns);
        let was_silent = core::mem::replace(&mut self.is_silent, silent_ns >= idle_timeout_ns);
        if !self.is_silent {
            next_ns = next_ns.min(now_ns.saturating_add(part_ns.min(idle_timeout_ns - silent_ns)));
        }
        // While it is polled, what it receives may have a keepalive be due earlier.
        if self.is_active() || connection.needs_regular_looks(set) {
            next_ns = next_ns.min(now_ns.saturating_add(TEND_AFTER_NS));
        }
        // A short idle timeout of the peer leaves no time to be late.
        let is_near = next_ns.saturating_sub(now_ns) < TEND_AFTER_NS;
        self.keepalive_ns = if is_near { next_ns } else { grid_after(now_ns, next_ns) };
        self.tend_after_ns = self.keepalive_ns.saturating_sub(now_ns);
        [is_busy, self.is_silent && !was_silent]
    }

    /// Returns true while the peer has been silent for the idle timeout.
    pub fn is_silent<C: Pollable>(&self, connection: &mut C, set: &mut C::Set) -> bool {
        self.is_silent
            && self.number == Some(connection.number(set))
            && connection.activity(set) == self.activity
    }
}
