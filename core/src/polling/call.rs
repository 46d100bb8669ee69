//! A call of a poller: rounds over what is active, looks at the clock, at the set and at what is due, and rests in between. The order of all this is here, for a real poller and for a virtual one.
//!
//! ```text
//!  begin ---> round ---> Return       something is reported, or the time is over
//!               |  ^---- Round        a connection became active, or the clock is not looked at yet
//!               |  ^---- Rest         spin, yield
//!               |  ^---- woken <----- Rest: sleep, at most for the time that is told
//! ```

use super::naps::Naps;
use super::pace::{Pace, Pause, PollerClock};
use crate::driver::WaitStrategy;

/// Interface of a poller to its calls.
pub trait CallHost {
    /// Returns the times of the poller's last looks.
    fn clock(&mut self) -> &mut PollerClock;
    /// Returns the count of connections that are looked at in each round.
    fn active_count(&self) -> u32;
    /// Returns the count of connections that wait for a wake-up.
    fn armed_count(&self) -> u32;
    /// Returns a time no later than the earliest at which something is due: [`Rounds::earliest_ns`](super::Rounds::earliest_ns).
    fn earliest_ns(&self) -> u64;
    /// Returns when the call ends without a report. It is asked for after a look at the clock.
    fn deadline_ns(&mut self) -> u64;
    /// Returns true if there is something to report.
    fn has_reports(&self) -> bool;
    /// Returns true if there is no room for more reports.
    fn is_full(&self) -> bool;
    /// Returns true if the program wants the call to end.
    fn is_interrupted(&self) -> bool;

    /// Reads the clock, and [notes](PollerClock::note) the time.
    fn look_at_clock(&mut self);
    /// Looks at each active connection: [`Rounds::round`](super::Rounds::round).
    fn look_at_active(&mut self);
    /// Takes what the set reports, and wakes whom it is about: [`Rounds::wake`](super::Rounds::wake).
    fn take_ready(&mut self);
    /// Does what is due: [`Rounds::take_due`](super::Rounds::take_due).
    fn look_at_due(&mut self);
    /// Has everything that can be woken wait for that. Returns for how long the poller may sleep: [`Rounds::sleep_ns`](super::Rounds::sleep_ns).
    fn prepare_sleep(&mut self, naps: &mut Naps) -> u64;
}

/// Rest between two rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallRest {
    /// None.
    Spin,
    /// Give the core to other threads.
    Yield,
    /// Sleep until the set reports something, for so many nanoseconds at most, and then call [`woken`](Call::woken).
    Sleep(u64),
}

/// Next step of a call after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStep {
    /// Return: there is something to report, or the time is over.
    Return,
    /// Return: the program wants the call to end.
    Interrupted,
    /// Make the next round at once.
    Round,
    /// Rest before the next round.
    Rest(CallRest),
}

/// A call that goes on.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pace: Pace,
    /// Sleeps in a row beside connections that cannot be woken.
    naps: Naps,
    is_poll: bool,
}

impl Call {
    /// Begins a call that waits in this way; `is_poll`: it does not wait.
    #[inline]
    pub fn begin(host: &mut impl CallHost, wait: WaitStrategy, is_poll: bool) -> Self {
        if host.clock().begin_call() {
            look_at_rest(host);
        }
        Self { pace: Pace::new(wait), naps: Naps::default(), is_poll }
    }

    /// Makes a round, and what follows it. Returns the next step.
    #[inline]
    pub fn round(&mut self, host: &mut impl CallHost) -> CallStep {
        let active = host.active_count();
        let has_looked = host.clock().begin_round(active);
        if has_looked {
            look_at_rest(host);
        }
        host.look_at_active();
        if host.has_reports() {
            if host.is_full() {
                host.clock().note_full();
            }
            return CallStep::Return;
        }
        if self.is_poll {
            return CallStep::Return;
        }
        if !self.pace.note_empty(active) {
            return CallStep::Rest(CallRest::Spin);
        }
        self.rest(host, has_looked)
    }

    /// Looks at everything else after a round that found nothing, and rests if that finds nothing either. `has_looked`: the round has begun with that.
    fn rest(&mut self, host: &mut impl CallHost, has_looked: bool) -> CallStep {
        if host.is_interrupted() {
            return CallStep::Interrupted;
        }
        let active = host.active_count();
        if !has_looked || active > 0 && self.pace.is_asleep() {
            look_at_rest(host);
        }
        let now_ns = host.clock().now_ns();
        let deadline_ns = host.deadline_ns();
        if host.has_reports() || now_ns >= deadline_ns {
            return CallStep::Return;
        }
        if host.active_count() > active {
            return CallStep::Round;
        }
        CallStep::Rest(match self.pace.pause() {
            Pause::Spin => CallRest::Spin,
            Pause::Yield => CallRest::Yield,
            Pause::Sleep => match host.prepare_sleep(&mut self.naps).min(deadline_ns - now_ns) {
                0 => CallRest::Spin,
                sleep_ns => CallRest::Sleep(sleep_ns),
            },
        })
    }

    /// Takes what the set reports after a sleep, at the time at which it does.
    pub fn woken(&self, host: &mut impl CallHost) {
        host.look_at_clock();
        host.take_ready();
    }
}

/// Looks at the clock, at what is due, and now and then at what the set reports.
#[cold]
fn look_at_rest(host: &mut impl CallHost) {
    host.look_at_clock();
    let (active, armed) = (host.active_count(), host.armed_count());
    if host.clock().is_set_due(active, armed) {
        host.take_ready();
    }
    if host.clock().now_ns() >= host.earliest_ns() {
        host.look_at_due();
    }
}
