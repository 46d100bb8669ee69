//! Counts the bytes that went through, and tells of them meanwhile: a bar on a terminal, an event each second.
//!
//! The transfer only adds to a counter. The telling is done by a thread of its own, which is there only when somebody
//! listens, and is started before the transfer's thread is pinned, so that it runs elsewhere.

use crate::bar::{BAR_INTERVAL, Bar};
use crate::report::{Event, Events, gb_per_s, round};
use crate::stderr::{self, Waited};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::io;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Instant;

const EVENT_INTERVAL: Duration = Duration::from_secs(1);
const UNKNOWN: u64 = u64::MAX;

/// The counter, and whoever reads it aloud.
#[derive(Debug)]
pub struct Meter {
    shared: Arc<Shared>,
    teller: Option<Teller>,
}

/// The thread that tells, and what it drops at its end.
type Teller = (JoinHandle<()>, Receiver<()>);

/// Its own cache lines: the counter is written for every piece that is moved.
#[derive(Debug)]
#[repr(align(128))]
struct Shared {
    bytes: AtomicU64,
    started: OnceLock<Instant>,
    expected: AtomicU64,
    over: AtomicBool,
    /// the teller draws, and a terminal that was stopped may hold it
    is_drawing: AtomicBool,
    events: Option<Arc<Events>>,
    with_bar: bool,
}

impl Meter {
    /// Counts from 0, for `events` and for a bar.
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
        Self { shared, teller: None }
    }

    /// Tells of it from the start on, if there is anyone to be told.
    ///
    /// # Errors
    /// When there can be no thread for that.
    pub fn listen(&mut self) -> io::Result<()> {
        if self.shared.events.is_some() || self.shared.with_bar {
            let shared = Arc::clone(&self.shared);
            let (end, is_over) = mpsc::channel();
            let tell = move || {
                shared.tell();
                drop(end);
            };
            self.teller = Some((thread::Builder::new().name("meter".into()).spawn(tell)?, is_over));
        }
        Ok(())
    }

    /// Begins the transfer: seconds count from now on.
    pub fn start(&self, expected: Option<u64>) {
        self.shared.expected.store(expected.unwrap_or(UNKNOWN), Ordering::Relaxed);
        let _ = self.shared.started.set(Instant::now());
    }

    /// So many more went through.
    #[inline]
    pub fn add(&self, bytes: usize) {
        // one writer: a load and a store, and no locked instruction
        let before = self.shared.bytes.load(Ordering::Relaxed);
        self.shared.bytes.store(before + bytes as u64, Ordering::Relaxed);
    }

    /// Bytes so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shared.bytes.load(Ordering::Relaxed)
    }

    /// Time since the start, none before it.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.shared.started.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    /// Takes the bar away; no interval comes after this. A terminal that takes nothing keeps its bar, and is told no more.
    pub fn stop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        let Some((teller, is_over)) = self.teller.take() else { return };
        teller.thread().unpark();
        match stderr::wait(&is_over, || self.shared.is_drawing.load(Ordering::Relaxed)) {
            Waited::Done => drop(teller.join()),
            // It is left alone, and ends with the process.
            Waited::Signaled => {}
            Waited::TooLong => stderr::fall_silent(),
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn tell(&self) {
        let mut bar: Option<Bar> = None;
        let mut seconds_told = 0;
        let mut bytes_told = 0;
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
                && elapsed.as_secs() > seconds_told
                && !self.over.load(Ordering::Relaxed)
            {
                #[expect(clippy::cast_precision_loss, reason = "seconds since the start of a process")]
                let interval = elapsed.as_secs_f64() - seconds_told as f64;
                let gb_per_s = gb_per_s(bytes - bytes_told, interval);
                events.put(&Event::Interval { seconds: round(elapsed.as_secs_f64()), bytes, gb_per_s });
                (seconds_told, bytes_told) = (elapsed.as_secs(), bytes);
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
    fn counts_with_and_without_anyone_who_listens() {
        for with_bar in [false, true] {
            let mut meter = Meter::new(None, with_bar);
            meter.listen().unwrap();
            assert_eq!((meter.bytes(), meter.elapsed()), (0, Duration::ZERO));
            meter.start(Some(12));
            meter.add(5);
            meter.add(7);
            meter.stop();
            assert_eq!(meter.bytes(), 12);
        }
    }
}
