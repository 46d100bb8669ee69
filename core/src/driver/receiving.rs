//! Messages that are received at once or by an operation.

use super::lent::Lent;
use super::{Claimed, Drive, Driver};
use crate::endpoint::{Incoming, RefusedLoan};
use crate::error::Reason;
use crate::fabric::Fabric;
use crate::job::RecvMemory;
use crate::receive::{End, Loan, Pulled, TryRecv};
use crate::slices::Cursor;
use crate::wire::header::Length;

/// Polls for a message before anything else is done. 64 polls take one to two microseconds, as long as a peer in the
/// same cache cluster needs to answer.
const FIRST_POLLS: u32 = 64;
/// Polls for a message in each attempt of a wait, which makes several attempts per round.
const POLLS_IN_A_WAIT: u32 = 1;

/// A message that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Received {
    /// The sender's tag.
    pub tag: u64,
    /// Bytes of the message.
    pub bytes: usize,
}

/// Refusal of [`Driver::try_recv`]. The transfer stays at the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedRecv {
    /// The message is longer than the slices together, or a stream.
    TooSmall(Incoming),
    /// The message is not complete: [`Driver::drive_recv`] takes it as it arrives.
    Long(Incoming),
}

/// Operation that receives a message. It keeps a place in the caller's slices, and never the slices.
///
/// The caller drives it with the same slices each time ([`Driver::drive_recv`]), to its end or until
/// [`Driver::cancel_recv`]. Until then no later message can be received.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct RecvOperation {
    /// The message, once it has begun.
    begun: Option<Begun>,
    taken: usize,
    cursor: Cursor,
    is_cold: bool,
    has_ended: bool,
    pub(super) lent: Option<Lent<RecvMemory, u64, Result<Received, RecvFailed>>>,
}

/// A message that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Begun {
    /// The connection.
    pub(super) owner: u64,
    pub(super) number: u64,
    tag: u64,
    length: u64,
}

/// Failure of an operation that receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecvFailed {
    /// The message at the head is longer than the slices together, or a stream; it is still there.
    TooSmall(Incoming),
    /// The sender cancelled the message, which is incomplete.
    Cancelled(Reason),
    /// Another operation or stream takes the message at the head, and has to end, be cancelled or be rejected first.
    Busy,
    /// The slices have less room than those at the begin, too little for the rest of the message; it was rejected.
    WrongLength,
    /// The operation has ended already, or the connection was closed.
    NotOpen,
}

impl RecvOperation {
    /// Begins to receive the next message.
    pub const fn new() -> Self {
        Self { begun: None, taken: 0, cursor: Cursor::START, is_cold: false, has_ended: false, lent: None }
    }

    /// Begins to receive the next message into memory that the caller prepares part by part: [`Driver::drive_recv`] only finds the
    /// message, and [`Driver::recv_part`] takes it.
    pub const fn cold() -> Self {
        Self { is_cold: true, ..Self::new() }
    }

    /// Returns true while the operation takes a message, of which it may have taken a part.
    #[must_use]
    pub const fn has_begun(&self) -> bool {
        self.begun.is_some() && !self.has_ended
    }

    /// Returns the bytes of the message, once it has begun.
    #[must_use]
    pub const fn length(&self) -> u64 {
        match self.begun {
            Some(begun) => begun.length,
            None => 0,
        }
    }

    /// Returns the bytes that were taken.
    #[must_use]
    pub const fn taken(&self) -> usize {
        self.taken
    }

    fn end(&mut self, tag: u64) -> Drive<Result<Received, RecvFailed>> {
        self.has_ended = true;
        Drive::Done(Ok(Received { tag, bytes: self.taken }))
    }

    fn fail(&mut self, failed: RecvFailed) -> Drive<Result<Received, RecvFailed>> {
        self.has_ended = true;
        Drive::Done(Err(failed))
    }
}

impl<F: Fabric> Driver<F> {
    /// Takes the next message if it is complete and fits. Returns `None` if nothing has arrived.
    ///
    /// # Errors
    /// [`RefusedRecv`]. The transfer stays at the head.
    #[inline]
    pub fn try_recv(
        &mut self,
        fabric: &mut F,
        slices: &mut [&mut [u8]],
    ) -> Result<Option<Received>, RefusedRecv> {
        match self.endpoint.try_recv_complete(fabric, slices) {
            TryRecv::Nothing => Ok(None),
            TryRecv::Taken { tag, bytes } => Ok(Some(Received { tag, bytes })),
            TryRecv::Begun { .. } | TryRecv::Other => self.try_recv_any(fabric, slices),
        }
    }

    /// Takes a message that the fast path does not take.
    #[inline(never)]
    fn try_recv_any(
        &mut self,
        fabric: &mut F,
        slices: &mut [&mut [u8]],
    ) -> Result<Option<Received>, RefusedRecv> {
        let Some(incoming) = self.endpoint.incoming(fabric) else { return Ok(None) };
        let Length::Exact(length) = incoming.length else { return Err(RefusedRecv::TooSmall(incoming)) };
        if length > room(slices) {
            return Err(RefusedRecv::TooSmall(incoming));
        }
        if !self.endpoint.is_complete(fabric) {
            // A message that breaks the protocol ends the connection, and there is no head any more.
            return self.endpoint.head().map_or(Ok(None), |_| Err(RefusedRecv::Long(incoming)));
        }
        // Each call moves a bounded part of a longer message.
        let (mut cursor, mut taken) = (Cursor::START, 0);
        loop {
            let before = self.endpoint.consumed();
            let Pulled { bytes, end } = self.endpoint.pull_at(fabric, slices, &mut cursor);
            taken += bytes;
            match end {
                End::Fin => return Ok(Some(Received { tag: incoming.tag, bytes: taken })),
                // A chunk may have no payload.
                End::No if self.endpoint.consumed() != before || bytes > 0 => {}
                // The message was complete. A peer that has changed it since has destroyed its own message.
                End::No | End::Cancelled(_) => {
                    if end == End::No {
                        self.endpoint.reject(fabric, Reason::GIVEN_UP);
                    }
                    return Ok(None);
                }
            }
        }
    }

    /// Returns the transfer at the head, once its header has arrived. It stays at the head.
    pub fn try_peek(&mut self, fabric: &mut F) -> Option<Incoming> {
        self.endpoint.incoming(fabric)
    }

    /// Takes the next message as a loan, as [`Endpoint::take_loan`](crate::Endpoint::take_loan), unless an operation or a stream has begun to take it.
    ///
    /// # Errors
    /// [`RefusedLoan`]. The transfer stays at the head.
    pub fn try_recv_loan(&mut self, fabric: &mut F) -> Result<Option<Loan>, RefusedLoan> {
        if self.claimed.is_some()
            && let Some(incoming) = self.endpoint.incoming(fabric)
            && self.is_claimed(&incoming)
        {
            return Err(RefusedLoan::Elsewhere(incoming));
        }
        self.endpoint.take_loan(fabric)
    }

    /// Rejects the transfer at the head. Returns false if there is none.
    pub fn reject(&mut self, fabric: &mut F, reason: Reason) -> bool {
        self.endpoint.reject(fabric, reason)
    }

    /// Begins to receive the next message, and polls for it as long as a peer in the same cache cluster needs to answer.
    #[inline]
    pub fn begin_recv(
        &mut self,
        fabric: &mut F,
        receive: &mut RecvOperation,
        slices: &mut [&mut [u8]],
    ) -> Drive<Result<Received, RecvFailed>> {
        if receive.begun.is_some() || receive.has_ended || receive.is_cold {
            return self.drive_recv(fabric, receive, slices);
        }
        self.recv_fast(fabric, receive, slices, FIRST_POLLS)
    }

    /// Takes a message by the fast path. Also returns [`Drive::Idle`] for a message that the fast path leaves where it is.
    #[inline]
    fn recv_fast(
        &mut self,
        fabric: &mut F,
        receive: &mut RecvOperation,
        slices: &mut [&mut [u8]],
        polls: u32,
    ) -> Drive<Result<Received, RecvFailed>> {
        match self.endpoint.try_recv(fabric, slices, polls) {
            TryRecv::Taken { tag, bytes } => {
                receive.taken = bytes;
                receive.end(tag)
            }
            TryRecv::Begun { tag, bytes } => {
                let head = self.endpoint.head();
                self.claimed = head.map(|(number, _)| Claimed { number, taken: bytes });
                receive.begun = head.map(|(number, length)| Begun { owner: self.id, number, tag, length });
                receive.taken = bytes;
                // The fast path fills one slice.
                receive.cursor = Cursor::in_first(bytes);
                Drive::Moved
            }
            TryRecv::Nothing | TryRecv::Other => Drive::Idle,
        }
    }

    /// Takes the next part of a message, into the same slices each time. With memory that was lent, it is done once that is not used
    /// any more.
    pub fn drive_recv(
        &mut self,
        fabric: &mut F,
        receive: &mut RecvOperation,
        slices: &mut [&mut [u8]],
    ) -> Drive<Result<Received, RecvFailed>> {
        if let Some(driven) = self.ended_recv(receive) {
            return driven;
        }
        let driven = self.receive_part(fabric, receive, slices);
        self.end_recv(receive, driven)
    }

    fn receive_part(
        &mut self,
        fabric: &mut F,
        receive: &mut RecvOperation,
        slices: &mut [&mut [u8]],
    ) -> Drive<Result<Received, RecvFailed>> {
        if receive.has_ended {
            return Drive::Done(Err(RecvFailed::NotOpen));
        }
        if receive.begun.is_none() {
            if !receive.is_cold {
                let short = self.recv_fast(fabric, receive, slices, POLLS_IN_A_WAIT);
                if short != Drive::Idle {
                    return short;
                }
            }
            let Some(incoming) = self.endpoint.incoming(fabric) else { return Drive::Idle };
            match incoming.length {
                _ if self.is_claimed(&incoming) => return receive.fail(RecvFailed::Busy),
                Length::Exact(length) if length <= room(slices) => {
                    self.claimed = Some(Claimed { number: incoming.transfer, taken: 0 });
                    let Incoming { transfer: number, tag, .. } = incoming;
                    receive.begun = Some(Begun { owner: self.id, number, tag, length });
                }
                _ => return receive.fail(RecvFailed::TooSmall(incoming)),
            }
            if receive.is_cold {
                return Drive::Moved;
            }
        }
        if let Some(begun) = receive.begun
            && !self.lend(fabric, receive, slices, begun)
        {
            return Drive::Idle;
        }
        let mut cursor = receive.cursor;
        let driven = self.take_part(receive, |endpoint| endpoint.pull_at(fabric, slices, &mut cursor));
        receive.cursor = cursor;
        planted!(PlaceLost => receive.cursor = Cursor::START);
        // The slices had room for the whole message when it was begun, so the caller has passed other slices.
        if matches!(driven, Drive::Idle)
            && !cursor.has_room(slices)
            && (receive.taken as u64) < receive.length()
        {
            self.cancel_recv(fabric, receive, Reason::GIVEN_UP);
            return receive.fail(RecvFailed::WrongLength);
        }
        driven
    }

    /// Takes the next part of a [cold](RecvOperation::cold) message into `part`, which may be empty: then only the CTS
    /// goes out.
    pub fn recv_part(
        &mut self,
        fabric: &mut F,
        receive: &mut RecvOperation,
        part: &mut [u8],
    ) -> Drive<Result<Received, RecvFailed>> {
        self.take_part(receive, |endpoint| endpoint.pull_cached(fabric, &mut [part]))
    }

    fn take_part(
        &mut self,
        receive: &mut RecvOperation,
        pull: impl FnOnce(&mut crate::endpoint::Endpoint<F>) -> Pulled,
    ) -> Drive<Result<Received, RecvFailed>> {
        let Some(Begun { owner, number, tag, .. }) = receive.begun.filter(|_| !receive.has_ended) else {
            return Drive::Done(Err(RecvFailed::NotOpen));
        };
        if !self.is_taken_by(receive) || self.endpoint.head().is_none_or(|(head, _)| head != number) {
            // The connection is closed, or will be at the next round, and that error is more precise than `NotOpen`.
            return if owner == self.id && self.endpoint.is_ending() {
                Drive::Idle
            } else {
                receive.fail(RecvFailed::NotOpen)
            };
        }
        let pulled = pull(&mut self.endpoint);
        receive.taken += pulled.bytes;
        self.claimed = Some(Claimed { number, taken: receive.taken });
        match pulled.end {
            End::No if pulled.bytes > 0 => Drive::Moved,
            End::No => Drive::Idle,
            End::Fin => receive.end(tag),
            End::Cancelled(reason) => receive.fail(RecvFailed::Cancelled(reason)),
        }
    }

    /// Claims the transfer that [`try_peek`](Self::try_peek) showed, for a stream that takes it. Returns false if another operation
    /// or stream has begun to take it.
    pub fn claim(&mut self, incoming: &Incoming) -> bool {
        let is_free = !self.is_claimed(incoming);
        if is_free {
            self.claimed = Some(Claimed { number: incoming.transfer, taken: 0 });
        }
        is_free
    }

    /// Returns true if an operation or a stream has begun to take the transfer that [`try_peek`](Self::try_peek) showed.
    #[must_use]
    pub fn is_claimed(&self, incoming: &Incoming) -> bool {
        self.claimed.is_some_and(|claimed| claimed.number == incoming.transfer)
    }

    /// Returns true if the message that [`try_peek`](Self::try_peek) showed is complete, and nothing of it was taken.
    pub fn is_complete(&mut self, fabric: &mut F) -> bool {
        self.endpoint.is_complete(fabric)
    }

    /// Returns true if this operation takes its message: it belongs to this connection, and is no stale clone.
    fn is_taken_by(&self, receive: &RecvOperation) -> bool {
        planted!(OperationOfAnother => return receive.begun.is_some());
        receive.begun.is_some_and(|begun| {
            let claimed = Claimed { number: begun.number, taken: receive.taken };
            begun.owner == self.id && self.claimed == Some(claimed)
        })
    }

    /// Leaves a message at the head if nothing of it was taken. Otherwise cancels it, as [`cancel_recv`](Self::cancel_recv)
    /// does.
    pub fn release_recv(&mut self, fabric: &mut F, receive: &mut RecvOperation, reason: Reason) {
        // Another operation may have lent its memory to the message of one that has ended.
        if receive.taken > 0 || receive.has_ended {
            return self.cancel_recv(fabric, receive, reason);
        }
        self.withdraw(fabric, receive);
        if receive.has_begun() && self.is_taken_by(receive) {
            self.claimed = None;
        }
        receive.has_ended = true;
    }

    /// Cancels an operation. Rejects the rest of its message, if that has begun. An operation that has ended is unchanged. If the peer may
    /// write to memory that was lent, the connection is closed with [`Reason::GIVEN_UP`].
    pub fn cancel_recv(&mut self, fabric: &mut F, receive: &mut RecvOperation, reason: Reason) {
        if let Some(Begun { number, .. }) = receive.begun
            && receive.has_begun()
            && self.is_taken_by(receive)
            && self.endpoint.head().is_some_and(|(head, _)| head == number)
        {
            self.withdraw(fabric, receive);
            self.endpoint.reject(fabric, reason);
        }
        receive.forget_result();
        planted!(CancelOfUnbegun => if receive.begun.is_none() { self.endpoint.reject(fabric, reason); });
        receive.has_ended = true;
    }
}

/// Bytes of all slices together.
fn room(slices: &[&mut [u8]]) -> u64 {
    slices.iter().fold(0, |room: u64, slice| room.saturating_add(slice.len() as u64))
}
