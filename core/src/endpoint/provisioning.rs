//! The provision protocol: sizes are compared with the threshold, and a transfer above it waits until this end has moved to a larger
//! landing buffer. wire.md 4.7.

use super::Endpoint;
use crate::fabric::Fabric;
use crate::memory::Demand;
use crate::protocol::Protocol;
use crate::send::{Above, Permit};
use crate::wire::grant::GrowReason;

impl<F: Fabric> Endpoint<F> {
    /// Returns true if the next part of the open transfer may go through the current landing buffer: after it was compared with the
    /// threshold, and after the larger landing buffer that it needs was moved to, or refused. `elements` are the elements of the I/O vector
    /// at hand, as (index, bytes).
    pub(super) fn is_permitted<I: Iterator<Item = (usize, usize)>>(
        &mut self,
        fabric: &mut F,
        elements: impl FnOnce() -> I,
    ) -> bool {
        let above = match self.sender.permit() {
            Permit::Given => return true,
            Permit::Asked => return !self.awaits_larger(),
            Permit::Wanted(above) => Some(above),
            Permit::Undecided => {
                let message_bytes = self.sender.message_bytes();
                self.first_above(fabric, elements(), message_bytes)
            }
        };
        self.demand(above)
    }

    /// Returns true if a complete message is above the threshold, and a larger landing buffer can be had for it.
    pub(super) fn needs_larger(&mut self, fabric: &mut F, slices: &[&[u8]], bytes: u32) -> bool {
        let payload_bytes = u64::from(bytes);
        let elements = slices.iter().map(|slice| slice.len()).enumerate();
        let above = self.first_above(fabric, elements, Some(payload_bytes));
        let layout = self.sender.layout();
        above.is_some()
            && !self.receiver.is_closing()
            && self.growth.as_ref().is_some_and(|growth| growth.requester.can_demand(payload_bytes, layout))
    }

    /// Returns true if transfers that begin now are by the provision protocol.
    #[inline]
    pub(super) const fn provisions(&self) -> bool {
        matches!(self.config.protocol, Protocol::Provision)
    }

    /// Compares the elements of an I/O vector with the threshold, then the message, and returns the first that is larger. An element above
    /// the threshold implies a message above it, so the element is named.
    fn first_above(
        &mut self,
        fabric: &mut F,
        elements: impl Iterator<Item = (usize, usize)>,
        message_bytes: Option<u64>,
    ) -> Option<Above> {
        let threshold_bytes = self.config.threshold_bytes;
        for (index, bytes) in elements {
            let (element, bytes) = (u32::try_from(index).unwrap_or(u32::MAX), bytes as u64);
            record!(fabric, &self.link, Compared { bytes, threshold_bytes, element: Some(element) });
            if bytes > u64::from(threshold_bytes) {
                // A part of a stream leaves one block for CANCEL, of the four that a ring has at least.
                let payload_bytes = message_bytes.unwrap_or(bytes.saturating_add(bytes.div_ceil(3)));
                return Some(Above { payload_bytes, reason: GrowReason::Element(element) });
            }
        }
        let bytes = message_bytes?;
        record!(fabric, &self.link, Compared { bytes, threshold_bytes, element: None });
        (bytes > u64::from(threshold_bytes))
            .then_some(Above { payload_bytes: bytes, reason: GrowReason::Message })
    }

    /// Demands a larger landing buffer for what is above the threshold. Returns true if none is needed, or none can be had.
    fn demand(&mut self, above: Option<Above>) -> bool {
        let layout = self.sender.layout();
        let permit = match (above, &mut self.growth) {
            // An end whose peer has closed asks for nothing (wire.md 5.5).
            (Some(above), Some(growth)) if !self.receiver.is_closing() => {
                match growth.requester.demand(above.payload_bytes, above.reason, layout) {
                    Demand::None => Permit::Given,
                    Demand::Asked => Permit::Asked,
                    Demand::Busy => Permit::Wanted(above),
                }
            }
            _ => Permit::Given,
        };
        self.sender.set_permit(permit);
        permit == Permit::Given
    }

    /// Returns true while the larger landing buffer that this end has asked for may still come. Afterwards the transfer goes through what
    /// there is.
    pub(super) fn awaits_larger(&mut self) -> bool {
        let growth = self.growth.as_ref();
        let is_awaited = growth.is_some_and(|growth| growth.requester.is_awaited());
        if !is_awaited || self.receiver.is_closing() {
            self.sender.set_permit(Permit::Given);
            return false;
        }
        true
    }
}
