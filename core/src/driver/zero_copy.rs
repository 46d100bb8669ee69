//! Operations on memory of the application that was named: what becomes of the memory. wire.md 4.8, 4.9.
//!
//! An operation that was given memory to register ([`SendOperation::with_memory`], [`RecvOperation::with_memory`]) is done only once no
//! device uses it. One out of exposed memory is done as soon as it is sent: the peer may read the memory until
//! [`Endpoint::is_shared`](crate::Endpoint::is_shared) is false. One that was cancelled, or has failed, may have ended before: its memory
//! must stay valid until [`Driver::is_send_released`], or [`Driver::is_recv_released`], and the caller makes rounds of progress until then.

use super::lent::Lent;
use super::receiving::Begun;
use super::{Drive, Driver, Received, RecvFailed, RecvOperation, SendFailed, SendOperation};
use crate::endpoint::{ExposedSend, Remote};
use crate::error::RefusedSend;
use crate::fabric::Fabric;
use crate::job::{RecvMemory, SendMemory};
use crate::send::TransferId;
use crate::slices::bytes_of;

impl SendOperation {
    /// Names the memory of the message: that of its only slice. The message is written remotely out of it, or the peer copies it out of it,
    /// if the protocol, its length and the peer allow.
    pub const fn with_memory(mut self, memory: SendMemory) -> Self {
        self.lent = Some(Lent::new(memory));
        self
    }

    /// Returns true once the message is over, and done except for its memory, which is still used or being deregistered. A cancel from then on
    /// only forgets how the message has ended.
    #[must_use]
    pub const fn awaits_release(&self) -> bool {
        matches!(self.lent, Some(Lent { result: Some(_), .. }))
    }

    /// Forgets the end of a message that is cancelled meanwhile.
    pub(super) const fn forget_result(&mut self) {
        if let Some(lent) = &mut self.lent {
            lent.result = None;
        }
    }
}

impl RecvOperation {
    /// Names the memory of the message: that of its only slice. The peer writes the message into it if its sender can.
    pub const fn with_memory(mut self, memory: RecvMemory) -> Self {
        self.lent = Some(Lent::new(memory));
        self
    }

    /// Returns true once the message is over, and done except for its memory, which is still used or being deregistered. A cancel from then on
    /// only forgets how the message has ended.
    #[must_use]
    pub const fn awaits_release(&self) -> bool {
        matches!(self.lent, Some(Lent { result: Some(_), .. }))
    }

    /// Forgets the end of a message that is cancelled meanwhile.
    pub(super) const fn forget_result(&mut self) {
        if let Some(lent) = &mut self.lent {
            lent.result = None;
        }
    }
}

impl<F: Fabric> Driver<F> {
    /// Returns true if the memory of an operation is not used any more. It may be used after a cancel or a failure, for as long as the
    /// device and jobs take, and in notify mode until the peer has returned a credit for the CANCEL. Once the peer is gone
    /// ([`note_peer_gone`](Self::note_peer_gone)), only jobs are awaited. It is never used longer than the connection exists.
    #[must_use]
    pub fn is_send_released(&self, send: &SendOperation) -> bool {
        send.lent
            .and_then(|lent| lent.to)
            .is_none_or(|(owner, id)| owner != self.id || !self.endpoint.holds_source(id))
    }

    /// Returns true if the memory of an operation is not used any more, as [`is_send_released`](Self::is_send_released) does.
    #[must_use]
    pub fn is_recv_released(&self, receive: &RecvOperation) -> bool {
        receive
            .lent
            .and_then(|lent| lent.to)
            .is_none_or(|(owner, number)| owner != self.id || !self.endpoint.holds_destination(number))
    }

    /// Sends a message whose memory the peer has mapped, or begins to send it split. Returns `None` if the message goes another way.
    pub(super) fn send_exposed(
        &mut self,
        fabric: &mut F,
        send: &SendOperation,
        slices: &[&[u8]],
    ) -> Result<Option<ExposedSend>, RefusedSend> {
        let Some(SendMemory::Exposed(exposed, offset)) = send.lent.map(|lent| lent.memory) else {
            return Ok(None);
        };
        if bytes_of(slices) != send.bytes {
            return Err(RefusedSend::WrongLength);
        }
        self.endpoint.send_exposed(fabric, send.tag, send.bytes as u64, exposed, offset)
    }

    /// Starts a message, with its memory if it has any.
    pub(super) fn start_message(
        &mut self,
        fabric: &mut F,
        send: &mut SendOperation,
    ) -> Result<TransferId, RefusedSend> {
        let (tag, bytes) = (send.tag, send.bytes as u64);
        let memory = send.lent.as_ref().map(|lent| lent.memory);
        let (id, is_held) = self.endpoint.start_from(fabric, tag, bytes, memory)?;
        if let Some(lent) = &mut send.lent {
            lent.to = is_held.then_some((self.id, id));
        }
        Ok(id)
    }

    /// Takes the next step of a message that may go by remote writes. Returns `None` if it goes in blocks.
    pub(super) fn drive_remote(
        &mut self,
        fabric: &mut F,
        send: &mut SendOperation,
        id: TransferId,
    ) -> Option<Drive<Result<(), SendFailed>>> {
        let lent = send.lent.as_ref()?;
        if lent.to.is_none_or(|(_, to)| to != id) {
            return None;
        }
        Some(match self.endpoint.push_remote(fabric, id) {
            Ok(Remote::InBlocks) => return None,
            Ok(Remote::Idle) => Drive::Idle,
            Ok(Remote::Moved(bytes)) => {
                send.count_sent(bytes);
                Drive::Moved
            }
            Ok(Remote::Sent(bytes)) => {
                send.count_sent(bytes);
                Drive::Done(Ok(()))
            }
            Err(refused) => Drive::Done(Err(refused.into())),
        })
    }

    /// Reports the end of a message that is sent, unless its memory is still used: then it is reported later.
    pub(super) fn end_send(
        &self,
        send: &mut SendOperation,
        driven: Drive<Result<(), SendFailed>>,
    ) -> Drive<Result<(), SendFailed>> {
        let Drive::Done(result) = driven else { return driven };
        if !self.is_send_released(send)
            && let Some(lent) = &mut send.lent
        {
            lent.result = Some(result);
            return Drive::Moved;
        }
        driven
    }

    /// Returns the end of a message that was sent, if its memory was awaited and is not used any more; [`Drive::Idle`] while it is.
    pub(super) fn ended_send(&self, send: &mut SendOperation) -> Option<Drive<Result<(), SendFailed>>> {
        let result = send.lent?.result?;
        if !self.is_send_released(send) {
            return Some(Drive::Idle);
        }
        if let Some(lent) = &mut send.lent {
            lent.result = None;
        }
        Some(Drive::Done(result))
    }

    /// Lends the memory of an operation to the message that it has begun. Returns false if the operation has to wait.
    pub(super) fn lend(
        &mut self,
        fabric: &mut F,
        receive: &mut RecvOperation,
        slices: &[&mut [u8]],
        begun: Begun,
    ) -> bool {
        let Some(lent) = &mut receive.lent else { return true };
        // Memory of several slices cannot be one destination.
        if lent.to.is_some() || slices.len() != 1 || begun.owner != self.id {
            return true;
        }
        let is_held = self.endpoint.lend(fabric, begun.number, lent.memory);
        if is_held.is_some() {
            lent.to = Some((self.id, begun.number));
        }
        is_held.is_some()
    }

    /// Reports the end of a message that is received, unless its memory is still used: then it is reported later.
    pub(super) fn end_recv(
        &self,
        receive: &mut RecvOperation,
        driven: Drive<Result<Received, RecvFailed>>,
    ) -> Drive<Result<Received, RecvFailed>> {
        let Drive::Done(result) = driven else { return driven };
        if !self.is_recv_released(receive)
            && let Some(lent) = &mut receive.lent
        {
            lent.result = Some(result);
            return Drive::Moved;
        }
        driven
    }

    /// Returns the end of a message that was received, if its memory was awaited and is not used any more; [`Drive::Idle`] while it is.
    pub(super) fn ended_recv(
        &self,
        receive: &mut RecvOperation,
    ) -> Option<Drive<Result<Received, RecvFailed>>> {
        let result = receive.lent?.result?;
        if !self.is_recv_released(receive) {
            return Some(Drive::Idle);
        }
        if let Some(lent) = &mut receive.lent {
            lent.result = None;
        }
        Some(Drive::Done(result))
    }

    /// Takes the memory back that was lent to a message which its operation gives up. If the peer may write to it, the connection ends.
    pub(super) fn withdraw(&mut self, fabric: &mut F, receive: &RecvOperation) {
        if !self.is_recv_released(receive)
            && let Some((_, number)) = receive.lent.and_then(|lent| lent.to)
        {
            self.endpoint.withdraw(fabric, number);
        }
    }
}
