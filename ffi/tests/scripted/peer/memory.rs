//! Mapped segments, accessed word by word.

use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};
use std::os::fd::{AsRawFd, OwnedFd};

use superpipe_core::Line;
use superpipe_verbs::Mr;

/// A segment that is mapped for as long as the process lives.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    at: *mut u8,
    bytes: usize,
}

impl Memory {
    pub(super) fn map(fd: &OwnedFd, bytes: usize) -> Self {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let at = unsafe { libc::mmap(ptr::null_mut(), bytes, access, libc::MAP_SHARED, fd.as_raw_fd(), 0) };
        assert!(at != libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
        Self { at: at.cast(), bytes }
    }

    /// Memory that is there for as long as the process lives.
    pub(super) fn of(mr: &'static Mr) -> Self {
        Self { at: mr.as_ptr().as_ptr(), bytes: mr.len() }
    }

    /// Puts bytes that came by mail where their writer wants them.
    pub(super) fn put(&self, at: usize, from: &[u8]) {
        assert!(at + from.len() <= self.bytes);
        for (index, byte) in from.iter().enumerate() {
            // SAFETY: inside the mapping, as asserted; whoever reads it is this thread.
            unsafe { self.at.add(at + index).write_volatile(*byte) };
        }
    }

    /// Bytes that came.
    pub(super) fn take(&self, at: usize, bytes: usize) -> Vec<u8> {
        assert!(at + bytes <= self.bytes);
        // SAFETY: inside the mapping, as asserted; a device that writes there at the same time costs the other end its own bytes.
        (0..bytes).map(|index| unsafe { self.at.add(at + index).read_volatile() }).collect()
    }

    /// The word at this offset.
    pub(super) fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.bytes);
        // SAFETY: inside the mapping, which is never unmapped and aligned to pages; words are accessed by atomics only.
        unsafe { AtomicU64::from_ptr(self.at.add(at).cast()) }
    }

    /// A line whose last word tells of it.
    pub(super) fn write_line(&self, at: usize, line: &Line) {
        for (index, word) in line.0.iter().enumerate() {
            let order = if index == 7 { Ordering::Release } else { Ordering::Relaxed };
            self.word(at + 8 * index).store(*word, order);
        }
    }

    /// A line that is never whole by its last word: each count after its complement.
    pub(super) fn write_counts(&self, at: usize, line: &Line) {
        for index in [7, 6, 1, 3, 5, 0, 2, 4] {
            self.word(at + 8 * index).store(line.0[index], Ordering::Release);
        }
    }

    /// Words 0 to 6 of a line whose flag was seen.
    pub(super) fn line(&self, at: usize) -> [u64; 7] {
        core::array::from_fn(|index| self.word(at + 8 * index).load(Ordering::Relaxed))
    }

    /// Payload.
    pub(super) fn fill(&self, at: usize, bytes: usize, byte_of: impl Fn(usize) -> u8) {
        assert!(at + bytes <= self.bytes);
        for index in 0..bytes {
            // SAFETY: inside the mapping, as asserted; the other process reads it only after the flag.
            unsafe { self.at.add(at + index).write_volatile(byte_of(index)) };
        }
    }
}
