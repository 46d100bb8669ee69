//! Keepalives, and the peer's silence.

use super::Driver;
use crate::fabric::Fabric;
use crate::nanos::Nanos;

/// Interval of the keepalives that this end sends while it waits, ticks, or is blocked elsewhere, unless the connection is idle (wire.md 7.3). A keepalive also repairs a
/// lost acknowledgement, for which a peer waits for up to this time. A shorter one would cost more writes, and over RDMA more packets.
pub const KEEPALIVE_NS: u64 = 200_000_000;
/// Bounds of the interval for any peer. Waits look at the time every 50 ms, so they could not keep a shorter one. A longer one would save nothing.
const INTERVAL_MIN_NS: u64 = 50_000_000;
const INTERVAL_MAX_NS: u64 = 15_000_000_000;
/// Keepalives that are sent within the peer's idle timeout.
const PER_IDLE_TIMEOUT: u64 = 4;
/// Period of the checks that the peer's process or link still exists. Each is a system call, so a wait that spins makes 500 per second,
/// and sees the death of a peer that late.
pub const LIVENESS_CHECK_NS: u64 = 2_000_000;

/// Longest sleep between two checks of time: a quarter of the keepalives' period, by which a keepalive is late at most. An interrupt
/// flag of the user is seen after this time. A longer sleep would delay both, and a shorter one would wake an idle process more often.
pub const SLEEP_MAX_NS: u64 = 50_000_000;

/// Timers of one connection.
#[derive(Clone, Debug)]
pub(super) struct Keepalive {
    idle_timeout_ns: u64,
    /// Interval of a connection that is idle, in the end, and now.
    interval_max_ns: u64,
    interval_ns: u64,
    /// Everything that had been acknowledged when the last keepalive was sent.
    acknowledged: u64,
    /// Times of the last keepalive, and of the last check of the peer's liveness.
    sent: Nanos,
    checked: Nanos,
}

/// Silence of the peer: within one wait, where time outside waits does not count, or as long as a connection is polled.
#[derive(Clone, Debug)]
pub struct Silence {
    /// Time of the last check, and the peer's activity then.
    last: Option<(Nanos, u64)>,
    silent_ns: u64,
}

impl Default for Silence {
    fn default() -> Self {
        Self::new()
    }
}

impl Silence {
    /// Begins without silence.
    #[must_use]
    pub const fn new() -> Self {
        Self { last: None, silent_ns: 0 }
    }

    /// Adds the time since the last check if the peer showed no activity ([`Endpoint::activity`](crate::Endpoint::activity)), and returns for how many nanoseconds the peer has been silent. The time
    /// between two checks counts as at most `most_ns`, since this process may have been stopped, and the peer with it.
    pub fn count(&mut self, activity: u64, now: Nanos, most_ns: u64) -> u64 {
        self.silent_ns = match self.last {
            Some((at, before)) if before == activity => {
                self.silent_ns.saturating_add(now.0.saturating_sub(at.0).min(most_ns))
            }
            _ => 0,
        };
        self.last = Some((now, activity));
        self.silent_ns
    }
}

impl Keepalive {
    pub(super) const fn new(idle_timeout_ns: u64, acknowledged: u64, now: Nanos) -> Self {
        Self {
            idle_timeout_ns,
            interval_max_ns: KEEPALIVE_NS,
            interval_ns: KEEPALIVE_NS,
            acknowledged,
            sent: now,
            checked: now,
        }
    }

    /// Sets for how long the peer lets this end be silent.
    pub(super) fn set_peer_idle_timeout(&mut self, timeout_ns: u64) {
        self.interval_max_ns = (timeout_ns / PER_IDLE_TIMEOUT).clamp(INTERVAL_MIN_NS, INTERVAL_MAX_NS);
        self.interval_ns = self.interval_min_ns();
    }

    /// Returns the interval while the connection is used.
    fn interval_min_ns(&self) -> u64 {
        KEEPALIVE_NS.min(self.interval_max_ns)
    }

    pub(super) const fn set_idle_timeout(&mut self, idle_timeout_ns: u64) {
        self.idle_timeout_ns = idle_timeout_ns;
    }

    pub(super) const fn idle_timeout_ns(&self) -> u64 {
        self.idle_timeout_ns
    }

    /// Notes that a keepalive was due, which acknowledges so much. While that does not change, the next one takes twice as long. `is_sent`: there was room for it.
    fn note_due(&mut self, acknowledged: u64, is_sent: bool, now: Nanos) {
        self.interval_ns = if acknowledged == self.acknowledged && is_sent {
            (2 * self.interval_ns).min(self.interval_max_ns)
        } else {
            self.interval_min_ns()
        };
        (self.acknowledged, self.sent) = (acknowledged, now);
    }
}

impl<F: Fabric> Driver<F> {
    /// Sends a keepalive if one is due, and asks for the release of memory that is not used. For a loop of tries, and for a thread beside
    /// one that is blocked elsewhere.
    pub fn tick(&mut self, fabric: &mut F, now: Nanos) {
        self.release_wanted(fabric);
        self.endpoint.note_growth_time(now);
        if now.0.saturating_sub(self.keepalive.sent.0) >= self.keepalive_interval_ns() {
            // A due acknowledgement may wake the peer. A keepalive must not.
            self.endpoint.acknowledge(fabric);
            fabric.set_quiet(self.endpoint.link_mut(), true);
            let before = self.endpoint.counters().acks_sent;
            self.endpoint.send_keepalive(fabric);
            fabric.set_quiet(self.endpoint.link_mut(), false);
            let is_sent = self.endpoint.counters().acks_sent != before;
            self.keepalive.note_due(self.endpoint.acknowledged(), is_sent, now);
            self.release_unused(fabric, now);
        }
    }

    /// Returns the time from the last keepalive to the next one. What was acknowledged since must be repeated soon, and a tick may release memory.
    fn keepalive_interval_ns(&self) -> u64 {
        let is_used = self.endpoint.acknowledged() != self.keepalive.acknowledged;
        if is_used || self.endpoint.has_grown() || self.endpoint.has_image_beside() {
            self.keepalive.interval_min_ns()
        } else {
            self.keepalive.interval_ns
        }
    }

    /// Returns the time of the next keepalive, at which [`tick`](Self::tick) is due. What arrives until then may make it due earlier, 200 ms after the last one.
    #[must_use]
    pub fn next_tick(&self) -> Nanos {
        Nanos(self.keepalive.sent.0.saturating_add(self.keepalive_interval_ns()))
    }

    /// Returns true, once per period, if the caller is to check that the peer's end exists, and to call
    /// [`note_peer_gone`](Self::note_peer_gone) if it does not.
    pub const fn is_liveness_check_due(&mut self, now: Nanos) -> bool {
        let is_due =
            !self.peer_is_gone && now.0.saturating_sub(self.keepalive.checked.0) >= LIVENESS_CHECK_NS;
        if is_due {
            self.keepalive.checked = now;
        }
        is_due
    }

    /// Notes that the peer's end existed at `now`, after a sleep that watched it.
    pub const fn note_peer_alive(&mut self, now: Nanos) {
        self.keepalive.checked = now;
    }
}
