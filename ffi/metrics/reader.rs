//! Reading the page of a process. The process may be faulty or hostile: the page is never mapped, but copied out, checked, and then used.

use core::fmt;
use core::sync::atomic::AtomicU64;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, fcntl_get_seals, fstat, open};
use superpipe_core::sequence_lock;

use super::connection_line::ConnectionLine;
use super::finding::{own_number, pages_of, pid_namespace};
use super::poller_line::PollerLine;
use super::process_line::ProcessLine;
use super::shape::{
    AT_CONNECTIONS, AT_LIBRARY, AT_LIVE, AT_MAGIC, AT_NAME, AT_NAMESPACE, AT_PID, AT_POLLERS, AT_VERSION,
    HEADER_WORDS, MAGIC, PROCESS, Shape, VERSION, WORD_BYTES,
};
use super::snapshot::Snapshot;
use super::words::{LINE_WORDS, Malformed};
use crate::error::{Error, ErrorKind};
use crate::os::memfd::SEALS;
use crate::os::{PidFd, monotonic_ns};

/// Looks at a line that is being written, which takes its writer less than a microsecond. A line that is still being written at the last
/// look has a writer that does not run.
const LOOKS: u32 = 16;

/// A reader of another process's page, or of this one's.
///
/// ```no_run
/// # use superpipe::metrics::{Reader, processes};
/// # fn main() -> Result<(), superpipe::Error> {
/// for pid in processes()? {
///     for connection in Reader::open(pid)?.read()?.connections {
///         println!("{pid}: {} bytes sent to {:?}", connection.counts.bytes_sent, connection.peer);
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct Reader {
    page: File,
    pid: u32,
    /// `None` where the system has none: then [`read`](Self::read) goes on after the end of the process.
    process: Option<PidFd>,
    head: Head,
    /// Room for what is read, in words: sequences before and after, and lines between.
    before: Vec<u64>,
    lines: Vec<u64>,
    after: Vec<u64>,
    bytes: Vec<u8>,
}

/// Header of a page, as it was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Head {
    shape: Shape,
    pid: u64,
    /// 0 if it is not known
    namespace: u64,
    program: String,
    library: [u16; 3],
    is_live: bool,
}

impl Reader {
    /// Opens the page of a process.
    ///
    /// # Errors
    /// `Connect`: there is no such process, or it does not publish. `Auth`: it belongs to another user. `Version`: its library has another layout of the page.
    /// `Protocol`: the page is not one that superpipe made. `Os`.
    pub fn open(pid: u32) -> Result<Self, Error> {
        // Before its descriptors are looked at, so that this is the process that has them.
        let process = i32::try_from(pid).ok().and_then(PidFd::open);
        let mut failed = None;
        for path in pages_of(pid)? {
            match Self::open_page(pid, &path) {
                Ok((page, head)) if head.is_live && head.is_of(pid) => {
                    let (before, lines, after, bytes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
                    return Ok(Self { page, pid, process, head, before, lines, after, bytes });
                }
                // That of the process which made this one by fork, or one that has ended.
                Ok(_) => {}
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| not_published(pid)))
    }

    fn open_page(pid: u32, path: &Path) -> Result<(File, Head), Error> {
        let refused = |doing: &str, error: &dyn fmt::Display| {
            Error::new(ErrorKind::Os, format!("cannot {doing} the metrics of process {pid}: {error}"))
        };
        // Whatever it is, opening it must not wait.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let page: OwnedFd = open(path, flags, Mode::empty()).map_err(|error| refused("open", &error))?;
        // Only memory has seals, so no later call enters a file system that may not answer.
        let seals = fcntl_get_seals(&page).map_err(|_| malformed(pid, Malformed("memory")))?;
        if !seals.contains(SEALS) {
            return Err(malformed(pid, Malformed("seals")));
        }
        let size = fstat(&page).map_err(|error| refused("inspect", &error))?.st_size;
        let page = File::from(page);
        let mut bytes = [0; HEADER_WORDS * WORD_BYTES];
        page.read_exact_at(&mut bytes, 0).map_err(|_| malformed(pid, Malformed("a header")))?;
        let mut words = [0; HEADER_WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(WORD_BYTES)) {
            *word = bytes.try_into().map_or(0, u64::from_ne_bytes);
        }
        let head = Head::checked(&words, size.unsigned_abs()).map_err(|wrong| match wrong {
            Wrong::Version(version) => other_version(pid, version),
            Wrong::Malformed(what) => malformed(pid, what),
        })?;
        Ok((page, head))
    }

    /// Returns the process.
    #[must_use]
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Reads the page as it is now.
    ///
    /// # Errors
    /// `PeerLost`: the process has ended, or publishes no more. `Protocol`: the page has something that superpipe does not write. `Os`.
    pub fn read(&mut self) -> Result<Snapshot, Error> {
        let shape = self.head.shape;
        if self.process.as_ref().is_some_and(PidFd::has_ended) {
            return Err(Error::new(ErrorKind::PeerLost, format!("process {} has ended", self.pid)));
        }
        let read_at_ns = monotonic_ns();
        let mut live = Vec::new();
        self.read_words(AT_LIVE, 1, &mut live)?;
        if live != [1] {
            return Err(Error::new(
                ErrorKind::PeerLost,
                format!("process {} publishes its metrics no more", self.pid),
            ));
        }
        let mut snapshot = Snapshot {
            pid: self.pid,
            program: self.head.program.clone(),
            library: self.head.library,
            read_at_ns,
            process: ProcessLine::default(),
            pollers: Vec::new(),
            connections: Vec::new(),
            unsettled: 0,
        };
        let mut is_read = vec![false; shape.lines()];
        for look in 1..=LOOKS {
            self.read_page(shape)?;
            snapshot.unsettled = 0;
            for line in 0..shape.lines() {
                let (before, after) = (self.before.get(line).copied(), self.after.get(line).copied());
                let (Some(before), Some(is_read)) = (before, is_read.get_mut(line)) else { continue };
                if before == 0 || *is_read {
                    continue;
                }
                if !after.is_some_and(|after| sequence_lock::is_whole(before, after)) {
                    snapshot.unsettled += 1;
                    continue;
                }
                *is_read = true;
                let words = self.lines.get(line * LINE_WORDS..).and_then(|rest| rest.get(..LINE_WORDS));
                let words = words.unwrap_or_default();
                self.add(&mut snapshot, line, words).map_err(|what| malformed(self.pid, what))?;
            }
            if snapshot.unsettled == 0 {
                break;
            }
            if look > LOOKS / 2 {
                std::thread::yield_now();
            }
        }
        snapshot.connections.sort_unstable_by_key(|line| line.number);
        // Only a forged page has a number twice, and what is made of it must not have a sample twice.
        snapshot.connections.dedup_by_key(|line| line.number);
        let mut seen = std::collections::HashSet::new();
        snapshot.pollers.retain(|line| seen.insert(line.number));
        Ok(snapshot)
    }

    fn add(&self, to: &mut Snapshot, line: usize, words: &[u64]) -> Result<(), Malformed> {
        if line == PROCESS {
            to.process = ProcessLine::of_words(words);
        } else if line < self.head.shape.first_connection() {
            to.pollers.extend(PollerLine::of_words(words));
        } else {
            to.connections.extend(ConnectionLine::of_words(words)?);
        }
        Ok(())
    }

    /// Copies the sequences, the lines that were ever used, and the sequences again.
    fn read_page(&mut self, shape: Shape) -> Result<(), Error> {
        let lines = shape.lines();
        let [mut before, mut words, mut after] =
            [&mut self.before, &mut self.lines, &mut self.after].map(core::mem::take);
        self.read_words(Shape::sequence_at(0), lines, &mut before)?;
        let used = before.iter().rposition(|sequence| *sequence != 0).map_or(0, |last| last + 1);
        // A word of a newer line comes with a newer sequence in the second copy, and these copies are made in this order.
        sequence_lock::order_reads::<AtomicU64>();
        self.read_words(shape.line_at(0), used * LINE_WORDS, &mut words)?;
        sequence_lock::order_reads::<AtomicU64>();
        self.read_words(Shape::sequence_at(0), used, &mut after)?;
        (self.before, self.lines, self.after) = (before, words, after);
        Ok(())
    }

    /// Copies words out of the page. Each is stored and read as a whole.
    fn read_words(&mut self, at: usize, count: usize, to: &mut Vec<u64>) -> Result<(), Error> {
        self.bytes.resize(count * WORD_BYTES, 0);
        self.page.read_exact_at(&mut self.bytes, (at * WORD_BYTES) as u64).map_err(|error| {
            Error::new(ErrorKind::Os, format!("cannot read the metrics of process {}: {error}", self.pid))
        })?;
        to.clear();
        let words = self.bytes.chunks_exact(WORD_BYTES);
        to.extend(words.map(|bytes| bytes.try_into().map_or(0, u64::from_ne_bytes)));
        Ok(())
    }
}

/// Reason for which a page cannot be read.
#[derive(Debug, PartialEq, Eq)]
enum Wrong {
    Version(u64),
    Malformed(Malformed),
}

impl Head {
    /// Returns true if this is the page of a process, and not one that it has from its parent.
    fn is_of(&self, pid: u32) -> bool {
        let is_there = pid_namespace(pid).is_none_or(|namespace| namespace == self.namespace);
        own_number(pid) == Some(self.pid) && (is_there || self.namespace == 0)
    }

    /// Checks the header of a page of `bytes` bytes.
    fn checked(words: &[u64; HEADER_WORDS], bytes: u64) -> Result<Self, Wrong> {
        if words[AT_MAGIC] != MAGIC {
            return Err(Wrong::Malformed(Malformed("a header")));
        }
        if words[AT_VERSION] != VERSION {
            return Err(Wrong::Version(words[AT_VERSION]));
        }
        let shape = Shape::checked(words[AT_POLLERS], words[AT_CONNECTIONS]);
        let shape = shape
            .filter(|shape| shape.bytes() as u64 == bytes)
            .ok_or(Wrong::Malformed(Malformed("a size")))?;
        let name = u128::from(words[AT_NAME]) | u128::from(words[AT_NAME + 1]) << 64;
        #[expect(clippy::cast_possible_truncation, reason = "each number has 16 bits")]
        let library = [32, 16, 0].map(|shift| (words[AT_LIBRARY] >> shift) as u16);
        let (pid, is_live) = (words[AT_PID], words[AT_LIVE] == 1);
        let namespace = words[AT_NAMESPACE];
        Ok(Self { shape, pid, namespace, program: printable(name.to_ne_bytes()), library, is_live })
    }
}

/// Returns a name that a terminal can show: the process may have any.
fn printable(name: [u8; 16]) -> String {
    let used = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let shown = |byte: &u8| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '?' };
    used.iter().map(shown).collect()
}

fn not_published(pid: u32) -> Error {
    let text = format!(
        "process {pid} publishes no metrics: it has to call superpipe::metrics::publish (rsend, rrecv and rperf: --metrics)"
    );
    Error::new(ErrorKind::Connect, text)
}

fn malformed(pid: u32, Malformed(what): Malformed) -> Error {
    Error::new(
        ErrorKind::Protocol,
        format!("the metrics of process {pid} have {what} that superpipe does not write"),
    )
}

fn other_version(pid: u32, version: u64) -> Error {
    let text = format!(
        "the metrics of process {pid} have layout {version}, and this library reads layout {VERSION}: use the same version of superpipe for both"
    );
    Error::new(ErrorKind::Version, text)
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("pid", &self.pid).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::page::{Page, Slot};
    use super::*;
    use core::sync::atomic::{AtomicBool, Ordering};
    use core::time::Duration;
    use std::sync::Arc;
    use std::time::Instant;

    fn header() -> [u64; HEADER_WORDS] {
        let mut words = [0; HEADER_WORDS];
        words[AT_MAGIC] = MAGIC;
        words[AT_VERSION] = VERSION;
        words[AT_CONNECTIONS] = 2;
        words[AT_LIBRARY] = 1 << 32 | 2 << 16 | 3;
        words[AT_LIVE] = 1;
        words[AT_NAME] = u64::from_ne_bytes(*b"a\x1b[2J\0xy");
        words
    }

    #[test]
    fn a_header_is_checked_before_anything_else_is_read() {
        let shape = Shape::checked(0, 2).unwrap();
        let bytes = shape.bytes() as u64;
        let head = Head::checked(&header(), bytes).unwrap();
        assert_eq!((head.shape, head.library, head.is_live), (shape, [1, 2, 3], true));
        assert_eq!(head.program, "a?[2J", "nothing that a terminal obeys");
        let malformed = |what| Err(Wrong::Malformed(Malformed(what)));
        for (at, value, wrong) in [
            (AT_MAGIC, 1, malformed("a header")),
            (AT_VERSION, 2, Err(Wrong::Version(2))),
            (AT_CONNECTIONS, 0, malformed("a size")),
            (AT_CONNECTIONS, 3, malformed("a size")),
            (AT_CONNECTIONS, u64::MAX, malformed("a size")),
            (AT_POLLERS, 65, malformed("a size")),
        ] {
            let mut words = header();
            words[at] = value;
            assert_eq!(Head::checked(&words, bytes), wrong);
        }
        assert_eq!(Head::checked(&header(), bytes - 1), malformed("a size"));
    }

    /// A writer never waits, so a reader meets lines that are half written.
    #[test]
    fn a_line_that_is_being_written_is_whole_or_left_out() {
        const LINES: u32 = 2_000;
        // More than there are cores, so that some are stopped in the middle of a line.
        const WRITERS: u64 = 4;
        let shape = Shape::checked(WRITERS, 1).unwrap();
        let (page, fd) = Page::new(shape, [0; 16]).unwrap();
        let page = Arc::new(page);
        let head =
            Head { shape, pid: 0, namespace: 0, program: String::new(), library: [0; 3], is_live: true };
        let (before, lines, after, bytes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut reader =
            Reader { page: File::from(fd), pid: 0, process: None, head, before, lines, after, bytes };
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..WRITERS {
                scope.spawn(|| {
                    let slot = Slot::of_poller(&page).unwrap();
                    for number in 1.. {
                        slot.write(&[number; LINE_WORDS]);
                        if ends.load(Ordering::Relaxed) {
                            break;
                        }
                        // Some looks must find a line at rest.
                        if number % 2000 == 0 {
                            std::thread::sleep(Duration::from_micros(100));
                        }
                    }
                });
            }
            let (mut whole, begun) = (0, Instant::now());
            // A hang bound: not optimized, on a busy host, it takes some seconds.
            while whole < LINES && begun.elapsed() < Duration::from_secs(60) {
                for line in reader.read().unwrap().pollers {
                    let other = line.connect_failed;
                    if PollerLine::of_words(&[other; LINE_WORDS]) != Some(line) {
                        // The writers are to end first.
                        ends.store(true, Ordering::Relaxed);
                        panic!("a torn line: {line:?}");
                    }
                    whole += 1;
                }
            }
            ends.store(true, Ordering::Relaxed);
            assert!(whole >= LINES, "{whole}");
        });
        drop(page);
        assert_eq!(reader.read().unwrap().pollers, [], "it was given back");
    }
}
