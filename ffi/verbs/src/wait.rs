//! Waits for rdma-core's descriptors, which are all non-blocking here.

use crate::error::Error;
use crate::verb_error::VerbError;
use core::time::Duration;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// Longest wait without an [`Error::Interrupted`]: a bound on the delay of a signal that arrives just before a poll.
const SLICE: Duration = Duration::from_millis(100);

/// Waits until there may be something to read. A signal, or a tenth of a second, ends the wait early, because a signal that arrives
/// just before it would otherwise go unnoticed.
pub(crate) fn wait_readable(fd: BorrowedFd<'_>, deadline: Instant) -> Result<(), Error> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(Error::TimedOut);
    }
    let slice = left.min(SLICE);
    let timeout = Timespec { tv_sec: 0, tv_nsec: slice.subsec_nanos().into() };
    match poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&timeout)) {
        Ok(0) if left <= SLICE => Err(Error::TimedOut),
        Ok(0) | Err(Errno::INTR) => Err(Error::Interrupted),
        Ok(_) => Ok(()),
        Err(errno) => Err(VerbError::new(errno.raw_os_error(), "cannot poll").into()),
    }
}

/// Makes reads of a descriptor that a C struct owns fail with EAGAIN instead of waiting.
pub(crate) fn never_block(fd: BorrowedFd<'_>) -> Result<(), VerbError> {
    fcntl_getfl(fd)
        .and_then(|flags| fcntl_setfl(fd, flags | OFlags::NONBLOCK))
        .map_err(|errno| VerbError::new(errno.raw_os_error(), "cannot make an event channel non-blocking"))
}
