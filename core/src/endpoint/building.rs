//! Messages that the application builds in place: space in the peer's landing buffer, or in its image.
//!
//! ```text
//!            reserve_message: enough blocks are free            commit_message
//! NOTHING ---------------------------------------------> OPEN ------------------> NOTHING, and the message is on its way
//!    |  ^                                                 |
//!    |  +---- moved to a larger landing buffer            +--- abandon_message, close ---> NOTHING, and nothing was sent
//!    +--> GROWING: longer than the current landing buffer holds
//! ```

use super::Endpoint;
use crate::copying::CopyKernel;
use crate::error::{Reason, RefusedSend};
use crate::fabric::Fabric;
use crate::memory::Demand;
use crate::recording;
use crate::send::{Payload, ReservedMessage, reservable_bytes};
use crate::wire::grant::GrowReason;

/// Refusal of [`Endpoint::reserve_message`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedReserve {
    /// Blocks are not free, or a larger landing buffer was asked for: call again after [`progress`](Endpoint::progress).
    Pending,
    /// Another transfer is open, reserved or being cancelled.
    Busy,
    /// The message is longer than the largest landing buffer holds, or than the current one does, if the peer grants no larger one now.
    TooLong {
        /// Most bytes that it holds.
        bytes_max: u32,
    },
    /// The connection is closed.
    Closed,
}

impl<F: Fabric> Endpoint<F> {
    /// Reserves space for a message of `bytes` bytes, which the caller writes in place and [commits](Self::commit_message). Until then no other transfer
    /// can be started, and this end moves to no other landing buffer. Asks for a larger landing buffer if the current one is too small.
    ///
    /// # Errors
    /// [`RefusedReserve`]
    pub fn reserve_message(
        &mut self,
        fabric: &mut F,
        tag: u64,
        bytes: u32,
    ) -> Result<ReservedMessage, RefusedReserve> {
        if !self.may_send() {
            return Err(RefusedReserve::Closed);
        }
        if !self.sender.can_start() {
            return Err(RefusedReserve::Busy);
        }
        if bytes > reservable_bytes(self.sender.layout()) {
            return Err(self.demand_for(bytes));
        }
        let mut reserved = self.sender.reserve_message(&self.config, tag, bytes);
        if reserved == Err(RefusedSend::NoCredit) && self.refill(fabric) {
            reserved = self.sender.reserve_message(&self.config, tag, bytes);
        }
        match reserved {
            Ok(message) => {
                recording::begin_filling(fabric, &self.link);
                Ok(message)
            }
            // The acknowledgement that was just read may have ended the connection.
            Err(_) if !self.may_send() => Err(RefusedReserve::Closed),
            Err(_) => {
                self.counters.credit_waits += 1;
                record!(fabric, &self.link, NoCredit { sequence: self.sender.last() });
                Err(RefusedReserve::Pending)
            }
        }
    }

    /// Asks for a landing buffer that holds `bytes` bytes.
    fn demand_for(&mut self, bytes: u32) -> RefusedReserve {
        let layout = self.sender.layout();
        let here = RefusedReserve::TooLong { bytes_max: reservable_bytes(layout) };
        let Some(growth) = self.growth.as_mut().filter(|_| !self.receiver.is_closing()) else { return here };
        let largest = growth.requester.largest;
        let bytes_max = reservable_bytes(largest);
        if bytes > bytes_max {
            return RefusedReserve::TooLong { bytes_max: bytes_max.max(reservable_bytes(layout)) };
        }
        // Two chunks hold less than one does.
        let lost = layout.later_capacity() - layout.first_capacity();
        match growth.requester.demand(u64::from(bytes + lost), GrowReason::Message, layout) {
            Demand::Asked | Demand::Busy => RefusedReserve::Pending,
            Demand::None => here,
        }
    }

    /// Returns the span (memory, offset, bytes) that has a reserved message from its byte `offset` on, as far as it is contiguous. `None` if the message
    /// is not open any more, or has no such byte.
    #[must_use]
    pub fn message_span(&self, message: ReservedMessage, offset: u32) -> Option<(F::Remote, u32, u32)> {
        self.sender.message_span(message, offset)
    }

    /// Returns true while a message is reserved.
    #[must_use]
    pub fn is_building(&self) -> bool {
        self.sender.is_building()
    }

    /// Returns true while a reserved message is neither committed nor abandoned, and the connection is open.
    #[must_use]
    pub fn is_reserved(&self, message: ReservedMessage) -> bool {
        self.sender.message_chunks(message).is_some()
    }

    /// Copies bytes to their place in a reserved message, from its byte `offset` on. Returns false, and copies nothing, if the message is not open any more
    /// or has fewer bytes.
    pub fn copy_into_message(
        &mut self,
        fabric: &mut F,
        message: ReservedMessage,
        offset: u32,
        from: &[u8],
    ) -> bool {
        let end = u32::try_from(from.len()).ok().and_then(|bytes| offset.checked_add(bytes));
        if !self.is_reserved(message) || end.is_none_or(|end| end > message.bytes) {
            return false;
        }
        let (mut offset, mut rest) = (offset, from);
        while !rest.is_empty() {
            let Some((memory, at, bytes)) = self.sender.message_span(message, offset) else { return false };
            let (part, after) = rest.split_at(rest.len().min(bytes as usize));
            fabric.copy_in(&mut self.link, memory, at, part, CopyKernel::Plain);
            offset += bytes;
            rest = after;
        }
        true
    }

    /// Sends a reserved message. Bytes that were not written are undefined.
    ///
    /// # Errors
    /// `NotOpen`: it was committed or abandoned before. `Closed`.
    pub fn commit_message(&mut self, fabric: &mut F, message: ReservedMessage) -> Result<(), RefusedSend> {
        self.check(message.id())?;
        let Some([first, rest]) = self.sender.message_chunks(message) else {
            return Err(RefusedSend::NotOpen);
        };
        self.emit(fabric, Payload::InPlace, first, false);
        if rest > 0 {
            self.emit(fabric, Payload::InPlace, rest, false);
        }
        fabric.ring_doorbell(&mut self.link);
        Ok(())
    }

    /// Abandons a reserved message: nothing of it is sent. Returns false if it was committed or abandoned before.
    pub fn abandon_message(&mut self, message: ReservedMessage) -> bool {
        self.is_reserved(message) && self.sender.cancel(message.id(), Reason::GIVEN_UP).is_ok()
    }
}
