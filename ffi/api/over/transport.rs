//! A driver with its fabric and a clock: what both need of each other, without a wait.
//!
//! It decides nothing, and can be held by one of several threads at a time: see [`Access`](super::access::Access).

use core::sync::atomic::{AtomicU64, Ordering};

use superpipe_core::driver::{Driver, Ended};
use superpipe_core::{Endpoint, Nanos};

use crate::api::error::Error;
use crate::api::options::Options;
use crate::os::{WaitStrategy, monotonic_ns};
use crate::port::{Port, Woken};

pub(in crate::api) struct Transport<P: Port> {
    pub(super) driver: Driver<P>,
    pub(super) port: P,
    pub(super) options: Options,
}

/// The time now.
pub(super) fn now() -> Nanos {
    Nanos(monotonic_ns())
}

/// Names the connections of this process apart.
fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl<P: Port> Transport<P> {
    pub(super) fn new(endpoint: Endpoint<P>, port: P, options: Options) -> Self {
        let driver = Driver::new(endpoint, next_id(), options.wait, options.idle_timeout_ns(), now());
        Self { driver, port, options }
    }

    pub(super) fn set_wait(&mut self, wait: WaitStrategy) {
        self.options.wait = wait;
        self.driver.set_wait(wait);
    }

    /// Notes why a sleep ended.
    pub(super) fn note_woken(&mut self, woken: Woken) {
        match woken {
            Woken::Look => {}
            Woken::Nothing => self.driver.peer_was_alive(now()),
            Woken::PeerGone => self.driver.peer_is_gone(),
        }
    }

    /// Looks whether the peer's end exists, if that is due.
    pub(super) fn look_for_peer(&mut self, now: Nanos) {
        if self.driver.checks_liveness(now) && !self.port.is_alive(self.driver.endpoint().link()) {
            self.driver.peer_is_gone();
        }
    }

    /// Returns the error that tells why the connection has ended.
    pub(super) fn ended(&self, ended: Ended) -> Error {
        match ended {
            Ended::Closed(closed) => Error::closed(closed),
            Ended::Lost => Error::gone(self.port.why_gone(self.driver.endpoint().link())),
        }
    }

    /// Follows a try that found nothing: makes a round of progress now and then, and shows life. Makes no system call.
    ///
    /// # Errors
    /// The connection has ended.
    #[inline]
    pub(super) fn after_empty_try(&mut self) -> Result<(), Error> {
        if !self.driver.count_empty() {
            return Ok(());
        }
        self.after_empty_tries()
    }

    /// Follows an operation that could not go on. Does the same as after an empty try, and also looks for a peer that is gone.
    pub(super) fn after_idle_drive(&mut self) -> Result<(), Error> {
        let is_due = self.driver.count_empty();
        if !is_due {
            return Ok(());
        }
        // A peer that is found to be gone only now is the next call's error: more may have come meanwhile.
        let was_gone = self.driver.is_peer_gone();
        let now = now();
        self.driver.tick(&mut self.port, now);
        self.look_for_peer(now);
        if self.driver.progress(&mut self.port) || !was_gone && self.driver.is_peer_gone() {
            return Ok(());
        }
        self.driver.ended(&self.port).map_or(Ok(()), |ended| Err(self.ended(ended)))
    }

    /// Follows a try that left a transfer at the head. Does the same as after an empty try, but reports no end of the connection while
    /// that transfer can be taken.
    pub(super) fn after_untaken(&mut self) {
        if self.driver.count_empty() {
            self.tick_of_tries();
            self.driver.progress(&mut self.port);
        }
    }

    /// Follows a try that left an incomplete message at the head.
    ///
    /// # Errors
    /// The connection has ended, and the rest of the message will never come.
    pub(super) fn after_long(&mut self) -> Result<(), Error> {
        if !self.driver.count_empty() {
            return Ok(());
        }
        self.tick_of_tries();
        if self.driver.progress(&mut self.port) {
            return Ok(());
        }
        self.driver.ended_in_message(&self.port).map_or(Ok(()), |ended| Err(self.ended(ended)))
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
        self.driver.ended(&self.port).map_or(Ok(()), |ended| Err(self.ended(ended)))
    }

    /// One round of progress, for a program with a loop of its own, which also shows life and looks for a peer that is gone.
    /// Returns true if anything was done.
    pub(super) fn progress(&mut self) -> bool {
        let has_moved = self.driver.progress(&mut self.port);
        // The program's loop may be slow, and then its calls of `progress` are all that shows this end's life.
        if !has_moved || self.driver.count_empty() {
            let now = now();
            self.driver.tick(&mut self.port, now);
            self.look_for_peer(now);
        }
        has_moved
    }

    /// One turn of a helper that keeps the connection alive while its owner is blocked.
    pub(super) fn keep_alive(&mut self) {
        self.driver.progress(&mut self.port);
        self.driver.tick(&mut self.port, now());
    }
}
