//! Completion of files beside the transfers of others: a sync to disk can take minutes.
//!
//! ```text
//! OPEN -----> NAMED      by the thread, once the file is on disk, before it gets its name
//!   |
//!   +-------> REVOKED    by the server, before it tells the sender that the file was given up
//! ```
//!
//! So a file whose sender was told of a failure never gets its name.

use crate::exit::{Code, Failure, explain};
use crate::files::output::{Output, Removal};
use crate::timeouts::REPORT_TIMEOUT;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Instant;
use superpipe::Key;

/// Limit on the time for a file that was about to get its name when the server ended. Its sender is told of neither success nor failure if that takes longer.
const NAMING_TIMEOUT: Duration = Duration::from_secs(10);

/// A file that can be completed.
pub(super) trait Complete: Send + 'static {
    /// Writes the file to disk, and gives it its name unless `may_name` says otherwise.
    fn complete(&mut self, may_name: &dyn Fn() -> bool) -> Result<(), Failure>;
    /// Returns what removes the incomplete file beside that.
    fn removal(&self) -> Option<Removal>;
}

/// A thread that completes files, one after the other.
pub(super) struct Commits<T: Complete> {
    jobs: Option<Sender<(Key, T, Arc<Claim>)>>,
    done: Receiver<(Key, Result<(), Failure>)>,
    is_over: Arc<AtomicBool>,
    pending: Vec<Pending>,
}

/// A file that is being completed.
struct Pending {
    key: Key,
    claim: Arc<Claim>,
    removal: Option<Removal>,
}

/// Claim on a file: by the thread that names it, or by the server that gives it up. The first one decides.
#[derive(Debug, Default)]
struct Claim(AtomicU8);

const OPEN: u8 = 0;
const NAMED: u8 = 1;
const REVOKED: u8 = 2;

impl Claim {
    /// Returns true if the file may get its name, which cannot be revoked any more.
    fn name(&self) -> bool {
        self.take(NAMED)
    }

    /// Returns true if the file will not get its name.
    fn revoke(&self) -> bool {
        self.take(REVOKED)
    }

    fn take(&self, by: u8) -> bool {
        // Nothing else is handed over: the order of this one variable suffices.
        self.0.compare_exchange(OPEN, by, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl Complete for Output {
    fn complete(&mut self, may_name: &dyn Fn() -> bool) -> Result<(), Failure> {
        self.commit_if(may_name)
    }

    fn removal(&self) -> Option<Removal> {
        Self::removal(self)
    }
}

impl<T: Complete> Commits<T> {
    /// Starts the thread.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn start() -> Result<Self, Failure> {
        let ((jobs, todo), (finished, done)) =
            (mpsc::channel::<(Key, T, Arc<Claim>)>(), mpsc::channel::<(Key, Result<(), Failure>)>());
        let is_over = Arc::new(AtomicBool::new(false));
        let has_ended = Arc::clone(&is_over);
        let work = move || {
            while let Ok((key, mut file, claim)) = todo.recv() {
                if has_ended.load(Ordering::Relaxed) {
                    return;
                }
                let committed = file.complete(&|| claim.name());
                // its descriptors are closed before the sender may come with its next file
                drop(file);
                if finished.send((key, committed)).is_err() {
                    return;
                }
            }
        };
        let started = thread::Builder::new().name("commits".into()).spawn(work);
        started.map_err(|error| Failure::new(Code::Device, explain("cannot start a thread", &error)))?;
        Ok(Self { jobs: Some(jobs), done, is_over, pending: Vec::new() })
    }

    /// Has a file completed.
    pub(super) fn begin(&mut self, key: Key, file: T) {
        let (claim, removal) = (Arc::new(Claim::default()), file.removal());
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send((key, file, Arc::clone(&claim))).is_ok());
        if sent {
            self.pending.push(Pending { key, claim, removal });
        }
    }

    /// Returns true while files are being completed.
    pub(super) const fn are_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns the next file that was completed, or could not be.
    pub(super) fn poll(&mut self) -> Option<(Key, Result<(), Failure>)> {
        let done = self.done.try_recv().ok()?;
        self.pending.retain(|pending| pending.key != done.0);
        Some(done)
    }

    /// Begins no more files, and waits for those that are being completed: `patience` until they are given up, and [`NAMING_TIMEOUT`] for one that is getting its
    /// name. Returns what became of each, but of one whose name took longer.
    fn finish_within(&mut self, patience: Duration) -> Vec<(Key, Result<(), Failure>)> {
        self.is_over.store(true, Ordering::Relaxed);
        self.jobs = None;
        let mut all = Vec::new();
        self.collect(Instant::now() + patience, &mut all);
        self.pending.retain(|pending| {
            if !pending.claim.revoke() {
                return true;
            }
            if let Some(removal) = &pending.removal {
                removal.remove();
            }
            let text = "the file was given up: rrecv was ended before it was on disk";
            all.push((pending.key, Err(Failure::new(Code::LocalIo, text))));
            false
        });
        self.collect(Instant::now() + NAMING_TIMEOUT, &mut all);
        all
    }

    /// Ends as [`finish_within`](Self::finish_within) does, after the time that a report has.
    pub(super) fn finish(&mut self) -> Vec<(Key, Result<(), Failure>)> {
        self.finish_within(REPORT_TIMEOUT)
    }

    /// Collects results until this time, as long as files are being completed.
    fn collect(&mut self, until: Instant, all: &mut Vec<(Key, Result<(), Failure>)>) {
        while !self.pending.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(done) = self.done.recv_timeout(left) else { return };
            self.pending.retain(|pending| pending.key != done.0);
            all.push(done);
        }
    }
}

impl<T: Complete> Drop for Commits<T> {
    fn drop(&mut self) {
        // The thread begins no more. What it has begun cannot be waited for here, and gets no name if it was revoked.
        self.is_over.store(true, Ordering::Relaxed);
        self.jobs = None;
        for pending in &self.pending {
            if let Some(removal) = pending.removal.as_ref().filter(|_| pending.claim.revoke()) {
                removal.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::output::{IfExists, KeptFiles};
    use crate::scratch::Scratch;
    use std::ffi::OsStr;
    use superpipe::{Options, Poller, PollerOptions};

    /// A file on a disk that is as slow as its test.
    struct Slow {
        output: Output,
        begun: Sender<()>,
        is_on_disk: Receiver<()>,
        named: Sender<bool>,
        /// after it may have its name
        goes_on: Receiver<()>,
    }

    impl Complete for Slow {
        fn complete(&mut self, may_name: &dyn Fn() -> bool) -> Result<(), Failure> {
            let Self { output, begun, is_on_disk, named, goes_on } = self;
            let _ = begun.send(());
            is_on_disk.recv().unwrap();
            output.commit_if(&|| {
                let may = may_name();
                named.send(may).unwrap();
                let _ = goes_on.recv();
                may
            })
        }

        fn removal(&self) -> Option<Removal> {
            self.output.removal()
        }
    }

    fn keys(count: usize) -> Vec<Key> {
        let mut poller = Poller::new(PollerOptions::default()).unwrap();
        let listen = |_| poller.listen(&"localhost:0".parse().unwrap(), Options::default()).unwrap();
        (0..count).map(listen).collect()
    }

    fn slow(files: &KeptFiles, name: &str) -> (Slow, Sender<()>, Receiver<bool>, Sender<()>, Receiver<()>) {
        let output = files.create(OsStr::new(name)).unwrap();
        let (begun, is_begun) = mpsc::channel();
        let ((disk, is_on_disk), (named, is_named), (go, goes_on)) =
            (mpsc::channel(), mpsc::channel(), mpsc::channel());
        (Slow { output, begun, is_on_disk, named, goes_on }, disk, is_named, go, is_begun)
    }

    #[test]
    fn a_file_that_was_given_up_never_gets_its_name() {
        let scratch = Scratch::new("commits-revoked");
        let files = KeptFiles::open(scratch.path(), IfExists::Fail).unwrap();
        let mut commits = Commits::start().unwrap();
        let keys = keys(2);
        let (first, disk, is_named, go, is_begun) = slow(&files, "first");
        commits.begin(keys[0], first);
        is_begun.recv().unwrap();
        commits.begin(keys[1], slow(&files, "second").0);
        let given_up = commits.finish_within(Duration::from_millis(20));
        assert_eq!(given_up.len(), 2);
        assert!(given_up.iter().all(|(_, how)| how.as_ref().unwrap_err().text.contains("given up")));
        // only now the disk is done
        disk.send(()).unwrap();
        assert!(!is_named.recv().unwrap());
        drop(go);
        assert!(!commits.are_pending() && commits.done.recv().unwrap().1.is_err());
        drop(commits);
        assert_eq!(scratch.names(), [""; 0]);
    }

    #[test]
    fn a_file_that_is_getting_its_name_is_waited_for() {
        let scratch = Scratch::new("commits-named");
        let files = KeptFiles::open(scratch.path(), IfExists::Fail).unwrap();
        let mut commits = Commits::start().unwrap();
        let (file, disk, is_named, go, _is_begun) = slow(&files, "file");
        commits.begin(keys(1)[0], file);
        disk.send(()).unwrap();
        assert!(is_named.recv().unwrap());
        let later = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            drop(go);
        });
        let done = commits.finish_within(Duration::ZERO);
        later.join().unwrap();
        assert!(matches!(&done[..], [(_, Ok(()))]), "{done:?}");
        assert_eq!(scratch.names(), ["file"]);
    }

    #[test]
    fn a_claim_is_taken_once() {
        let claim = Claim::default();
        assert!(claim.name() && !claim.revoke() && !claim.name());
        let claim = Claim::default();
        assert!(claim.revoke() && !claim.name() && !claim.revoke());
    }
}
