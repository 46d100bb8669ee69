//! A call of [`Poller::poll`]: what core's [`Call`] decides about, with the clock, the set of descriptors and the listeners.

use core::hint;
use std::thread;

use superpipe_core::driver::SLEEP_MAX_NS;
use superpipe_core::polling::{
    Call, CallHost, CallRest, CallStep, Key, Naps, PollerClock, Report, Reports, Woken,
};

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
        events.clear();
        let (wait, is_poll) = (self.options.wait, deadline.is_poll());
        let mut host = Host { poller: self, events, deadline: ArmedDeadline::Unarmed(deadline) };
        let mut call = Call::begin(&mut host, wait, is_poll);
        loop {
            match call.round(&mut host) {
                CallStep::Return => return Ok(()),
                CallStep::Interrupted => return Err(Error::interrupted()),
                CallStep::Round => {}
                CallStep::Rest(CallRest::Spin) => hint::spin_loop(),
                CallStep::Rest(CallRest::Yield) => thread::yield_now(),
                CallStep::Rest(CallRest::Sleep(sleep_ns)) => {
                    host.poller.sleep(sleep_ns);
                    call.woken(&mut host);
                }
            }
        }
    }

    fn look_at_clock(&mut self) {
        self.clock.note(monotonic_ns());
        if self.metrics.is_due(self.clock.now_ns()) {
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
        self.metrics.copy(self.clock.now_ns(), rounds, calls, places);
    }

    /// Takes what the kernel reports. Returns true if that may not be all.
    pub(super) fn take_ready(&mut self) -> bool {
        self.clock.note_set();
        let mut are_shards_ready = false;
        let ready = self.epoll.ready();
        let is_full = ready.is_full();
        for number in ready {
            match number {
                TIMER => self.timer.note_expired(),
                SHARDS => are_shards_ready = true,
                WAKEUP => self.wake_connects(),
                _ => self.wake(number),
            }
        }
        self.take_woken(are_shards_ready);
        is_full
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
            Woken::Armed => self.metrics.counts.wakeups += 1,
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

    /// Sleeps until something is ready, or this time has passed.
    fn sleep(&mut self, sleep_ns: u64) {
        self.metrics.counts.sleeps += 1;
        if sleep_ns > SLEEP_MAX_NS {
            // Nothing copies them before it ends.
            self.copy_counts();
        }
        self.epoll.wait(sleep_ns);
    }
}

/// A poller in a call.
struct Host<'a> {
    poller: &'a mut Poller,
    events: &'a mut PollEvents,
    deadline: ArmedDeadline,
}

impl CallHost for Host<'_> {
    #[inline]
    fn clock(&mut self) -> &mut PollerClock {
        &mut self.poller.clock
    }

    #[inline]
    fn active_count(&self) -> u32 {
        self.poller.rounds.active_count()
    }

    fn armed_count(&self) -> u32 {
        self.poller.rounds.armed_count()
    }

    #[inline]
    fn earliest_ns(&self) -> u64 {
        self.poller.rounds.earliest_ns()
    }

    fn deadline_ns(&mut self) -> u64 {
        self.deadline.at_ns(self.poller.clock.now_ns())
    }

    #[inline]
    fn has_reports(&self) -> bool {
        !self.events.is_empty()
    }

    #[inline]
    fn is_full(&self) -> bool {
        !self.events.has_room_for_one()
    }

    #[inline]
    fn is_interrupted(&self) -> bool {
        self.poller.options.is_interrupted()
    }

    fn look_at_clock(&mut self) {
        self.poller.look_at_clock();
    }

    #[inline]
    fn look_at_active(&mut self) {
        let Poller { rounds, epoll, clock, .. } = &mut *self.poller;
        rounds.round(epoll, clock.fresh_ns(), self.events);
    }

    fn take_ready(&mut self) {
        // Those that are left make the set ready for the next sleep.
        let _ = self.poller.take_ready();
    }

    fn look_at_due(&mut self) {
        self.poller.look_at_due(self.events);
    }

    fn prepare_sleep(&mut self, naps: &mut Naps) -> u64 {
        let Poller { rounds, epoll, clock, .. } = &mut *self.poller;
        let due_ns = rounds.sleep_ns(epoll, clock.now_ns(), naps);
        if self.poller.arm_shards() {
            return 0;
        }
        // A flag that is set makes no descriptor ready.
        if self.poller.options.interrupt.is_some() { due_ns.min(SLEEP_MAX_NS) } else { due_ns }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::super::PollerOptions;
    use super::*;

    /// As if `arm` had read the clock, the time had come, and then the set was asked.
    #[test]
    fn a_time_that_comes_while_it_is_armed_is_not_lost() {
        let mut poller = Poller::new(PollerOptions::default()).unwrap();
        let now_ns = monotonic_ns();
        let at_ns = now_ns + 1_000_000;
        poller.timer.set(at_ns, now_ns);
        thread::sleep(Duration::from_millis(5));
        poller.take_ready();
        poller.timer.set(at_ns, now_ns);
        poller.epoll.wait(200_000_000);
        assert!(poller.epoll.ready().contains(&TIMER), "nothing wakes whoever waits for the set");
    }
}
