//! Messages that are sent at once or by an operation.

use super::lent::Lent;
use super::{Drive, Driver};
use crate::endpoint::{Endpoint, ExposedSend};
use crate::error::{Reason, RefusedSend};
use crate::fabric::Fabric;
use crate::job::SendMemory;
use crate::send::TransferId;
use crate::slices::{Cursor, Gather, bytes_of};

/// Memory of an operation that sends.
pub(super) type LentToSend = Lent<SendMemory, TransferId, Result<(), SendFailed>>;

/// Operation that sends a message. It keeps a place in the caller's slices, and never the slices.
///
/// The caller drives it with the same slices each time ([`Driver::drive_send`]), to its end or until [`Driver::cancel_send`].
/// Until then no other transfer can start.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub struct SendOperation {
    pub(super) tag: u64,
    pub(super) bytes: usize,
    sent: usize,
    cursor: Cursor,
    stage: Stage,
    is_exposed: bool,
    pub(super) lent: Option<LentToSend>,
}

/// Stage of an operation. The states of its transfer, once that is open, are [`Sending`](crate::Sending).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// The message may still be sent at once.
    AtOnce,
    /// The message needs a transfer, and another one may still be open.
    Starting,
    /// The transfer has begun, on the connection `owner`.
    Open { id: TransferId, owner: u64 },
    /// The operation has ended.
    Ended,
}

/// Failure of an operation that sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SendFailed {
    /// The receiver rejected the message.
    Rejected(Reason),
    /// The connection is closed.
    Closed,
    /// The slices have another length than the message; it was cancelled.
    WrongLength,
    /// The operation has ended already, was cancelled, or the connection was closed.
    NotOpen,
}

impl SendOperation {
    /// Begins a message of `bytes` bytes.
    pub const fn new(tag: u64, bytes: usize) -> Self {
        let (cursor, stage) = (Cursor::START, Stage::AtOnce);
        Self { tag, bytes, sent: 0, cursor, stage, is_exposed: false, lent: None }
    }

    /// Returns the bytes that were taken: sent, or copied into blocks to be sent once the CTS is here ([`FirstChunk::DuringRendezvous`](crate::FirstChunk::DuringRendezvous)).
    #[must_use]
    pub const fn sent(&self) -> usize {
        self.sent
    }

    /// Returns true while its transfer is open, so that no other transfer can start.
    #[must_use]
    pub const fn has_begun(&self) -> bool {
        matches!(self.stage, Stage::Open { .. })
    }

    /// Returns true once the peer has the message, or its head, to copy out of memory that was exposed to it.
    #[must_use]
    pub const fn is_exposed(&self) -> bool {
        self.is_exposed
    }

    /// Returns true once the message is known to need a transfer: it cannot be sent at once, whatever room there is.
    #[must_use]
    pub const fn needs_transfer(&self) -> bool {
        matches!(self.stage, Stage::Starting | Stage::Open { .. })
    }
}

impl<F: Fabric> Driver<F> {
    /// Sends a complete message if there is room: in a line up to 40 bytes, in two up to 104 where slot lines lie apart, else eagerly
    /// up to C0. It is [`Endpoint::try_send`].
    ///
    /// # Errors
    /// [`RefusedSend`]: `NoCredit` and `Busy` may pass; `TooLong` is for [`drive_send`](Self::drive_send); `Closed`.
    #[inline]
    pub fn try_send(
        &mut self,
        fabric: &mut F,
        tag: u64,
        slices: &[&[u8]],
    ) -> Result<TransferId, RefusedSend> {
        self.endpoint.try_send(fabric, tag, slices)
    }

    /// Begins to send a message. Returns `None` if it was sent at once, as [`try_send`](Self::try_send) does. Otherwise returns the
    /// operation that sends it, for [`drive_send`](Self::drive_send).
    #[inline]
    pub fn begin_send(&mut self, fabric: &mut F, tag: u64, slices: &[&[u8]]) -> Option<SendOperation> {
        let bytes = bytes_of(slices);
        match self.endpoint.try_send_counted(fabric, tag, slices, bytes) {
            Ok(_) => None,
            Err(RefusedSend::TooLong) => {
                Some(SendOperation { stage: Stage::Starting, ..SendOperation::new(tag, bytes) })
            }
            Err(_) => Some(SendOperation::new(tag, bytes)),
        }
    }

    /// Sends the next part of a message, from the same slices each time. With memory that was lent, it is done once that is not used
    /// any more.
    pub fn drive_send(
        &mut self,
        fabric: &mut F,
        send: &mut SendOperation,
        slices: &[&[u8]],
    ) -> Drive<Result<(), SendFailed>> {
        if let Some(driven) = self.ended_send(send) {
            return driven;
        }
        let driven = self.send_part(fabric, send, slices);
        self.end_send(send, driven)
    }

    fn send_part(
        &mut self,
        fabric: &mut F,
        send: &mut SendOperation,
        slices: &[&[u8]],
    ) -> Drive<Result<(), SendFailed>> {
        if matches!(send.stage, Stage::AtOnce | Stage::Starting) {
            match self.send_exposed(fabric, send, slices) {
                Ok(None) => {}
                Ok(Some(ExposedSend::Whole)) => {
                    (send.sent, send.is_exposed) = (send.bytes, true);
                    return send.end(Ok(()));
                }
                Ok(Some(ExposedSend::Split { id, head })) => {
                    send.skip(head, slices);
                    (send.stage, send.is_exposed) = (Stage::Open { id, owner: self.id }, true);
                }
                Err(RefusedSend::Busy | RefusedSend::NoCredit) => return Drive::Idle,
                Err(refused) => return send.end(Err(refused.into())),
            }
        }
        if send.stage == Stage::AtOnce {
            match self.endpoint.try_send_counted(fabric, send.tag, slices, send.bytes) {
                Ok(_) => {
                    // It was to go out of mapped memory, which is not mapped any more.
                    if send.lent.is_some() {
                        self.endpoint.forget_plan(fabric);
                    }
                    send.sent = send.bytes;
                    return send.end(Ok(()));
                }
                Err(RefusedSend::NoCredit | RefusedSend::Busy) => return Drive::Idle,
                Err(RefusedSend::TooLong) => send.stage = Stage::Starting,
                Err(refused) => return send.end(Err(refused.into())),
            }
        }
        if send.stage == Stage::Starting {
            match self.start_message(fabric, send) {
                Ok(id) => send.stage = Stage::Open { id, owner: self.id },
                Err(RefusedSend::Busy | RefusedSend::NoCredit) => return Drive::Idle,
                Err(refused) => return send.end(Err(refused.into())),
            }
        }
        let Stage::Open { id, owner } = send.stage else { return Drive::Done(Err(SendFailed::NotOpen)) };
        if !self.is_current(id, owner, send.sent) {
            send.stage = Stage::Ended;
            return Drive::Done(Err(SendFailed::NotOpen));
        }
        if let Some(driven) = self.drive_remote(fabric, send, id) {
            if let Drive::Done(result) = driven {
                return send.end(result);
            }
            return driven;
        }
        let before = send.cursor;
        match self.endpoint.push_at(fabric, id, slices, &mut send.cursor) {
            Ok(pushed) => {
                send.sent += pushed;
                if send.sent == send.bytes {
                    send.end(Ok(()))
                } else if send.cursor.index() >= slices.len() {
                    self.cancel_send(fabric, send, Reason::GIVEN_UP);
                    Drive::Done(Err(SendFailed::WrongLength))
                } else if send.cursor == before {
                    Drive::Idle
                } else {
                    Drive::Moved
                }
            }
            Err(RefusedSend::WrongLength) => {
                self.cancel_send(fabric, send, Reason::GIVEN_UP);
                Drive::Done(Err(SendFailed::WrongLength))
            }
            Err(refused) => send.end(Err(refused.into())),
        }
    }

    /// Cancels a message. The receiver sees the reason if the message has begun. An operation that has ended, belongs to another
    /// connection, or is a stale clone has no effect.
    pub fn cancel_send(&mut self, fabric: &mut F, send: &mut SendOperation, reason: Reason) {
        if let Stage::Open { id, owner } = send.stage
            && self.is_current(id, owner, send.sent)
        {
            cancel(&mut self.endpoint, fabric, id, reason);
        }
        self.endpoint.forget_plan(fabric);
        send.forget_result();
        send.stage = Stage::Ended;
    }

    /// Returns true for an operation of this connection that is no stale clone.
    fn is_current(&self, id: TransferId, owner: u64, sent: usize) -> bool {
        planted!(OperationOfAnother => return true);
        let is_stale = self.endpoint.taken(id).is_some_and(|all| all != sent as u64);
        owner == self.id && !is_stale
    }

    /// Cancels a stream, with a reason that the receiver sees. One that has ended meanwhile is unchanged.
    pub fn cancel_stream(&mut self, fabric: &mut F, id: TransferId, reason: Reason) {
        cancel(&mut self.endpoint, fabric, id, reason);
    }
}

fn cancel<F: Fabric>(endpoint: &mut Endpoint<F>, fabric: &mut F, id: TransferId, reason: Reason) {
    // The transfer may have ended meanwhile, and needs no CANCEL.
    let _ = endpoint.cancel(fabric, id, reason);
}

impl SendOperation {
    /// Goes on after the first `bytes` bytes of the slices, which the receiver copies.
    pub(super) fn skip(&mut self, bytes: usize, slices: &[&[u8]]) {
        let mut gather = Gather::new(slices);
        gather.skip(bytes);
        (self.sent, self.cursor) = (bytes, gather.cursor(slices.len()));
    }

    pub(super) const fn count_sent(&mut self, bytes: usize) {
        self.sent += bytes;
    }

    const fn end(&mut self, result: Result<(), SendFailed>) -> Drive<Result<(), SendFailed>> {
        self.stage = Stage::Ended;
        Drive::Done(result)
    }
}

impl From<RefusedSend> for SendFailed {
    fn from(refused: RefusedSend) -> Self {
        match refused {
            RefusedSend::Rejected(reason) => Self::Rejected(reason),
            RefusedSend::Closed => Self::Closed,
            RefusedSend::WrongLength => Self::WrongLength,
            RefusedSend::NotOpen | RefusedSend::NoCredit | RefusedSend::Busy | RefusedSend::TooLong => {
                Self::NotOpen
            }
        }
    }
}
