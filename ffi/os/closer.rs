//! Closing descriptors that a peer sent, away from the caller.
//!
//! The last close of a descriptor can take as long as its maker likes: a TCP socket that lingers over unsent data, a file of
//! a FUSE server that does not answer. So a thread of its own closes such a descriptor. At most [`CLOSES_MAX`] threads
//! exist; beyond that, or where no thread can be made, the descriptor stays open. While half of the bound is stuck,
//! [`check_closer`] refuses new connections, so at most two descriptors stay open for each connection that exists then.

use super::error::OsError;
use core::sync::atomic::{AtomicU64, Ordering};
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::{process, thread};

/// Closes that go on at once. Each honest one takes microseconds; more than a few at once are an attack.
const CLOSES_MAX: u32 = 64;
/// For a thread that makes one system call.
const STACK_BYTES: usize = 64 << 10;

/// Descriptors that are not closed yet: the low half. The high half is the pid that counts them, since a child of fork has
/// none of the threads.
static OPEN: AtomicU64 = AtomicU64::new(0);

/// Closes `fd` without waiting for it.
pub(crate) fn close_elsewhere(fd: OwnedFd) {
    // As a number: the closure of a thread that could not be made is dropped here, and would close it.
    let raw = fd.into_raw_fd();
    if count(|open| open.saturating_add(1)) >= CLOSES_MAX {
        return; // it stays open, and counted
    }
    let close = move || {
        // SAFETY: the number was taken out of its owner above, and this is the only thread that has it.
        drop(unsafe { OwnedFd::from_raw_fd(raw) });
        count(|open| open.saturating_sub(1));
    };
    // Without a thread it stays open, and counted.
    let _ = thread::Builder::new().name("superpipe-close".into()).stack_size(STACK_BYTES).spawn(close);
}

/// Checks that another connection may bring descriptors to close.
///
/// # Errors
/// Too many are not closed yet.
pub(crate) fn check_closer(doing: &'static str) -> Result<(), OsError> {
    check(count(|open| open), doing)
}

fn check(stuck: u32, doing: &'static str) -> Result<(), OsError> {
    if stuck < CLOSES_MAX / 2 {
        return Ok(());
    }
    let text = format!(
        "{doing}: {stuck} descriptors that peers sent are not closed yet, {} are allowed",
        CLOSES_MAX / 2
    );
    Err(OsError::new(libc::EMFILE, text).with_remedy("stop the peer that sent them"))
}

/// Changes the number of open descriptors; returns the old one.
fn count(change: impl Fn(u32) -> u32) -> u32 {
    let pid = u64::from(process::id());
    let low = |word: u64| u32::try_from(word & u64::from(u32::MAX)).unwrap_or(u32::MAX);
    let split = |word: u64| if word >> 32 == pid { low(word) } else { 0 };
    let update = |word| Some(pid << 32 | u64::from(change(split(word))));
    OPEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update).map_or(0, split)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_connections_are_refused_while_half_of_the_bound_is_stuck() {
        assert_eq!(check(CLOSES_MAX / 2 - 1, "cannot accept"), Ok(()));
        assert_eq!(
            check(CLOSES_MAX / 2, "cannot accept").unwrap_err().to_string(),
            "cannot accept: 32 descriptors that peers sent are not closed yet, 32 are allowed: too many open files; stop \
             the peer that sent them"
        );
    }
}
