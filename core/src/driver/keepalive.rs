//! Showing life, and judging the peer's silence.

use super::Driver;
use crate::fabric::Fabric;
use crate::nanos::Nanos;

/// Period of the signs of life that this end shows while it waits, ticks, or is blocked elsewhere (wire.md 7.3).
pub const KEEPALIVE_NS: u64 = 200_000_000;
/// Period of the looks, each a system call, at whether the peer's end still exists.
pub const ALIVE_NS: u64 = 2_000_000;

/// The longest sleep between two looks at the time.
pub const NAP_NS: u64 = 50_000_000;

/// The timers of one connection.
#[derive(Clone, Debug)]
pub(super) struct Keepalive {
    idle_timeout_ns: u64,
    /// Times of the last sign of life shown, and of the last look at the peer's end.
    shown: Nanos,
    checked: Nanos,
}

/// The peer's silence in one wait: while the application does something else, the peer is not waited for.
#[derive(Clone, Debug)]
pub(super) struct Silence {
    /// Time of the last look, and what was heard of the peer until then.
    looked: Option<(Nanos, u64)>,
    silent_ns: u64,
}

impl Silence {
    pub(super) const fn new() -> Self {
        Self { looked: None, silent_ns: 0 }
    }

    /// Adds the time since the last look if nothing was heard of the peer, and returns for how long the peer has been silent. The
    /// time between two looks counts as [`NAP_NS`] at most: an end that was stopped has not listened, and its peer may have been
    /// stopped with it.
    pub(super) fn count(&mut self, heard: u64, now: Nanos) -> u64 {
        self.silent_ns = match self.looked {
            Some((at, before)) if before == heard => {
                self.silent_ns.saturating_add(now.0.saturating_sub(at.0).min(NAP_NS))
            }
            _ => 0,
        };
        self.looked = Some((now, heard));
        self.silent_ns
    }
}

impl Keepalive {
    pub(super) const fn new(idle_timeout_ns: u64, now: Nanos) -> Self {
        Self { idle_timeout_ns, shown: now, checked: now }
    }

    pub(super) const fn set_idle_timeout(&mut self, idle_timeout_ns: u64) {
        self.idle_timeout_ns = idle_timeout_ns;
    }

    pub(super) const fn idle_timeout_ns(&self) -> u64 {
        self.idle_timeout_ns
    }

    /// Returns true, once a period, if a sign of life is due.
    const fn takes_turn(&mut self, now: Nanos) -> bool {
        let is_due = now.0.saturating_sub(self.shown.0) >= KEEPALIVE_NS;
        if is_due {
            self.shown = now;
        }
        is_due
    }
}

impl<F: Fabric> Driver<F> {
    /// Shows life if that is due: for a loop of tries, and for a thread beside one that is blocked elsewhere.
    pub fn tick(&mut self, fabric: &mut F, now: Nanos) {
        if self.keepalive.takes_turn(now) {
            // A due acknowledgement may wake the peer. A sign of life must not.
            self.endpoint.acknowledge(fabric);
            fabric.set_quiet(self.endpoint.link_mut(), true);
            self.endpoint.show_life(fabric);
            fabric.set_quiet(self.endpoint.link_mut(), false);
        }
    }

    /// Time of the next [`tick`](Self::tick) that does something.
    #[must_use]
    pub const fn next_tick(&self) -> Nanos {
        Nanos(self.keepalive.shown.0.saturating_add(KEEPALIVE_NS))
    }

    /// Returns true, once a period, if the caller is to look whether the peer's end exists, and to tell
    /// [`peer_is_gone`](Self::peer_is_gone) if it does not.
    pub const fn checks_liveness(&mut self, now: Nanos) -> bool {
        let is_due = !self.peer_is_gone && now.0.saturating_sub(self.keepalive.checked.0) >= ALIVE_NS;
        if is_due {
            self.keepalive.checked = now;
        }
        is_due
    }

    /// Notes that the peer's end existed at `now`: a sleep has watched it.
    pub const fn peer_was_alive(&mut self, now: Nanos) {
        self.keepalive.checked = now;
    }
}
