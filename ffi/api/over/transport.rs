//! One endpoint with its fabric, and everything that waiting for it takes.
//!
//! A wait is a loop of attempts and rounds of progress. Now and then, after a thousand attempts or so, it looks at what costs
//! more: the clock, the interrupt flag, whether the peer lives, and whether it was silent for too long; and shows life
//! itself. A round that moved data resets the waiter, so that a busy flow never sleeps; every 256th such round looks as well.

use core::hint;

use superpipe_core::{Closed, Endpoint, Reason, TransferId};

use crate::api::deadline::{Armed, Deadline};
use crate::api::error::{Error, ErrorKind};
use crate::api::options::Options;
use crate::os::poll::{PollFd, poll};
use crate::os::{Idle, WaitStrategy, Waiter, monotonic_ns};
use crate::port::{Port, Woken};

/// How often this end shows that it lives.
const LIFE_NS: u64 = 200_000_000;
/// How often the peer's end is looked at with a system call.
const ALIVE_NS: u64 = 2_000_000;
/// Attempts between two rounds of progress: what is awaited is polled alone, so that it is seen at once.
const ATTEMPTS: u32 = 8;
/// Rounds with work between two looks: of blocks of 16 KiB these are 0.3 ms at least, of which a look takes less than a
/// thousandth.
const BUSY_LOOK_ROUNDS: u32 = 256;
/// Longest time for which a sink may accept nothing while data of a dead peer are left.
const LEFT_NS: u64 = 1_000_000_000;
/// The longest time that is slept, or polled, at once.
const NAP_NS: u64 = 50_000_000;

/// Result of an attempt.
pub(super) enum Attempt<T> {
    /// The value that is waited for.
    Done(T),
    /// A part of it: more may be there at once.
    Moved,
    /// Nothing.
    Idle,
}

impl<T> From<Option<T>> for Attempt<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Idle, Self::Done)
    }
}

pub(super) struct Transport<P: Port> {
    pub(super) endpoint: Endpoint<P>,
    pub(super) port: P,
    pub(super) options: Options,
    waiter: Waiter,
    idle_timeout_ns: u64,
    /// When life was shown last, and when the peer's end was looked at.
    shown_ns: u64,
    checked_ns: u64,
    /// What was heard of the peer up to when.
    heard: u64,
    heard_ns: u64,
    gone: bool,
}

impl<P: Port> Transport<P> {
    pub(super) fn new(endpoint: Endpoint<P>, port: P, options: Options) -> Self {
        let now_ns = monotonic_ns();
        Self {
            endpoint,
            port,
            waiter: Waiter::new(options.wait),
            idle_timeout_ns: u64::try_from(options.idle_timeout.as_nanos()).unwrap_or(u64::MAX),
            options,
            shown_ns: now_ns,
            checked_ns: now_ns,
            heard: 0,
            heard_ns: now_ns,
            gone: false,
        }
    }

    pub(super) fn set_wait(&mut self, wait: WaitStrategy) {
        self.options.wait = wait;
        self.waiter = Waiter::new(wait);
    }

    /// Makes attempts and progress until an attempt gives what is waited for, or waiting is over. A peer that is gone is lost
    /// only after a whole round in which nothing moved: what it wrote before is taken out first.
    pub(super) fn wait<T>(
        &mut self,
        deadline: Deadline,
        mut attempt: impl FnMut(&mut Endpoint<P>, &mut P) -> Attempt<T>,
    ) -> Result<T, Error> {
        let mut armed = Armed::Not(deadline);
        self.waiter.reset();
        let mut busy_rounds = 0;
        loop {
            let mut has_moved = false;
            for _ in 0..ATTEMPTS {
                match attempt(&mut self.endpoint, &mut self.port) {
                    Attempt::Done(value) => return Ok(value),
                    Attempt::Moved => {
                        has_moved = true;
                        break;
                    }
                    Attempt::Idle => hint::spin_loop(),
                }
            }
            if self.endpoint.progress(&mut self.port) > 0 || has_moved {
                self.waiter.reset();
                busy_rounds += 1;
                if busy_rounds == BUSY_LOOK_ROUNDS {
                    busy_rounds = 0;
                    self.look(&mut armed)?;
                }
                continue;
            }
            if let Some(closed) = self.endpoint.closed() {
                return Err(Error::closed(closed));
            }
            if self.gone {
                if self.endpoint.forget_dues() {
                    // More may have arrived behind a REJECT that nobody is left to be told of.
                    continue;
                }
                return Err(self.lost());
            }
            match self.waiter.idle() {
                Idle::Again => {}
                Idle::Look => _ = self.look(&mut armed)?,
                Idle::Sleep => {
                    let nap_ns = self.look(&mut armed)?;
                    if self.gone {
                        continue;
                    }
                    self.endpoint.acknowledge(&mut self.port);
                    match self.port.sleep(&mut self.endpoint, nap_ns) {
                        Woken::Look => {}
                        Woken::Nothing => self.checked_ns = monotonic_ns(),
                        Woken::PeerGone => self.gone = true,
                    }
                }
            }
        }
    }

    /// The slow look. How long one may sleep afterwards.
    fn look(&mut self, armed: &mut Armed) -> Result<u64, Error> {
        let now_ns = monotonic_ns();
        if matches!(armed, Armed::Not(_)) {
            // Silence counts while it is waited for, not while the application does something else.
            self.heard_ns = now_ns;
        }
        if self.options.is_interrupted() {
            return Err(Error::interrupted());
        }
        self.show_life(now_ns);
        self.endpoint.look(&mut self.port);
        if self.endpoint.heard() != self.heard {
            (self.heard, self.heard_ns) = (self.endpoint.heard(), now_ns);
        }
        if !self.gone && now_ns.saturating_sub(self.checked_ns) >= ALIVE_NS {
            self.checked_ns = now_ns;
            self.gone = !self.port.is_alive(self.endpoint.link());
        }
        let silent_ns = now_ns.saturating_sub(self.heard_ns);
        if silent_ns >= self.idle_timeout_ns {
            let text = format!("the peer was silent for {:?}, the idle timeout", self.options.idle_timeout);
            return Err(Error::new(ErrorKind::Timeout, text));
        }
        let at_ns = armed.at_ns(now_ns);
        if now_ns >= at_ns {
            return Err(Error::new(ErrorKind::Timeout, "the deadline passed"));
        }
        Ok((at_ns - now_ns).min(self.idle_timeout_ns - silent_ns).min(NAP_NS))
    }

    /// The peer's end is gone.
    fn lost(&self) -> Error {
        Error::gone(self.port.why_gone(self.endpoint.link()))
    }

    pub(super) fn show_life(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.shown_ns) >= LIFE_NS {
            self.shown_ns = now_ns;
            // What is due goes out as something that may wake a peer. A sign of life is not worth that.
            self.endpoint.acknowledge(&mut self.port);
            self.port.set_quiet(self.endpoint.link_mut(), true);
            self.endpoint.show_life(&mut self.port);
            self.port.set_quiet(self.endpoint.link_mut(), false);
        }
    }

    /// Waits until a descriptor is ready, making progress meanwhile. The peer may be silent: it is not waited for. With
    /// `sending`, returns when that transfer is rejected, and fails when the peer is lost. Otherwise data that were received
    /// are still written, unless the sink accepts none for a second.
    pub(super) fn wait_for_fd(&mut self, fd: PollFd<'_>, sending: Option<TransferId>) -> Result<(), Error> {
        let mut left_ns = if sending.is_some() { 0 } else { LEFT_NS };
        loop {
            if self.options.is_interrupted() {
                return Err(Error::interrupted());
            }
            // A peer that closed has sent all that it will, and takes nothing; one that did not is lost, and its transfer with it.
            let has_closed = self.endpoint.peer_closes();
            let is_losing = self.gone && left_ns == 0 && (sending.is_some() || !has_closed);
            let [peer] = self.port.interests(self.endpoint.link());
            let mut fds = [fd, if self.gone { PollFd::none() } else { peer }];
            poll(&mut fds, if is_losing { 0 } else { NAP_NS })?;
            let (ready, peer_ready) = (fds[0].is_ready(), fds[1].is_ready());
            if self.gone && !ready {
                left_ns = left_ns.saturating_sub(NAP_NS);
            }
            if !self.gone && (peer_ready || !ready) {
                self.gone = !self.port.is_alive(self.endpoint.link());
            }
            self.show_life(monotonic_ns());
            let work = self.endpoint.progress(&mut self.port);
            if sending.is_some_and(|id| self.endpoint.is_rejected(id)) {
                return Ok(());
            }
            if let Some(closed) = self.endpoint.closed() {
                return Err(Error::closed(closed));
            }
            if ready && (sending.is_none() || !is_losing) {
                return Ok(());
            }
            if is_losing && work == 0 {
                return Err(if has_closed {
                    Error::closed(Closed::ByPeer(Reason::DONE))
                } else {
                    self.lost()
                });
            }
        }
    }

    /// One turn of a helper that keeps the connection alive while its owner is blocked.
    pub(super) fn keep_alive(&mut self) {
        self.endpoint.progress(&mut self.port);
        self.show_life(monotonic_ns());
    }

    /// Says good-bye, as far as that goes without waiting for the peer.
    pub(super) fn close(&mut self, reason: Reason, deadline: Deadline) -> Result<(), Error> {
        self.endpoint.close(&mut self.port, reason);
        let mut armed = Armed::Not(deadline);
        self.waiter.reset();
        while !self.endpoint.is_told() || !self.endpoint.is_quiescent() {
            if self.endpoint.progress(&mut self.port) > 0 {
                continue;
            }
            if self.gone {
                return Err(self.lost());
            }
            match self.waiter.idle() {
                Idle::Again => {}
                Idle::Look => _ = self.look(&mut armed)?,
                Idle::Sleep => {
                    let nap_ns = self.look(&mut armed)?;
                    self.gone |= self.port.sleep(&mut self.endpoint, nap_ns) == Woken::PeerGone;
                }
            }
        }
        Ok(())
    }
}
