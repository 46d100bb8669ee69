//! Messages out of registered buffers, and into them.

use core::ops::Range;

use superpipe_core::driver::{Received, SendOperation};

use super::Blocking;
use super::access::DriverAccess;
use super::lending::Lending;
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind};
use crate::fabric::Way;
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
        if deadline.is_poll() {
            return self.send(tag, &[bytes], deadline);
        }
        let send = SendOperation::new(tag, bytes.len());
        Lending::new(self.access(), Way::Out).send_registered(send, buffer, part, bytes, deadline)
    }

    /// Receives the next message into a registered buffer.
    pub(crate) fn recv_registered(
        &mut self,
        buffer: &mut RegisteredBuf,
        deadline: Deadline,
    ) -> Result<Received, Error> {
        if deadline.is_poll() {
            return self.poll_recv(&mut [buffer]);
        }
        Lending::new(self.access(), Way::In).receive_registered(buffer, deadline)
    }
}
