//! A call of [`Poller::poll`]: rounds over what is active, looks at what the kernel reports and at what is due, and the wait.

use core::hint;
use std::thread;

use superpipe_core::driver::SLEEP_MAX_NS;
use superpipe_core::polling::{CallPace, CallRest, CallStep, Key, Naps, Report, Reports, Woken};

use super::entry::Entry;
use super::events::{PollEvent, PollEvents};
use super::{Counts, Poller};
use crate::deadline::{ArmedDeadline, Deadline};
use crate::error::Error;
use crate::os::monotonic_ns;

/// Number of the wake-up by threads that connect, which no key has: a poller has fewer slots.
pub(super) const WAKEUP: u64 = u64::MAX;
/// Number of the timer for programs that wait for the set themselves.
pub(super) const TIMER: u64 = u64::MAX - 1;
/// Number of what connections share.
pub(super) const SHARDS: u64 = u64::MAX - 2;

impl Reports for PollEvents {
    #[inline]
    fn has_room(&self) -> bool {
        self.has_room_for_one()
    }

    fn report(&mut self, connection: Key, report: Report) {
        self.push(match report {
            Report::Readable => PollEvent::Readable { connection },
            Report::Writable => PollEvent::Writable { connection },
            Report::Silent => PollEvent::Silent { connection },
            Report::Ended => PollEvent::Ended { connection },
        });
    }
}

impl Poller {
    /// Reports what can be done, and makes progress on everything. Waits until there is something to report, or the deadline has passed: then there are no events. With a deadline of
    /// [`Duration::ZERO`](core::time::Duration::ZERO) it does not wait. The kernel ends a long sleep late by up to 0.1 % of it.
    ///
    /// It is to be called often, as each connection's [`progress`](crate::Connection::progress) would have to be: it sends keepalives, which may be due every 200 ms, and answers that the protocol asks for. Peers give
    /// up after their idle timeout, 30 s by default. What a peer rejects is reported by [`Connection::poll_event`](crate::Connection::poll_event).
    ///
    /// # Errors
    /// `Interrupted`: the [interrupt flag](super::PollerOptions::interrupt) is set. What happens to one connection is reported, and is no error of this call.
    pub fn poll(&mut self, events: &mut PollEvents, deadline: impl Into<Deadline>) -> Result<(), Error> {
        let polled = self.poll_rounds(events, deadline.into());
        if !events.is_empty() {
            self.naps.reset();
        }
        polled
    }

    fn poll_rounds(&mut self, events: &mut PollEvents, deadline: Deadline) -> Result<(), Error> {
        let mut armed = ArmedDeadline::Unarmed(deadline);
        let (mut pace, mut naps) = (CallPace::new(self.options.wait), Naps::default());
        events.clear();
        if self.clock.begin_call() {
            self.look_at_rest(events);
        }
        loop {
            self.round(events);
            if !events.is_empty() || deadline.is_poll() {
                return Ok(());
            }
            if !pace.note_empty() {
                hint::spin_loop();
                continue;
            }
            if self.options.is_interrupted() {
                return Err(Error::interrupted());
            }
            if self.clock.fresh_ns().is_none() {
                self.look_at_clock();
            }
            let active = self.rounds.active_count();
            if active > 0 {
                self.look_at_rest(events);
            }
            let deadline_ns = armed.at_ns(self.clock.now_ns());
            let is_late = self.clock.now_ns() >= deadline_ns;
            let has_more_active = self.rounds.active_count() > active;
            match pace.after_look(!events.is_empty(), is_late, has_more_active) {
                CallStep::Return => return Ok(()),
                CallStep::Round | CallStep::Rest(CallRest::Spin) => {}
                CallStep::Rest(CallRest::Yield) => thread::yield_now(),
                CallStep::Rest(CallRest::Sleep) => self.sleep(deadline_ns, &mut naps),
            }
        }
    }

    /// Makes one round.
    #[inline]
    fn round(&mut self, events: &mut PollEvents) {
        if self.clock.begin_round(self.rounds.active_count()) {
            self.look_at_rest(events);
        }
        self.rounds.round(&mut self.epoll, self.clock.fresh_ns(), events);
    }

    fn look_at_clock(&mut self) {
        self.clock.note(monotonic_ns());
        if self.report.is_due(self.clock.now_ns()) {
            self.copy_counts();
        }
    }

    /// Copies what the poller counts to the page of metrics.
    #[cold]
    #[inline(never)]
    pub(super) fn copy_counts(&mut self) {
        let Counts { connections, listeners } = self.counts;
        let [active, armed] = [self.rounds.active_count(), self.rounds.armed_count()];
        let places = [connections, active, armed, listeners].map(u64::from);
        let (rounds, calls) = self.clock.counts();
        self.report.copy(self.clock.now_ns(), rounds, calls, places);
    }

    /// Looks at the clock, at what is due, and now and then at what the kernel reports.
    #[cold]
    fn look_at_rest(&mut self, events: &mut PollEvents) {
        self.look_at_clock();
        if self.clock.is_set_due(self.rounds.active_count()) {
            self.take_ready();
        }
        if self.clock.now_ns() >= self.rounds.earliest_ns() {
            self.look_at_due(events);
        }
    }

    /// Takes what the kernel reports.
    pub(super) fn take_ready(&mut self) {
        self.clock.note_set();
        let mut are_shards_ready = false;
        for number in self.epoll.ready() {
            match number {
                TIMER => {}
                SHARDS => are_shards_ready = true,
                WAKEUP => self.wake_connects(),
                _ => self.wake(number),
            }
        }
        self.take_woken(are_shards_ready);
    }

    /// Takes what is reported of connections by what they share. Returns true if there was any.
    fn take_woken(&mut self, is_ready: bool) -> bool {
        let mut woken = self.shards.woken(is_ready);
        let has_any = !woken.is_empty();
        while !woken.is_empty() {
            woken.iter().for_each(|number| self.wake(*number));
            woken = self.shards.woken(false);
        }
        has_any
    }

    /// Has what the armed connections share be reported. Returns true if one of them is to be looked at already.
    pub(super) fn arm_shards(&mut self) -> bool {
        self.shards.arm() && self.take_woken(false)
    }

    /// Handles the report of this number.
    fn wake(&mut self, number: u64) {
        match self.rounds.wake(number, &mut self.epoll, self.clock.now_ns()) {
            Woken::Armed => self.report.counts.wakeups += 1,
            Woken::Other(key) => self.wake_other(key),
            Woken::Polled | Woken::Stale => {}
        }
    }

    /// Handles a report for a listener or a connect.
    fn wake_other(&mut self, key: Key) {
        match self.rounds.get_mut(key) {
            Some(Entry::Listening(listening)) => listening.wake(),
            Some(Entry::Connecting(_)) => {}
            Some(Entry::Failed(_) | Entry::Member(..)) | None => return,
        }
        self.rounds.set_due(key, 0);
    }

    /// Looks at everything that is due, as long as there is room for events. A flood of clients leaves room for connections.
    fn look_at_due(&mut self, events: &mut PollEvents) {
        while let Some(key) = self.rounds.take_due(self.clock.now_ns(), events.has_room_beside()) {
            match self.rounds.get(key) {
                Some(Entry::Listening(_)) => self.accept(key, events),
                Some(Entry::Connecting(_)) => self.drive_connect(key, events),
                Some(Entry::Member(..)) => {
                    self.rounds.tend(key, &mut self.epoll, self.clock.now_ns(), events);
                }
                Some(Entry::Failed(_)) | None => {}
            }
        }
    }

    /// Sleeps until something is ready or due, or the deadline. `naps`: sleeps in a row beside connections that cannot be woken.
    fn sleep(&mut self, deadline_ns: u64, naps: &mut Naps) {
        let now_ns = self.clock.now_ns();
        let due_ns = self.rounds.sleep_ns(&mut self.epoll, now_ns, naps);
        if self.arm_shards() {
            return;
        }
        // A flag that is set makes no descriptor ready.
        let most_ns = if self.options.interrupt.is_some() { SLEEP_MAX_NS } else { u64::MAX };
        let sleep_ns = due_ns.min(deadline_ns.saturating_sub(now_ns)).min(most_ns);
        if sleep_ns > 0 {
            self.report.counts.sleeps += 1;
            if sleep_ns > SLEEP_MAX_NS {
                // Nothing copies them before it ends.
                self.copy_counts();
            }
            self.epoll.wait(sleep_ns);
            // What is reported is handled at the time at which it is.
            self.look_at_clock();
            self.take_ready();
        }
    }
}
