//! The ways to a transport: alone, without a lock, or shared by the two halves of a connection that was split.

use core::fmt;
use core::ops::DerefMut;

use superpipe_core::driver::{Drive, Driver};

use super::transport::Transport;
use crate::port::Port;

/// Attempt at what a half waits for, which the other half can make as well.
pub(in crate::api) trait Attempt<P: Port> {
    /// Makes one attempt, and keeps its result.
    fn step(&mut self, driver: &mut Driver<P>, port: &mut P) -> Drive<()>;
}

/// A way to a transport, which stays there as long as this does.
pub(in crate::api) trait Access: fmt::Debug + Send + 'static {
    /// The fabric.
    type Port: Port;
    /// The transport, for a bounded number of attempts and never for a wait.
    type Held<'a>: DerefMut<Target = Transport<Self::Port>>
    where
        Self: 'a;
    /// True if there may be another half.
    const IS_SHARED: bool;

    /// The transport. Waits until the other half lets it go.
    fn hold(&mut self) -> Self::Held<'_>;
    /// The transport. `None` if the other half holds it for longer than a moment.
    fn try_hold(&mut self) -> Option<Self::Held<'_>>;
    /// Lets the other half have its turn, if it was refused one. Returns true if another thread may have had the core meanwhile.
    fn give_way(&self) -> bool;
    /// Returns true if the other half runs on the same core as this one: spinning would only keep it from its work.
    fn shares_core(&self) -> bool;
    /// Counts bytes that were moved. Returns true if enough were moved that the other half, on the same core, is to have its turn.
    fn count_moved(&mut self, bytes: usize) -> bool;
    /// Makes the attempt that the other half lent, which yields meanwhile on the same core. `None` if it lent none.
    fn step_other(held: &mut Self::Held<'_>) -> Option<Drive<()>>;
    /// Yields the core. Meanwhile the other half may make `attempt`.
    fn yield_lending(&mut self, attempt: &mut (dyn Attempt<Self::Port> + Send));
    /// Returns true if the user has set the interrupt flag.
    fn is_interrupted(&self) -> bool;
    /// Returns true in the process that made the connection. The memory is not there in a child of fork.
    fn is_ours(&self) -> bool;
}
