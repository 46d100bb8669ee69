//! An established connection of a poller: whether it is polled, or waits for a wake-up.
//!
//! ```text
//!              quiet for a while, and armed                    ended, and everything taken
//!  ACTIVE ------------------------------------> ARMED     ACTIVE -------------------------> ENDED
//!    ^                                            |
//!    +--------------------------------------------+
//!      woken; its time has come, and there is work; the program asks for it
//! ```
//!
//! An active connection is looked at in each round, by the flag of its landing buffer. An armed one costs nothing until its descriptor is ready: its peer sees that this end sleeps
//! (wire.md 7). Each is looked at now and then all the same, since its keepalives are due, and since a wake-up can be lost.

use superpipe_core::Nanos;
use superpipe_core::driver::{KEEPALIVE_NS, Silence};

use crate::blocking::dispatch::{AnyConnection, dispatch};
use crate::blocking::polled::{Look, PolledBy, Seen, Tended};
use crate::connection::Connection;
use crate::interest::Interest;
use crate::os::OsError;
use crate::os::epoll::Epoll;

/// Cap on the silence that is counted between two looks, beyond the time after which the second one was due: this process may have been stopped, and the peer with it.
const LATE_SILENCE_NS: u64 = 250_000_000;

/// Time after which a connection that is used again is tended at the latest: an acknowledgement may have to be repeated (wire.md 7.3).
const TEND_AFTER_NS: u64 = KEEPALIVE_NS;

/// Times of looks at armed connections, and of keepalives, are multiples of this.
const LOOK_GRID_NS: u64 = 40_000_000;

/// Time after which looks at an armed connection that found nothing come no more often than its keepalives, where the peer wakes this end by a word that it reads (wire.md 7.2): a wake-up that the request for it crossed would have been found by then. Where a message makes the request,
/// its longest time between two looks while the peer has not answered that.
const ANSWERED_NS: u64 = 100_000_000;
const UNANSWERED_NS: u64 = 10_000_000;

/// An established connection.
pub(crate) struct Member {
    connection: Connection,
    /// Who polls it, as the connection notes it: the program may put another one here.
    polled_by: PolledBy,
    /// Number of the connection whose end was reported.
    ended: Option<u64>,
    pub(crate) interest: Interest,
    pub(crate) state: State,
    /// The program may have done anything with it since the last look.
    is_touched: bool,
    /// The last round in which it was looked at.
    pub(crate) round: u32,
    seen: Seen,
    /// It has moved since its quiet was last measured, or since this time it has not.
    has_moved: bool,
    quiet_since_ns: u64,
    /// Time after which to look again while it is armed, when that is, and when its keepalive is due.
    look_again_ns: u64,
    look_at_ns: u64,
    keepalive_ns: u64,
    silence: Silence,
    /// Time between the last keepalive that was due and the one after it: the peer's silence is counted that rarely.
    tend_after_ns: u64,
    is_silent: bool,
    /// The peer's activity when its silence was last counted.
    activity: u64,
}

/// Polling state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// At this place of the list of active ones.
    Active(usize),
    Armed,
    Ended,
}

impl Member {
    pub(crate) fn new(connection: Connection, polled_by: PolledBy, now_ns: u64) -> Self {
        Self {
            connection,
            polled_by,
            ended: None,
            interest: Interest::default(),
            state: State::Ended,
            is_touched: true,
            round: 0,
            seen: Seen::default(),
            has_moved: true,
            quiet_since_ns: now_ns,
            look_again_ns: 0,
            look_at_ns: 0,
            keepalive_ns: 0,
            silence: Silence::new(),
            tend_after_ns: 0,
            is_silent: false,
            activity: 0,
        }
    }

    /// Sets the number of its key.
    pub(crate) const fn set_key(&mut self, number: u64) {
        self.polled_by.1 = number;
    }

    /// Returns the connection, for the program.
    pub(crate) const fn touch(&mut self) -> &mut Connection {
        self.is_touched = true;
        &mut self.connection
    }

    pub(crate) fn into_connection(self) -> Connection {
        self.connection
    }

    /// Watches the connection's descriptors. Does nothing unless the program may have put another connection here.
    ///
    /// # Errors
    /// The system cannot watch more. The next call tries again.
    #[inline]
    pub(crate) fn watch(&mut self, epoll: &Epoll) -> Result<(), OsError> {
        if self.is_touched { self.watch_again(epoll) } else { Ok(()) }
    }

    fn watch_again(&mut self, epoll: &Epoll) -> Result<(), OsError> {
        self.has_moved = true;
        let polled_by @ (_, number) = self.polled_by;
        let inner = self.connection.inner_mut();
        if dispatch!(AnyConnection, &mut *inner, inner => inner.polled_by()) != Some(polled_by) {
            // Another one was put here, which nobody has armed.
            if self.state == State::Armed {
                self.state = State::Active(0);
            }
            let fds = dispatch!(AnyConnection, &mut *inner, inner => inner.watched());
            fds.iter().filter_map(|fd| fd.fd()).try_for_each(|fd| epoll.watch(fd, number))?;
            dispatch!(AnyConnection, inner, inner => inner.set_polled_by(Some(polled_by)));
        }
        self.is_touched = false;
        Ok(())
    }

    /// Takes the request for a wake-up back, and watches no more.
    pub(crate) fn release(&mut self, epoll: &Epoll) {
        if self.state == State::Armed {
            self.disarm();
        }
        let fds = dispatch!(AnyConnection, self.connection.inner_mut(), inner => inner.watched());
        fds.iter().filter_map(|fd| fd.fd()).for_each(|fd| epoll.forget(fd));
        dispatch!(AnyConnection, self.connection.inner_mut(), inner => inner.set_polled_by(None));
    }

    /// Looks for what is wanted.
    #[inline]
    pub(crate) fn look(&mut self) -> Look {
        let (wanted, seen) = (self.interest, &mut self.seen);
        let look = dispatch!(AnyConnection, self.connection.inner_mut(), inner => inner.look(wanted, seen));
        self.has_moved |= look.is_readable || look.is_writable || look.has_moved;
        look
    }

    /// Looks as [`look`](Self::look) does, for nobody: what is there is not reported by it.
    pub(crate) fn glance(&mut self) -> Look {
        let seen = self.seen;
        let look = self.look();
        self.seen = seen;
        look
    }

    /// Returns true while a job of the fabric goes on.
    pub(crate) fn has_jobs(&mut self) -> bool {
        dispatch!(AnyConnection, self.connection.inner_mut(), inner => inner.has_jobs())
    }

    /// Notes a look that found nothing while it is armed. Returns when to look again: half as often if a look was due, and in the end with its keepalives only.
    pub(crate) fn note_look(&mut self, now_ns: u64) -> u64 {
        if now_ns < self.look_at_ns {
            return self.look_at_ns;
        }
        let has_unwoken = dispatch!(AnyConnection, self.connection.inner_mut(), inner => inner.has_unwoken());
        let most_ns = if has_unwoken { UNANSWERED_NS } else { ANSWERED_NS };
        if self.look_again_ns < most_ns {
            self.look_again_ns *= 2;
        } else if !has_unwoken {
            self.look_again_ns = u64::MAX;
        }
        self.look_at(now_ns)
    }

    /// Notes that the connection has ended. Returns true if that was not reported.
    pub(crate) fn note_ended(&mut self) -> bool {
        let number = dispatch!(AnyConnection, self.connection.inner_mut(), inner => inner.number());
        self.ended.replace(number) != Some(number)
    }

    /// Notes that it is polled again.
    pub(crate) fn note_polled(&mut self, now_ns: u64) {
        self.has_moved = true;
        self.keepalive_ns = self.keepalive_ns.min(now_ns.saturating_add(TEND_AFTER_NS));
    }

    /// Returns true if it has not moved for so long.
    #[inline]
    pub(crate) const fn is_quiet(&mut self, now_ns: u64, quiet_ns: u64) -> bool {
        if self.has_moved {
            (self.has_moved, self.quiet_since_ns) = (false, now_ns);
        }
        now_ns.saturating_sub(self.quiet_since_ns) >= quiet_ns
    }

    /// Sets the time after which to look again while it is armed. Returns when that is.
    pub(crate) const fn set_look_again(&mut self, look_again_ns: u64, now_ns: u64) -> u64 {
        self.look_again_ns = look_again_ns;
        self.look_at(now_ns)
    }

    const fn look_at(&mut self, now_ns: u64) -> u64 {
        self.look_at_ns = rounded(now_ns, now_ns.saturating_add(self.look_again_ns));
        self.look_at_ns
    }

    /// Acknowledges what was taken, unless more is there.
    pub(crate) fn settle(&mut self) {
        dispatch!(AnyConnection, self.connection.inner_mut(), inner => inner.settle());
    }

    /// Returns the count of the peer's activity.
    pub(crate) fn activity(&mut self) -> u64 {
        dispatch!(AnyConnection, self.connection.inner_mut(), inner => inner.activity())
    }

    /// Returns for how long the peer may be silent.
    pub(crate) fn idle_timeout_ns(&mut self) -> u64 {
        dispatch!(AnyConnection, self.connection.inner_mut(), inner => inner.idle_timeout_ns())
    }

    /// Returns true while the peer has been silent for the idle timeout.
    pub(crate) fn is_silent(&mut self) -> bool {
        self.is_silent && self.activity() == self.activity
    }

    /// Asks for a wake-up, and looks once more. Returns the time after which to look again at the latest. `None`: there is work.
    pub(crate) fn arm(&mut self) -> Option<u64> {
        let wanted = self.interest;
        dispatch!(AnyConnection, self.connection.inner_mut(), inner => inner.arm(wanted))
    }

    pub(crate) fn disarm(&mut self) {
        dispatch!(AnyConnection, self.connection.inner_mut(), inner => inner.disarm());
    }

    /// Checks that the peer's end exists.
    pub(crate) fn check_peer(&mut self) {
        dispatch!(AnyConnection, self.connection.inner_mut(), inner => inner.check_peer());
    }

    /// Returns when its keepalive is due.
    pub(crate) const fn keepalive_ns(&self) -> u64 {
        self.keepalive_ns
    }

    /// Sends a keepalive that is due, and sets when the next one is. Returns true if the connection is to be looked at in each round, and true if the peer has just been silent for the idle timeout.
    pub(crate) fn tend(&mut self, now_ns: u64) -> [bool; 2] {
        let inner = self.connection.inner_mut();
        let tended = dispatch!(AnyConnection, &mut *inner, inner => inner.tend(Nanos(now_ns)));
        let idle_timeout_ns = dispatch!(AnyConnection, inner, inner => inner.idle_timeout_ns());
        let Tended { activity, next: Nanos(next_ns), is_busy } = tended;
        let most_ns = self.tend_after_ns.saturating_add(LATE_SILENCE_NS);
        self.activity = activity;
        let silent_ns = self.silence.count(activity, Nanos(now_ns), most_ns);
        let was_silent = core::mem::replace(&mut self.is_silent, silent_ns >= idle_timeout_ns);
        let mut next_ns = next_ns;
        if !self.is_silent {
            next_ns = next_ns.min(now_ns.saturating_add(idle_timeout_ns - silent_ns));
        }
        let has_unwoken = dispatch!(AnyConnection, self.connection.inner_mut(), inner => inner.has_unwoken());
        // While it is polled, what it receives may have a keepalive be due earlier.
        if has_unwoken || matches!(self.state, State::Active(_)) {
            next_ns = next_ns.min(now_ns.saturating_add(TEND_AFTER_NS));
        }
        // A short idle timeout of the peer leaves no time to be late.
        let is_near = next_ns.saturating_sub(now_ns) < TEND_AFTER_NS;
        self.keepalive_ns =
            if is_near { next_ns } else { next_ns.div_ceil(LOOK_GRID_NS).saturating_mul(LOOK_GRID_NS) };
        self.tend_after_ns = self.keepalive_ns.saturating_sub(now_ns);
        [is_busy, self.is_silent && !was_silent]
    }
}

/// Rounds a time down to the grid, but not to `now_ns`: a thousand connections are looked at together, and a sleep is not ended for each.
const fn rounded(now_ns: u64, by_ns: u64) -> u64 {
    let rounded_ns = by_ns / LOOK_GRID_NS * LOOK_GRID_NS;
    if rounded_ns > now_ns { rounded_ns } else { by_ns }
}
