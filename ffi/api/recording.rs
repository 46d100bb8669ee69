//! The flight recorder of a connection.

use core::iter;

use superpipe_core::recorder::Record;

use super::connection::Connection;
use super::transport::Transport;
use crate::port::Port;

impl<P: Port> Connection<P> {
    /// Begins to record events, with an empty recorder, or stops and forgets what was recorded. Memory for
    /// [`recorder::CAPACITY`](superpipe_core::recorder::CAPACITY) records is allocated here; recording itself allocates
    /// nothing, and where there are more the oldest make room.
    ///
    /// Times are `CLOCK_MONOTONIC` in nanoseconds, which all processes of a host share.
    pub fn record(&mut self, on: bool) {
        self.transport().port.record(on);
    }

    /// Takes what was recorded out, the oldest first. Recording goes on.
    pub fn take_records(&mut self) -> impl Iterator<Item = Record> + use<'_, P> {
        let Transport { endpoint, port, .. } = self.transport();
        iter::from_fn(move || port.recorder(endpoint.link())?.take())
    }
}
