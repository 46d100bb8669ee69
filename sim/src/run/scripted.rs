//! Two applications that carry out a script, with timeouts.

use superpipe_core::{Driver, Nanos, Reason};
use superpipe_testkit::{Pair, PairFabric};

use super::liveness::{Action, LivenessTimer};
use crate::case::ClosePolicy;
use crate::client::TurnOutcome;
use crate::fabric::SimFabric;

pub(super) struct Scripted<const DIRECT: bool> {
    pub(super) pair: Pair<SimFabric<DIRECT>>,
    liveness: [LivenessTimer; 2],
    /// Both ends were closed in good order.
    is_closed: bool,
    close_policy: ClosePolicy,
}

impl<const DIRECT: bool> Scripted<DIRECT> {
    pub(super) fn new(pair: Pair<SimFabric<DIRECT>>, close_policy: ClosePolicy) -> Self {
        Self { pair, liveness: [LivenessTimer::new(1); 2], is_closed: false, close_policy }
    }

    pub(super) fn share_cpu(&mut self, ends_per_cpu: u64) {
        self.liveness = [LivenessTimer::new(ends_per_cpu); 2];
    }

    /// Closes an end that may close, and releases one whose timeout has passed.
    pub(super) fn after_turn(
        &mut self,
        side: usize,
        now_ns: u64,
        has_both_ends: bool,
        may_fail: bool,
        needs_keepalive: bool,
    ) -> Result<TurnOutcome, String> {
        if has_both_ends && !self.is_closed && self.pair.is_exchanged() {
            self.check_released()?;
            self.pair.close();
            self.is_closed = true;
        }
        let closed = self.pair.ends[side].endpoint().closed();
        if closed.is_none() && self.pair.has_sent_all(side) {
            match self.close_policy {
                ClosePolicy::WhenSent => self.pair.close_unreceived(side),
                ClosePolicy::WhenDone if self.pair.has_received_all(side) => self.pair.close_unreceived(side),
                ClosePolicy::WhenDone | ClosePolicy::Together => {}
            }
        }
        if has_both_ends && self.pair.is_over() {
            self.pair.check_oracle();
            return Ok(TurnOutcome { sleep_ns: 0, releases: [true; 2] });
        }
        let closed = self.pair.ends[side].endpoint().closed();
        let moved: u64 = self.pair.ends.iter().map(|end| end.endpoint().moved()).sum();
        let liveness = &mut self.liveness[side];
        let mut action = liveness.note(now_ns, moved, closed);
        if action == Action::Continue
            && let Some(next) = self.pair.next(side)
        {
            let next = if liveness.is_closing() { self.pair.drive_close(side) } else { next };
            action = liveness.after_round(next);
        }
        let mut releases = [false; 2];
        match action {
            Action::Continue => {}
            Action::Close(reason) => self.pair.close_with(side, reason),
            Action::CheckTime => {
                let deadline = self.liveness[side].deadline(may_fail, needs_keepalive);
                let checked = self.pair.check_time(side, Nanos(now_ns), deadline);
                if self.liveness[side].note_check(checked) {
                    if !may_fail {
                        return Err(format!("no progress: {}", self.pair.state()));
                    }
                    releases[side] = self.liveness[side].is_closing();
                    if !releases[side] {
                        self.pair.close_with(side, Reason::GIVEN_UP);
                    }
                }
            }
        }
        Ok(TurnOutcome { sleep_ns: self.liveness[side].sleep_ns, releases })
    }

    /// Checks that no landing buffer is kept that was left, if no growth is under way: an end has its base, and one more if it has grown. Its
    /// counters say how many bytes these are.
    fn check_released(&self) -> Result<(), String> {
        let ends = self.pair.ends.each_ref().map(Driver::endpoint);
        if !ends.iter().all(|end| end.is_growth_steady()) {
            return Ok(());
        }
        let grown = ends.map(|end| usize::from(end.has_grown()));
        for side in 0..2 {
            let counts = self.pair.fabric.landing_counts(side);
            if counts != [1 + grown[side], 1 + grown[1 - side]] {
                return Err(format!(
                    "landing buffers are kept at end {side}: {counts:?} {}",
                    self.pair.state()
                ));
            }
            let (counted, registered) =
                (ends[side].counters().landing_bytes, self.pair.fabric.grown_bytes(side));
            if self.pair.fabric.setup().growth.is_some() && counted != [registered, 0, 0] {
                return Err(format!(
                    "end {side} counts {counted:?} bytes of {registered}: {}",
                    self.pair.state()
                ));
            }
        }
        Ok(())
    }
}
