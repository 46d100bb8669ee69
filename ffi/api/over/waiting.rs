//! Waiting: a loop of attempts and of what the driver says comes after them.
//!
//! The transport is held for a few attempts and a round, and let go before anything that takes time: a rest, a sleep, a look at
//! a descriptor.

use core::{hint, mem};
use std::thread;

use superpipe_core::driver::{ATTEMPTS, Drive, Driver, NAP_NS, Next, Outside, OutsideNext, Rest, Wait};
use superpipe_core::{Nanos, Reason};

use super::access::{Access, Attempt};
use super::pause::pause;
use super::transport::{Transport, now};
use crate::api::deadline::{Armed, Deadline};
use crate::api::error::Error;
use crate::os::clock::until;
use crate::os::poll::{PollFd, Polled, poll};
use crate::os::{WaitStrategy, monotonic_ns};
use crate::port::Port;

/// Rounds without work before a half yields to the other on its core: about as long as the peer needs for its next block. Few, since the
/// other half may have work, and does not run meanwhile.
const SHARED_SPIN_ROUNDS: u32 = 8;
/// The same while the other half has lent its attempt: then only the peer can bring work. Many, since a yield costs a switch of threads and
/// the other half, whose attempt is made here in each round, would find nothing; bounded, since the peer may need this core. What a value is
/// worth shows `cargo bench -p superpipe-bench --bench duplex`.
const JOINT_SPIN_ROUNDS: u32 = 64;
/// Bytes that a round with work counts as: a block of the default size.
const PART_BYTES: usize = 16 << 10;

/// Attempt of a waiting call, with its result.
struct Task<F, T> {
    attempt: F,
    /// Result of the attempt, once it is done.
    value: Option<T>,
    /// True if the attempt moved a part, made by this half or by the other.
    has_moved: bool,
}

impl<P: Port, T, F: FnMut(&mut Driver<P>, &mut P) -> Drive<T>> Attempt<P> for Task<F, T> {
    #[inline]
    fn step(&mut self, driver: &mut Driver<P>, port: &mut P) -> Drive<()> {
        let driven = (self.attempt)(driver, port);
        self.has_moved |= !matches!(driven, Drive::Idle);
        driven.map(|value| self.value = Some(value))
    }
}

/// Waits, over any way to a transport.
pub(super) trait Waiting: Access {
    /// Makes attempts and progress until an attempt gives what is waited for, or waiting is over.
    #[inline]
    fn wait<T>(
        &mut self,
        deadline: Deadline,
        attempt: impl FnMut(&mut Driver<Self::Port>, &mut Self::Port) -> Drive<T> + Send,
    ) -> Result<T, Error>
    where
        T: Send,
    {
        self.wait_armed(&mut Armed::Not(deadline), attempt)
    }

    /// The same, as one of several waits of a call that has one deadline.
    fn wait_armed<T>(
        &mut self,
        armed: &mut Armed,
        attempt: impl FnMut(&mut Driver<Self::Port>, &mut Self::Port) -> Drive<T> + Send,
    ) -> Result<T, Error>
    where
        T: Send,
    {
        let mut wait = self.hold().driver.begin_wait();
        let (mut refused, mut awake, mut idle, mut shares_core) = (0, 0, 0, self.shares_core());
        let mut task = Task { attempt, value: None, has_moved: false };
        loop {
            let mut has_yielded = self.give_way();
            let Some(mut held) = self.try_hold() else {
                refused += 1;
                self.follow_refusal(refused, armed)?;
                continue;
            };
            refused = 0;
            let yields = shares_core && held.driver.wait_strategy() != WaitStrategy::Spin;
            let mut has_moved = mem::take(&mut task.has_moved);
            let mut other = None;
            for _ in 0..ATTEMPTS {
                let Transport { driver, port, .. } = &mut *held;
                let driven = task.step(driver, port);
                if let Some(value) = task.value.take() {
                    return Ok(value);
                }
                other = if yields { Self::step_other(&mut held) } else { None };
                has_moved |= driven == Drive::Moved || other.is_some_and(|other| other != Drive::Idle);
                if has_moved {
                    break;
                }
                hint::spin_loop();
            }
            let Transport { driver, port, .. } = &mut *held;
            let next = driver.round(port, &mut wait, has_moved);
            drop(held);
            task.has_moved = false;
            let lends = matches!(other, Some(Drive::Idle | Drive::Moved));
            match next {
                Next::Again => {
                    idle = 0;
                    let other_is_done = other == Some(Drive::Done(()));
                    if other_is_done || self.count_moved(PART_BYTES) && !lends {
                        self.yield_lending(&mut task);
                        has_yielded = true;
                    }
                }
                Next::Rest(Rest::Spin) if yields => {
                    idle += 1;
                    if idle >= if lends { JOINT_SPIN_ROUNDS } else { SHARED_SPIN_ROUNDS } {
                        idle = 0;
                        self.yield_lending(&mut task);
                        (has_yielded, shares_core) = (true, self.shares_core());
                    }
                }
                Next::Rest(Rest::Sleep) => {
                    let nap_ns = self.look(&mut wait, armed)?;
                    self.sleep(nap_ns, &mut awake, |driver, port| match task.step(driver, port) {
                        Drive::Done(()) | Drive::Moved => true,
                        Drive::Idle => driver.endpoint().closed().is_some(),
                    });
                }
                next => self.follow(next, &mut wait, armed)?,
            }
            // The other half may have completed the attempt while this one yielded.
            if let Some(value) = task.value.take() {
                return Ok(value);
            }
            // A yield may have lasted another thread's time slice.
            if has_yielded {
                self.look(&mut wait, armed)?;
            }
        }
    }

    /// Does what comes after a round, but for a sleep.
    fn follow(&mut self, next: Next, wait: &mut Wait, armed: &mut Armed) -> Result<(), Error> {
        match next {
            Next::Again | Next::Rest(Rest::Sleep) => {}
            Next::Look | Next::Rest(Rest::Look) => _ = self.look(wait, armed)?,
            Next::Rest(Rest::Spin) => hint::spin_loop(),
            Next::Rest(Rest::Yield { is_first }) => {
                self.yield_core(wait, is_first);
                self.look(wait, armed)?;
            }
            Next::Ended(ended) => return Err(self.hold().ended(ended)),
        }
        Ok(())
    }

    /// Pauses after the lock was refused, and now and then looks at the interrupt flag and the deadline.
    #[cold]
    fn follow_refusal(&mut self, refused: u32, armed: &mut Armed) -> Result<(), Error> {
        if !pause(refused) {
            return Ok(());
        }
        if self.is_interrupted() {
            return Err(Error::interrupted());
        }
        let now_ns = monotonic_ns();
        if now_ns >= armed.at_ns(now_ns) { Err(Error::deadline()) } else { Ok(()) }
    }

    fn yield_core(&mut self, wait: &Wait, is_first: bool) {
        let begin_ns = monotonic_ns();
        thread::yield_now();
        self.hold().driver.note_yield(wait, is_first, monotonic_ns() - begin_ns);
    }

    /// Sleeps until the peer writes something. `last_look` returns true if something is here already; it is called after the peer can
    /// see that this end is to be woken, and under the lock, so that the other half cannot take it away. While the other half has not
    /// ended a sleep from which both were woken, this one cannot sleep: `awake` counts how often it was so.
    fn sleep(
        &mut self,
        nap_ns: u64,
        awake: &mut u32,
        last_look: impl FnOnce(&mut Driver<Self::Port>, &mut Self::Port) -> bool,
    ) {
        let (mut fds, nap_ns) = {
            let mut held = self.hold();
            let transport = &mut *held;
            let Transport { driver, port, .. } = transport;
            if driver.is_peer_gone() {
                return;
            }
            driver.endpoint_mut().acknowledge(port);
            let nap_ns = match port.begin_sleep(driver.endpoint_mut(), nap_ns) {
                Ok(nap_ns) => nap_ns,
                Err(woken) => {
                    transport.note_woken(woken);
                    drop(held);
                    // The other half gets the core, to end its sleep.
                    *awake += 1;
                    if Self::IS_SHARED {
                        pause(*awake);
                    }
                    return;
                }
            };
            if last_look(driver, port) {
                let fds = port.sleep_interests(driver.endpoint().link());
                // SAFETY: as below; they are not even polled.
                let fds = fds.map(|fd| unsafe { fd.without_borrow() });
                port.end_sleep(driver.endpoint_mut(), Ok(Polled::Interrupted), fds);
                return;
            }
            let fds = port.sleep_interests(driver.endpoint().link());
            // SAFETY: the descriptors are open until the link is dropped (`Port`), and the transport, which has it, is there as
            // long as this access to it, which is borrowed until the end of this function.
            (fds.map(|fd| unsafe { fd.without_borrow() }), nap_ns)
        };
        *awake = 0;
        let polled = poll(&mut fds, nap_ns);
        let transport = &mut *self.hold();
        let woken = transport.port.end_sleep(transport.driver.endpoint_mut(), polled, fds);
        transport.note_woken(woken);
    }

    /// Looks at the clock, the interrupt flag and the peer's end. Returns how long one may sleep afterwards.
    fn look(&mut self, wait: &mut Wait, armed: &mut Armed) -> Result<u64, Error> {
        let now = now();
        if self.is_interrupted() {
            return Err(Error::interrupted());
        }
        let deadline = Nanos(armed.at_ns(now.0));
        let transport = &mut *self.hold();
        transport.look_for_peer(now);
        let Transport { driver, port, .. } = transport;
        driver.look(port, wait, now, deadline).map_err(Error::late)
    }

    /// Waits until a descriptor is ready, or the stream that it is for was rejected, making progress meanwhile.
    fn wait_for_fd(&mut self, fd: PollFd<'_>, mut outside: Outside, armed: &mut Armed) -> Result<(), Error> {
        let mut nap_ns = until(armed.at_ns(monotonic_ns())).min(NAP_NS);
        loop {
            if self.is_interrupted() {
                return Err(Error::interrupted());
            }
            let (is_gone, peer) = {
                let transport = &*self.hold();
                let [peer] = transport.port.interests(transport.driver.endpoint().link());
                // SAFETY: as in `sleep`: the link is there as long as this access, and its descriptors are open.
                (transport.driver.is_peer_gone(), unsafe { peer.without_borrow() })
            };
            let mut fds = [fd, if is_gone { PollFd::none() } else { peer }];
            poll(&mut fds, nap_ns)?;
            let (is_ready, is_peer_ready) = (fds[0].is_ready(), fds[1].is_ready());
            let transport = &mut *self.hold();
            let link = transport.driver.endpoint().link();
            if !is_gone && (is_peer_ready || !is_ready) && !transport.port.is_alive(link) {
                transport.driver.peer_is_gone();
            }
            let now = now();
            nap_ns = match transport.driver.outside_round(&mut transport.port, &mut outside, is_ready, now) {
                OutsideNext::Ready => return Ok(()),
                OutsideNext::Ended(ended) => return Err(transport.ended(ended)),
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

    /// Says good-bye, as far as that goes without waiting for the peer's application. A drop afterwards has what is left of the
    /// deadline.
    fn close(&mut self, reason: Reason, deadline: Deadline) -> Result<(), Error> {
        let mut armed = Armed::Not(deadline);
        let mut wait = {
            let transport = &mut *self.hold();
            transport.driver.close(&mut transport.port, reason);
            let by_ns = armed.at_ns(monotonic_ns());
            transport.port.end_by(transport.driver.endpoint_mut().link_mut(), by_ns);
            transport.driver.begin_wait()
        };
        let mut awake = 0;
        loop {
            let next = {
                let transport = &mut *self.hold();
                let has_moved = match transport.driver.drive_close(&mut transport.port) {
                    Drive::Done(closed) => return closed.map_err(|ended| transport.ended(ended)),
                    Drive::Moved => true,
                    Drive::Idle => false,
                };
                transport.driver.close_round(&mut wait, has_moved)
            };
            if next == Next::Rest(Rest::Sleep) {
                let nap_ns = self.look(&mut wait, &mut armed)?;
                self.sleep(nap_ns, &mut awake, |driver, port| driver.drive_close(port) != Drive::Idle);
            }
            self.follow(next, &mut wait, &mut armed)?;
        }
    }
}

impl<A: Access> Waiting for A {}
