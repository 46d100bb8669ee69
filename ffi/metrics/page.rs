//! The page as its process writes it: a memfd, and who has which line.
//!
//! Each line has one writer at a time: that of the process is written under a lock. A writer makes the sequence odd, stores the words, and
//! makes it even: a reader that finds the same even sequence before and after it has copied a line has all of it. A writer never waits for a reader.

use core::sync::atomic::{AtomicU64, Ordering};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use super::finding::pid_namespace;
use super::process_line::ProcessLine;
use super::shape::{
    AT_CONNECTIONS, AT_LIBRARY, AT_LIVE, AT_MAGIC, AT_NAME, AT_NAMESPACE, AT_PID, AT_POLLERS, AT_VERSION,
    HEADER_WORDS, MAGIC, NAME, PROCESS, Shape, VERSION, WORD_BYTES,
};
use super::words::LineWords;
use crate::budget::{Budget, BudgetUse, MemoryKind};
use crate::os::memfd::{SEALS, check_file_size, memfd, reserve};
use crate::os::{Mapping, OsError};
use rustix::fs::{fcntl_add_seals, ftruncate};
use spin::mutex::SpinMutex;
use superpipe_core::sequence_lock;

/// Tries of the lock of the process's line.
const LOCK_TRIES: u32 = 1000;

/// The page of this process.
pub(super) struct Page {
    mapping: Mapping,
    shape: Shape,
    /// A bit for each line that someone has.
    taken: Box<[AtomicU64]>,
    process: Process,
}

/// What the line of the process shows.
#[derive(Default)]
struct Process {
    /// Held while its line is made and written.
    writing: SpinMutex<()>,
    /// When it is due.
    due_ns: AtomicU64,
    made: AtomicU64,
    ended: AtomicU64,
    unlisted: AtomicU64,
    /// Transfers and bytes of the connections that have ended, sent and received.
    sums: [AtomicU64; 4],
    /// Limits of registered and of shared memory.
    limits: [AtomicU64; 2],
}

impl Page {
    /// Makes a page of this shape, in which all lines are free. Returns it with the descriptor by which others find it.
    pub(super) fn new(shape: Shape, name: [u8; 16]) -> Result<(Self, OwnedFd), OsError> {
        let bytes = shape.bytes() as u64;
        check_file_size(bytes)?;
        let fd = memfd(NAME)?;
        let sized = |errno| OsError::of(errno, "cannot make the page of metrics");
        ftruncate(&fd, bytes).map_err(sized)?;
        // All of it now: a store to a page that the machine cannot provide would end the process later.
        reserve(fd.as_fd(), bytes)?;
        fcntl_add_seals(&fd, SEALS).map_err(sized)?;
        let mapping = Mapping::shared(fd.as_fd(), shape.bytes())?;
        let bits = (0..shape.lines().div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let page = Self { mapping, shape, taken: bits, process: Process::default() };
        let name = u128::from_ne_bytes(name);
        #[expect(clippy::cast_possible_truncation, reason = "these are the halves of the name")]
        let header = [
            (AT_MAGIC, MAGIC),
            (AT_VERSION, VERSION),
            (AT_PID, u64::from(std::process::id())),
            (AT_CONNECTIONS, u64::from(shape.connections)),
            (AT_POLLERS, u64::from(shape.pollers)),
            (AT_LIBRARY, library()),
            (AT_NAMESPACE, pid_namespace("self").unwrap_or(0)),
            (AT_NAME, name as u64),
            (AT_NAME + 1, (name >> 64) as u64),
            (AT_LIVE, 1),
        ];
        for (at, value) in header {
            debug_assert!(at < HEADER_WORDS, "the header has room");
            page.word(at, |word| word.store(value, Ordering::Relaxed));
        }
        Ok((page, fd))
    }

    /// Returns false in a child of fork, which has no page.
    pub(super) fn is_here(&self) -> bool {
        self.mapping.is_here()
    }

    /// Tells readers that have the page open that the process publishes no more.
    pub(super) fn end(&self) {
        if self.is_here() {
            self.word(AT_LIVE, |word| word.store(0, Ordering::Relaxed));
        }
    }

    /// Copies the line of the process if that is due.
    pub(super) fn copy_process(&self, now_ns: u64) {
        if now_ns < self.process.due_ns.load(Ordering::Relaxed) {
            return;
        }
        // Others hold it for less than a microsecond, unless they do not run; then the next copy is due at once.
        let Some(_writing) = (0..LOCK_TRIES).find_map(|_| self.process.writing.try_lock()) else { return };
        self.process.due_ns.store(now_ns.saturating_add(super::COPY_PERIOD_NS), Ordering::Relaxed);
        self.write_process(now_ns);
    }

    /// Reads the limits of memory again, which takes system calls.
    pub(super) fn refresh_limits(&self) {
        for (limit, kind) in self.process.limits.iter().zip(MemoryKind::ALL) {
            limit.store(kind.limit_bytes(), Ordering::Relaxed);
        }
    }

    /// Counts a connection that was made. `is_listed`: it has a line.
    pub(super) fn count_made(&self, is_listed: bool) {
        self.process.made.fetch_add(1, Ordering::Relaxed);
        if !is_listed {
            self.process.unlisted.fetch_add(1, Ordering::Relaxed);
        }
        self.refresh_limits();
        // So that it appears at once.
        self.process.due_ns.store(0, Ordering::Relaxed);
    }

    /// Counts a connection that got a line late.
    pub(super) fn count_listed(&self) {
        self.process.unlisted.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a connection that has ended, with the transfers and bytes that it sent and received.
    pub(super) fn count_ended(&self, sums: [u64; 4], was_listed: bool) {
        for (sum, more) in self.process.sums.iter().zip(sums) {
            sum.fetch_add(more, Ordering::Relaxed);
        }
        self.process.ended.fetch_add(1, Ordering::Relaxed);
        if !was_listed {
            self.process.unlisted.fetch_sub(1, Ordering::Relaxed);
        }
        self.process.due_ns.store(0, Ordering::Relaxed);
    }

    fn write_process(&self, now_ns: u64) {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let [registered, shared]: [BudgetUse; 2] = [Budget::registered_use(), Budget::shared_use()];
        let Process { made, ended, unlisted, sums, limits, .. } = &self.process;
        let [transfers_sent, transfers_received, bytes_sent, bytes_received] = sums.each_ref().map(of);
        let [registered_max_bytes, shared_max_bytes] = limits.each_ref().map(of);
        let line = ProcessLine {
            copied_at_ns: now_ns,
            connections_made: of(made),
            connections_ended: of(ended),
            connections_unlisted: of(unlisted),
            ended_transfers_sent: transfers_sent,
            ended_transfers_received: transfers_received,
            ended_bytes_sent: bytes_sent,
            ended_bytes_received: bytes_received,
            registered_reserved_bytes: registered.reserved_bytes,
            registered_grown_bytes: registered.grown_bytes,
            registered_cached_bytes: registered.cached_bytes,
            registered_max_bytes,
            shared_reserved_bytes: shared.reserved_bytes,
            shared_grown_bytes: shared.grown_bytes,
            shared_cached_bytes: shared.cached_bytes,
            shared_max_bytes,
        };
        self.write(PROCESS, &line.to_words());
    }

    /// Writes a line, of which the caller is the only writer.
    fn write(&self, line: usize, words: &LineWords) {
        let first = self.shape.line_at(line);
        self.word(Shape::sequence_at(line), |sequence| {
            let before = sequence_lock::begin_write(sequence);
            for (at, value) in (first..).zip(words) {
                self.word(at, |word| word.store(*value, Ordering::Relaxed));
            }
            sequence_lock::end_write(sequence, before);
        });
    }

    /// Uses a word of the page.
    fn word<T>(&self, at: usize, work: impl FnOnce(&AtomicU64) -> T) -> T {
        assert!(at < self.shape.words() && self.is_here(), "a word of the page, in the process that has it");
        // SAFETY: the word is inside the mapping (checked above), which lives as long as `self` and begins at a page, so the word is aligned. This process uses it
        // atomically only; other processes cannot write it otherwise than by system calls of the same user, which store bytes that are valid for any word.
        work(unsafe { AtomicU64::from_ptr(self.mapping.as_ptr().as_ptr().add(at * WORD_BYTES).cast()) })
    }

    /// Takes a free line of this range.
    fn take(&self, mut lines: core::ops::Range<usize>) -> Option<usize> {
        lines.find(|line| {
            let (bit, word) = (1 << (line % 64), self.taken.get(line / 64));
            word.is_some_and(|word| {
                word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::AcqRel) & bit == 0
            })
        })
    }
}

/// A line that someone has.
pub(super) struct Slot {
    page: Arc<Page>,
    line: usize,
}

impl Slot {
    /// Takes a free line of a connection. `None`: there is none.
    pub(super) fn of_connection(page: &Arc<Page>) -> Option<Self> {
        let line = page.take(page.shape.first_connection()..page.shape.lines())?;
        Some(Self { page: Arc::clone(page), line })
    }

    /// Takes a free line of a poller. `None`: there is none.
    pub(super) fn of_poller(page: &Arc<Page>) -> Option<Self> {
        let line = page.take(PROCESS + 1..page.shape.first_connection())?;
        Some(Self { page: Arc::clone(page), line })
    }

    /// Writes the line.
    pub(super) fn write(&self, words: &LineWords) {
        if self.page.is_here() {
            self.page.write(self.line, words);
        }
    }
}

impl Drop for Slot {
    /// Gives the line back. In a child of fork it stays the parent's.
    fn drop(&mut self) {
        self.write(&[0; _]);
        if let Some(word) = self.page.taken.get(self.line / 64) {
            word.fetch_and(!(1 << (self.line % 64)), Ordering::AcqRel);
        }
    }
}

/// Returns the version of the library: 16 bits for each number.
fn library() -> u64 {
    [env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"), env!("CARGO_PKG_VERSION_PATCH")]
        .iter()
        .fold(0, |all, number| all << 16 | number.parse::<u64>().unwrap_or(0) & 0xFFFF)
}
