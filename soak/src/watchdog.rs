//! Ends the program when a call does not return or the run takes too long, and names the call.

use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use core::time::Duration;
use std::fs;
use std::path::PathBuf;
use std::process::exit;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

/// Longest duration of a call, and the deadline of calls that must succeed: twenty times the longest other deadline.
pub(crate) const HANG_TIMEOUT: Duration = Duration::from_secs(20);

/// Interval between two checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// State that the watchdog checks.
pub(crate) struct Watchdog {
    begun: Instant,
    /// Begin of the current call, in milliseconds since `begun`.
    call_ms: AtomicU64,
    /// Process of the sender, or 0.
    pid: AtomicI32,
    /// Name of the current call, and the round with the command that repeats it.
    call: Mutex<&'static str>,
    round: Mutex<String>,
    /// Directory to remove.
    directory: PathBuf,
}

impl Watchdog {
    /// Starts a watchdog that ends the program after `all` at the latest, and then removes `directory`.
    pub(crate) fn start(all: Duration, directory: PathBuf) -> &'static Self {
        let watchdog: &'static Self = Box::leak(Box::new(Self {
            begun: Instant::now(),
            call_ms: AtomicU64::new(0),
            pid: AtomicI32::new(0),
            call: Mutex::new("start"),
            round: Mutex::default(),
            directory,
        }));
        thread::spawn(move || watchdog.watch(all));
        watchdog
    }

    /// Notes that a call begins and the call before has returned.
    pub(crate) fn call(&self, name: &'static str) {
        *self.call.lock().unwrap_or_else(PoisonError::into_inner) = name;
        self.call_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    /// Notes the round, which is printed if it hangs.
    pub(crate) fn round(&self, round: String) {
        *self.round.lock().unwrap_or_else(PoisonError::into_inner) = round;
    }

    /// Sets the process to kill.
    pub(crate) fn set_sender(&self, pid: Option<Pid>) {
        self.pid.store(pid.map_or(0, |pid| pid.as_raw_nonzero().get()), Ordering::Relaxed);
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn watch(&self, all: Duration) -> ! {
        loop {
            thread::sleep(CHECK_INTERVAL);
            let call = call_duration(self.call_ms.load(Ordering::Relaxed), self.now_ms());
            let name = *self.call.lock().unwrap_or_else(PoisonError::into_inner);
            let why = if call > HANG_TIMEOUT {
                format!("{name} hangs: no return for {} s", HANG_TIMEOUT.as_secs())
            } else if self.begun.elapsed() > all {
                format!("not done after {} s, in {name}", all.as_secs())
            } else {
                continue;
            };
            let round = self.round.lock().unwrap_or_else(PoisonError::into_inner);
            eprintln!("FAILED: {why}\n{round}");
            if let Some(pid) = Pid::from_raw(self.pid.load(Ordering::Relaxed)) {
                // The result does not matter: this process ends, and the kernel then kills the sender.
                let _ = kill_process(pid, Signal::KILL);
            }
            let _ = fs::remove_dir_all(&self.directory);
            exit(1);
        }
    }
}

/// Returns the duration at `now_ms` of a call that began at `call_ms`. The clock may have been read before the call began.
const fn call_duration(call_ms: u64, now_ms: u64) -> Duration {
    Duration::from_millis(now_ms.saturating_sub(call_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_begun_after_the_clock_was_read_lasts_zero() {
        assert_eq!(call_duration(3, 2), Duration::ZERO);
        assert_eq!(call_duration(2, 22), Duration::from_millis(20));
    }
}
