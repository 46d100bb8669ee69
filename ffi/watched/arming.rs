//! Result of a request for a wake-up.

use core::time::Duration;

use superpipe_core::polling::Arm;

/// Result of `arm`: whether the program may wait for the descriptor.
///
/// After `Pending` and `Armed` the descriptor becomes ready when there is something to do, also by a timer of its own. After `Busy` it may not: try again, and ask again, before you wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arming {
    /// There is something to do: look before you wait.
    Busy,
    /// There is nothing to do, but something goes on whose end wakes nobody. The descriptor becomes ready when it is time to look: within a millisecond for a connection or a poller, within a second for a
    /// listener, whose RDMA device may be gone.
    Pending,
    /// Everyone with work for this end wakes it.
    Armed {
        /// Time after which the descriptor is ready in any case: a keepalive is due, or a look. `Duration::MAX`: nothing is due.
        look_again: Duration,
    },
}

impl Arming {
    /// Makes the answer of what core decided.
    pub(crate) fn of(arm: Arm, now_ns: u64) -> Self {
        match arm {
            Arm::Busy => Self::Busy,
            Arm::Pending { .. } => Self::Pending,
            Arm::Armed { at_ns: u64::MAX } => Self::Armed { look_again: Duration::MAX },
            Arm::Armed { at_ns } => {
                Self::Armed { look_again: Duration::from_nanos(at_ns.saturating_sub(now_ns)) }
            }
        }
    }
}
