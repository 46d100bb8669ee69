//! Registered buffers: messages out of them and into them, and their registration with a connection.

use core::ops::Range;

use superpipe_core::Reason;
use superpipe_core::driver::{Drive, Received, SendOperation};

use super::Blocking;
use super::access::DriverAccess;
use super::host_driver::HostDriver;
use super::lending::Lending;
use super::waiting::Waiting;
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind};
use crate::fabric::{HostFabric, Registered, Way};
use crate::registered_buf::RegisteredBuf;

impl<A: DriverAccess> Blocking<A> {
    /// Sends a part of a registered buffer as a message.
    pub(crate) fn send_registered(
        &mut self,
        tag: u64,
        buffer: &RegisteredBuf,
        part: Range<usize>,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let Some(bytes) = buffer.get(part.clone()) else {
            return Err(Error::new(
                ErrorKind::Usage,
                format!(
                    "the buffer has {} bytes, and not those from {} to {}",
                    buffer.len(),
                    part.start,
                    part.end
                ),
            ));
        };
        if A::Fabric::LENDS {
            if deadline.is_poll() {
                return self.send(tag, &[bytes], deadline);
            }
            let send = SendOperation::new(tag, bytes.len());
            return Lending::new(self.access(), Way::Out)
                .send_registered(send, buffer, part, bytes, deadline);
        }
        let mut host = self.access().hold();
        let HostDriver { driver, fabric, .. } = &mut *host;
        let Some(memory) = fabric.source_memory(driver.endpoint_mut(), buffer.memory(), part) else {
            drop(host);
            return self.send_unmapped(tag, buffer, bytes, deadline);
        };
        let mut send = SendOperation::new(tag, bytes.len()).with_memory(memory);
        // The first part goes before the other half of the connection can have the buffer withdrawn.
        let mut is_sent = drive(&mut host, &mut send, buffer, bytes, deadline)?;
        drop(host);
        while !is_sent && deadline.is_poll() {
            is_sent = drive(&mut self.access().hold(), &mut send, buffer, bytes, deadline)?;
        }
        if !is_sent {
            self.send_slowly(&mut send, &[bytes], deadline)?;
            self.count_sent(buffer, bytes.len(), send.is_exposed());
        }
        Ok(())
    }

    /// Sends a message out of a buffer that the peer has not mapped, and counts it, or that it is too long for this try.
    fn send_unmapped(
        &mut self,
        tag: u64,
        buffer: &RegisteredBuf,
        bytes: &[u8],
        deadline: Deadline,
    ) -> Result<(), Error> {
        if let Some(mut send) = self.begin_send(tag, &[bytes]) {
            if deadline.is_poll() && send.needs_transfer() {
                let HostDriver { driver, fabric, .. } = &mut *self.access().hold();
                fabric.count_unsent(driver.endpoint_mut(), buffer.memory(), bytes.len());
            }
            self.send_slowly(&mut send, &[bytes], deadline)?;
        }
        self.count_sent(buffer, bytes.len(), false);
        Ok(())
    }

    /// Counts a message that was sent out of a buffer. A call that has sent nothing is no message.
    fn count_sent(&mut self, buffer: &RegisteredBuf, bytes: usize, is_exposed: bool) {
        let HostDriver { driver, fabric, .. } = &mut *self.access().hold();
        fabric.count_sent(driver.endpoint_mut(), buffer.memory(), bytes, is_exposed);
    }

    /// Waits until a buffer is registered with the connection, or cannot be.
    pub(crate) fn register(
        &mut self,
        buffer: &RegisteredBuf,
        deadline: Deadline,
    ) -> Result<Registered, Error> {
        let protocol = self.access().hold().driver.endpoint().config().protocol;
        if !protocol.uses_registered() {
            return Err(Error::new(
                ErrorKind::Usage,
                format!(
                    "the connection has the protocol {protocol}; propose auto or register-cached in Tuning::protocol to register buffers with it"
                ),
            ));
        }
        let mut is_new = true;
        self.access().wait(deadline, |driver, fabric| {
            let registered = fabric.register(driver.endpoint_mut(), buffer.memory(), is_new);
            is_new = false;
            registered.into()
        })
    }

    /// Returns true while the peer may read a buffer for a message that was sent.
    pub(crate) fn is_shared(&mut self, buffer: &RegisteredBuf) -> bool {
        let HostDriver { driver, fabric, .. } = &mut *self.access().hold();
        fabric.is_shared(driver.endpoint_mut(), buffer.memory())
    }

    /// Waits until the peer has taken all messages out of a buffer.
    pub(crate) fn wait_unshared(&mut self, buffer: &RegisteredBuf, deadline: Deadline) -> Result<(), Error> {
        self.access().wait(deadline, |driver, fabric| {
            let is_delivered = driver.endpoint_mut().poll_delivered();
            let is_taken = is_delivered || !fabric.is_shared(driver.endpoint_mut(), buffer.memory());
            is_taken.then_some(()).into()
        })
    }

    /// Receives the next message into a registered buffer.
    pub(crate) fn recv_registered(
        &mut self,
        buffer: &mut RegisteredBuf,
        deadline: Deadline,
    ) -> Result<Received, Error> {
        if !A::Fabric::LENDS {
            return self.recv_into(&mut [buffer], deadline);
        }
        if deadline.is_poll() {
            return self.poll_recv(&mut [buffer]);
        }
        Lending::new(self.access(), Way::In).receive_registered(buffer, deadline)
    }
}

/// Sends the next part of a message out of a buffer, and counts the message if that was the last. Returns true once it was sent. A call whose
/// deadline is now leaves nothing to do: it fails unless something moved.
fn drive<F: HostFabric>(
    host: &mut HostDriver<F>,
    send: &mut SendOperation,
    buffer: &RegisteredBuf,
    bytes: &[u8],
    deadline: Deadline,
) -> Result<bool, Error> {
    let HostDriver { driver, fabric, .. } = host;
    match driver.drive_send(fabric, send, &[bytes]) {
        Drive::Done(Ok(())) => {
            fabric.count_sent(driver.endpoint_mut(), buffer.memory(), bytes.len(), send.is_exposed());
            Ok(true)
        }
        Drive::Done(Err(failed)) => Err(host.send_failed(failed)),
        // The part of a message that this end writes itself needs no wait.
        Drive::Moved => Ok(false),
        Drive::Idle if deadline.is_poll() => {
            if send.has_begun() {
                driver.cancel_send(fabric, send, Reason::GIVEN_UP);
            }
            // A program may call nothing but this. What `progress` finds, the next call reports.
            let ended = host.count_empty_try().err();
            host.progress();
            Err(ended.unwrap_or_else(Error::deadline))
        }
        Drive::Idle => Ok(false),
    }
}
