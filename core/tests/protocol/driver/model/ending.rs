//! The end of a case: everything is settled by waits, and one end closes.

use superpipe_core::driver::{Drive, Ended, Next, Rest};
use superpipe_core::{Closed, Nanos, Reason};
use superpipe_testkit::TestFabric;

use super::Model;

impl<F: TestFabric> Model<F> {
    pub(crate) fn is_settled(&mut self) -> bool {
        let flows = &self.flows;
        flows.iter().all(|flow| {
            let events = flow.sent.iter().all(|sent| sent.rejected.is_some() == sent.told);
            flow.sends.is_none() && flow.receives.is_none() && flow.head == flow.sent.len() && events
        })
    }

    /// Drives everything to its end by waits: what is open is sent whole, and everything is taken.
    pub(crate) fn settle(&mut self) {
        let mut waits = [0, 1].map(|side| self.ends[side].begin_wait());
        for _ in 0..40_000 {
            for (side, wait) in waits.iter_mut().enumerate() {
                let mut before = self.marks(side);
                self.drive_send(side);
                if self.flows[1 - side].receives.is_none() && self.incoming(side).is_some() {
                    self.begin_recv(side, 2000, 3, false, false);
                }
                self.drive_recv(side, 100);
                let has_moved = before != { self.marks(side) };
                before = self.marks(side);
                match self.ends[side].round(&mut self.fabric, wait, has_moved) {
                    Next::Again | Next::Rest(Rest::Spin) => {}
                    Next::CheckTime | Next::Rest(_) => {
                        self.now += 1_000_000;
                        let now = Nanos(self.now);
                        let looked = self.ends[side].check_time(&mut self.fabric, wait, now, Nanos(u64::MAX));
                        assert!(looked.is_ok());
                    }
                    Next::Ended(ended) => panic!("{ended}"),
                }
                assert_eq!(before, self.marks(side), "a round moves nothing of the user's");
                for _ in 0..3 {
                    self.fabric.step();
                }
            }
            self.check();
            // An operation that still waits has nothing to wait for.
            for side in 0..2 {
                if self.flows[side].head == self.flows[side].sent.len()
                    && self.flows[side].sends.is_none()
                    && self.flows[side].receives.is_some()
                {
                    self.cancel_recv(1 - side, Reason(1));
                }
            }
            if self.is_settled() {
                return;
            }
        }
        panic!("stuck: {:?}", self.flows);
    }

    pub(crate) fn marks(&self, side: usize) -> (usize, usize, usize, usize, bool) {
        let (to, from) = (&self.flows[side], &self.flows[1 - side]);
        let sent = to.sends.as_ref().map_or(0, |sends| sends.send.sent());
        let taken = from.receives.as_ref().map_or(0, |receives| receives.receive.taken());
        (sent, taken, from.head, to.sent.len(), from.receives.is_some())
    }

    /// One end closes; both learn of it, and by waits.
    pub(crate) fn close(&mut self, side: usize, is_orderly: bool) {
        let reason = if is_orderly { Reason::DONE } else { Reason(99) };
        self.ends[side].close(&mut self.fabric, reason);
        let mut done = false;
        for _ in 0..40_000 {
            match self.ends[side].drive_close(&mut self.fabric) {
                Drive::Done(result) => {
                    assert_eq!(result, Ok(()));
                    done = true;
                }
                Drive::Moved | Drive::Idle => assert!(!done),
            }
            self.ends[1 - side].progress(&mut self.fabric);
            self.fabric.step();
            if done && let Some(ended) = self.ends[1 - side].ended(&self.fabric) {
                assert_eq!(ended, Ended::Closed(Closed::ByPeer(reason)));
                assert_eq!(self.ends[side].ended(&self.fabric), Some(Ended::Closed(Closed::Here(reason))));
                return;
            }
        }
        panic!("stuck in closing");
    }
}
