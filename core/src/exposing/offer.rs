//! An offer of the peer, as the sender of messages keeps it: memory that its next transfer may be written into. wire.md 4.10, 5.7.

use super::Sources;
use crate::error::ProtocolError;

/// An offer of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Offer {
    transfer: u64,
    place: u8,
    offset: u32,
}

/// Memory of the peer that a transfer is written into, from an offset on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) place: u8,
    pub(crate) offset: u32,
    /// Bytes from the offset to the end.
    pub(crate) bytes: u32,
}

/// The offer that may live: at most one does.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(crate) struct Offers(Option<Offer>);

impl Offers {
    pub(super) const fn new() -> Self {
        Self(None)
    }

    /// Handles OFFER. `next` is the number of the next transfer of which nothing was sent, `is_stale` is true if the transfer of the offer was
    /// started before that one.
    ///
    /// # Errors
    /// `OfferWrong`: a later transfer than the next, a second offer, or memory that is not mapped for writing.
    pub(crate) fn handle<R: Copy, A: Copy>(
        &mut self,
        (transfer, place, offset): (u64, u8, u32),
        next: u64,
        is_stale: bool,
        sources: &Sources<R, A>,
    ) -> Result<(), ProtocolError> {
        let offer = Offer { transfer, place, offset };
        if is_stale {
            planted!(StaleOfferTaken => self.0 = Some(Offer { transfer: next, ..offer }));
            return Ok(());
        }
        let is_second = self.0.is_some_and(|known| known.transfer == transfer);
        let is_inside = sources.destination(place).is_some_and(|(_, bytes)| offset < bytes);
        if transfer != next || is_second || !is_inside {
            return Err(ProtocolError::OfferWrong);
        }
        self.0 = Some(offer);
        Ok(())
    }

    /// Returns the place that the offer for transfer `next` names, if it lives.
    pub(crate) fn place(&self, next: u64) -> Option<u8> {
        self.living(next).map(|offer| offer.place)
    }

    /// Returns the memory that is offered to transfer `next`, the next one of which nothing was sent.
    pub(crate) fn room<R: Copy, A: Copy>(&self, next: u64, sources: &Sources<R, A>) -> Option<Room> {
        let Offer { place, offset, .. } = self.living(next)?;
        let (_, all) = sources.destination(place)?;
        Some(Room { place, offset, bytes: all.checked_sub(offset)? })
    }

    fn living(&self, next: u64) -> Option<Offer> {
        planted!(OfferOutlives => return self.0);
        self.0.filter(|offer| offer.transfer == next)
    }
}
