//! Counts the bytes that went through, and reports them: by a bar on a terminal, and by an event every second.
//!
//! The transfer only adds to a counter. A separate thread reports, if a bar or events are wanted. It is started before the
//! transfer's thread is pinned, so that it is not bound to the same core.

use crate::report::bar::{BAR_INTERVAL, Bar};
use crate::report::events::{Event, Events, gb_per_s, round};
use crate::stderr::{self, WaitOutcome};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::io;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Instant;

const EVENT_INTERVAL: Duration = Duration::from_secs(1);
const UNKNOWN: u64 = u64::MAX;

/// Byte counter with its reporting thread.
#[derive(Debug)]
pub struct Meter {
    shared: Arc<Shared>,
    reporter: Option<Reporter>,
}

/// The reporting thread, and a channel whose other end it drops when it ends.
type Reporter = (JoinHandle<()>, Receiver<()>);

/// State of both threads, in cache lines of its own: the transfer writes the counter for every piece that it moves.
#[derive(Debug)]
#[repr(align(128))]
struct Shared {
    bytes: AtomicU64,
    started: OnceLock<Instant>,
    expected: AtomicU64,
    over: AtomicBool,
    /// true while the reporting thread draws; a stopped terminal can block it there
    is_drawing: AtomicBool,
    events: Option<Arc<Events>>,
    with_bar: bool,
}

impl Meter {
    /// Creates a counter at 0, to be reported to `events` and by a bar, as far as they are wanted.
    #[must_use]
    pub fn new(events: Option<Arc<Events>>, with_bar: bool) -> Self {
        let shared = Arc::new(Shared {
            bytes: AtomicU64::new(0),
            started: OnceLock::new(),
            expected: AtomicU64::new(UNKNOWN),
            over: AtomicBool::new(false),
            is_drawing: AtomicBool::new(false),
            events,
            with_bar,
        });
        Self { shared, reporter: None }
    }

    /// Starts the reporting thread, if events or a bar are wanted.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start_reporting(&mut self) -> io::Result<()> {
        if self.shared.events.is_some() || self.shared.with_bar {
            let shared = Arc::clone(&self.shared);
            let (end, is_over) = mpsc::channel();
            let report = move || {
                shared.report();
                drop(end);
            };
            self.reporter = Some((thread::Builder::new().name("meter".into()).spawn(report)?, is_over));
        }
        Ok(())
    }

    /// Starts the clock of the transfer, whose length is `expected`, if that is known.
    pub fn start(&self, expected: Option<u64>) {
        self.shared.expected.store(expected.unwrap_or(UNKNOWN), Ordering::Relaxed);
        let _ = self.shared.started.set(Instant::now());
    }

    /// Adds bytes that went through.
    #[inline]
    pub fn add(&self, bytes: usize) {
        // There is only one writer, so a load and a store do, without a locked instruction.
        let before = self.shared.bytes.load(Ordering::Relaxed);
        self.shared.bytes.store(before + bytes as u64, Ordering::Relaxed);
    }

    /// Returns the bytes counted so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shared.bytes.load(Ordering::Relaxed)
    }

    /// Returns the time since the start; zero before the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.shared.started.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    /// Stops the reporting thread and removes the bar. No interval event follows. A terminal that accepts no output keeps its
    /// bar, and the tool writes nothing more to standard error.
    pub fn stop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        let Some((reporter, is_over)) = self.reporter.take() else { return };
        reporter.thread().unpark();
        match stderr::wait(&is_over, || self.shared.is_drawing.load(Ordering::Relaxed)) {
            WaitOutcome::Done => drop(reporter.join()),
            // The thread is not joined, and ends with the process.
            WaitOutcome::Signaled => {}
            WaitOutcome::TooLong => stderr::silence(),
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn report(&self) {
        let mut bar: Option<Bar> = None;
        let mut seconds_reported = 0;
        let mut bytes_reported = 0;
        while !self.over.load(Ordering::Relaxed) {
            thread::park_timeout(if self.with_bar { BAR_INTERVAL } else { EVENT_INTERVAL / 20 });
            let Some(started) = self.started.get() else { continue };
            let (elapsed, bytes) = (started.elapsed(), self.bytes.load(Ordering::Relaxed));
            if self.with_bar {
                let expected = self.expected.load(Ordering::Relaxed);
                let expected = (expected != UNKNOWN).then_some(expected);
                self.drawing(|| bar.get_or_insert_with(|| Bar::new(expected)).draw(elapsed, bytes));
            }
            if let Some(events) = &self.events
                && elapsed.as_secs() > seconds_reported
                && !self.over.load(Ordering::Relaxed)
            {
                #[expect(clippy::cast_precision_loss, reason = "seconds since the start of a process")]
                let interval = elapsed.as_secs_f64() - seconds_reported as f64;
                let gb_per_s = gb_per_s(bytes - bytes_reported, interval);
                events.put(&Event::Interval { seconds: round(elapsed.as_secs_f64()), bytes, gb_per_s });
                (seconds_reported, bytes_reported) = (elapsed.as_secs(), bytes);
            }
        }
        if let Some(bar) = bar {
            self.drawing(|| bar.clear());
        }
    }

    fn drawing(&self, draw: impl FnOnce()) {
        self.is_drawing.store(true, Ordering::Relaxed);
        draw();
        self.is_drawing.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_with_and_without_a_bar() {
        for with_bar in [false, true] {
            let mut meter = Meter::new(None, with_bar);
            meter.start_reporting().unwrap();
            assert_eq!((meter.bytes(), meter.elapsed()), (0, Duration::ZERO));
            meter.start(Some(12));
            meter.add(5);
            meter.add(7);
            meter.stop();
            assert_eq!(meter.bytes(), 12);
        }
    }
}
