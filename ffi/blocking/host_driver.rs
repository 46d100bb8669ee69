//! Core's driver with its fabric and a clock, without a wait: what a call does after its try or its part of an operation found nothing.

use core::sync::atomic::{AtomicU64, Ordering};

use superpipe_core::driver::{Driver, Ended, Wait};
use superpipe_core::polling::Owner;
use superpipe_core::{Counters, Endpoint, Nanos};

use crate::error::Error;
use crate::fabric::{HostFabric, SleepEnd};
use crate::metrics::{COPY_PERIOD_NS, ConnectionReport, LastCopy, Observed, State, Subject};
use crate::options::Options;
use crate::os::{WaitStrategy, monotonic_ns};
use crate::trace;

/// Waits after which one that begins looks at the clock, to copy counters: waits that end soon do not look at it. A look costs 20 ns, so less than 0.1 ns per
/// wait. With waits of 100 µs, after which most of them look at the clock by themselves, these are 26 ms.
const WAITS_PER_LOOK: u32 = 256;

/// A driver with its fabric and the options of the connection.
pub(crate) struct HostDriver<F: HostFabric> {
    /// Number of the connection in this process, never 0.
    pub(super) id: u64,
    pub(super) driver: Driver<F>,
    pub(super) fabric: F,
    pub(super) options: Options,
    /// Who polls it beside others.
    pub(super) polled_by: Option<Owner>,
    /// It is looked at now and then while it waits for a wake-up.
    pub(super) looks_while_armed: bool,
    /// Chunks that were sent when something was acknowledged without a wake-up of the peer.
    pub(super) settled_at: Option<u64>,
    /// When its counters are to be copied, and waits that were begun.
    copy_due_ns: u64,
    /// The end was copied.
    is_end_copied: bool,
    waits: u32,
    /// Its part in the page of metrics, once the application has the connection.
    report: Option<Box<ConnectionReport>>,
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
        Self {
            id,
            driver,
            fabric,
            options,
            polled_by: None,
            looks_while_armed: true,
            settled_at: None,
            copy_due_ns: u64::MAX,
            is_end_copied: false,
            waits: 0,
            report: None,
        }
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
        self.copy_counters(now);
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

    /// Begins a wait. Now and then copies the counters, since a wait that ends soon never looks at the time.
    #[inline]
    pub(super) fn begin_wait(&mut self) -> Wait {
        self.waits = self.waits.wrapping_add(1);
        if self.waits.is_multiple_of(WAITS_PER_LOOK) {
            self.look_at_clock();
        }
        self.driver.begin_wait()
    }

    #[cold]
    #[inline(never)]
    fn look_at_clock(&mut self) {
        if self.report.as_ref().is_some_and(|report| report.is_wanted()) {
            self.copy_counters(now());
        }
    }

    /// Returns the counters of the connection.
    pub(super) fn counters(&self) -> Counters {
        let mut counters = self.driver.counters();
        let [hit, missed] = self.fabric.registrations(self.driver.endpoint().link());
        counters.registrations_hit += hit;
        counters.registrations_missed += missed;
        counters
    }

    /// Shows the connection to those who read this process's metrics, from now on.
    pub(super) fn begin_report(&mut self, subject: impl FnOnce(u64, u64) -> Subject) {
        let now = now();
        self.report = Some(Box::new(ConnectionReport::new(subject(self.id, now.0))));
        self.copy_due_ns = 0;
        self.copy_counters(now);
    }

    /// Ends that. What was counted remains in the sums of the process. `state`: before this end closed.
    pub(super) fn end_report(&mut self, state: State) -> Option<LastCopy> {
        let mut report = self.report.take()?;
        let observed = self.observed();
        trace::closed(self.id, state, &observed.counters);
        if report.is_wanted() { report.end(&observed, now().0) } else { None }
    }

    /// Copies the counters to the page of metrics if that is due.
    #[inline]
    pub(super) fn copy_counters(&mut self, now: Nanos) {
        if now.0 >= self.copy_due_ns {
            self.copy_due_counters(now);
        }
    }

    /// Copies the counters once the connection has ended: its owner may keep it, and call nothing of it any more.
    #[cold]
    #[inline(never)]
    pub(super) fn copy_end(&mut self) {
        if !core::mem::replace(&mut self.is_end_copied, true) {
            self.copy_due_counters(now());
        }
    }

    #[cold]
    #[inline(never)]
    fn copy_due_counters(&mut self, now: Nanos) {
        self.copy_due_ns = now.0.saturating_add(COPY_PERIOD_NS);
        if let Some(mut report) = self.report.take() {
            if report.is_wanted() {
                report.copy(&self.observed(), now.0);
            }
            self.report = Some(report);
        }
    }

    /// Returns what the connection looks like now.
    pub(super) fn observed(&self) -> Observed {
        let endpoint = self.driver.endpoint();
        Observed {
            counters: self.counters(),
            phase: endpoint.state().phase,
            is_peer_gone: self.driver.is_peer_gone(),
            activity: endpoint.activity(),
        }
    }
}
