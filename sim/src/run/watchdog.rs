//! What an application does about its end, beside sending and receiving: it shows life, does not wait for ever, and lets go of
//! everything once it knows that nothing can come any more.

use superpipe_core::{Closed, Reason};

/// Virtual time without anything that moves after which an application gives up: longer than all that can be late together.
const PATIENCE_NS: u64 = 2_000_000;

/// Virtual time from a close, and from all that moves after it, to the end of everything, where the peer may not answer.
const LINGER_NS: u64 = 200_000;

/// Virtual time from one sign of life to the next. An application does so a few times a second; here more of them happen
/// in a run, and still far enough apart for nothing to be on its way in between.
const LIFE_NS: u64 = 100_000;

/// Turns without anything new before an application gives up. In one of about a hundred it does what it could go on with.
const TURNS_IN_VAIN: u32 = 4000;

/// Turns without anything new after which an end that was told of its peer's death has taken out all that it left.
const TURNS_AFTER_DEATH: u32 = 200;

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advice {
    /// Nothing.
    GoOn,
    /// Close, for this reason.
    Close(Reason),
    /// Let go of everything: nobody answers any more.
    LetGo,
    /// Nothing has moved for too long.
    Stuck,
}

/// One end's.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watchdog {
    patience_ns: u64,
    linger_ns: u64,
    moved: u64,
    moved_ns: u64,
    idle_turns: u32,
    life_ns: u64,
    closed_ns: Option<u64>,
    /// When it is told that its peer has died.
    death_ns: Option<u64>,
    pub(super) gone: bool,
}

impl Watchdog {
    /// Of an end on a CPU that so many share.
    pub(super) fn new(crowd: u64) -> Self {
        Self { patience_ns: crowd * PATIENCE_NS, linger_ns: crowd * LINGER_NS, ..Self::default() }
    }

    /// The system will tell that the peer has died.
    pub(super) const fn hear_of_death(&mut self, at_ns: u64) {
        self.death_ns = Some(at_ns);
    }

    /// Whether it is time to look around and show life.
    pub(super) const fn is_life_due(&mut self, now_ns: u64) -> bool {
        let due = now_ns >= self.life_ns;
        if due {
            self.life_ns = now_ns + LIFE_NS;
        }
        due
    }

    /// After a turn: `moved` counts what both ends have sent and received; `may_fail`, if the peer may not answer.
    pub(super) fn advise(
        &mut self,
        now_ns: u64,
        moved: u64,
        closed: Option<Closed>,
        may_fail: bool,
    ) -> Advice {
        if self.moved != moved {
            (self.moved, self.moved_ns, self.idle_turns) = (moved, now_ns, 0);
        }
        self.idle_turns += 1;
        let is_told = self.death_ns.is_some_and(|at_ns| now_ns >= at_ns);
        match closed {
            None if is_told && self.idle_turns > TURNS_AFTER_DEATH => Advice::Close(Reason::GIVEN_UP),
            None if self.idle_turns > TURNS_IN_VAIN && now_ns > self.moved_ns + self.patience_ns => {
                Advice::Stuck
            }
            None => Advice::GoOn,
            Some(closed) => {
                let since = *self.closed_ns.get_or_insert(now_ns);
                let linger_ns = if may_fail { self.linger_ns } else { self.patience_ns };
                match closed {
                    _ if now_ns > since.max(self.moved_ns) + linger_ns => Advice::LetGo,
                    Closed::ByPeer(reason) if since == now_ns => Advice::Close(reason),
                    Closed::ByPeer(_) | Closed::Here(_) | Closed::Failed(_) => Advice::GoOn,
                }
            }
        }
    }
}
