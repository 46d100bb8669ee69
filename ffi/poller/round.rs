//! Rounds: what is active is looked at in each, what the kernel reports and what is [due](super::due) in some. Then the wait.
//!
//! A round with few active connections must cost little: it looks at a flag of each, and every few rounds at the clock or at the kernel's reports.

use core::hint;
use std::thread;

use superpipe_core::driver::{SPIN_ROUNDS, YIELD_ROUNDS};

use super::events::{PollEvent, PollEvents};
use super::{Clock, Counts, Entry, Key, Poller, number};
use crate::deadline::{ArmedDeadline, Deadline};
use crate::error::Error;
use crate::os::WaitStrategy;
use crate::os::monotonic_ns;
use crate::watched::{State, nap_ns};

/// Number of the wake-up by threads that connect, which no key has: a poller has fewer slots.
pub(super) const WAKEUP: u64 = u64::MAX;
/// Number of the timer for programs that wait for the set themselves.
pub(super) const TIMER: u64 = u64::MAX - 1;

/// Looks at active connections, and calls, between two looks at the clock.
const LOOKS_PER_CLOCK: u32 = 16;
const CALLS_PER_CLOCK: u32 = 4;
/// Time between two looks at what the kernel reports, which are system calls: while some connections are active, others are found that much later, or four calls later.
const READY_NS: u64 = 5_000;
/// Sleep while a job goes on, which may need this end for its next step.
const JOB_NAP_NS: u64 = 20_000;
/// Longest sleep between two checks of the interrupt flag.
const SLEEP_MAX_NS: u64 = 50_000_000;

impl Poller {
    /// Reports what can be done, and makes progress on everything. Waits until there is something to report, or the deadline has passed: then there are no events. With a deadline of
    /// [`Duration::ZERO`](core::time::Duration::ZERO) it does not wait.
    ///
    /// It is to be called often, as each connection's [`progress`](crate::Connection::progress) would have to be: it sends keepalives, which may be due every 200 ms, and answers that the protocol asks for. Peers give
    /// up after their idle timeout, 30 s by default. What a peer rejects is reported by [`Connection::poll_event`](crate::Connection::poll_event).
    ///
    /// # Errors
    /// `Interrupted`: the [interrupt flag](super::PollerOptions::interrupt) is set. What happens to one connection is reported, and is no error of this call.
    pub fn poll(&mut self, events: &mut PollEvents, deadline: impl Into<Deadline>) -> Result<(), Error> {
        let polled = self.poll_rounds(events, deadline.into());
        if !events.is_empty() {
            self.naps = 0;
        }
        polled
    }

    fn poll_rounds(&mut self, events: &mut PollEvents, deadline: Deadline) -> Result<(), Error> {
        let mut armed = ArmedDeadline::Unarmed(deadline);
        let (mut empty_rounds, mut naps) = (0_u32, 0);
        events.clear();
        self.clock.is_fresh = false;
        // What the program did since the last call may have taken long.
        self.clock.calls = self.clock.calls.wrapping_add(1);
        if self.clock.calls.is_multiple_of(CALLS_PER_CLOCK) {
            self.look_at_rest(events);
        }
        loop {
            self.round(events);
            if !events.is_empty() || deadline.is_poll() {
                return Ok(());
            }
            empty_rounds = empty_rounds.saturating_add(1);
            let is_asleep =
                empty_rounds >= SPIN_ROUNDS + YIELD_ROUNDS && self.options.wait == WaitStrategy::Sleep;
            if !is_asleep && empty_rounds % LOOKS_PER_CLOCK != 1 {
                hint::spin_loop();
                continue;
            }
            if self.options.is_interrupted() {
                return Err(Error::interrupted());
            }
            if !self.clock.is_fresh {
                self.look_at_clock();
            }
            let active = self.active.len();
            if active > 0 {
                self.look_at_rest(events);
            }
            if !events.is_empty() {
                return Ok(());
            }
            let deadline_ns = armed.at_ns(self.clock.now_ns);
            if self.clock.now_ns >= deadline_ns {
                return Ok(());
            }
            if self.active.len() > active {
                continue;
            }
            match self.options.wait {
                WaitStrategy::Spin => {}
                _ if empty_rounds < SPIN_ROUNDS => {}
                WaitStrategy::Yield => thread::yield_now(),
                WaitStrategy::Sleep if !is_asleep => thread::yield_now(),
                WaitStrategy::Sleep => self.sleep(deadline_ns, &mut naps),
            }
        }
    }

    /// Makes one round.
    #[inline]
    fn round(&mut self, events: &mut PollEvents) {
        #[expect(clippy::cast_possible_truncation, reason = "there are 2^16 slots at most")]
        let looks = self.active.len() as u32;
        self.clock.looks += looks;
        // Without active connections there is nothing else to do.
        if looks == 0 || self.clock.looks >= LOOKS_PER_CLOCK {
            self.look_at_rest(events);
        }
        self.clock.rounds = self.clock.rounds.wrapping_add(1);
        for _ in 0..self.active.len() {
            if !events.has_room() {
                return;
            }
            if self.next >= self.active.len() {
                self.next = 0;
            }
            let Some(&key) = self.active.get(self.next) else { return };
            // What is looked at leaves the list if it is armed or has ended: then another one has its place.
            if self.look(key, events) {
                self.next += 1;
            }
        }
    }

    fn look_at_clock(&mut self) {
        self.clock.now_ns = monotonic_ns();
        (self.clock.is_fresh, self.clock.looks) = (true, 0);
        if self.report.is_due(self.clock.now_ns) {
            self.copy_counts();
        }
    }

    /// Copies what the poller counts to the page of metrics.
    #[cold]
    #[inline(never)]
    pub(super) fn copy_counts(&mut self) {
        let Counts { connections, listeners, armed } = self.counts;
        let places =
            [u64::from(connections), self.active.len() as u64, u64::from(armed), u64::from(listeners)];
        let Clock { now_ns, rounds, calls, .. } = self.clock;
        self.report.copy(now_ns, rounds, calls, places);
    }

    /// Looks at the clock, at what is due, and now and then at what the kernel reports.
    #[cold]
    fn look_at_rest(&mut self, events: &mut PollEvents) {
        self.look_at_clock();
        if self.active.is_empty() || self.clock.now_ns.saturating_sub(self.clock.ready_ns) >= READY_NS {
            self.take_ready();
        }
        if self.clock.now_ns >= self.earliest_ns {
            self.look_at_due(events);
        }
    }

    /// Takes what the kernel reports.
    fn take_ready(&mut self) {
        self.clock.ready_ns = self.clock.now_ns;
        for number in self.epoll.ready() {
            if number == TIMER {
                continue;
            }
            if number == WAKEUP {
                self.wake_connects();
                continue;
            }
            #[expect(clippy::cast_possible_truncation, reason = "the lower half is the slot")]
            let Some(key) = self.entries.key_at(number as u32).filter(|key| super::number(*key) == number)
            else {
                continue;
            };
            match self.entries.get_mut(key) {
                Some(Entry::Member(member)) => match member.state {
                    State::Armed => {
                        self.report.counts.wakeups += 1;
                        self.activate(key);
                    }
                    State::Active(_) => member.check_peer(),
                    State::Ended => {}
                },
                Some(Entry::Listening(listening)) => {
                    listening.wake();
                    self.set_due(key, 0);
                }
                Some(Entry::Connecting(_)) => self.set_due(key, 0),
                Some(Entry::Failed(_)) | None => {}
            }
        }
    }

    /// Looks at an active connection. Returns true if it is still active.
    #[inline]
    fn look(&mut self, key: Key, events: &mut PollEvents) -> bool {
        let Some(Entry::Member(member)) = self.entries.get_mut(key) else { return true };
        // The last one of the list, which was looked at, may have got the place of one that was armed.
        if core::mem::replace(&mut member.round, self.clock.rounds) == self.clock.rounds {
            return true;
        }
        // One that cannot be watched is not armed either.
        let _ = member.watch(&self.epoll);
        let look = member.look();
        if look.has_ended {
            if member.note_ended() {
                events.push(PollEvent::Ended { connection: key });
            }
            self.rest(key, State::Ended);
            return false;
        }
        if look.is_readable {
            events.push(PollEvent::Readable { connection: key });
        }
        if look.is_writable {
            events.push(PollEvent::Writable { connection: key });
        }
        if look.is_readable || look.is_writable || look.has_moved || !self.clock.is_fresh {
            return true;
        }
        !member.is_quiet(self.clock.now_ns, self.quiet_ns) || !self.arm_one(key)
    }

    /// Has a connection wait for a wake-up. Returns false if it has work or cannot be watched, and stays active.
    fn arm_one(&mut self, key: Key) -> bool {
        let Some(Entry::Member(member)) = self.entries.get_mut(key) else { return false };
        if member.watch(&self.epoll).is_err() {
            return false;
        }
        let Some(look_again_ns) = member.arm() else { return false };
        let by_ns = member.set_look_again(look_again_ns, self.clock.now_ns);
        let due_ns = self.due.get(key.slot as usize).map_or(by_ns, |due_ns| by_ns.min(*due_ns));
        self.rest(key, State::Armed);
        self.set_due(key, due_ns);
        true
    }

    /// Takes a connection out of the list of active ones.
    fn rest(&mut self, key: Key, state: State) {
        let Some(Entry::Member(member)) = self.entries.get_mut(key) else { return };
        let before = core::mem::replace(&mut member.state, state);
        self.counts.armed += u32::from(state == State::Armed);
        if let State::Active(place) = before {
            self.deactivate(place);
        }
    }

    /// Removes a place of the list of active ones. The last one takes it.
    pub(super) fn deactivate(&mut self, place: usize) {
        if place >= self.active.len() {
            return;
        }
        self.active.swap_remove(place);
        if let Some(&moved) = self.active.get(place)
            && let Some(Entry::Member(member)) = self.entries.get_mut(moved)
        {
            member.state = State::Active(place);
        }
    }

    /// Polls a connection from now on.
    pub(super) fn activate(&mut self, key: Key) {
        let (place, mut is_new) = (self.active.len(), false);
        let Some(Entry::Member(member)) = self.entries.get_mut(key) else { return };
        match member.state {
            State::Active(_) => return,
            State::Armed => {
                member.disarm();
                self.counts.armed -= 1;
            }
            // The program may have put another one here, whose keepalives are due.
            State::Ended => is_new = true,
        }
        member.state = State::Active(place);
        member.note_polled(self.clock.now_ns);
        let due_ns = if is_new { 0 } else { member.keepalive_ns() };
        self.active.push(key);
        let due_ns = self.due.get(key.slot as usize).map_or(due_ns, |before_ns| due_ns.min(*before_ns));
        self.set_due(key, due_ns);
    }

    /// Begins to drive a connection that was put into its slot.
    ///
    /// # Errors
    /// The system can watch no more.
    pub(super) fn establish(&mut self, key: Key) -> Result<(), Error> {
        if let Some(Entry::Member(member)) = self.entries.get_mut(key) {
            member.set_key(number(key));
            member.watch(&self.epoll)?;
        }
        self.activate(key);
        self.set_due(key, 0);
        Ok(())
    }

    /// Has all active connections wait for a wake-up that have no work.
    pub(super) fn arm_all(&mut self) {
        let mut place = 0;
        while let Some(&key) = self.active.get(place) {
            // The last one takes the place of one that is armed.
            place += usize::from(!self.arm_one(key));
        }
    }

    /// Returns true while a job goes on at an active connection.
    fn has_jobs(&mut self) -> bool {
        let Self { active, entries, .. } = self;
        active.iter().any(|key| match entries.get_mut(*key) {
            Some(Entry::Member(member)) => member.has_jobs(),
            _ => false,
        })
    }

    /// Sleeps until something is ready or due, or the deadline. `naps`: sleeps in a row beside connections that cannot be woken.
    fn sleep(&mut self, deadline_ns: u64, naps: &mut u32) {
        self.arm_all();
        let most_ns = if self.active.is_empty() {
            *naps = 0;
            SLEEP_MAX_NS
        } else {
            *naps += 1;
            let has_jobs = self.has_jobs();
            // The first time something may just have come.
            if has_jobs {
                JOB_NAP_NS
            } else if *naps == 1 {
                0
            } else {
                nap_ns(*naps)
            }
        };
        let sleep_ns = deadline_ns.min(self.earliest_ns).saturating_sub(self.clock.now_ns).min(most_ns);
        if sleep_ns > 0 {
            self.report.counts.sleeps += 1;
            self.epoll.wait(sleep_ns);
            self.take_ready();
        }
    }
}
