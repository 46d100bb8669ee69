//! Lines on standard error, with patience: a reader that has stalled, or a terminal that was stopped, holds no tool for long.
//!
//! Others share the descriptor's flags, so it is not made non-blocking. A poll is not enough: it tells that a terminal takes
//! something, and a line may be more than that. So each line is written by a thread of its own, which the caller waits for.

use crate::patience::LAST_WORDS;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Instant;
use superpipe::os::poll::{PollFd, poll_now};

/// Interval between two looks at the signals.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes that a pipe which is ready takes without waiting: PIPE_BUF.
const PIECE_BYTES: usize = 4096;
/// Stack of a thread that does no more than write.
const STACK_BYTES: usize = 64 << 10;

static IS_SILENT: AtomicBool = AtomicBool::new(false);
static HAS_SIGNAL: OnceLock<&'static AtomicBool> = OnceLock::new();

/// End of a wait for a thread that writes to standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waited {
    /// It has written all.
    Done,
    /// A signal came meanwhile.
    Signaled,
    /// It took longer than a line may.
    TooLong,
}

/// Names the flag that is true once a signal came. The first that is named counts.
pub(crate) fn heed(has_signal: &'static AtomicBool) {
    let _ = HAS_SIGNAL.set(has_signal);
}

/// Writes no further line.
pub(crate) fn fall_silent() {
    IS_SILENT.store(true, Ordering::Relaxed);
}

/// Writes this text, which ends with a newline, and waits for that, for 2 s at most or until a signal comes. Nobody can be told
/// that standard error is gone.
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
        write_now(text.as_bytes());
    } else if wait(&is_written, || true) == Waited::TooLong {
        fall_silent();
    }
}

/// Waits until the thread that has the other end drops it. The time counts only while `counts` returns true.
pub(crate) fn wait(end: &Receiver<()>, counts: impl Fn() -> bool) -> Waited {
    let signaled = || HAS_SIGNAL.get().is_some_and(|flag| flag.load(Ordering::Relaxed));
    let was_signaled = signaled();
    let mut begin = Instant::now();
    while end.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        if !counts() {
            begin = Instant::now();
        } else if begin.elapsed() >= LAST_WORDS {
            return Waited::TooLong;
        } else if signaled() && !was_signaled {
            return Waited::Signaled;
        }
    }
    Waited::Done
}

/// Writes as much as there is room for, where there can be no thread.
fn write_now(bytes: &[u8]) {
    let stderr = io::stderr();
    if poll_now(&mut [PollFd::new(stderr.as_fd(), libc::POLLOUT)]) {
        let _ = stderr.lock().write(&bytes[..bytes.len().min(PIECE_BYTES)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_the_thread_or_the_patience() {
        let (end, is_over) = mpsc::channel();
        let waiting = thread::spawn(move || wait(&is_over, || true));
        drop(end);
        assert_eq!(waiting.join().unwrap(), Waited::Done);
        let (_end, is_over) = mpsc::channel();
        let begin = Instant::now();
        assert_eq!(wait(&is_over, || true), Waited::TooLong);
        assert!(begin.elapsed() >= LAST_WORDS);
    }

    #[test]
    fn only_time_that_counts_ends_a_wait() {
        let (end, is_over) = mpsc::channel();
        let waiting = thread::spawn(move || wait(&is_over, || false));
        thread::sleep(LAST_WORDS + LOOK * 5);
        assert!(!waiting.is_finished());
        drop(end);
        assert_eq!(waiting.join().unwrap(), Waited::Done);
    }
}
