//! Access to a driver: the trait by which all calls reach a [`HostDriver`]. [`Exclusive`](super::Exclusive) is the access of one owner,
//! and [`Half`](super::Half) that of two, by turns.

use core::ops::DerefMut;
use core::time::Duration;
use core::{fmt, hint};
use std::thread;

use superpipe_core::driver::{Drive, Driver};

use super::host_driver::HostDriver;
use crate::fabric::HostFabric;

/// Refusals of the lock after which a half yields its core to the other. Before that it spins: the holder releases the lock after a few
/// attempts.
const REFUSALS_SPUN: u32 = 4;
/// Refusals after which a half sleeps instead of yielding: the other may have a lower priority, and then never gets the core otherwise.
const REFUSALS_YIELDED: u32 = 256;
/// Unit of these sleeps. They grow by one unit per [`REFUSALS_YIELDED`] refusals, so a long wait costs little CPU time.
const SLEEP_UNIT: Duration = Duration::from_micros(50);
/// Units of the longest sleep: a millisecond, by which a half learns late that the lock is free.
const SLEEP_UNITS_MAX: u32 = 20;

/// Attempt of a half that waits, which the other half can make as well.
pub(crate) trait Attempt<F: HostFabric> {
    /// Makes one attempt, and keeps its result.
    fn step(&mut self, driver: &mut Driver<F>, fabric: &mut F) -> Drive<()>;
}

/// Access to a driver, which exists as long as this value.
pub(crate) trait DriverAccess: fmt::Debug + Send + 'static {
    /// The fabric.
    type Fabric: HostFabric;
    /// The driver while it is held: for a bounded number of attempts, the copy of a message that a try takes, or a call of the fabric that
    /// registers or gives back memory; never for a wait.
    type Held<'a>: DerefMut<Target = HostDriver<Self::Fabric>>
    where
        Self: 'a;
    /// True if another half may exist.
    const IS_SHARED: bool;

    /// Holds the driver. Waits until the other half releases it.
    fn hold(&mut self) -> Self::Held<'_>;
    /// Looks at the driver. Waits until the other half releases it.
    fn inspect<R>(&self, work: impl FnOnce(&HostDriver<Self::Fabric>) -> R) -> R;
    /// Holds the driver. Returns `None` if the other half holds it for longer than an attempt takes.
    fn try_hold(&mut self) -> Option<Self::Held<'_>>;
    /// Yields to the other half if that was refused a turn. Returns true if another thread may have had the core meanwhile.
    fn give_way(&self) -> bool;
    /// Returns true if the other half runs on the same core as this one: spinning would only keep it from its work.
    fn shares_core(&self) -> bool;
    /// Counts bytes that were moved. Returns true if the other half, on the same core, is due for its turn.
    fn count_moved(&mut self, bytes: usize) -> bool;
    /// Makes the attempt that the other half lent while it yields on the same core. Returns `None` if it lent none.
    fn step_other(held: &mut Self::Held<'_>) -> Option<Drive<()>>;
    /// Yields the core. Meanwhile the other half may make `attempt`.
    fn yield_lending(&mut self, attempt: &mut (dyn Attempt<Self::Fabric> + Send));
    /// Returns true if the user has set the interrupt flag.
    fn is_interrupted(&self) -> bool;
    /// Returns true in the process that made the connection. The memory is not there in a child of fork.
    fn is_ours(&self) -> bool;
}

/// Pauses after the lock was refused a number of times in a row. Returns true if another thread may have had the core meanwhile.
pub(super) fn pause_after_refusals(refused: u32) -> bool {
    match refused {
        0..REFUSALS_SPUN => hint::spin_loop(),
        REFUSALS_SPUN..REFUSALS_YIELDED => thread::yield_now(),
        _ => thread::sleep(SLEEP_UNIT * (refused / REFUSALS_YIELDED).min(SLEEP_UNITS_MAX)),
    }
    refused >= REFUSALS_SPUN
}
