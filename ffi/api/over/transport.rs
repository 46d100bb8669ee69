//! A driver with its fabric and a clock: everything that waiting takes.
//!
//! It decides nothing. A wait is a loop of attempts and of what the driver says comes after them.

use core::hint;
use std::thread;

use superpipe_core::driver::{
    ATTEMPTS, Drive, Driver, Ended, LookFailed, NAP_NS, Next, Outside, OutsideNext, Rest, Wait,
};
use superpipe_core::{Endpoint, Nanos, Reason};

use crate::api::deadline::{Armed, Deadline};
use crate::api::error::{Error, ErrorKind};
use crate::api::options::Options;
use crate::os::poll::{PollFd, poll};
use crate::os::{WaitStrategy, monotonic_ns};
use crate::port::{Port, Woken};

pub(super) struct Transport<P: Port> {
    pub(super) driver: Driver<P>,
    pub(super) port: P,
    pub(super) options: Options,
}

/// The time now.
pub(super) fn now() -> Nanos {
    Nanos(monotonic_ns())
}

impl<P: Port> Transport<P> {
    pub(super) fn new(endpoint: Endpoint<P>, port: P, options: Options) -> Self {
        let idle_timeout_ns = u64::try_from(options.idle_timeout.as_nanos()).unwrap_or(u64::MAX);
        Self { driver: Driver::new(endpoint, options.wait, idle_timeout_ns, now()), port, options }
    }

    pub(super) fn set_wait(&mut self, wait: WaitStrategy) {
        self.options.wait = wait;
        self.driver.set_wait(wait);
    }

    /// Makes attempts and progress until an attempt gives what is waited for, or waiting is over.
    pub(super) fn wait<T>(
        &mut self,
        deadline: Deadline,
        mut attempt: impl FnMut(&mut Driver<P>, &mut P) -> Drive<T>,
    ) -> Result<T, Error> {
        let mut armed = Armed::Not(deadline);
        let mut wait = self.driver.begin_wait();
        loop {
            let mut has_moved = false;
            for _ in 0..ATTEMPTS {
                match attempt(&mut self.driver, &mut self.port) {
                    Drive::Done(value) => return Ok(value),
                    Drive::Moved => {
                        has_moved = true;
                        break;
                    }
                    Drive::Idle => hint::spin_loop(),
                }
            }
            match self.driver.round(&mut self.port, &mut wait, has_moved) {
                Next::Again => {}
                next => self.follow(next, &mut wait, &mut armed)?,
            }
        }
    }

    /// Does what comes after a round.
    fn follow(&mut self, next: Next, wait: &mut Wait, armed: &mut Armed) -> Result<(), Error> {
        match next {
            Next::Again => {}
            Next::Look | Next::Rest(Rest::Look) => _ = self.look(wait, armed)?,
            Next::Rest(Rest::Spin) => hint::spin_loop(),
            Next::Rest(Rest::Yield { is_first, looks }) => {
                self.yield_core(wait, is_first);
                if looks {
                    self.look(wait, armed)?;
                }
            }
            Next::Rest(Rest::Sleep) => {
                let nap_ns = self.look(wait, armed)?;
                self.sleep(nap_ns);
            }
            Next::Ended(ended) => return Err(self.ended(ended)),
        }
        Ok(())
    }

    fn yield_core(&mut self, wait: &Wait, is_first: bool) {
        if !is_first {
            thread::yield_now();
            return;
        }
        let begin_ns = monotonic_ns();
        thread::yield_now();
        self.driver.note_first_yield(wait, monotonic_ns() - begin_ns);
    }

    fn sleep(&mut self, nap_ns: u64) {
        if self.driver.is_peer_gone() {
            return;
        }
        let endpoint = self.driver.endpoint_mut();
        endpoint.acknowledge(&mut self.port);
        match self.port.sleep(endpoint, nap_ns) {
            Woken::Look => {}
            Woken::Nothing => self.driver.peer_was_alive(now()),
            Woken::PeerGone => self.driver.peer_is_gone(),
        }
    }

    /// Looks at the clock, the interrupt flag and the peer's end. Returns how long one may sleep afterwards.
    fn look(&mut self, wait: &mut Wait, armed: &mut Armed) -> Result<u64, Error> {
        let now = now();
        if self.options.is_interrupted() {
            return Err(Error::interrupted());
        }
        self.look_for_peer(now);
        let deadline = Nanos(armed.at_ns(now.0));
        self.driver.look(&mut self.port, wait, now, deadline).map_err(|failed| self.timed_out(failed))
    }

    /// Looks whether the peer's end exists, if that is due.
    pub(super) fn look_for_peer(&mut self, now: Nanos) {
        if self.driver.checks_liveness(now) && !self.port.is_alive(self.driver.endpoint().link()) {
            self.driver.peer_is_gone();
        }
    }

    fn timed_out(&self, failed: LookFailed) -> Error {
        match failed {
            LookFailed::Deadline => Error::deadline(),
            LookFailed::Silent(_) => {
                let text =
                    format!("the peer was silent for {:?}, the idle timeout", self.options.idle_timeout);
                Error::new(ErrorKind::Timeout, text)
            }
        }
    }

    /// Why nothing moves any more.
    pub(super) fn ended(&self, ended: Ended) -> Error {
        match ended {
            Ended::Closed(closed) => Error::closed(closed),
            Ended::Lost => Error::gone(self.port.why_gone(self.driver.endpoint().link())),
        }
    }

    /// A try that found nothing: makes a round of progress now and then, and shows life. No system call.
    ///
    /// # Errors
    /// Nothing moves any more.
    #[inline]
    pub(super) fn after_empty_try(&mut self) -> Result<(), Error> {
        if !self.driver.count_empty() {
            return Ok(());
        }
        self.after_empty_tries()
    }

    /// A try that left what is there: as after an empty one, but nothing ends before that is taken.
    pub(super) fn after_untaken(&mut self) {
        if self.driver.count_empty() {
            self.tick_of_tries();
            self.driver.progress(&mut self.port);
        }
    }

    fn tick_of_tries(&mut self) {
        if self.driver.is_tick_due() {
            self.driver.tick(&mut self.port, now());
        }
    }

    #[cold]
    #[inline(never)]
    fn after_empty_tries(&mut self) -> Result<(), Error> {
        self.tick_of_tries();
        if self.driver.progress(&mut self.port) {
            return Ok(());
        }
        self.driver.ended().map_or(Ok(()), |ended| Err(self.ended(ended)))
    }

    /// One round of progress, for a program with a loop of its own, which also shows life and looks for a peer that is gone.
    /// Returns true if anything was done.
    pub(super) fn progress(&mut self) -> bool {
        let has_moved = self.driver.progress(&mut self.port);
        // A loop may be slow, and each round of it all that the peer sees of this end.
        if !has_moved || self.driver.count_empty() {
            let now = now();
            self.driver.tick(&mut self.port, now);
            self.look_for_peer(now);
        }
        has_moved
    }

    /// Waits until a descriptor is ready, or the stream that it is for was rejected, making progress meanwhile.
    pub(super) fn wait_for_fd(
        &mut self,
        fd: PollFd<'_>,
        mut outside: Outside,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let mut armed = Armed::Not(deadline);
        let mut nap_ns = NAP_NS;
        loop {
            if self.options.is_interrupted() {
                return Err(Error::interrupted());
            }
            let is_gone = self.driver.is_peer_gone();
            let [peer] = self.port.interests(self.driver.endpoint().link());
            let mut fds = [fd, if is_gone { PollFd::none() } else { peer }];
            poll(&mut fds, nap_ns)?;
            let (is_ready, is_peer_ready) = (fds[0].is_ready(), fds[1].is_ready());
            let link = self.driver.endpoint().link();
            if !is_gone && (is_peer_ready || !is_ready) && !self.port.is_alive(link) {
                self.driver.peer_is_gone();
            }
            let now = now();
            nap_ns = match self.driver.outside_round(&mut self.port, &mut outside, is_ready, now) {
                OutsideNext::Ready => return Ok(()),
                OutsideNext::Ended(ended) => return Err(self.ended(ended)),
                OutsideNext::Look => 0,
                OutsideNext::Wait => {
                    let left_ns = armed.at_ns(now.0).saturating_sub(now.0);
                    if left_ns == 0 {
                        return Err(Error::deadline());
                    }
                    left_ns.min(NAP_NS)
                }
            };
        }
    }

    /// One turn of a helper that keeps the connection alive while its owner is blocked.
    pub(super) fn keep_alive(&mut self) {
        self.driver.progress(&mut self.port);
        self.driver.tick(&mut self.port, now());
    }

    /// Says good-bye, as far as that goes without waiting for the peer's application. A drop afterwards has what is left of the
    /// deadline.
    pub(super) fn close(&mut self, reason: Reason, deadline: Deadline) -> Result<(), Error> {
        self.driver.close(&mut self.port, reason);
        let mut armed = Armed::Not(deadline);
        let by_ns = armed.at_ns(monotonic_ns());
        self.port.end_by(self.driver.endpoint_mut().link_mut(), by_ns);
        let mut wait = self.driver.begin_wait();
        loop {
            let has_moved = match self.driver.drive_close(&mut self.port) {
                Drive::Done(closed) => return closed.map_err(|ended| self.ended(ended)),
                Drive::Moved => true,
                Drive::Idle => false,
            };
            let next = self.driver.close_round(&mut wait, has_moved);
            self.follow(next, &mut wait, &mut armed)?;
        }
    }
}
