//! Receiving messages: at once, or as an operation.

use super::{Claimed, Drive, Driver};
use crate::endpoint::Incoming;
use crate::error::Reason;
use crate::fabric::Fabric;
use crate::header::Length;
use crate::planted::{Bug, is_planted};
use crate::receive::{End, Pulled, TryRecv};
use crate::slices::Cursor;

/// Looks for a message before anything else is done: a microsecond or two, the time of an answer from a near core.
const FIRST_LOOKS: u32 = 64;
/// The same, while it is waited for and other things are looked at, too.
const LOOKS_IN_A_WAIT: u32 = 1;

/// A message that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The sender's tag.
    pub tag: u64,
    /// Its bytes.
    pub bytes: usize,
}

/// Reason why [`Driver::try_recv`] has not taken the transfer at the head, which is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedRecv {
    /// The message is longer than the slices together, or a stream.
    TooSmall(Incoming),
    /// Not all of the message has come: [`Driver::drive_receive`] takes it as it comes.
    Long(Incoming),
}

/// A message that is being received: a place in the caller's slices, and none of them.
///
/// It is driven with the same slices each time ([`Driver::drive_receive`]). One that is not driven to its end is given up with
/// [`Driver::cancel_receive`]: until then nothing behind it can be received.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct Receive {
    /// The message, once it has begun.
    begun: Option<Begun>,
    taken: usize,
    cursor: Cursor,
    is_cold: bool,
    has_ended: bool,
}

/// A message that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Begun {
    /// The connection.
    owner: u64,
    number: u64,
    tag: u64,
    length: u64,
}

/// Reason why a message will not be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveFailed {
    /// The message at the head is longer than the slices together, or a stream; it is still there.
    TooSmall(Incoming),
    /// The sender gave it up; what came is incomplete.
    Cancelled(Reason),
    /// Another operation or stream has begun to take the message at the head: it has to end, be cancelled, or be rejected first.
    Busy,
    /// The slices have less room than those that the message was begun with, too little for its rest; the message was given up.
    WrongLength,
    /// It has ended already: rejected, or closed over.
    NotOpen,
}

impl Receive {
    /// The next message, whichever it is.
    pub const fn new() -> Self {
        Self { begun: None, taken: 0, cursor: Cursor::START, is_cold: false, has_ended: false }
    }

    /// The next message, into memory that the caller prepares before it is written: [`Driver::drive_receive`] only finds it, and
    /// [`Driver::receive_part`] takes it.
    pub const fn cold() -> Self {
        Self { is_cold: true, ..Self::new() }
    }

    /// Returns true once a part of it may have been taken: what is taken is not at the head any more.
    #[must_use]
    pub const fn has_begun(&self) -> bool {
        self.begun.is_some() && !self.has_ended
    }

    /// Bytes that it has, once it has begun.
    #[must_use]
    pub const fn length(&self) -> u64 {
        match self.begun {
            Some(begun) => begun.length,
            None => 0,
        }
    }

    /// Bytes that were taken.
    #[must_use]
    pub const fn taken(&self) -> usize {
        self.taken
    }

    fn end(&mut self, tag: u64) -> Drive<Result<Received, ReceiveFailed>> {
        self.has_ended = true;
        Drive::Done(Ok(Received { tag, bytes: self.taken }))
    }

    fn fail(&mut self, failed: ReceiveFailed) -> Drive<Result<Received, ReceiveFailed>> {
        self.has_ended = true;
        Drive::Done(Err(failed))
    }
}

impl<F: Fabric> Driver<F> {
    /// Takes the next message if all of it has come, and it fits. `None`: nothing has come.
    ///
    /// # Errors
    /// [`RefusedRecv`]; what is there stays.
    #[inline]
    pub fn try_recv(
        &mut self,
        fabric: &mut F,
        slices: &mut [&mut [u8]],
    ) -> Result<Option<Received>, RefusedRecv> {
        match self.endpoint.try_recv_whole(fabric, slices) {
            TryRecv::Nothing => Ok(None),
            TryRecv::Taken { tag, bytes } => Ok(Some(Received { tag, bytes })),
            TryRecv::Begun { .. } | TryRecv::Other => self.try_recv_any(fabric, slices),
        }
    }

    /// The general way, for what the short way leaves.
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
        if !self.endpoint.is_whole(fabric) && !is_planted(Bug::TryTakesPart) {
            // A message that breaks the protocol ends the connection, and is not there any more.
            return self.endpoint.head().map_or(Ok(None), |_| Err(RefusedRecv::Long(incoming)));
        }
        // A call moves a bounded part of a longer one.
        let (mut cursor, mut taken) = (Cursor::START, 0);
        loop {
            let Pulled { bytes, end } = self.endpoint.pull_at(fabric, slices, &mut cursor);
            taken += bytes;
            match end {
                End::Fin => return Ok(Some(Received { tag: incoming.tag, bytes: taken })),
                End::No if bytes > 0 => {}
                // All of the message was here. A peer that has changed it since has spoilt its own message.
                End::No | End::Cancelled(_) => {
                    if end == End::No {
                        self.endpoint.reject(fabric, Reason::GIVEN_UP);
                    }
                    return Ok(None);
                }
            }
        }
    }

    /// The transfer at the head of what comes in, once its first words are here; it stays there.
    pub fn try_peek(&mut self, fabric: &mut F) -> Option<Incoming> {
        self.endpoint.incoming(fabric)
    }

    /// Refuses the transfer at the head. False if there is none.
    pub fn reject(&mut self, fabric: &mut F, reason: Reason) -> bool {
        self.endpoint.reject(fabric, reason)
    }

    /// Begins to receive the next message, with looks for it that take as long as a near peer needs to answer.
    #[inline]
    pub fn begin_receive(
        &mut self,
        fabric: &mut F,
        receive: &mut Receive,
        slices: &mut [&mut [u8]],
    ) -> Drive<Result<Received, ReceiveFailed>> {
        if receive.begun.is_some() || receive.has_ended || receive.is_cold {
            return self.drive_receive(fabric, receive, slices);
        }
        self.receive_short(fabric, receive, slices, FIRST_LOOKS)
    }

    /// The shortest way, for a message that has not begun. [`Drive::Idle`] if it leaves something for the general way, too.
    #[inline]
    fn receive_short(
        &mut self,
        fabric: &mut F,
        receive: &mut Receive,
        slices: &mut [&mut [u8]],
        looks: u32,
    ) -> Drive<Result<Received, ReceiveFailed>> {
        match self.endpoint.try_recv(fabric, slices, looks) {
            TryRecv::Taken { tag, bytes } => {
                receive.taken = bytes;
                receive.end(tag)
            }
            TryRecv::Begun { tag, bytes } => {
                let head = self.endpoint.head();
                self.claimed = head.map(|(number, _)| Claimed { number, taken: bytes });
                receive.begun = head.map(|(number, length)| Begun { owner: self.id, number, tag, length });
                receive.taken = bytes;
                // The short way fills one slice.
                receive.cursor = Cursor::in_first(bytes);
                Drive::Moved
            }
            TryRecv::Nothing | TryRecv::Other => Drive::Idle,
        }
    }

    /// Takes the next part of a message, into the same slices each time.
    pub fn drive_receive(
        &mut self,
        fabric: &mut F,
        receive: &mut Receive,
        slices: &mut [&mut [u8]],
    ) -> Drive<Result<Received, ReceiveFailed>> {
        if receive.has_ended {
            return Drive::Done(Err(ReceiveFailed::NotOpen));
        }
        if receive.begun.is_none() {
            if !receive.is_cold {
                let short = self.receive_short(fabric, receive, slices, LOOKS_IN_A_WAIT);
                if short != Drive::Idle {
                    return short;
                }
            }
            let Some(incoming) = self.endpoint.incoming(fabric) else { return Drive::Idle };
            match incoming.length {
                _ if self.is_claimed(incoming.transfer) => return receive.fail(ReceiveFailed::Busy),
                Length::Exact(length) if length <= room(slices) => {
                    self.claimed = Some(Claimed { number: incoming.transfer, taken: 0 });
                    let Incoming { transfer: number, tag, .. } = incoming;
                    receive.begun = Some(Begun { owner: self.id, number, tag, length });
                }
                _ => return receive.fail(ReceiveFailed::TooSmall(incoming)),
            }
            if receive.is_cold {
                return Drive::Moved;
            }
        }
        let mut cursor = receive.cursor;
        let driven = self.take_part(receive, |endpoint| endpoint.pull_at(fabric, slices, &mut cursor));
        receive.cursor = if is_planted(Bug::PlaceLost) { Cursor::START } else { cursor };
        // The slices had room for the whole message when it was begun, so the caller has passed other slices.
        if matches!(driven, Drive::Idle)
            && !cursor.has_room(slices)
            && (receive.taken as u64) < receive.length()
        {
            self.cancel_receive(fabric, receive, Reason::GIVEN_UP);
            return receive.fail(ReceiveFailed::WrongLength);
        }
        driven
    }

    /// Takes the next part of a [cold](Receive::cold) message into `part`, which may be empty: then only the sender is told that
    /// it may send.
    pub fn receive_part(
        &mut self,
        fabric: &mut F,
        receive: &mut Receive,
        part: &mut [u8],
    ) -> Drive<Result<Received, ReceiveFailed>> {
        self.take_part(receive, |endpoint| endpoint.pull_cached(fabric, &mut [part]))
    }

    fn take_part(
        &mut self,
        receive: &mut Receive,
        pull: impl FnOnce(&mut crate::endpoint::Endpoint<F>) -> Pulled,
    ) -> Drive<Result<Received, ReceiveFailed>> {
        let Some(Begun { owner, number, tag, .. }) = receive.begun.filter(|_| !receive.has_ended) else {
            return Drive::Done(Err(ReceiveFailed::NotOpen));
        };
        if !self.is_taken_by(receive) || self.endpoint.head().is_none_or(|(head, _)| head != number) {
            // The connection is closed, or will be at the next round, and that error is more precise than `NotOpen`.
            return if owner == self.id && self.endpoint.is_ending() {
                Drive::Idle
            } else {
                receive.fail(ReceiveFailed::NotOpen)
            };
        }
        let pulled = pull(&mut self.endpoint);
        receive.taken += pulled.bytes;
        self.claimed = Some(Claimed { number, taken: receive.taken });
        match pulled.end {
            End::No if pulled.bytes > 0 => Drive::Moved,
            End::No => Drive::Idle,
            End::Fin => receive.end(tag),
            End::Cancelled(reason) => receive.fail(ReceiveFailed::Cancelled(reason)),
        }
    }

    /// Claims the transfer that [`try_peek`](Self::try_peek) showed, for a stream that takes it. Returns false if another operation
    /// or stream has begun to take it.
    pub fn claim(&mut self, incoming: &Incoming) -> bool {
        let is_free = !self.is_claimed(incoming.transfer);
        if is_free {
            self.claimed = Some(Claimed { number: incoming.transfer, taken: 0 });
        }
        is_free
    }

    fn is_claimed(&self, number: u64) -> bool {
        self.claimed.is_some_and(|claimed| claimed.number == number)
    }

    /// Returns true if this operation is the one that takes its message: of this connection, and no clone of it.
    fn is_taken_by(&self, receive: &Receive) -> bool {
        receive.begun.is_some_and(|begun| {
            let claimed = Claimed { number: begun.number, taken: receive.taken };
            let is_its = begun.owner == self.id && self.claimed == Some(claimed);
            is_its || is_planted(Bug::OperationOfAnother)
        })
    }

    /// Leaves a message at the head if nothing of it was taken; otherwise gives it up, as [`cancel_receive`](Self::cancel_receive)
    /// does.
    pub fn release_receive(&mut self, fabric: &mut F, receive: &mut Receive, reason: Reason) {
        if receive.taken > 0 {
            return self.cancel_receive(fabric, receive, reason);
        }
        if receive.has_begun() && self.is_taken_by(receive) {
            self.claimed = None;
        }
        receive.has_ended = true;
    }

    /// Gives a message up: what is left of it is rejected, if it has begun. One that has ended stays as it is.
    pub fn cancel_receive(&mut self, fabric: &mut F, receive: &mut Receive, reason: Reason) {
        if let Some(Begun { number, .. }) = receive.begun
            && receive.has_begun()
            && self.is_taken_by(receive)
            && self.endpoint.head().is_some_and(|(head, _)| head == number)
        {
            self.endpoint.reject(fabric, reason);
        }
        if receive.begun.is_none() && is_planted(Bug::CancelOfUnbegun) {
            self.endpoint.reject(fabric, reason);
        }
        receive.has_ended = true;
    }
}

/// Bytes of all slices together.
fn room(slices: &[&mut [u8]]) -> u64 {
    slices.iter().fold(0, |room: u64, slice| room.saturating_add(slice.len() as u64))
}
