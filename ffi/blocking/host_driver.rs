//! Core's driver with its fabric and a clock, without a wait: what a call does after its try or its part of an operation found nothing.

use core::sync::atomic::{AtomicU64, Ordering};

use superpipe_core::driver::{Driver, Ended};
use superpipe_core::{Endpoint, Nanos};

use crate::error::Error;
use crate::fabric::{HostFabric, SleepEnd};
use crate::options::Options;
use crate::os::{WaitStrategy, monotonic_ns};

/// Who polls a connection: the number of a poller, and its key for it.
pub(crate) type PolledBy = (u32, u64);

/// A driver with its fabric and the options of the connection.
pub(crate) struct HostDriver<F: HostFabric> {
    /// Number of the connection in this process, never 0.
    pub(super) id: u64,
    pub(super) driver: Driver<F>,
    pub(super) fabric: F,
    pub(super) options: Options,
    /// Who polls it beside others.
    pub(super) polled_by: Option<PolledBy>,
}

/// Returns the time.
pub(super) fn now() -> Nanos {
    Nanos(monotonic_ns())
}

/// Returns a number that is unique in this process.
fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl<F: HostFabric> HostDriver<F> {
    pub(super) fn new(endpoint: Endpoint<F>, fabric: F, options: Options) -> Self {
        let id = next_id();
        let driver = Driver::new(endpoint, id, options.wait, options.idle_timeout_ns(), now());
        Self { id, driver, fabric, options, polled_by: None }
    }

    pub(super) fn set_wait(&mut self, wait: WaitStrategy) {
        self.options.wait = wait;
        self.driver.set_wait(wait);
    }

    /// Notes what the end of a sleep says about the peer.
    pub(super) fn note_sleep_end(&mut self, end: SleepEnd) {
        match end {
            SleepEnd::Poll => {}
            SleepEnd::TimedOut => self.driver.note_peer_alive(now()),
            SleepEnd::PeerGone => self.driver.note_peer_gone(),
        }
    }

    /// Checks that the peer's end exists, if a check is due.
    pub(super) fn check_peer(&mut self, now: Nanos) {
        if self.driver.is_liveness_check_due(now) && !self.fabric.is_alive(self.driver.endpoint().link()) {
            self.driver.note_peer_gone();
        }
    }

    /// Returns the error for the end of the connection.
    pub(super) fn ended(&self, ended: Ended) -> Error {
        match ended {
            Ended::Closed(closed) => Error::closed(closed),
            Ended::Lost => Error::gone(self.fabric.why_gone(self.driver.endpoint().link())),
        }
    }

    /// Counts a try that found nothing. Every few tries makes a round of progress, and now and then sends a keepalive. Makes no system
    /// call.
    ///
    /// # Errors
    /// The connection has ended.
    #[inline]
    pub(super) fn count_empty_try(&mut self) -> Result<(), Error> {
        if self.driver.count_empty() { self.progress_after_empty_tries() } else { Ok(()) }
    }

    #[cold]
    #[inline(never)]
    fn progress_after_empty_tries(&mut self) -> Result<(), Error> {
        if self.tick_and_progress() { Ok(()) } else { self.check_ended() }
    }

    /// Counts a try that left a transfer at the head. Does the same as [`count_empty_try`](Self::count_empty_try), but reports no end
    /// of the connection, since that transfer can still be taken.
    pub(super) fn count_try_that_left_transfer(&mut self) {
        if self.driver.count_empty() {
            self.tick_and_progress();
        }
    }

    /// Counts a try that left an incomplete message at the head.
    ///
    /// # Errors
    /// The connection has ended, and the rest of the message will never come.
    pub(super) fn count_try_that_left_part(&mut self) -> Result<(), Error> {
        if !self.driver.count_empty() || self.tick_and_progress() {
            return Ok(());
        }
        self.driver.ended_in_message(&self.fabric).map_or(Ok(()), |ended| Err(self.ended(ended)))
    }

    /// Counts a call of an operation that moved nothing. Every few calls makes a round of progress, sends a keepalive that is due, and
    /// checks that the peer is alive.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) fn count_idle_drive(&mut self) -> Result<(), Error> {
        if !self.driver.count_empty() {
            return Ok(());
        }
        // The loss of a peer that is detected only now is the next call's error, since more may have arrived meanwhile.
        let was_gone = self.driver.is_peer_gone();
        let now = now();
        self.tick(now);
        self.check_peer(now);
        if self.driver.progress(&mut self.fabric) || !was_gone && self.driver.is_peer_gone() {
            return Ok(());
        }
        self.check_ended()
    }

    /// Sends a keepalive if one is due after this number of tries, and makes a round of progress. Returns true if anything was done.
    fn tick_and_progress(&mut self) -> bool {
        if self.driver.is_tick_due() {
            self.tick(now());
        }
        self.driver.progress(&mut self.fabric)
    }

    /// Sends a keepalive that is due, and gives back what is not used.
    fn tick(&mut self, now: Nanos) {
        self.driver.tick(&mut self.fabric, now);
        self.fabric.tend(self.driver.endpoint_mut());
    }

    pub(super) fn check_ended(&mut self) -> Result<(), Error> {
        self.driver.ended(&self.fabric).map_or(Ok(()), |ended| Err(self.ended(ended)))
    }

    /// Makes one round of progress, for a program with a loop of its own; also sends keepalives and checks that the peer is alive. Returns true
    /// if anything was done.
    pub(super) fn progress(&mut self) -> bool {
        let has_moved = self.driver.progress(&mut self.fabric);
        // The program's loop may be slow, and then only its calls of `progress` send keepalives.
        if !has_moved || self.driver.count_empty() {
            let now = now();
            self.tick(now);
            self.check_peer(now);
        }
        has_moved
    }

    /// Makes one turn of the helper thread that sends keepalives while the owner is blocked. Returns true while a job is under way.
    pub(super) fn keep_alive(&mut self) -> bool {
        self.driver.progress(&mut self.fabric);
        self.tick(now());
        self.driver.has_jobs()
    }
}
