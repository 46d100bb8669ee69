//! Result of a request for a wake-up.

use core::time::Duration;

/// What a program may do that waits for a descriptor: the result of `arm`.
///
/// In any case the descriptor becomes ready when there is something to do, also by a timer of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arming {
    /// There is something to do: look before you wait.
    Busy,
    /// There is nothing to do, but something goes on whose end wakes nobody. The descriptor becomes ready when it is time to look: within a millisecond for a connection or a poller, within a second for a
    /// listener, which may lack descriptors.
    Pending,
    /// Who has work for this end wakes it.
    Armed {
        /// Time after which the descriptor is ready in any case: a keepalive is due, or a look.
        look_again: Duration,
    },
}

/// Unit of naps while nobody wakes this end, and the longest one.
const NAP_NS: u64 = 10_000;
const NAP_MAX_NS: u64 = 1_000_000;

/// Returns how long to sleep before the next look at something that wakes nobody, after so many looks in a row that found nothing.
pub(crate) fn nap_ns(naps: u32) -> u64 {
    (NAP_NS << naps.min(8)).min(NAP_MAX_NS)
}
