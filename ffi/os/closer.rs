//! Closes descriptors that a peer sent, in threads of its own.
//!
//! The last close of a descriptor can take as long as its maker likes: a TCP socket that lingers over unsent data, a file of
//! a FUSE server that does not respond. So a separate thread closes such a descriptor. At most [`CLOSES_MAX`] threads
//! exist; beyond that, or if no thread can be made, the descriptor waits for a thread that is done. While half of the bound
//! is stuck, [`check_closer`] refuses new connections. Connections made before that can each still leave two descriptors
//! open.
//!
//! Lock-free, since another thread may hold a lock at the moment of a fork. A child has none of the threads: it counts anew,
//! and keeps its copies of the waiting descriptors until it ends.

use super::error::OsError;
use super::owner::Owner;
use core::sync::atomic::{AtomicU64, Ordering};
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::thread;

/// Limit of concurrent closes. Each honest one takes microseconds; more than a few at once are an attack.
const CLOSES_MAX: u32 = 64;
/// Limit of descriptors that wait for a thread, as many as a process may have open by default. Those beyond it stay open, and counted.
const WAITING_MAX: usize = 1024;
/// Bit that marks a waiting descriptor as counted. Descriptors are non-negative 32-bit integers and never have it.
const IS_COUNTED: u32 = 1 << 31;
/// Stack of a thread that makes one system call at a time.
const STACK_BYTES: usize = 64 << 10;

/// Count of peers' descriptors that are not closed yet. The high half of this and of all other words here is the process that the
/// low half is valid for.
static OPEN: AtomicU64 = AtomicU64::new(0);
/// Threads that close.
static THREADS: AtomicU64 = AtomicU64::new(0);
/// Waiting descriptors. Each word has 0 if its place is free, or the descriptor plus 1, with [`IS_COUNTED`] if it is counted.
static WAITING: [AtomicU64; WAITING_MAX] = [const { AtomicU64::new(0) }; WAITING_MAX];

/// Closes `fd`, which a peer sent or may have put something into, without waiting for it.
pub(crate) fn close_in_background(fd: OwnedFd) {
    change(&OPEN, |open| Some(open.saturating_add(1)));
    close(fd, IS_COUNTED);
}

/// Closes a descriptor of this end in the same way. It is not counted, since no peer can make its close slow.
pub(crate) fn close_own_in_background(fd: OwnedFd) {
    close(fd, 0);
}

fn close(fd: OwnedFd, counts: u32) {
    if put(fd.into_raw_fd(), counts) {
        begin_thread();
    }
}

/// Starts one more thread if the limit allows. If none can be started, the next thread closes the waiting descriptors.
fn begin_thread() {
    if enter()
        && thread::Builder::new().name("superpipe-close".into()).stack_size(STACK_BYTES).spawn(work).is_err()
    {
        leave();
    }
}

fn work() {
    loop {
        while let Some((fd, is_counted)) = take() {
            drop(fd);
            if is_counted {
                change(&OPEN, |open| Some(open.saturating_sub(1)));
            }
        }
        leave();
        // A descriptor that came since the last check may have found no place for another thread.
        if !is_waiting() || !enter() {
            return;
        }
    }
}

fn enter() -> bool {
    change(&THREADS, |threads| (threads < CLOSES_MAX).then_some(threads + 1))
}

fn leave() {
    change(&THREADS, |threads| Some(threads.saturating_sub(1)));
}

/// Stores a descriptor for a thread. Returns false if there is no place.
fn put(fd: RawFd, counts: u32) -> bool {
    let ours = word(fd.cast_unsigned().wrapping_add(1) | counts);
    WAITING.iter().any(|place| {
        let found = place.load(Ordering::SeqCst);
        low(found) == 0 && place.compare_exchange(found, ours, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    })
}

/// Takes a waiting descriptor; the flag is true if it is counted.
fn take() -> Option<(OwnedFd, bool)> {
    WAITING.iter().find_map(|place| {
        let found = place.load(Ordering::SeqCst);
        let raw = (low(found) & !IS_COUNTED).checked_sub(1)?.cast_signed();
        place.compare_exchange(found, 0, Ordering::SeqCst, Ordering::SeqCst).ok()?;
        // SAFETY: the number was taken out of its owner in this process, and the exchange gave it to this thread alone.
        Some((unsafe { OwnedFd::from_raw_fd(raw) }, low(found) & IS_COUNTED != 0))
    })
}

fn is_waiting() -> bool {
    WAITING.iter().any(|place| low(place.load(Ordering::SeqCst)) > 0)
}

/// Checks that another connection may bring descriptors to close.
///
/// # Errors
/// Too many are not closed yet.
pub(crate) fn check_closer(doing: &'static str) -> Result<(), OsError> {
    let stuck = low(OPEN.load(Ordering::SeqCst));
    if stuck >= CLOSES_MAX / 2 && is_waiting() {
        begin_thread(); // an earlier attempt may have failed
    }
    check(stuck, doing)
}

/// Returns the count of descriptors that are not closed yet.
#[cfg(test)]
pub(crate) fn open_count() -> u32 {
    low(OPEN.load(Ordering::SeqCst))
}

fn check(stuck: u32, doing: &'static str) -> Result<(), OsError> {
    if stuck < CLOSES_MAX / 2 {
        return Ok(());
    }
    let text = format!(
        "{doing}: {stuck} descriptors that peers sent are not closed yet; it must be fewer than {}",
        CLOSES_MAX / 2
    );
    Err(OsError::new(libc::EMFILE, text).with_remedy("stop the peer that sent them"))
}

/// Returns the low half of a word of this process; 0 for another's.
fn low(word: u64) -> u32 {
    const LOW: u64 = u32::MAX as u64;
    if word >> 32 == u64::from(Owner::current().number()) {
        u32::try_from(word & LOW).unwrap_or(u32::MAX)
    } else {
        0
    }
}

/// Makes a word of this process.
fn word(low: u32) -> u64 {
    u64::from(Owner::current().number()) << 32 | u64::from(low)
}

/// Changes a number. Returns false if `change` returns none.
fn change(number: &AtomicU64, change: impl Fn(u32) -> Option<u32>) -> bool {
    let update = |found| change(low(found)).map(word);
    number.fetch_update(Ordering::SeqCst, Ordering::SeqCst, update).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_refused_while_half_of_the_bound_is_stuck() {
        assert_eq!(check(CLOSES_MAX / 2 - 1, "cannot accept"), Ok(()));
        assert_eq!(
            check(CLOSES_MAX / 2, "cannot accept").unwrap_err().to_string(),
            "cannot accept: 32 descriptors that peers sent are not closed yet; it must be fewer than 32: too many open \
             files; stop the peer that sent them"
        );
    }
}
