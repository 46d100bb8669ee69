//! Two applications that do what a script says, and wait as patiently as they must.

use superpipe_core::{Nanos, Reason};
use superpipe_testkit::Pair;

use super::patience::{Advice, Patience};
use crate::case::Closing;
use crate::fabric::Sim;
use crate::turned::Turned;

pub(super) struct Scripted<const DIRECT: bool> {
    pub(super) pair: Pair<Sim<DIRECT>>,
    patience: [Patience; 2],
    /// Both ends were told to close in good order.
    is_closed: bool,
    closing: Closing,
}

impl<const DIRECT: bool> Scripted<DIRECT> {
    pub(super) fn new(pair: Pair<Sim<DIRECT>>, closing: Closing) -> Self {
        Self { pair, patience: [Patience::new(1); 2], is_closed: false, closing }
    }

    pub(super) fn be_patient(&mut self, crowd: u64) {
        self.patience = [Patience::new(crowd); 2];
    }

    /// Ends what can end, and what must.
    pub(super) fn heed(
        &mut self,
        side: usize,
        now_ns: u64,
        is_whole: bool,
        may_fail: bool,
        needs_life: bool,
    ) -> Result<Turned, String> {
        if is_whole && !self.is_closed && self.pair.is_exchanged() {
            self.pair.close();
            self.is_closed = true;
        }
        let closed = self.pair.ends[side].endpoint().closed();
        if closed.is_none() && self.pair.has_sent(side) {
            match self.closing {
                Closing::WhenSent => self.pair.leave(side),
                Closing::WhenDone if self.pair.has_taken(side) => self.pair.leave(side),
                Closing::WhenDone | Closing::Together => {}
            }
        }
        if is_whole && self.pair.is_over() {
            self.pair.check_oracle();
            return Ok(Turned { nap_ns: 0, lets_go: [true; 2] });
        }
        let closed = self.pair.ends[side].endpoint().closed();
        let moved = self.pair.moved(0) + self.pair.moved(1);
        let patience = &mut self.patience[side];
        let mut advice = patience.note(now_ns, moved, closed);
        if advice == Advice::GoOn
            && let Some(next) = self.pair.next(side)
        {
            let next = if patience.is_closing() { self.pair.drive_close(side) } else { next };
            advice = patience.heed(next);
        }
        let mut lets_go = [false; 2];
        match advice {
            Advice::GoOn => {}
            Advice::Close(reason) => self.pair.give_up(side, reason),
            Advice::Look => {
                let deadline = self.patience[side].deadline(may_fail, needs_life);
                let looked = self.pair.look(side, Nanos(now_ns), deadline);
                if self.patience[side].looked(looked) {
                    if !may_fail {
                        return Err(format!("nothing moves any more: {}", self.pair.state()));
                    }
                    lets_go[side] = self.patience[side].is_closing();
                    if !lets_go[side] {
                        self.pair.give_up(side, Reason::GIVEN_UP);
                    }
                }
            }
        }
        Ok(Turned { nap_ns: self.patience[side].nap_ns, lets_go })
    }
}
