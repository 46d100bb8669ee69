//! Counts of this process's open descriptors, for tests that own the process.

use core::time::Duration;
use std::fs::{DirEntry, read_dir, read_link};
use std::time::Instant;
use std::{io, thread};

/// Ten times what anything takes that closes a descriptor.
const DEADLINE: Duration = Duration::from_secs(60);
/// Looks in turn that find the same count.
const SAME_COUNTS: u32 = 20;

fn listed() -> impl Iterator<Item = io::Result<DirEntry>> {
    read_dir("/proc/self/fd").unwrap()
}

/// Descriptors of this process.
pub(crate) fn descriptors() -> usize {
    listed().count()
}

/// Descriptors of this process for memory of superpipe.
pub(crate) fn open_memory() -> usize {
    let is_memory = |entry: &io::Result<DirEntry>| {
        let link = entry.as_ref().map(|entry| read_link(entry.path()));
        matches!(link, Ok(Ok(link)) if link.to_string_lossy().contains("memfd:superpipe"))
    };
    listed().filter(is_memory).count()
}

/// Waits until the count of descriptors stays, and returns it: threads that close, or provision, have some for a moment.
pub(crate) fn settled_descriptors() -> usize {
    let begun = Instant::now();
    let (mut count, mut seen) = (descriptors(), 0);
    while seen < SAME_COUNTS {
        assert!(begun.elapsed() < DEADLINE, "the count of descriptors changes all the time: {count}");
        thread::sleep(Duration::from_millis(2));
        let now = descriptors();
        seen = if now == count { seen + 1 } else { 0 };
        count = now;
    }
    count
}
