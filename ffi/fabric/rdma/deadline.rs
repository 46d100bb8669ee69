//! Deadlines of connecting.

use crate::os::clock::until;
use core::time::Duration;
use std::time::Instant;

/// Deadline of an attempt to connect, and the caller's interrupt flag.
pub(super) struct ConnectDeadline<'a> {
    pub(super) deadline_ns: u64,
    pub(super) interrupted: &'a dyn Fn() -> bool,
}

/// Converts a deadline in monotonic nanoseconds to that of a wait in superpipe-verbs.
pub(super) fn instant(deadline_ns: u64) -> Instant {
    Instant::now() + Duration::from_nanos(until(deadline_ns))
}
