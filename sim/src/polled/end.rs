//! An end of a connection as core polls it.

use core::convert::Infallible;

use superpipe_core::Nanos;
use superpipe_core::driver::{Interest, Look, Seen, Tended};
use superpipe_core::polling::{Member, Occupant, Owner, Pollable};

use super::net::{Net, SERVER};

/// Name of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) pair: usize,
    pub(super) side: usize,
}

impl End {
    pub(super) const fn name(self) -> (usize, usize) {
        (self.pair, self.side)
    }
}

impl Pollable for End {
    type Set = Net;
    type Error = Infallible;

    fn owner(&mut self, net: &mut Net) -> Option<Owner> {
        net.owner(self.name())
    }

    fn watch(&mut self, net: &mut Net, owner: Owner) -> Result<(), Infallible> {
        net.watch(self.name(), owner);
        Ok(())
    }

    fn forget(&mut self, net: &mut Net) {
        net.forget(self.name());
    }

    fn number(&mut self, _: &mut Net) -> u64 {
        (2 * self.pair + self.side) as u64
    }

    fn look(&mut self, net: &mut Net, wanted: Interest, seen: &mut Seen) -> Look {
        net.looks += u64::from(self.side == SERVER);
        net.with(self.name(), |driver, fabric| driver.look(fabric, wanted, seen))
    }

    fn arm(&mut self, net: &mut Net, wanted: Interest) -> Option<u64> {
        if !net.with(self.name(), |driver, fabric| driver.prepare_sleep(fabric)) {
            return None;
        }
        let look_again_ns = net.begin_sleep(self.name());
        let has_work = net.with(self.name(), |driver, fabric| driver.has_work(fabric, wanted));
        if has_work || !net.may_sleep(self.name()) {
            net.end_sleep(self.name());
            return None;
        }
        Some(look_again_ns)
    }

    fn disarm(&mut self, net: &mut Net) {
        net.end_sleep(self.name());
    }

    fn tend(&mut self, net: &mut Net, now: Nanos) -> Tended {
        net.with(self.name(), |driver, fabric| {
            driver.tick(fabric, now);
            driver.tended(fabric)
        })
    }

    fn check_peer(&mut self, net: &mut Net) {
        net.check_peer(self.name());
    }

    fn has_jobs(&mut self, net: &mut Net) -> bool {
        net.with(self.name(), |driver, _| driver.has_jobs())
    }

    fn needs_regular_looks(&mut self, _: &mut Net) -> bool {
        false
    }

    fn activity(&mut self, net: &mut Net) -> u64 {
        net.with(self.name(), |driver, _| driver.endpoint().activity())
    }

    fn idle_timeout_ns(&mut self, net: &mut Net) -> u64 {
        net.pairs[self.pair].idle_timeout_ns
    }
}

/// A place of the poller.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) member: Member,
    pub(super) end: End,
}

impl Occupant for Place {
    type Connection = End;

    fn member(&mut self) -> Option<(&mut Member, &mut End)> {
        Some((&mut self.member, &mut self.end))
    }
}
