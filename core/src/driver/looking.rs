//! Looks at a connection that one thread drives beside many others, and the looks that a sleep begins with.

use super::Driver;
use crate::fabric::Fabric;
use crate::nanos::Nanos;

/// Events that a connection reports when it is polled beside others, besides its end and its peer's silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// Report that something can be received. Without it what arrives stays in the landing buffer. Default: true.
    pub readable: bool,
    /// Report that something can be sent. To be asked for once a try found no room. Default: false.
    pub writable: bool,
}

impl Interest {
    pub(crate) const DEFAULT: Self = Self { readable: true, writable: false };
    /// Report only its end and its peer's silence.
    pub const NONE: Self = Self { readable: false, writable: false };
}

impl Default for Interest {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Result of a look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Something can be taken that was wanted.
    pub is_readable: bool,
    /// Something can be sent, and that was wanted.
    pub is_writable: bool,
    /// Progress was made.
    pub has_moved: bool,
    /// The connection has ended, and what arrived before is taken, or was left at an earlier look.
    pub has_ended: bool,
}

impl Look {
    /// Returns true if it found anything.
    #[must_use]
    pub const fn has_work(&self) -> bool {
        self.is_readable || self.is_writable || self.has_moved || self.has_ended
    }
}

/// Messages that the look before left there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Blocks that were consumed when something could be taken, once the end of the connection was known: then nothing more arrives.
    consumed: Option<u64>,
}

impl Seen {
    pub(crate) const NONE: Self = Self { consumed: None };
}

/// State of a connection after a keepalive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tended {
    /// The peer's activity, which changes unless it is silent.
    pub activity: u64,
    /// Time of the next keepalive.
    pub next: Nanos,
    /// It is to be looked at in each round: something moved, a job goes on, or the peer is gone.
    pub is_busy: bool,
}

impl<F: Fabric> Driver<F> {
    /// Looks for what is wanted. Every few looks make a round of progress, and each one at a connection that may have ended.
    #[inline]
    pub fn look(&mut self, fabric: &mut F, wanted: Interest, seen: &mut Seen) -> Look {
        let is_readable = self.endpoint.is_readable(fabric);
        let mut look = Look { is_readable: wanted.readable && is_readable, ..Look::default() };
        let was_left = is_readable
            && self.may_have_ended()
            && seen.consumed.replace(self.endpoint.consumed()) == Some(self.endpoint.consumed());
        // Nobody wakes this end when a job ends, and rounds may have to make its steps.
        if self.count_empty() || self.has_jobs() {
            look.has_moved = self.progress(fabric);
            let may_end = !look.has_moved && (!is_readable || was_left || !wanted.readable);
            look.has_ended = may_end && self.ended(fabric).is_some();
        }
        // What is sent to a peer that is gone is lost.
        look.is_writable = wanted.writable && !self.peer_is_gone && self.endpoint.is_writable(fabric);
        look
    }

    /// Prepares a sleep: takes what would wake this end, and acknowledges what was taken. Returns false if this end must not sleep, since it has ended, or nobody would wake it.
    pub fn prepare_sleep(&mut self, fabric: &mut F) -> bool {
        if self.may_have_ended() || self.has_jobs() {
            return false;
        }
        // Unread acknowledgements would count as arrivals, and rounds do not poll them.
        self.endpoint.poll_acknowledgements(fabric);
        self.endpoint.acknowledge(fabric);
        true
    }

    /// Looks once more, after the peer or the device was asked for a wake-up: what came before that wakes nobody. Returns true if there is work, so that this end must not sleep.
    pub fn has_work(&mut self, fabric: &mut F, wanted: Interest) -> bool {
        planted!(ArmMissesByte => return false);
        self.progress(fabric)
            || wanted.readable && self.endpoint.is_readable(fabric)
            || wanted.writable && self.endpoint.is_writable(fabric)
            || self.endpoint.closed().is_some()
    }

    /// Reads what the peer sent, after a [`tick`](Self::tick).
    pub fn tended(&mut self, fabric: &mut F) -> Tended {
        let has_moved = self.progress(fabric);
        self.endpoint.poll_acknowledgements(fabric);
        Tended {
            activity: self.endpoint.activity(),
            next: self.next_tick(),
            is_busy: has_moved || self.has_jobs() || self.peer_is_gone,
        }
    }
}
