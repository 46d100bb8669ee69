//! Timeouts of a scripted application, and what it does after each step of its driver.

use superpipe_core::driver::{Ended, Next, Rest, WaitFailed};
use superpipe_core::{Closed, Nanos, Reason};

/// Virtual time without progress after which an application gives up. It is longer than all delays of the faults together.
const PROGRESS_TIMEOUT_NS: u64 = 10_000_000;

/// The same where a keepalive may have to repeat an acknowledgement, or where the peer may be gone and the driver's idle timeout
/// decides.
const LONG_PROGRESS_TIMEOUT_NS: u64 = 1_500_000_000;

/// Least turns of an end in that time. An application does what it could continue with in about one turn of a hundred.
const IDLE_TURNS_MIN: u64 = 4000;

/// Virtual time from a close, and from all progress after it, until an end gives up on a peer that may be gone.
const LINGER_NS: u64 = 200_000;

/// Rounds in a row that report a lost peer before the application closes. It does what it could continue with in about one turn of a hundred.
const LOST_ROUNDS: u32 = 100;

/// Next action of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// None.
    Continue,
    /// Check the time.
    CheckTime,
    /// Close for this reason.
    Close(Reason),
}

/// Timeouts of one end.
#[derive(Clone, Copy, Debug)]
pub(super) struct LivenessTimer {
    /// Ends that share a CPU and wait for each other.
    ends_per_cpu: u64,
    moved: u64,
    moved_ns: u64,
    lost_rounds: u32,
    closed_ns: Option<u64>,
    /// Time without progress after which it gives up.
    timeout_ns: u64,
    /// Longest sleep.
    pub(super) sleep_ns: u64,
}

impl LivenessTimer {
    /// Makes the timer of an end on a CPU that `ends_per_cpu` ends share.
    pub(super) const fn new(ends_per_cpu: u64) -> Self {
        Self {
            ends_per_cpu,
            moved: 0,
            moved_ns: 0,
            lost_rounds: 0,
            closed_ns: None,
            timeout_ns: PROGRESS_TIMEOUT_NS,
            sleep_ns: 0,
        }
    }

    /// Updates the timer after a turn. `moved` counts what both ends have sent and received.
    pub(super) fn note(&mut self, now_ns: u64, moved: u64, closed: Option<Closed>) -> Action {
        if self.moved != moved {
            (self.moved, self.moved_ns, self.lost_rounds) = (moved, now_ns, 0);
        }
        match closed {
            Some(closed) if self.closed_ns.is_none() => {
                self.closed_ns = Some(now_ns);
                if let Closed::ByPeer(reason) = closed { Action::Close(reason) } else { Action::Continue }
            }
            Some(_) | None => Action::Continue,
        }
    }

    /// Returns the action after a round.
    pub(super) fn after_round(&mut self, next: Next) -> Action {
        match next {
            Next::CheckTime | Next::Rest(Rest::CheckTime | Rest::Sleep | Rest::Yield { .. }) => {
                Action::CheckTime
            }
            // The peer is lost, or has closed before everything it sent was received.
            Next::Ended(ended) if ended == Ended::Lost || self.closed_ns.is_none() => {
                self.lost_rounds += 1;
                if self.lost_rounds > LOST_ROUNDS {
                    Action::Close(Reason::GIVEN_UP)
                } else {
                    Action::CheckTime
                }
            }
            Next::Again | Next::Rest(Rest::Spin) | Next::Ended(_) => Action::Continue,
        }
    }

    /// Returns when this end gives up. `may_fail`: the peer may not answer. `needs_keepalive`: a keepalive may have to repeat an
    /// acknowledgement.
    pub(super) fn deadline(&mut self, may_fail: bool, needs_keepalive: bool) -> Nanos {
        let timeout_ns = if may_fail || needs_keepalive {
            LONG_PROGRESS_TIMEOUT_NS
        } else {
            self.ends_per_cpu * PROGRESS_TIMEOUT_NS
        };
        self.timeout_ns = timeout_ns;
        let linger_ns = if may_fail { self.ends_per_cpu * LINGER_NS } else { timeout_ns };
        Nanos(match self.closed_ns {
            Some(closed_ns) => self.moved_ns.max(closed_ns) + linger_ns,
            None => self.moved_ns + timeout_ns,
        })
    }

    /// Takes the result of a check of the time. Returns true if it is over.
    pub(super) fn note_check(&mut self, checked: Result<u64, WaitFailed>) -> bool {
        match checked {
            Ok(ns) => self.sleep_ns = ns.min(self.timeout_ns / IDLE_TURNS_MIN),
            Err(WaitFailed::Deadline | WaitFailed::Silent(_)) => self.sleep_ns = 0,
        }
        checked.is_err()
    }

    pub(super) const fn is_closing(&self) -> bool {
        self.closed_ns.is_some()
    }
}
