//! Prefetches of the next message, before it is written or read. Measured in docs/performance.md, "Messages between two resident buffers".

use crate::copy::{CAN_PREFETCH, prefetch_for_read, prefetch_for_write};
use crate::fabric::Span;

/// Longest message in bytes that is prefetched whole for writing: as many lines as a core can request at once. With more, the core waits for its own
/// requests, and the hardware's prefetcher is faster.
const WHOLE_BYTES_MAX: usize = 2048;
/// Most bytes that are prefetched for reading, and the length of a message from which on they become fewer: reading ahead gained nothing above.
const READ_BYTES_MAX: usize = 1024;
const READ_FULL_UP_TO: usize = 2048;

/// Prefetches for writing what [`bytes_before_write`] says.
#[inline]
pub(super) fn before_write(to: Span, at: u32, bytes: u32, follows_answer: bool) {
    let ahead = bytes_before_write(bytes, follows_answer);
    prefetch_for_write(to.at(at, ahead), ahead);
}

/// Prefetches for reading what [`bytes_before_read`] says, if the flag is there.
#[inline]
pub(super) fn before_read(from: Span, flag_at: u32, flag: u64, at: u32, bytes: u32) {
    let ahead = bytes_before_read(bytes);
    if CAN_PREFETCH && ahead > 0 && from.flag(flag_at) == flag {
        prefetch_for_read(from.at(at, ahead), ahead);
    }
}

/// Returns the bytes to prefetch for writing of a next message of `bytes` bytes. If it `follows_answer`, there is time for longer messages, too: their
/// prefetch shrinks to 0 between 2 and 4 KiB, so that no length is much slower than a shorter one.
#[inline]
const fn bytes_before_write(bytes: u32, follows_answer: bool) -> usize {
    match bytes as usize {
        whole @ 0..=WHOLE_BYTES_MAX => whole,
        longer if follows_answer => (2 * WHOLE_BYTES_MAX).saturating_sub(longer),
        _ => 0,
    }
}

/// Returns the bytes to prefetch for reading of a next message of `bytes` bytes. They shrink to 0 between 2 and 3 KiB, so that no length is much slower than
/// a shorter one.
#[inline]
const fn bytes_before_read(bytes: u32) -> usize {
    match bytes as usize {
        whole @ 0..=READ_BYTES_MAX => whole,
        0..=READ_FULL_UP_TO => READ_BYTES_MAX,
        longer => (READ_FULL_UP_TO + READ_BYTES_MAX).saturating_sub(longer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_messages_are_prefetched_whole_for_writing() {
        for bytes in [0, 1, 64, 2048] {
            assert_eq!([false, true].map(|follows| bytes_before_write(bytes, follows)), [bytes as usize; 2]);
        }
    }

    #[test]
    fn the_prefetch_for_writing_shrinks_and_needs_an_answer() {
        for (bytes, wanted) in [(2049, 2047), (2254, 1842), (3072, 1024), (4095, 1), (4096, 0), (u32::MAX, 0)]
        {
            assert_eq!(
                [true, false].map(|follows| bytes_before_write(bytes, follows)),
                [wanted, 0],
                "{bytes}"
            );
        }
    }

    #[test]
    fn the_begin_of_a_short_message_is_prefetched_for_reading() {
        for (bytes, wanted) in [
            (0, 0),
            (105, 105),
            (1024, 1024),
            (1025, 1024),
            (2048, 1024),
            (2049, 1023),
            (3071, 1),
            (3072, 0),
            (u32::MAX, 0),
        ] {
            assert_eq!(bytes_before_read(bytes), wanted, "{bytes}");
        }
    }
}
