//! Steps of a job of a connection, and who makes them: the jobs of the process, or the connection itself.

use superpipe_core::driver::setup::GROWTH_SLAB_BYTES;

use crate::os::jobs::{self, JobError, Jobs, Step, Steps};
use crate::os::step_time::timed;

/// Limit of bytes whose steps the connection makes itself: a slab with its slot lines. That takes three polls, of 40 µs together, and not
/// longer than it takes to wake a thread. If the peer's end keeps the helper's core busy, it is much faster: the first message of
/// 256 KiB then took 302 µs with the helper, and takes 139 µs (`rperf --reconnect`, two cores, both ends pinned and spinning).
const HERE_BYTES_MAX: usize = GROWTH_SLAB_BYTES as usize + 2 * 4096;

/// Steps, and who makes them.
pub(super) enum Turns<S: Steps> {
    /// The jobs of the process.
    Process(jobs::Ticket<S>),
    /// This connection, one per poll.
    Connection(S),
}

impl<S: Steps> Turns<S> {
    /// Begins a job on this many bytes that a transfer may wait for.
    pub(super) fn begin(steps: S, bytes: usize) -> Self {
        if bytes <= HERE_BYTES_MAX { Self::Connection(steps) } else { Self::of_process(steps) }
    }

    /// Begins a job of the process, or leaves the steps to the connection if the process has too many.
    pub(super) fn of_process(steps: S) -> Self {
        match Jobs::of_process().begin(steps) {
            Ok(ticket) => Self::Process(ticket),
            Err(jobs::Busy(steps)) => Self::Connection(steps),
        }
    }

    pub(super) fn poll(&mut self) -> Option<Result<S::Output, JobError>> {
        match self {
            Self::Process(ticket) => ticket.poll(),
            Self::Connection(steps) => match timed(|| steps.step()) {
                Step::More => None,
                Step::Done(output) => Some(Ok(output)),
            },
        }
    }
}
