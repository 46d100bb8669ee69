//! The rdma_cm id of a connection, from its first event to the disconnect.

use super::deadline::instant;
use super::error::ConnectError;
use crate::os::monotonic_ns;
use crate::os::poll::{PollFd, poll_now};
use core::net::SocketAddr;
use std::os::fd::AsFd;
use superpipe_verbs::{
    CmEvent, CmEventKind, CmId, ConnectParams, Context, Error, EventChannel, QpAttr, QpState,
};

/// Bound of a drop if the caller sets none: for the drain of the send queue, and for the peer's answer to the disconnect. It is the default
/// of `Options::linger`.
const DISCONNECT_NS: u64 = 1_000_000_000;

/// The id of one connection, on an event channel of its own.
#[derive(Debug)]
pub(super) struct Cm {
    channel: EventChannel,
    id: CmId,
    state: State,
    /// The connection was established: data may still be in flight.
    is_kept_open: bool,
    /// Time by which the drop of the connection is over.
    end_by_ns: Option<u64>,
    is_device_gone: bool,
}

/// State of the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Connecting,
    Connected,
    Disconnected,
}

impl Cm {
    pub(super) const fn new(channel: EventChannel, id: CmId) -> Self {
        Self {
            channel,
            id,
            state: State::Connecting,
            is_kept_open: false,
            end_by_ns: None,
            is_device_gone: false,
        }
    }

    /// Returns the device of this connection.
    pub(super) fn context(&self) -> Result<Context, ConnectError> {
        self.id.context().ok_or(ConnectError::Verbs(Error::NoDevice))
    }

    pub(super) fn port_number(&self) -> u8 {
        self.id.port_number()
    }

    pub(super) fn local_addr(&self) -> Option<SocketAddr> {
        self.id.local_addr()
    }

    pub(super) fn peer_addr(&self) -> Option<SocketAddr> {
        self.id.peer_addr()
    }

    pub(super) fn qp_attr(&self, state: QpState) -> Result<QpAttr, ConnectError> {
        Ok(self.id.qp_attr(state)?)
    }

    pub(super) fn connect(&mut self, params: ConnectParams<'_>) -> Result<(), ConnectError> {
        Ok(self.id.connect(params)?)
    }

    pub(super) fn establish(&mut self) -> Result<(), ConnectError> {
        self.id.establish()?;
        self.state = State::Connected;
        Ok(())
    }

    pub(super) fn accept(&mut self, params: ConnectParams<'_>) -> Result<(), ConnectError> {
        self.id.accept(params)?;
        self.state = State::Connected;
        Ok(())
    }

    /// Marks the connection as established: its drop waits for the peer's answer to the disconnect.
    pub(super) const fn keep_open(&mut self) {
        self.is_kept_open = true;
    }

    /// Bounds the drop, from now on.
    pub(super) const fn end_by(&mut self, by_ns: u64) {
        self.end_by_ns = Some(by_ns);
    }

    /// Returns the time by which the drop is over, fixed by the first call.
    pub(super) fn ends_by(&mut self) -> u64 {
        *self.end_by_ns.get_or_insert_with(|| monotonic_ns().saturating_add(DISCONNECT_NS))
    }

    pub(super) const fn is_kept_open(&self) -> bool {
        self.is_kept_open
    }

    pub(super) fn reject(&mut self, private_data: &[u8]) {
        // It fails if the peer has gone, which then need not know.
        let _ = self.id.reject(private_data);
    }

    /// Waits for the next event.
    pub(super) fn event(
        &mut self,
        deadline_ns: u64,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<CmEvent, ConnectError> {
        loop {
            match self.channel.next_event(instant(deadline_ns)) {
                Err(Error::Interrupted) if !interrupted() => {}
                event => {
                    let event = event?;
                    if event.kind == CmEventKind::ESTABLISHED {
                        self.state = State::Connected;
                    }
                    return Ok(event);
                }
            }
        }
    }

    /// Returns the channel of its events.
    pub(super) const fn channel(&self) -> &EventChannel {
        &self.channel
    }

    /// Returns true if it ended because this host's device was removed, by the events that were taken.
    pub(super) const fn is_device_gone(&self) -> bool {
        self.is_device_gone
    }

    /// Returns true unless an event has reported the end of the connection. Makes a system call.
    pub(super) fn is_connected(&mut self) -> bool {
        let is_disconnected = self.state == State::Disconnected;
        if !is_disconnected && poll_now(&mut [PollFd::new(self.channel.as_fd(), libc::POLLIN)]) {
            self.take_events();
        }
        self.state != State::Disconnected
    }

    /// Disconnects at once, so that the peer learns that this end has ended the connection.
    pub(super) fn disconnect(&mut self) {
        if self.state == State::Connected {
            // It fails if the peer has disconnected meanwhile.
            let _ = self.id.disconnect();
            self.state = State::Disconnected;
        }
    }

    pub(super) fn take_events(&mut self) {
        loop {
            match self.channel.try_event() {
                Ok(Some(event)) if event.failure().is_some() => {
                    self.state = State::Disconnected;
                    self.is_device_gone |= event.kind == CmEventKind::DEVICE_REMOVAL;
                    // InfiniBand and RoCE wait for this answer; elsewhere it fails.
                    let _ = self.id.disconnect();
                }
                Ok(Some(event)) if event.kind == CmEventKind::TIMEWAIT_EXIT => {
                    self.state = State::Disconnected
                }
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(_) => {
                    self.state = State::Disconnected;
                    return;
                }
            }
        }
    }
}

impl Drop for Cm {
    /// Disconnects. Waits for the answer of the peer if the connection was established, since data in flight can be lost otherwise
    /// (iWARP).
    fn drop(&mut self) {
        if self.state != State::Connected || self.id.disconnect().is_err() || !self.is_kept_open {
            return;
        }
        let deadline_ns = self.ends_by();
        loop {
            match self.channel.next_event(instant(deadline_ns)) {
                Ok(event) if event.failure().is_some() => return,
                Ok(_) | Err(Error::Interrupted) => {}
                Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests;
