//! Messages that are built in place.

use superpipe_core::driver::Drive;
use superpipe_core::{Endpoint, RefusedReserve, RefusedSend, ReservedMessage};

use super::Blocking;
use super::access::DriverAccess;
use super::waiting::Waiting;
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind};
use crate::fabric::HostFabric;
use crate::outcome::TryReserve;
use crate::reserved::Reserved;

impl<A: DriverAccess> Blocking<A> {
    /// Reserves space for a message, if there is room.
    pub(crate) fn try_reserve(&mut self, tag: u64, bytes: usize) -> Result<TryReserve, Error> {
        let Some(mut held) = self.access().try_hold() else { return Ok(TryReserve::Pending) };
        let host = &mut *held;
        let reserved = host.driver.endpoint_mut().reserve_message(&mut host.fabric, tag, length(bytes));
        match reserved {
            Ok(message) => Ok(TryReserve::Reserved(Reserved { message, owner: host.id })),
            Err(RefusedReserve::Pending) => {
                host.count_empty_try()?;
                Ok(TryReserve::Pending)
            }
            Err(RefusedReserve::Busy) if host.driver.endpoint().is_building() => Err(already_open()),
            Err(RefusedReserve::Busy) => {
                host.count_empty_try()?;
                Ok(TryReserve::Pending)
            }
            Err(RefusedReserve::TooLong { bytes_max }) => Err(too_long(bytes, bytes_max)),
            Err(RefusedReserve::Closed) => Err(end(host.driver.endpoint())),
        }
    }

    /// Waits for room, and reserves space for a message.
    pub(crate) fn reserve(&mut self, tag: u64, bytes: usize, deadline: Deadline) -> Result<Reserved, Error> {
        let is_open = self.inspect(|host| {
            let endpoint = host.driver.endpoint();
            endpoint.is_building() && endpoint.closed().is_none()
        });
        if is_open {
            return Err(already_open());
        }
        let reserved = self.access().wait(deadline, |driver, fabric| {
            match driver.endpoint_mut().reserve_message(fabric, tag, length(bytes)) {
                Ok(message) => Drive::Done(Ok(message)),
                // The wait reports how the connection has ended.
                Err(RefusedReserve::Pending | RefusedReserve::Busy | RefusedReserve::Closed) => Drive::Idle,
                Err(RefusedReserve::TooLong { bytes_max }) => Drive::Done(Err(bytes_max)),
            }
        })?;
        let message = reserved.map_err(|bytes_max| too_long(bytes, bytes_max))?;
        Ok(Reserved { message, owner: self.inspect(|host| host.id) })
    }

    /// Copies bytes to their place in a message.
    pub(crate) fn copy_into(&mut self, reserved: &Reserved, offset: usize, from: &[u8]) -> Result<(), Error> {
        let message = self.open_message(reserved)?;
        let host = &mut *self.access().hold();
        let has_copied = u32::try_from(offset).is_ok_and(|offset| {
            host.driver.endpoint_mut().copy_into_message(&mut host.fabric, message, offset, from)
        });
        if has_copied {
            return Ok(());
        }
        let (bytes, all) = (from.len(), message.bytes);
        Err(Error::new(
            ErrorKind::Usage,
            format!("{all} bytes are reserved, and {bytes} from byte {offset} on do not fit: reserve more"),
        ))
    }

    /// Sends a message that is complete.
    pub(crate) fn commit_message(&mut self, reserved: &Reserved) -> Result<(), Error> {
        let message = self.open_message(reserved)?;
        let host = &mut *self.access().hold();
        match host.driver.endpoint_mut().commit_message(&mut host.fabric, message) {
            Ok(()) => Ok(()),
            Err(RefusedSend::NotOpen) => Err(not_open()),
            Err(_) => Err(end(host.driver.endpoint())),
        }
    }

    /// Abandons a message.
    pub(crate) fn abandon_message(&mut self, reserved: &Reserved) -> Result<(), Error> {
        let message = self.open_message(reserved)?;
        self.access().hold().driver.endpoint_mut().abandon_message(message);
        Ok(())
    }

    /// Returns the message in core, if it is one of this connection that is open.
    pub(crate) fn open_message(&self, reserved: &Reserved) -> Result<ReservedMessage, Error> {
        self.inspect(|host| {
            if reserved.owner != host.id {
                return Err(Error::new(
                    ErrorKind::Usage,
                    "the space was reserved on another connection: use it with that one",
                ));
            }
            let endpoint = host.driver.endpoint();
            if endpoint.is_reserved(reserved.message) { Ok(reserved.message) } else { Err(end(endpoint)) }
        })
    }

    /// Returns address and bytes of the span that has a message from its byte `offset` on.
    pub(crate) fn message_span(&self, message: ReservedMessage, offset: u32) -> Option<(*mut u8, u32)> {
        self.inspect(|host| {
            let endpoint = host.driver.endpoint();
            let (memory, at, bytes) = endpoint.message_span(message, offset)?;
            Some((host.fabric.place_in(endpoint.link(), memory, at, bytes), bytes))
        })
    }
}

/// Returns the error of a call for a message that the end of the connection has ended.
fn end<F: HostFabric>(endpoint: &Endpoint<F>) -> Error {
    endpoint.closed().map_or_else(not_open, Error::closed)
}

/// Returns the bytes for core, which refuses what is longer than a landing buffer can be.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn already_open() -> Error {
    Error::new(ErrorKind::Usage, "space is reserved already: commit or abandon it first")
}

fn not_open() -> Error {
    Error::new(ErrorKind::Usage, "the reserved space was committed or abandoned: reserve again")
}

fn too_long(bytes: usize, bytes_max: u32) -> Error {
    let text = format!(
        "cannot reserve {bytes} bytes: the peer's landing buffer holds {bytes_max} at once; send the message with send, or propose larger \
         landing buffers (Tuning)"
    );
    Error::new(ErrorKind::Limit, text)
}
