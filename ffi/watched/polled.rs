//! A connection as core polls it ([`superpipe_core::polling`]), by the descriptors of a set.

use superpipe_core::Nanos;
use superpipe_core::driver::{Interest, Look, Seen, Tended};
use superpipe_core::polling::{Owner, Pollable};

use crate::blocking::dispatch::{AnyConnection, dispatch};
use crate::connection::Connection;
use crate::os::OsError;
use crate::os::epoll::Epoll;

/// A connection of any fabric.
pub(crate) struct Polled(pub(crate) Connection);

/// Calls what the connection holds.
macro_rules! call {
    ($polled:ident, $inner:ident => $call:expr) => {
        dispatch!(AnyConnection, $polled.0.inner_mut(), $inner => $call)
    };
}

impl Polled {
    /// Acknowledges what was taken, unless more is there.
    pub(crate) fn settle(&mut self) {
        call!(self, inner => inner.settle());
    }
}

impl Pollable for Polled {
    type Set = Epoll;
    type Error = OsError;

    fn owner(&mut self, _: &mut Epoll) -> Option<Owner> {
        call!(self, inner => inner.polled_by())
    }

    fn watch(&mut self, set: &mut Epoll, owner: Owner) -> Result<(), OsError> {
        // Which descriptors it has depends on who polls it.
        call!(self, inner => inner.set_polled_by(Some(owner)));
        let fds = call!(self, inner => inner.watched());
        let watched = fds.iter().filter_map(|fd| fd.fd()).try_for_each(|fd| set.watch(fd, owner.number));
        if watched.is_err() {
            call!(self, inner => inner.set_polled_by(None));
        }
        watched
    }

    fn forget(&mut self, set: &mut Epoll) {
        let fds = call!(self, inner => inner.watched());
        fds.iter().filter_map(|fd| fd.fd()).for_each(|fd| set.forget(fd));
        call!(self, inner => inner.set_polled_by(None));
    }

    fn number(&mut self, _: &mut Epoll) -> u64 {
        call!(self, inner => inner.number())
    }

    #[inline]
    fn look(&mut self, _: &mut Epoll, wanted: Interest, seen: &mut Seen) -> Look {
        call!(self, inner => inner.look(wanted, seen))
    }

    fn arm(&mut self, _: &mut Epoll, wanted: Interest) -> Option<u64> {
        call!(self, inner => inner.arm(wanted))
    }

    fn disarm(&mut self, _: &mut Epoll) {
        call!(self, inner => inner.disarm());
    }

    fn tend(&mut self, _: &mut Epoll, now: Nanos) -> Tended {
        call!(self, inner => inner.tend(now))
    }

    fn check_peer(&mut self, _: &mut Epoll) {
        call!(self, inner => inner.check_peer());
    }

    fn has_jobs(&mut self, _: &mut Epoll) -> bool {
        call!(self, inner => inner.has_jobs())
    }

    fn needs_regular_looks(&mut self, _: &mut Epoll) -> bool {
        call!(self, inner => inner.needs_regular_looks())
    }

    fn activity(&mut self, _: &mut Epoll) -> u64 {
        call!(self, inner => inner.activity())
    }

    fn idle_timeout_ns(&mut self, _: &mut Epoll) -> u64 {
        call!(self, inner => inner.idle_timeout_ns())
    }

    fn looks_while_armed(&mut self, _: &mut Epoll) -> bool {
        call!(self, inner => inner.looks_while_armed())
    }
}
