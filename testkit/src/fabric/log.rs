//! Log of a fabric: the jobs and the writes that core asks for, in order.

use superpipe_core::{Job, Nanos};

use super::Memory;

/// Entry of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// End that asked.
    pub side: usize,
    /// Time. A record of the same time was made before.
    pub at: Nanos,
    /// What happened.
    pub what: Logged,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logged {
    /// A job was begun.
    Begun(Job<Memory, Memory>),
    /// A job was done.
    Done(Job<Memory, Memory>),
    /// A job failed.
    Failed(Job<Memory, Memory>),
    /// Bytes were written to memory of the peer: stored there by direct store, or posted.
    Written {
        /// The memory.
        to: Memory,
        /// Number of bytes.
        bytes: u32,
    },
}

/// Log, which is kept only if a test asks for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Log(Option<Vec<LogEntry>>);

impl Log {
    /// Begins to keep entries.
    pub(super) fn begin(&mut self) {
        self.0 = Some(Vec::new());
    }

    /// Returns the entries.
    pub(super) fn entries(&self) -> &[LogEntry] {
        self.0.as_deref().unwrap_or_default()
    }

    pub(super) fn add(&mut self, side: usize, now: u64, what: Logged) {
        if let Some(entries) = &mut self.0 {
            entries.push(LogEntry { side, at: Nanos(now), what });
        }
    }
}
