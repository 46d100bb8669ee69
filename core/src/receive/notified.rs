//! Notifications of chunks, in notify mode: no flag is read before its own came. wire.md 3.4.

use super::Receiver;
use crate::error::ProtocolError;
use crate::fabric::Fabric;
use crate::wire::arrival::Arrival;
use crate::wire::notification::LowBits;
use crate::wire::sequence::{after, distance, is_before};

impl<F: Fabric> Receiver<F> {
    /// Handles the notification of a chunk.
    pub(crate) fn handle_notification(&mut self, low: LowBits) -> Result<(), ProtocolError> {
        let next = after(self.notified);
        low.check(next, distance(self.last(), next), self.blocks_of_both())?;
        self.notified = next;
        Ok(())
    }

    /// Returns true if the chunk that is awaited, or at the head, was notified.
    pub(crate) const fn is_notified(&self) -> bool {
        !is_before(self.notified, self.sequence)
    }

    /// Returns true if the next slot line must not be read, because its chunk was not notified yet.
    #[inline]
    pub(super) fn awaits_notification(&self, arrival: Arrival) -> bool {
        planted!(NotificationNotRead => return false);
        notifies::<F>(arrival) && !self.is_notified()
    }

    /// Judges a flag that is not there. It is a violation if its write was notified.
    pub(super) fn judge_missing(&self, arrival: Arrival) -> Result<bool, ProtocolError> {
        if notifies::<F>(arrival) && self.is_notified() {
            Err(ProtocolError::NotificationWithoutFlag)
        } else {
            Ok(false)
        }
    }
}

/// Returns true if each write of the peer is notified. The compiler decides it for a fabric with direct store.
#[inline]
pub(crate) fn notifies<F: Fabric>(arrival: Arrival) -> bool {
    !F::DIRECT && arrival == Arrival::Notify
}
