//! Ends the program with a name where a call does not return, or the whole takes too long.

use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use core::time::Duration;
use std::fs;
use std::path::PathBuf;
use std::process::exit;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

/// A hang, and the deadline of calls that must succeed: twenty times the longest other deadline.
pub(crate) const HANG: Duration = Duration::from_secs(20);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(250);

/// The step that the program is in.
pub(crate) struct Watchdog {
    begun: Instant,
    /// Milliseconds since then, when the call began.
    call_ms: AtomicU64,
    /// The sender; 0 while there is none.
    pid: AtomicI32,
    /// The call, and where it is to be found again.
    call: Mutex<&'static str>,
    round: Mutex<String>,
    /// A directory to remove.
    place: PathBuf,
}

impl Watchdog {
    /// One that ends the program after `all` at the latest, and then removes the directory `place`.
    pub(crate) fn start(all: Duration, place: PathBuf) -> &'static Self {
        let watchdog: &'static Self = Box::leak(Box::new(Self {
            begun: Instant::now(),
            call_ms: AtomicU64::new(0),
            pid: AtomicI32::new(0),
            call: Mutex::new("start"),
            round: Mutex::default(),
            place,
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
    pub(crate) fn round(&self, round: String) {
        *self.round.lock().unwrap_or_else(PoisonError::into_inner) = round;
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
            let call = lasted(self.call_ms.load(Ordering::Relaxed), self.now_ms());
            let name = *self.call.lock().unwrap_or_else(PoisonError::into_inner);
            let why = if call > HANG {
                format!("{name} hangs: it has not returned for {} s", HANG.as_secs())
            } else if self.begun.elapsed() > all {
                format!("not done after {} s, in {name}", all.as_secs())
            } else {
                continue;
            };
            let round = self.round.lock().unwrap_or_else(PoisonError::into_inner);
            eprintln!("FAILED: {why}\n{round}");
            if let Some(pid) = Pid::from_raw(self.pid.load(Ordering::Relaxed)) {
                // Dead or not: this process ends, and the kernel then kills it.
                let _ = kill_process(pid, Signal::KILL);
            }
            let _ = fs::remove_dir_all(&self.place);
            exit(1);
        }
    }
}

/// How long a call that began at `call_ms` has lasted at `now_ms`. The clock may have been read before the call began.
const fn lasted(call_ms: u64, now_ms: u64) -> Duration {
    Duration::from_millis(now_ms.saturating_sub(call_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_began_after_the_look_at_the_clock_has_not_lasted() {
        assert_eq!(lasted(3, 2), Duration::ZERO);
        assert_eq!(lasted(2, 22), Duration::from_millis(20));
    }
}
