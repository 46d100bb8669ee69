//! Waiting, as a machine: what comes after a round of attempts, and what a look at the time decides.
//!
//! A wait is a loop of attempts and rounds of progress. Every so many rounds, with work or without, it looks at what costs
//! more: the clock, the caller's interrupt flag, whether the peer lives, and for how long it was silent.

use core::fmt;
use core::time::Duration;

use super::keepalive::{NAP_NS, Silence};
use super::pace::{Pace, Rounds};
use super::{Driver, Ended, Rest};
use crate::fabric::Fabric;
use crate::nanos::Nanos;
use crate::planted::{Bug, is_planted};

/// Attempts between two rounds of progress: what is awaited is polled alone, so that it is seen at once.
pub const ATTEMPTS: u32 = 8;
/// Rounds with work between two looks. A round moves a landing buffer at most (100 µs), or a bounded number of slices; and as
/// little as one control message, so that the look costs less than a hundredth.
pub const BUSY_LOOK_ROUNDS: u32 = 64;

/// One wait of an operation.
#[derive(Clone, Debug)]
pub struct Wait {
    rounds: Rounds,
    busy_rounds: u32,
    silence: Silence,
}

/// Next step of a wait, after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Attempts, at once.
    Again,
    /// [`Driver::look`], then attempts.
    Look,
    /// A rest, since there was no work.
    Rest(Rest),
    /// The connection has ended.
    Ended(Ended),
}

/// Reason why a wait is over before its operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookFailed {
    /// The deadline passed.
    Deadline,
    /// The peer was silent for the idle timeout, in nanoseconds.
    Silent(u64),
}

impl fmt::Display for LookFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadline => f.write_str("the deadline passed"),
            Self::Silent(ns) => {
                write!(f, "the peer was silent for {:?}, the idle timeout", Duration::from_nanos(*ns))
            }
        }
    }
}

impl<F: Fabric> Driver<F> {
    /// Begins a wait.
    #[inline]
    pub const fn begin_wait(&self) -> Wait {
        Wait { rounds: Rounds::new(&self.pace), busy_rounds: 0, silence: Silence::new() }
    }

    /// One round, after attempts of which one `has_moved` a part. A peer that is gone is lost only after a whole round in
    /// which nothing moved: what it wrote before is taken out first.
    #[inline]
    pub fn round(&mut self, fabric: &mut F, wait: &mut Wait, has_moved: bool) -> Next {
        if self.progress(fabric) || has_moved {
            if is_planted(Bug::DeadlineWhenIdle) {
                return Next::Again;
            }
            return wait.count_busy(&self.pace);
        }
        if self.may_have_ended() {
            return self.ended(fabric).map_or(Next::Again, Next::Ended);
        }
        self.rest(wait)
    }

    /// Looks at the time, in a wait until `deadline`. Returns the nanoseconds that may be slept before the next look.
    ///
    /// # Errors
    /// [`LookFailed`]. The operation that was waited for is as it was, and can be driven on.
    pub fn look(
        &mut self,
        fabric: &mut F,
        wait: &mut Wait,
        now: Nanos,
        deadline: Nanos,
    ) -> Result<u64, LookFailed> {
        self.tick(fabric, now);
        self.endpoint.look(fabric);
        let silent_ns = wait.silence.count(self.endpoint.heard(), now);
        let idle_timeout_ns = self.keepalive.idle_timeout_ns();
        if silent_ns >= idle_timeout_ns {
            return Err(LookFailed::Silent(idle_timeout_ns));
        }
        if now >= deadline {
            return Err(LookFailed::Deadline);
        }
        Ok((deadline.0 - now.0).min(idle_timeout_ns - silent_ns).min(NAP_NS))
    }
}

impl<F: Fabric> Driver<F> {
    /// Notes how long a yield took ([`Rest::Yield`]).
    pub const fn note_yield(&mut self, wait: &Wait, is_first: bool, yielded_ns: u64) {
        self.pace.note_yield(is_first, yielded_ns, &wait.rounds);
    }

    /// Returns the rest after a round in which nothing moved, on a connection that has not ended.
    pub(super) fn rest(&mut self, wait: &mut Wait) -> Next {
        Next::Rest(wait.rounds.idle(&mut self.pace))
    }
}

impl Wait {
    /// A round with work.
    #[inline]
    pub(super) const fn count_busy(&mut self, pace: &Pace) -> Next {
        self.rounds = Rounds::new(pace);
        self.busy_rounds += 1;
        if self.busy_rounds < BUSY_LOOK_ROUNDS {
            return Next::Again;
        }
        self.busy_rounds = 0;
        Next::Look
    }
}
