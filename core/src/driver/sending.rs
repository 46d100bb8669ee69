//! Sending messages: at once, or as an operation.

use super::{Drive, Driver};
use crate::endpoint::Endpoint;
use crate::error::{Reason, RefusedSend};
use crate::fabric::Fabric;
use crate::header::Length;
use crate::planted::{Bug, is_planted};
use crate::send::TransferId;
use crate::slices::Cursor;

/// A message that is being sent: a place in the caller's slices, and none of them.
///
/// It is driven with the same slices each time ([`Driver::drive_send`]). One that is not driven to its end is given up with
/// [`Driver::cancel_send`]: until then no other transfer can start.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub struct Send {
    tag: u64,
    bytes: usize,
    sent: usize,
    cursor: Cursor,
    stage: Stage,
}

/// Stage of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// It may still go at once.
    Whole,
    /// It is too long for that, and another transfer may be in the way.
    Starting,
    /// It has begun, on the connection of this name.
    Open { id: TransferId, owner: u64 },
    /// It has ended.
    Ended,
}

/// Reason why a message will not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendFailed {
    /// The receiver does not want it.
    Rejected(Reason),
    /// The connection is closed.
    Closed,
    /// The slices have not the bytes that the message was begun with; it was given up.
    WrongLength,
    /// It has ended already: cancelled, or closed over.
    NotOpen,
}

impl Send {
    /// A message of `bytes` bytes.
    pub const fn new(tag: u64, bytes: usize) -> Self {
        Self { tag, bytes, sent: 0, cursor: Cursor::START, stage: Stage::Whole }
    }

    /// Bytes that are on their way, or there.
    #[must_use]
    pub const fn sent(&self) -> usize {
        self.sent
    }

    /// Returns true once it has started, and is no message that goes at once: until its end no other transfer can start.
    #[must_use]
    pub const fn has_begun(&self) -> bool {
        matches!(self.stage, Stage::Open { .. })
    }
}

impl<F: Fabric> Driver<F> {
    /// Sends a whole message if it can go at once: in a line up to 40 bytes, else up to C0.
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

    /// Sends the next part of a message, from the same slices each time.
    pub fn drive_send(
        &mut self,
        fabric: &mut F,
        send: &mut Send,
        slices: &[&[u8]],
    ) -> Drive<Result<(), SendFailed>> {
        if send.stage == Stage::Whole {
            match self.endpoint.try_send_counted(fabric, send.tag, slices, send.bytes) {
                Ok(_) => {
                    send.sent = send.bytes;
                    return send.end(Ok(()));
                }
                Err(RefusedSend::NoCredit | RefusedSend::Busy) => return Drive::Idle,
                Err(RefusedSend::TooLong) => send.stage = Stage::Starting,
                Err(refused) => return send.end(Err(refused.into())),
            }
        }
        if send.stage == Stage::Starting {
            match self.endpoint.start(send.tag, Length::Exact(send.bytes as u64)) {
                Ok(id) => send.stage = Stage::Open { id, owner: self.id },
                Err(RefusedSend::Busy) => return Drive::Idle,
                Err(refused) => return send.end(Err(refused.into())),
            }
        }
        let Stage::Open { id, owner } = send.stage else { return Drive::Done(Err(SendFailed::NotOpen)) };
        if !self.is_current(id, owner, send.sent) {
            send.stage = Stage::Ended;
            return Drive::Done(Err(SendFailed::NotOpen));
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

    /// Gives a message up; the receiver is told the reason if it has begun. One that has ended stays as it is, and so does a message
    /// whose operation is of another connection, or a clone that was left behind.
    pub fn cancel_send(&mut self, fabric: &mut F, send: &mut Send, reason: Reason) {
        if let Stage::Open { id, owner } = send.stage
            && self.is_current(id, owner, send.sent)
        {
            cancel(&mut self.endpoint, fabric, id, reason);
        }
        send.stage = Stage::Ended;
    }

    /// Returns true unless an operation is of another connection, or a clone of one that has gone on.
    fn is_current(&self, id: TransferId, owner: u64, sent: usize) -> bool {
        let is_stale = self.endpoint.sent(id).is_some_and(|all| all != sent as u64);
        owner == self.id && !is_stale || is_planted(Bug::OperationOfAnother)
    }

    /// Gives a stream up, with a reason that the receiver is told. One that has ended meanwhile stays as it is.
    pub fn cancel_stream(&mut self, fabric: &mut F, id: TransferId, reason: Reason) {
        cancel(&mut self.endpoint, fabric, id, reason);
    }
}

fn cancel<F: Fabric>(endpoint: &mut Endpoint<F>, fabric: &mut F, id: TransferId, reason: Reason) {
    // It may have ended meanwhile: then there is nothing to give up.
    let _ = endpoint.cancel(fabric, id, reason);
}

impl Send {
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
