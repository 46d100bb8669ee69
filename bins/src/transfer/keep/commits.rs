//! Completion of files beside the transfers of others: a sync to disk can take minutes.

use crate::exit::{Code, Failure, explain};
use crate::files::output::Output;
use crate::timeouts::REPORT_TIMEOUT;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use superpipe::Key;

/// A thread that completes files, one after the other. Dropping it discards those that it has not begun.
pub(super) struct Commits {
    jobs: Option<Sender<(Key, Output)>>,
    done: Receiver<(Key, Result<(), Failure>)>,
    is_over: Arc<AtomicBool>,
    pending: usize,
}

impl Commits {
    /// Starts the thread.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn start() -> Result<Self, Failure> {
        let ((jobs, todo), (finished, done)) =
            (mpsc::channel::<(Key, Output)>(), mpsc::channel::<(Key, Result<(), Failure>)>());
        let is_over = Arc::new(AtomicBool::new(false));
        let has_ended = Arc::clone(&is_over);
        let work = move || {
            while let Ok((key, mut output)) = todo.recv() {
                if has_ended.load(Ordering::Relaxed) {
                    return;
                }
                let committed = output.commit();
                // its descriptors are closed before the sender may come with its next file
                drop(output);
                if finished.send((key, committed)).is_err() {
                    return;
                }
            }
        };
        let started = thread::Builder::new().name("commits".into()).spawn(work);
        started.map_err(|error| Failure::new(Code::Device, explain("cannot start a thread", &error)))?;
        Ok(Self { jobs: Some(jobs), done, is_over, pending: 0 })
    }

    /// Has a file completed.
    pub(super) fn begin(&mut self, key: Key, output: Output) {
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send((key, output)).is_ok());
        self.pending += usize::from(sent);
    }

    /// Returns true while files are being completed.
    pub(super) const fn are_pending(&self) -> bool {
        self.pending > 0
    }

    /// Returns the next file that was completed, or could not be.
    pub(super) fn poll(&mut self) -> Option<(Key, Result<(), Failure>)> {
        let done = self.done.try_recv().ok()?;
        self.pending -= 1;
        Some(done)
    }

    /// Begins no more files, and waits for the one that is being completed. Returns what was completed.
    pub(super) fn finish(&mut self) -> Vec<(Key, Result<(), Failure>)> {
        self.is_over.store(true, Ordering::Relaxed);
        self.jobs = None;
        // A file that is being completed gets its name or not; a disk that is stuck delays the end no longer than that.
        core::iter::from_fn(|| self.done.recv_timeout(REPORT_TIMEOUT).ok()).collect()
    }
}

impl Drop for Commits {
    fn drop(&mut self) {
        self.finish();
    }
}
