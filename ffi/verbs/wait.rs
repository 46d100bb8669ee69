//! Waiting for a descriptor of rdma-core's, which all are non-blocking here.

use super::error::Error;
use crate::os::OsError;
use crate::os::clock::until;
use crate::os::poll::{PollFd, Polled, poll};
use core::ffi::c_int;
use std::os::fd::BorrowedFd;

/// The longest that a wait goes on without an [`Error::Interrupted`].
const SLICE_NS: u64 = 100_000_000;

/// Waits until there is something to read. `Ok` says only that it is worth looking. A signal, or a tenth of a second,
/// ends it early, because a signal that arrives just before the wait would otherwise go unnoticed.
pub(super) fn wait_readable(fd: BorrowedFd<'_>, deadline_ns: u64) -> Result<(), Error> {
    let left = until(deadline_ns);
    if left == 0 {
        return Err(Error::TimedOut);
    }
    match poll(&mut [PollFd::new(fd, libc::POLLIN)], left.min(SLICE_NS))? {
        Polled::Ready => Ok(()),
        Polled::TimedOut if left <= SLICE_NS => Err(Error::TimedOut),
        Polled::TimedOut | Polled::Interrupted => Err(Error::Interrupted),
    }
}

/// Makes reads of a descriptor that a C struct owns answer EAGAIN instead of waiting.
pub(super) fn never_block(fd: c_int) -> Result<(), OsError> {
    // SAFETY: the call takes integers only.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    // SAFETY: as above.
    if flags < 0 || unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) } != 0 {
        return Err(OsError::last("cannot make an event channel non-blocking"));
    }
    Ok(())
}
