//! Lines on standard error, with a time limit: a stalled reader or a stopped terminal does not block a tool for long.
//!
//! Other processes share the descriptor's flags, so it is not made non-blocking. `poll` is not enough: it reports that a
//! terminal accepts some bytes, and a line may be longer. So a separate thread writes each line, and the caller waits for it.

use crate::files::output::pipe::write_some;
use crate::protocol::{Role, one_line};
use crate::timeouts::REPORT_TIMEOUT;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Instant;

/// Interval between two checks for a signal.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Stack size of a thread that only writes.
const STACK_BYTES: usize = 64 << 10;

static IS_SILENT: AtomicBool = AtomicBool::new(false);
static HAS_SIGNAL: OnceLock<&'static AtomicBool> = OnceLock::new();

/// Result of waiting for a thread that writes to standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    /// The thread has written everything.
    Done,
    /// A signal arrived meanwhile.
    Signaled,
    /// The thread took longer than the limit.
    TooLong,
}

/// Name of a tool, before each of its lines.
#[derive(Debug, Clone, Copy)]
pub struct ToolName(pub &'static str);

impl From<Role> for ToolName {
    fn from(role: Role) -> Self {
        Self(role.tool())
    }
}

/// Sets the flag that is true once a signal has arrived. Only the first call has an effect.
pub(crate) fn set_signal_flag(has_signal: &'static AtomicBool) {
    let _ = HAS_SIGNAL.set(has_signal);
}

/// Suppresses all further lines.
pub(crate) fn silence() {
    IS_SILENT.store(true, Ordering::Relaxed);
}

/// Writes one line to standard error, after the tool's name. Suppresses all further lines if the reader does not accept this
/// one within 2 s.
pub(crate) fn print_line(tool: impl Into<ToolName>, text: &str) {
    let ToolName(tool) = tool.into();
    write(&format!("{tool}: {}\n", one_line(text)));
}

/// Writes this text, which ends with a newline, and waits for that, for at most 2 s or until a signal arrives. Ignores errors,
/// which could be reported nowhere.
pub(crate) fn write(text: &str) {
    if IS_SILENT.load(Ordering::Relaxed) {
        return;
    }
    let (written, is_written) = mpsc::channel();
    let bytes = text.as_bytes().to_owned();
    let work = move || {
        let _ = io::stderr().write_all(&bytes);
        drop(written);
    };
    if thread::Builder::new().name("stderr".into()).stack_size(STACK_BYTES).spawn(work).is_err() {
        // No thread can be started: write as much as is possible without blocking.
        let _ = write_some(io::stderr().lock(), text.as_bytes());
    } else if wait(&is_written, || true) == WaitOutcome::TooLong {
        silence();
    }
}

/// Waits until the thread drops the other end of the channel. The time limit runs only while `counts` returns true.
pub(crate) fn wait(end: &Receiver<()>, counts: impl Fn() -> bool) -> WaitOutcome {
    let signaled = || HAS_SIGNAL.get().is_some_and(|flag| flag.load(Ordering::Relaxed));
    let was_signaled = signaled();
    let mut begin = Instant::now();
    while end.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        if !counts() {
            begin = Instant::now();
        } else if begin.elapsed() >= REPORT_TIMEOUT {
            return WaitOutcome::TooLong;
        } else if signaled() && !was_signaled {
            return WaitOutcome::Signaled;
        }
    }
    WaitOutcome::Done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_the_thread_or_at_the_limit() {
        let (end, is_over) = mpsc::channel();
        let waiting = thread::spawn(move || wait(&is_over, || true));
        drop(end);
        assert_eq!(waiting.join().unwrap(), WaitOutcome::Done);
        let (_end, is_over) = mpsc::channel();
        let begin = Instant::now();
        assert_eq!(wait(&is_over, || true), WaitOutcome::TooLong);
        assert!(begin.elapsed() >= REPORT_TIMEOUT);
    }

    #[test]
    fn only_time_that_counts_ends_a_wait() {
        let (end, is_over) = mpsc::channel();
        let waiting = thread::spawn(move || wait(&is_over, || false));
        thread::sleep(REPORT_TIMEOUT + POLL_INTERVAL * 5);
        assert!(!waiting.is_finished());
        drop(end);
        assert_eq!(waiting.join().unwrap(), WaitOutcome::Done);
    }
}
