//! Waiting: the loop of attempts, and of what core's driver decides after each round of them.
//!
//! The driver is held for a few attempts and a round of progress, and released before anything that takes time: a yield or a sleep.

use core::ops::ControlFlow;
use core::{hint, mem};
use std::thread;

use superpipe_core::driver::{ATTEMPTS_PER_ROUND, Drive, Driver, Next, Rest, Wait};
use superpipe_core::{Nanos, Reason};

use super::access::{Attempt, DriverAccess, pause_after_refusals};
use super::host_driver::{HostDriver, now};
use crate::deadline::{ArmedDeadline, Deadline};
use crate::error::Error;
use crate::fabric::HostFabric;
use crate::os::poll::{Polled, poll};
use crate::os::{WaitStrategy, monotonic_ns};

/// Rounds without work before a half yields to the other on its core: about as long as the peer needs for its next block. Few, since the
/// other half may have work, and does not run meanwhile.
const SHARED_SPIN_ROUNDS: u32 = 8;
/// The same while the other half has lent its attempt: then only the peer can bring work. Many, since a yield costs a switch of threads and
/// the other half, whose attempt is made here in each round, would find nothing; bounded, since the peer may need this core. Measure a
/// change with `cargo bench -p superpipe-bench --bench duplex`.
const JOINT_SPIN_ROUNDS: u32 = 64;
/// Bytes that a round with work counts as: a block of the default size.
const PART_BYTES: usize = 16 << 10;

/// Attempt of a waiting call, with its result.
pub(super) struct Task<S, T> {
    attempt: S,
    /// Result of the attempt, once it is done.
    value: Option<T>,
    /// True if the attempt moved a part, made by this half or by the other.
    has_moved: bool,
}

impl<F: HostFabric, T, S: FnMut(&mut Driver<F>, &mut F) -> Drive<T>> Attempt<F> for Task<S, T> {
    #[inline]
    fn step(&mut self, driver: &mut Driver<F>, fabric: &mut F) -> Drive<()> {
        let driven = driver.attempt(fabric, &mut self.attempt);
        self.has_moved |= !matches!(driven, Drive::Idle);
        driven.map(|value| self.value = Some(value))
    }
}

/// Result of the attempts and the round that a wait makes while it holds the driver.
pub(super) struct Round {
    /// Next step of the wait.
    next: Next,
    /// Result of the attempt that the other half lent, if it lent one.
    other: Option<Drive<()>>,
}

/// Calls that wait, for every kind of access.
pub(super) trait Waiting: DriverAccess {
    /// Makes attempts and progress until an attempt is done, or the wait has ended.
    #[inline]
    fn wait<T>(
        &mut self,
        deadline: Deadline,
        attempt: impl FnMut(&mut Driver<Self::Fabric>, &mut Self::Fabric) -> Drive<T> + Send,
    ) -> Result<T, Error>
    where
        T: Send,
    {
        self.wait_armed(&mut ArmedDeadline::Unarmed(deadline), attempt)
    }

    /// Waits as [`wait`](Self::wait) does, as one of several waits of a call that share a deadline.
    fn wait_armed<T>(
        &mut self,
        armed: &mut ArmedDeadline,
        attempt: impl FnMut(&mut Driver<Self::Fabric>, &mut Self::Fabric) -> Drive<T> + Send,
    ) -> Result<T, Error>
    where
        T: Send,
    {
        let mut wait = self.hold().begin_wait();
        let (mut refused, mut awake, mut idle_rounds, mut shares_core) = (0, 0, 0, self.shares_core());
        let mut task = Task { attempt, value: None, has_moved: false };
        loop {
            let mut has_yielded = self.give_way();
            let Some(mut held) = self.try_hold() else {
                refused += 1;
                self.pause_after_refusal(refused, armed)?;
                continue;
            };
            refused = 0;
            let yields = shares_core && held.driver.wait_strategy() != WaitStrategy::Spin;
            let round = match Self::make_round(&mut held, &mut wait, &mut task, yields) {
                ControlFlow::Continue(round) => round,
                ControlFlow::Break(value) => return Ok(value),
            };
            drop(held);
            if self.is_turn_over(&round, yields, &mut idle_rounds) {
                self.yield_lending(&mut task);
                has_yielded = true;
                if round.next != Next::Again {
                    shares_core = self.shares_core();
                }
            } else {
                match round.next {
                    Next::Rest(Rest::Sleep) => {
                        self.sleep_until_work(&mut wait, armed, &mut awake, &mut task)?
                    }
                    Next::Rest(Rest::Spin) if yields => {}
                    next => self.follow(next, &mut wait, armed)?,
                }
            }
            // The other half may have completed the attempt while this one yielded.
            if let Some(value) = task.value.take() {
                return Ok(value);
            }
            // A yield may have lasted another thread's time slice.
            if has_yielded {
                self.check_time(&mut wait, armed)?;
            }
        }
    }

    /// Makes a few attempts, and a round of progress. With `steps_other` makes the attempts of the other half as well. Breaks
    /// with the result of the own attempt once it is done.
    #[inline]
    fn make_round<T, S: FnMut(&mut Driver<Self::Fabric>, &mut Self::Fabric) -> Drive<T>>(
        held: &mut Self::Held<'_>,
        wait: &mut Wait,
        task: &mut Task<S, T>,
        steps_other: bool,
    ) -> ControlFlow<T, Round> {
        let mut has_moved = mem::take(&mut task.has_moved);
        let mut other = None;
        for _ in 0..ATTEMPTS_PER_ROUND {
            let HostDriver { driver, fabric, .. } = &mut **held;
            let driven = task.step(driver, fabric);
            if let Some(value) = task.value.take() {
                return ControlFlow::Break(value);
            }
            other = if steps_other { Self::step_other(held) } else { None };
            has_moved |= driven == Drive::Moved || other.is_some_and(|other| other != Drive::Idle);
            if has_moved {
                break;
            }
            hint::spin_loop();
        }
        let HostDriver { driver, fabric, .. } = &mut **held;
        let next = driver.round(fabric, wait, has_moved);
        task.has_moved = false;
        ControlFlow::Continue(Round { next, other })
    }

    /// Returns true if this half is to yield after a round, because the other one runs on the same core: it has moved enough, or nothing
    /// for a number of rounds, or it has just completed the attempt that the other half lent.
    #[inline]
    fn is_turn_over(&mut self, round: &Round, yields: bool, idle_rounds: &mut u32) -> bool {
        let is_lent = matches!(round.other, Some(Drive::Idle | Drive::Moved));
        match round.next {
            // Both follow a round with work.
            Next::Again | Next::CheckTime => {
                *idle_rounds = 0;
                round.other == Some(Drive::Done(())) || self.count_moved(PART_BYTES) && !is_lent
            }
            Next::Rest(Rest::Spin) if yields => {
                *idle_rounds += 1;
                let is_over = *idle_rounds >= if is_lent { JOINT_SPIN_ROUNDS } else { SHARED_SPIN_ROUNDS };
                if is_over {
                    *idle_rounds = 0;
                }
                is_over
            }
            Next::Rest(_) | Next::Ended(_) => false,
        }
    }

    /// Sleeps until the peer writes something, or until the time has to be checked again. Makes the attempt once more before.
    fn sleep_until_work<T, S: FnMut(&mut Driver<Self::Fabric>, &mut Self::Fabric) -> Drive<T>>(
        &mut self,
        wait: &mut Wait,
        armed: &mut ArmedDeadline,
        awake: &mut u32,
        task: &mut Task<S, T>,
    ) -> Result<(), Error> {
        let sleep_ns = self.check_time(wait, armed)?;
        self.sleep(sleep_ns, awake, |driver, fabric| match task.step(driver, fabric) {
            Drive::Done(()) | Drive::Moved => true,
            Drive::Idle => driver.endpoint().closed().is_some(),
        });
        Ok(())
    }

    /// Takes the next step of a wait, except to sleep.
    fn follow(&mut self, next: Next, wait: &mut Wait, armed: &mut ArmedDeadline) -> Result<(), Error> {
        match next {
            Next::Again | Next::Rest(Rest::Sleep) => {}
            Next::CheckTime | Next::Rest(Rest::CheckTime) => _ = self.check_time(wait, armed)?,
            Next::Rest(Rest::Spin) => hint::spin_loop(),
            Next::Rest(Rest::Yield { is_first }) => {
                self.yield_core(wait, is_first);
                self.check_time(wait, armed)?;
            }
            Next::Ended(ended) => return Err(self.hold().ended(ended)),
        }
        Ok(())
    }

    /// Pauses after the lock was refused, and checks the interrupt flag and the deadline if another thread may have had the core.
    #[cold]
    fn pause_after_refusal(&mut self, refused: u32, armed: &mut ArmedDeadline) -> Result<(), Error> {
        if !pause_after_refusals(refused) {
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

    /// Sleeps until the peer writes something. `poll_once_more` returns true if something has arrived already. It is called after the peer
    /// can see the request for a wake-up, and under the lock, so the other half cannot take what has arrived. While the other half has
    /// not ended a sleep from which both were woken, this one cannot sleep; `awake` counts these refusals.
    fn sleep(
        &mut self,
        sleep_ns: u64,
        awake: &mut u32,
        poll_once_more: impl FnOnce(&mut Driver<Self::Fabric>, &mut Self::Fabric) -> bool,
    ) {
        let (mut fds, sleep_ns) = {
            let mut held = self.hold();
            let host = &mut *held;
            let HostDriver { driver, fabric, .. } = host;
            if driver.is_peer_gone() {
                return;
            }
            driver.endpoint_mut().acknowledge(fabric);
            let sleep_ns = match fabric.begin_sleep(driver.endpoint_mut(), sleep_ns) {
                Ok(sleep_ns) => sleep_ns,
                Err(end) => {
                    host.note_sleep_end(end);
                    drop(held);
                    // Lets the other half have the core, to end its sleep.
                    *awake += 1;
                    if Self::IS_SHARED {
                        pause_after_refusals(*awake);
                    }
                    return;
                }
            };
            if poll_once_more(driver, fabric) {
                let fds = fabric.sleep_interests(driver.endpoint().link());
                // SAFETY: the descriptors are open until the link is dropped (`HostFabric`), which the host holds during this call; they
                // are not polled.
                let fds = fds.map(|fd| unsafe { fd.without_borrow() });
                fabric.end_sleep(driver.endpoint_mut(), Ok(Polled::Interrupted), fds);
                return;
            }
            let fds = fabric.sleep_interests(driver.endpoint().link());
            // SAFETY: the descriptors are open until the link is dropped (`HostFabric`), and the host, which has it, is there as
            // long as this access to it, which is borrowed until the end of this function.
            (fds.map(|fd| unsafe { fd.without_borrow() }), sleep_ns)
        };
        *awake = 0;
        let polled = poll(&mut fds, sleep_ns);
        let host = &mut *self.hold();
        let end = host.fabric.end_sleep(host.driver.endpoint_mut(), polled, fds);
        host.note_sleep_end(end);
    }

    /// Checks the interrupt flag, the peer's end and the deadline, and sends a keepalive that is due. Returns the nanoseconds that a sleep
    /// may last afterwards.
    fn check_time(&mut self, wait: &mut Wait, armed: &mut ArmedDeadline) -> Result<u64, Error> {
        let now = now();
        if self.is_interrupted() {
            return Err(Error::interrupted());
        }
        let deadline = Nanos(armed.at_ns(now.0));
        let host = &mut *self.hold();
        host.check_peer(now);
        let HostDriver { driver, fabric, .. } = &mut *host;
        fabric.tend(driver.endpoint_mut());
        let checked = driver.check_time(fabric, wait, now, deadline).map_err(Error::late);
        host.copy_counters(now);
        checked
    }

    /// Closes the connection, without waiting for the peer's application. A drop afterwards may use the rest of the deadline.
    fn close(&mut self, reason: Reason, deadline: Deadline) -> Result<(), Error> {
        let mut armed = ArmedDeadline::Unarmed(deadline);
        let mut wait = {
            let host = &mut *self.hold();
            host.driver.close(&mut host.fabric, reason);
            let by_ns = armed.at_ns(monotonic_ns());
            host.fabric.end_by(host.driver.endpoint_mut().link_mut(), by_ns);
            host.driver.begin_wait()
        };
        let mut awake = 0;
        loop {
            let next = {
                let host = &mut *self.hold();
                let has_moved = match host.driver.drive_close(&mut host.fabric) {
                    Drive::Done(closed) => return closed.map_err(|ended| host.ended(ended)),
                    Drive::Moved => true,
                    Drive::Idle => false,
                };
                host.driver.close_round(&mut wait, has_moved)
            };
            if next == Next::Rest(Rest::Sleep) {
                let sleep_ns = self.check_time(&mut wait, &mut armed)?;
                self.sleep(sleep_ns, &mut awake, |driver, fabric| driver.drive_close(fabric) != Drive::Idle);
            }
            self.follow(next, &mut wait, &mut armed)?;
        }
    }
}

impl<A: DriverAccess> Waiting for A {}
