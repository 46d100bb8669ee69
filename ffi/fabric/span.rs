//! Memory that a peer, or its NIC, may write at any time.
//!
//! Every access is checked against the span. Flags and lines go word by word through atomics; payload is copied by raw
//! pointers: no reference to such memory is ever made but to single atomic words.

use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;

use superpipe_core::{CopyKernel, Line, word};

use crate::copy::{CopyKernels, crc32c_of_shared};

/// An address and a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    start: NonNull<u8>,
    bytes: u32,
}

// SAFETY: what a span points to is shared with others anyway, is accessed by atomics and raw copies only, and lives as
// long as the link, which moves along with the endpoint that has the span.
unsafe impl Send for Span {}

impl Span {
    /// Makes a span of `bytes` bytes from `start` on.
    ///
    /// # Safety
    /// 1. They are mapped, for reading and writing, for as long as this span or a copy of it is used.
    /// 2. No reference to any of them is ever made, but to single atomic words.
    pub(crate) const unsafe fn new(start: NonNull<u8>, bytes: u32) -> Self {
        Self { start, bytes }
    }

    /// Returns the address of the first byte.
    #[inline]
    pub(crate) const fn start(self) -> NonNull<u8> {
        self.start
    }

    /// Returns the address of `bytes` bytes at the offset `at`.
    #[inline]
    pub(crate) fn at(self, at: u32, bytes: usize) -> *mut u8 {
        // No sum: on 32 bits it could overflow.
        let fits = self.bytes.checked_sub(at).is_some_and(|room| bytes <= room as usize);
        assert!(fits, "offsets come from a validated layout");
        // SAFETY: the assertion keeps all of it inside the span, which lies inside a mapping.
        unsafe { self.start.as_ptr().add(at as usize) }
    }

    #[inline]
    fn word(&self, at: u32) -> &AtomicU64 {
        let place = self.at(at, 8).cast::<u64>();
        assert!(place.is_aligned(), "words are aligned in every layout");
        // SAFETY: 1. `place` is aligned and valid for 8 bytes for as long as the span is used. 2. Every other
        // writer of this word uses atomics, or is a NIC, or is hostile; then a race spoils its own data only: an atomic load yields some
        // value.
        unsafe { AtomicU64::from_ptr(place) }
    }

    /// Returns the eight words of a line.
    #[inline]
    fn line(&self, at: u32) -> [&AtomicU64; 8] {
        let first = self.at(at, 64).cast::<u64>();
        assert!(first.is_aligned(), "lines are aligned in every layout");
        core::array::from_fn(|i| {
            // SAFETY: 1. `first` is aligned, `i` is less than 8, and the 64 bytes from `first` on are inside the span. 2. Every other writer of
            // these words uses atomics, or is a NIC, or is hostile; then a race spoils its own data only: an atomic load yields some value.
            unsafe { AtomicU64::from_ptr(first.add(i)) }
        })
    }

    /// Reads a flag word, with acquire ordering.
    #[inline]
    pub(crate) fn flag(self, at: u32) -> u64 {
        word::observe(self.word(at))
    }

    /// Writes a flag word, with release ordering.
    #[inline]
    pub(crate) fn publish(self, at: u32, flag: u64) {
        word::publish(self.word(at), flag);
    }

    /// Copies a line out, once.
    #[inline]
    pub(crate) fn take_line(self, at: u32) -> Line {
        word::take_line(self.line(at))
    }

    /// Copies a line out, once, if its flag is this one; with acquire ordering.
    #[inline]
    pub(crate) fn take_line_if(self, at: u32, flag: u64) -> Option<Line> {
        let words = self.line(at);
        (word::observe(words[7]) == flag).then(|| word::take_line(words))
    }

    /// Writes a line, its flag last, with release ordering.
    #[inline]
    pub(crate) fn write_line(self, at: u32, line: &Line) {
        word::write_line(self.line(at), line);
    }

    /// Copies payload out.
    #[inline]
    pub(crate) fn copy_out(self, kernels: &CopyKernels, at: u32, to: &mut [u8], kernel: CopyKernel) {
        let src = self.at(at, to.len());
        // SAFETY: `src` is valid for this many bytes (checked in `at`), `to` is private memory of this process, and
        // shared memory is never behind a reference; so they do not overlap either.
        unsafe { kernels.copy_by(kernel, to.as_mut_ptr(), src, to.len()) }
    }

    /// Copies payload in.
    #[inline]
    pub(crate) fn copy_in(self, kernels: &CopyKernels, at: u32, from: &[u8], kernel: CopyKernel) {
        let dst = self.at(at, from.len());
        // SAFETY: `dst` is valid for this many bytes (checked in `at`), `from` is private memory of this process, and
        // shared memory is never behind a reference; so they do not overlap either.
        unsafe { kernels.copy_by(kernel, dst, from.as_ptr(), from.len()) }
    }

    /// Returns the CRC32C of `bytes` bytes, continued from `seed`.
    pub(crate) fn crc(self, at: u32, bytes: u32, seed: u32) -> u32 {
        // SAFETY: the span is valid for this many bytes (checked in `at`).
        unsafe { crc32c_of_shared(seed, self.at(at, bytes as usize), bytes as usize) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn ranges_beyond_the_span_are_refused_and_no_sum_wraps() {
        let mut memory = [0_u64; 16];
        // SAFETY: the memory outlives the span, and no reference to it is made meanwhile.
        let span = unsafe { Span::new(NonNull::from(&mut memory).cast(), 128) };
        for (at, bytes) in [(0, 128), (128, 0), (64, 64), (127, 1)] {
            assert_eq!(span.at(at, bytes).addr(), span.start.as_ptr().addr() + at as usize);
        }
        for (at, bytes) in [
            (0, 129),
            (128, 1),
            (129, 0),
            (u32::MAX, 0),
            (64, usize::MAX),
            (64, usize::MAX - 63),
            (u32::MAX, usize::MAX - u32::MAX as usize + 1),
        ] {
            let refused = catch_unwind(|| span.at(at, bytes)).unwrap_err();
            let text = refused.downcast_ref::<&str>().unwrap();
            assert_eq!(*text, "offsets come from a validated layout", "{at} {bytes}");
        }
    }
}
