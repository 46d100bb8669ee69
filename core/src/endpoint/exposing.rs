//! Messages out of memory that the peer maps: one copy, which the receiver makes. wire.md 4.9, 5.6.

use super::Endpoint;
use crate::exposing::{Exposed, ExposedState};
use crate::fabric::Fabric;
use crate::job::Buffer;

impl<F: Fabric> Endpoint<F> {
    /// Begins to expose memory of the application, so that the peer maps it and copies messages straight out of it. Nothing waits for that:
    /// until the peer has mapped it, messages go through the ring. The memory must stay as it is, at its place, from the call that sends a
    /// message out of it until it [is not shared](Self::is_shared) any more.
    ///
    /// Returns `None` if [`EXPOSED_MAX`](crate::EXPOSED_MAX) places are taken, if the connection does not use the protocol register-cached
    /// on a fabric with direct store, or if it has ended.
    pub fn expose(&mut self, fabric: &mut F, buffer: Buffer) -> Option<Exposed> {
        let _ = (fabric, buffer);
        None
    }

    /// Returns the state of memory that was exposed.
    #[must_use]
    pub fn exposed_state(&self, exposed: Exposed) -> ExposedState {
        let _ = exposed;
        ExposedState::Gone
    }

    /// Returns true while the peer may read the memory: messages out of it were sent, and are not known to be taken. It is also true of
    /// memory that was withdrawn meanwhile. Once the connection has ended, it stays as it was: a message that was sent before may still
    /// be taken.
    ///
    /// It does not read the peer's acknowledgements: [`poll_acknowledgements`](Self::poll_acknowledgements) does.
    #[must_use]
    pub fn is_shared(&self, exposed: Exposed) -> bool {
        let _ = exposed;
        false
    }

    /// Withdraws memory: no later message names it, and the peer unmaps it once it has taken those that do. The place can be used again
    /// after that. A stale handle has no effect.
    pub fn withdraw_exposed(&mut self, fabric: &mut F, exposed: Exposed) {
        let _ = (fabric, exposed);
    }
}
