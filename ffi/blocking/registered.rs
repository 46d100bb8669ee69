//! Messages out of registered buffers, and into them.

use core::ops::Range;

use superpipe_core::driver::{Received, RecvOperation, SendOperation};

use super::Blocking;
use super::access::DriverAccess;
use super::host_driver::HostDriver;
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind};
use crate::fabric::HostFabric;
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
        let mut send = SendOperation::new(tag, bytes.len());
        {
            let HostDriver { driver, fabric, .. } = &mut *self.access().hold();
            if let Some(memory) = fabric.source_memory(driver.endpoint_mut(), buffer.memory(), part) {
                send = send.with_memory(memory);
            }
        }
        self.send_slowly(send, &[bytes], deadline)
    }

    /// Receives the next message into a registered buffer.
    pub(crate) fn recv_registered(
        &mut self,
        buffer: &mut RegisteredBuf,
        deadline: Deadline,
    ) -> Result<Received, Error> {
        let mut receive = RecvOperation::new();
        {
            let HostDriver { driver, fabric, .. } = &mut *self.access().hold();
            if let Some(memory) = fabric.destination_memory(driver.endpoint_mut(), buffer.memory()) {
                receive = receive.with_memory(memory);
            }
        }
        self.recv_slowly(receive, &mut [buffer], deadline)
    }
}
