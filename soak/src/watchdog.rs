//! Ends the program with a name where a call does not return, or the whole takes too long.

use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use core::time::Duration;
use std::process::exit;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

/// A hang: a thousand times the longest pause and the longest deadline that there are.
pub(crate) const HANG: Duration = Duration::from_secs(20);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(250);

/// What the program is doing.
pub(crate) struct Watchdog {
    begun: Instant,
    /// Milliseconds since then, when the call began.
    call_ms: AtomicU64,
    /// The sender; 0 while there is none.
    pid: AtomicI32,
    /// The call, and where it is to be found again.
    call: Mutex<&'static str>,
    place: Mutex<String>,
}

impl Watchdog {
    /// One that ends the program after `all` at the latest.
    pub(crate) fn start(all: Duration) -> &'static Self {
        let watchdog: &'static Self = Box::leak(Box::new(Self {
            begun: Instant::now(),
            call_ms: AtomicU64::new(0),
            pid: AtomicI32::new(0),
            call: Mutex::new("start"),
            place: Mutex::default(),
        }));
        thread::spawn(move || watchdog.watch(all));
        watchdog
    }

    /// A call begins, and the one before has returned.
    pub(crate) fn call(&self, name: &'static str) {
        *self.call.lock().unwrap_or_else(PoisonError::into_inner) = name;
        self.call_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    /// A round begins: what to say where it hangs, and the process to kill.
    pub(crate) fn round(&self, place: String) {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }

    /// The process to kill.
    pub(crate) fn set_sender(&self, pid: Option<Pid>) {
        self.pid.store(pid.map_or(0, |pid| pid.as_raw_nonzero().get()), Ordering::Relaxed);
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn watch(&self, all: Duration) -> ! {
        loop {
            thread::sleep(LOOK);
            let call = Duration::from_millis(self.now_ms() - self.call_ms.load(Ordering::Relaxed).min(self.now_ms()));
            let name = *self.call.lock().unwrap_or_else(PoisonError::into_inner);
            let why = if call > HANG {
                format!("{name} hangs: it has not returned for {} s", HANG.as_secs())
            } else if self.begun.elapsed() > all {
                format!("not done after {} s, in {name}", all.as_secs())
            } else {
                continue;
            };
            let place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
            eprintln!("FAILED: {why}\n{place}");
            if let Some(pid) = Pid::from_raw(self.pid.load(Ordering::Relaxed)) {
                // Dead or not: this process ends, and the kernel then kills it.
                let _ = kill_process(pid, Signal::KILL);
            }
            exit(1);
        }
    }
}
