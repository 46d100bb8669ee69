//! How long an application waits: what it asks of its end's driver, and what it makes of the answer.

use superpipe_core::driver::{Ended, LookFailed, Next, Rest};
use superpipe_core::{Closed, Nanos, Reason};

/// Virtual time without anything that moves after which an application gives up: longer than all that can be late together.
const PATIENCE_NS: u64 = 10_000_000;

/// The same, where a sign of life may have to heal what was overtaken, or where the peer may be silent for ever: the driver says
/// which it is.
const LONG_PATIENCE_NS: u64 = 1_500_000_000;

/// Turns of an end in that time, at least. In one of about a hundred it does what it could go on with.
const TURNS_IN_VAIN: u64 = 4000;

/// Virtual time from a close, and from all that moves after it, to the end of everything, where the peer may not answer.
const LINGER_NS: u64 = 200_000;

/// Rounds in a row that say that the peer is lost. In one of about a hundred turns an application does what it could go on with.
const LOST_ROUNDS: u32 = 100;

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advice {
    /// Nothing.
    GoOn,
    /// Look at the time.
    Look,
    /// Close, for this reason.
    Close(Reason),
}

/// One end's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Ends that share a CPU: each of them waits for the others.
    crowd: u64,
    moved: u64,
    moved_ns: u64,
    lost_rounds: u32,
    closed_ns: Option<u64>,
    /// How long it waits for anything to move.
    patience_ns: u64,
    /// How long it may sleep at once.
    pub(super) nap_ns: u64,
}

impl Patience {
    /// Of an end on a CPU that so many share.
    pub(super) const fn new(crowd: u64) -> Self {
        Self {
            crowd,
            moved: 0,
            moved_ns: 0,
            lost_rounds: 0,
            closed_ns: None,
            patience_ns: PATIENCE_NS,
            nap_ns: 0,
        }
    }

    /// After a turn: `moved` counts what both ends have sent and received.
    pub(super) fn note(&mut self, now_ns: u64, moved: u64, closed: Option<Closed>) -> Advice {
        if self.moved != moved {
            (self.moved, self.moved_ns, self.lost_rounds) = (moved, now_ns, 0);
        }
        match closed {
            Some(closed) if self.closed_ns.is_none() => {
                self.closed_ns = Some(now_ns);
                if let Closed::ByPeer(reason) = closed { Advice::Close(reason) } else { Advice::GoOn }
            }
            Some(_) | None => Advice::GoOn,
        }
    }

    /// What comes after a round.
    pub(super) fn heed(&mut self, next: Next) -> Advice {
        match next {
            Next::Look | Next::Rest(Rest::Look | Rest::Sleep | Rest::Yield { .. }) => Advice::Look,
            // Lost, or closed before all that it sent was taken.
            Next::Ended(ended) if ended == Ended::Lost || self.closed_ns.is_none() => {
                self.lost_rounds += 1;
                if self.lost_rounds > LOST_ROUNDS { Advice::Close(Reason::GIVEN_UP) } else { Advice::Look }
            }
            Next::Again | Next::Rest(Rest::Spin) | Next::Ended(_) => Advice::GoOn,
        }
    }

    /// Until when this end waits for anything to move: `may_fail`, if the peer may not answer, and `needs_life`, if it may have to
    /// say again what it said.
    pub(super) fn deadline(&mut self, may_fail: bool, needs_life: bool) -> Nanos {
        let patience_ns = if may_fail || needs_life { LONG_PATIENCE_NS } else { self.crowd * PATIENCE_NS };
        self.patience_ns = patience_ns;
        let linger_ns = if may_fail { self.crowd * LINGER_NS } else { patience_ns };
        Nanos(match self.closed_ns {
            Some(closed_ns) => self.moved_ns.max(closed_ns) + linger_ns,
            None => self.moved_ns + patience_ns,
        })
    }

    /// After a look. Returns true if it has waited enough.
    pub(super) fn looked(&mut self, looked: Result<u64, LookFailed>) -> bool {
        match looked {
            Ok(ns) => self.nap_ns = ns.min(self.patience_ns / TURNS_IN_VAIN),
            Err(LookFailed::Deadline | LookFailed::Silent(_)) => self.nap_ns = 0,
        }
        looked.is_err()
    }

    pub(super) const fn is_closing(&self) -> bool {
        self.closed_ns.is_some()
    }
}
