//! Core's driver with its fabric and a clock, without a wait; and access to it, which is exclusive for one owner, and by turns for the two
//! halves of a connection that was split.

use core::fmt;
use core::hint;
use core::ops::DerefMut;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::thread;

use superpipe_core::driver::{Drive, Driver, Ended};
use superpipe_core::{Endpoint, Nanos};

use crate::error::Error;
use crate::fabric::{HostFabric, Woken};
use crate::options::Options;
use crate::os::{WaitStrategy, monotonic_ns};

pub(crate) struct HostDriver<F: HostFabric> {
    pub(super) driver: Driver<F>,
    pub(super) fabric: F,
    pub(super) options: Options,
}

/// Attempts to get the lock for a moment, before a half yields its core to the other.
const MOMENTS_SPUN: u32 = 4;
/// Attempts after which a half sleeps instead of yielding: the other may have a lower priority, and then never gets the core otherwise.
const MOMENTS_YIELDED: u32 = 256;
/// Unit of these sleeps. They grow by one unit per [`MOMENTS_YIELDED`] attempts, so a long wait costs little CPU time.
const PAUSE: Duration = Duration::from_micros(50);
/// Units of the longest sleep: a millisecond.
const PAUSES_MAX: u32 = 20;

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
        let driver = Driver::new(endpoint, next_id(), options.wait, options.idle_timeout_ns(), now());
        Self { driver, fabric, options }
    }

    pub(super) fn set_wait(&mut self, wait: WaitStrategy) {
        self.options.wait = wait;
        self.driver.set_wait(wait);
    }

    /// Notes the reason for the end of a sleep.
    pub(super) fn note_woken(&mut self, woken: Woken) {
        match woken {
            Woken::Poll => {}
            Woken::Nothing => self.driver.peer_was_alive(now()),
            Woken::PeerGone => self.driver.peer_is_gone(),
        }
    }

    /// Checks that the peer's end exists, if a check is due.
    pub(super) fn look_for_peer(&mut self, now: Nanos) {
        if self.driver.is_liveness_check_due(now) && !self.fabric.is_alive(self.driver.endpoint().link()) {
            self.driver.peer_is_gone();
        }
    }

    /// Returns the error for the end of the connection.
    pub(super) fn ended(&self, ended: Ended) -> Error {
        match ended {
            Ended::Closed(closed) => Error::closed(closed),
            Ended::Lost => Error::gone(self.fabric.why_gone(self.driver.endpoint().link())),
        }
    }

    /// Follows a try that found nothing: makes a round of progress and sends a keepalive now and then. Makes no system call.
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

    /// Follows an operation that could not continue. Does the same as after an empty try, and also checks that the peer is alive.
    pub(super) fn after_idle_drive(&mut self) -> Result<(), Error> {
        let is_due = self.driver.count_empty();
        if !is_due {
            return Ok(());
        }
        // The loss of a peer that is detected only now is the next call's error, since more may have arrived meanwhile.
        let was_gone = self.driver.is_peer_gone();
        let now = now();
        self.driver.tick(&mut self.fabric, now);
        self.look_for_peer(now);
        if self.driver.progress(&mut self.fabric) || !was_gone && self.driver.is_peer_gone() {
            return Ok(());
        }
        self.driver.ended(&self.fabric).map_or(Ok(()), |ended| Err(self.ended(ended)))
    }

    /// Follows a try that left a transfer at the head. Does the same as after an empty try, but reports no end of the connection while
    /// that transfer can be taken.
    pub(super) fn after_untaken(&mut self) {
        if self.driver.count_empty() {
            self.tick_of_tries();
            self.driver.progress(&mut self.fabric);
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
        if self.driver.progress(&mut self.fabric) {
            return Ok(());
        }
        self.driver.ended_in_message(&self.fabric).map_or(Ok(()), |ended| Err(self.ended(ended)))
    }

    fn tick_of_tries(&mut self) {
        if self.driver.is_tick_due() {
            self.driver.tick(&mut self.fabric, now());
        }
    }

    #[cold]
    #[inline(never)]
    fn after_empty_tries(&mut self) -> Result<(), Error> {
        self.tick_of_tries();
        if self.driver.progress(&mut self.fabric) {
            return Ok(());
        }
        self.driver.ended(&self.fabric).map_or(Ok(()), |ended| Err(self.ended(ended)))
    }

    /// Makes one round of progress, for a program with a loop of its own; also sends keepalives and checks that the peer is alive. Returns true
    /// if anything was done.
    pub(super) fn progress(&mut self) -> bool {
        let has_moved = self.driver.progress(&mut self.fabric);
        // The program's loop may be slow, and then only its calls of `progress` send keepalives.
        if !has_moved || self.driver.count_empty() {
            let now = now();
            self.driver.tick(&mut self.fabric, now);
            self.look_for_peer(now);
        }
        has_moved
    }

    /// Makes one turn of the helper thread that sends keepalives while the owner is blocked.
    pub(super) fn keep_alive(&mut self) {
        self.driver.progress(&mut self.fabric);
        self.driver.tick(&mut self.fabric, now());
    }
}

/// Attempt of a half that waits, which the other half can make as well.
pub(crate) trait Attempt<F: HostFabric> {
    /// Makes one attempt, and keeps its result.
    fn step(&mut self, driver: &mut Driver<F>, fabric: &mut F) -> Drive<()>;
}

/// Access to a driver, which exists as long as this value.
pub(crate) trait Access: fmt::Debug + Send + 'static {
    /// The fabric.
    type Fabric: HostFabric;
    /// The driver while it is held: for a bounded number of attempts and never for a wait.
    type Held<'a>: DerefMut<Target = HostDriver<Self::Fabric>>
    where
        Self: 'a;
    /// True if another half may exist.
    const IS_SHARED: bool;

    /// Holds the driver. Waits until the other half releases it.
    fn hold(&mut self) -> Self::Held<'_>;
    /// Holds the driver. Returns `None` if the other half holds it for longer than a moment.
    fn try_hold(&mut self) -> Option<Self::Held<'_>>;
    /// Yields to the other half if that was refused a turn. Returns true if another thread may have had the core meanwhile.
    fn give_way(&self) -> bool;
    /// Returns true if the other half runs on the same core as this one: spinning would only keep it from its work.
    fn shares_core(&self) -> bool;
    /// Counts bytes that were moved. Returns true if the other half, on the same core, is due for its turn.
    fn count_moved(&mut self, bytes: usize) -> bool;
    /// Makes the attempt that the other half lent while it yields on the same core. Returns `None` if it lent none.
    fn step_other(held: &mut Self::Held<'_>) -> Option<Drive<()>>;
    /// Yields the core. Meanwhile the other half may make `attempt`.
    fn yield_lending(&mut self, attempt: &mut (dyn Attempt<Self::Fabric> + Send));
    /// Returns true if the user has set the interrupt flag.
    fn is_interrupted(&self) -> bool;
    /// Returns true in the process that made the connection. The memory is not there in a child of fork.
    fn is_ours(&self) -> bool;
}

/// Pauses after a number of refused moments. Returns true if another thread may have had the core meanwhile.
pub(super) fn pause(refused: u32) -> bool {
    match refused {
        0..MOMENTS_SPUN => hint::spin_loop(),
        MOMENTS_SPUN..MOMENTS_YIELDED => thread::yield_now(),
        _ => thread::sleep(PAUSE * (refused / MOMENTS_YIELDED).min(PAUSES_MAX)),
    }
    refused >= MOMENTS_SPUN
}
