//! State machine of a wait: the next step after each round of attempts, and the checks of time.
//!
//! A wait is a loop of attempts and rounds of progress. At intervals, with work or without, the caller checks what costs more: the
//! clock, its interrupt flag, the peer's liveness, and the peer's silence.

use core::fmt;
use core::time::Duration;

use super::keepalive::{SLEEP_MAX_NS, Silence};
use super::pace::{Pace, Rounds};
use super::{Drive, Driver, Ended, Rest};
use crate::fabric::Fabric;
use crate::nanos::Nanos;

/// Attempts between two rounds of progress, so that the awaited message is polled most of the time.
pub const ATTEMPTS_PER_ROUND: u32 = 8;
/// Rounds with work between two checks of time. A round moves about 1 MiB (100 µs), 1,024 blocks or 16,384 slices at most, and at least a
/// control message, so that a check costs less than 1 % of the rounds.
pub const BUSY_ROUNDS_PER_CHECK: u32 = 64;
/// Rounds without work, between two with work, that count as one with work: a wait whose work comes slowly checks the time as well.
const IDLE_ROUNDS_PER_BUSY: u32 = 2;

/// State of a wait.
#[derive(Clone, Debug)]
pub struct Wait {
    rounds: Rounds,
    busy_rounds: u32,
    silence: Silence,
}

/// Next step of a wait, after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Attempt again, at once.
    Again,
    /// Call [`Driver::check_time`], then attempt again.
    CheckTime,
    /// Rest, since there was no work, then attempt again.
    Rest(Rest),
    /// The connection has ended.
    Ended(Ended),
}

/// Failure of a wait whose operation has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFailed {
    /// The deadline passed.
    Deadline,
    /// The peer was silent for the idle timeout, in nanoseconds.
    Silent(u64),
}

impl fmt::Display for WaitFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadline => {
                f.write_str("the deadline passed; set a later one, or find what the peer waits for")
            }
            Self::Silent(ns) => {
                write!(
                    f,
                    "the peer was silent for {:?}, the idle timeout; raise it if the peer may be stopped or busy for longer",
                    Duration::from_nanos(*ns)
                )
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

    /// Makes an attempt of a wait. One that has only discarded a part of a rejected transfer has moved that: the next one may find what is
    /// behind it.
    #[inline]
    pub fn attempt<T>(
        &mut self,
        fabric: &mut F,
        attempt: impl FnOnce(&mut Self, &mut F) -> Drive<T>,
    ) -> Drive<T> {
        let before = self.endpoint.consumed();
        match attempt(self, fabric) {
            Drive::Idle if self.endpoint.consumed() != before => Drive::Moved,
            driven => driven,
        }
    }

    /// Makes one round, after attempts of which one `has_moved` a part. A peer that is gone is reported only after a complete round in
    /// which nothing moved, so that all that it wrote before is taken out first.
    #[inline]
    pub fn round(&mut self, fabric: &mut F, wait: &mut Wait, has_moved: bool) -> Next {
        if self.progress(fabric) || has_moved {
            planted!(DeadlineWhenIdle => return Next::Again);
            return wait.count_busy(&self.pace);
        }
        if self.may_have_ended() && !self.endpoint.is_releasing() {
            return self.ended(fabric).map_or(Next::Again, Next::Ended);
        }
        self.rest(wait)
    }

    /// Checks the time in a wait until `deadline`. Returns the nanoseconds that the caller may sleep before the next check.
    ///
    /// # Errors
    /// [`WaitFailed`]. The operation is unchanged, and can be driven on.
    pub fn check_time(
        &mut self,
        fabric: &mut F,
        wait: &mut Wait,
        now: Nanos,
        deadline: Nanos,
    ) -> Result<u64, WaitFailed> {
        self.tick(fabric, now);
        self.endpoint.poll_acknowledgements(fabric);
        let silent_ns = wait.silence.count(self.endpoint.activity(), now, SLEEP_MAX_NS);
        let idle_timeout_ns = self.keepalive.idle_timeout_ns();
        if silent_ns >= idle_timeout_ns {
            return Err(WaitFailed::Silent(idle_timeout_ns));
        }
        if now >= deadline {
            return Err(WaitFailed::Deadline);
        }
        Ok((deadline.0 - now.0).min(idle_timeout_ns - silent_ns).min(SLEEP_MAX_NS))
    }
}

impl<F: Fabric> Driver<F> {
    /// Notes the duration of a yield ([`Rest::Yield`]).
    pub const fn note_yield(&mut self, wait: &Wait, is_first: bool, yielded_ns: u64) {
        self.pace.note_yield(is_first, yielded_ns, &wait.rounds);
    }

    /// Returns the rest after a round in which nothing moved, on a connection that has not ended.
    pub(super) fn rest(&mut self, wait: &mut Wait) -> Next {
        match wait.rounds.idle(&mut self.pace) {
            Rest::Yield { .. } | Rest::Sleep if self.endpoint.hurry_growth() => Next::Again,
            // Nothing wakes a sleeper when a job of its own fabric has finished, and jobs are short.
            Rest::Sleep if self.endpoint.has_jobs() => Next::Rest(Rest::Yield { is_first: false }),
            rest => Next::Rest(rest),
        }
    }
}

impl Wait {
    /// Counts a round with work.
    #[inline]
    pub(super) const fn count_busy(&mut self, pace: &Pace) -> Next {
        let idle = self.rounds.idle_count() / IDLE_ROUNDS_PER_BUSY;
        // The first work after a pause is not kept waiting by a look at the time.
        let most = BUSY_ROUNDS_PER_CHECK / 2;
        self.busy_rounds += 1 + if idle < most { idle } else { most };
        self.rounds = Rounds::new(pace);
        if self.busy_rounds < BUSY_ROUNDS_PER_CHECK {
            return Next::Again;
        }
        self.busy_rounds = 0;
        Next::CheckTime
    }
}
