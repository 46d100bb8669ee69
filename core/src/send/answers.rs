//! Acknowledgements, CTS and REJECT of the receiver. wire.md 2.2, 5.1 and 5.2.

use super::{Cancelled, Sender};
use crate::error::{ProtocolError, Reason};
use crate::fabric::Fabric;
use crate::wire::grant::DestinationClaim;
use crate::wire::sequence::{Advance, is_before, judge};

impl<F: Fabric> Sender<F> {
    /// Handles an acknowledgement of `blocks` blocks. Returns true if it is newer than the last one.
    ///
    /// # Errors
    /// `AckBeyondSent`.
    #[inline]
    pub(crate) fn handle_ack(&mut self, blocks: u64) -> Result<bool, ProtocolError> {
        match judge(blocks, self.acked, self.produced) {
            Advance::Stale => {
                planted!(StaleAckTaken => {
                    self.acked = blocks;
                    self.free_from = blocks;
                    self.laps.update(blocks);
                });
                Ok(false)
            }
            Advance::Beyond => Err(ProtocolError::AckBeyondSent),
            Advance::Forward => {
                self.acked = blocks;
                planted!(CreditTwice => self.acked = blocks.wrapping_add(1));
                if !is_before(self.acked, self.entered) {
                    self.free_from = self.acked;
                }
                planted!(AckOfAnotherEpoch => if is_before(self.acked, self.entered) {
                    self.free_from = self.produced;
                });
                self.laps.update(self.free_from);
                Ok(true)
            }
        }
    }

    /// Returns a count that changes when blocks of the current landing buffer become free. Acknowledgements of the one before free none.
    pub(crate) const fn free_from(&self) -> u64 {
        self.free_from
    }

    /// Returns true if an acknowledgement of `blocks` blocks would be newer than the last one.
    pub(crate) fn has_news(&self, blocks: u64) -> bool {
        judge(blocks, self.acked, self.produced) == Advance::Forward
    }

    /// Handles a CTS, with a claim if the RTS had REMOTE.
    ///
    /// # Errors
    /// `CtsTwice`, `CtsUnknownTransfer`, and those of the claim.
    pub(crate) fn handle_cts(
        &mut self,
        transfer: u64,
        claim: Option<DestinationClaim>,
    ) -> Result<(), ProtocolError> {
        let has_begun = self.has_begun(transfer);
        let mut named = transfer;
        planted!(ClaimOfAnother => if let Some(open) = self.open.as_ref().filter(|_| claim.is_some()) {
            named = open.id.number;
        });
        match &mut self.open {
            Some(open) if open.id.number == named && open.rts_sent => {
                if open.cts_received {
                    return Err(ProtocolError::CtsTwice);
                }
                open.cts_received = true;
                open.handle_claim(claim)
            }
            // The transfer has ended meanwhile.
            _ if has_begun => Ok(()),
            _ => Err(ProtocolError::CtsUnknownTransfer),
        }
    }

    /// Returns true if this transfer has begun. It may have ended.
    pub(crate) const fn has_begun(&self, transfer: u64) -> bool {
        let nth = transfer.wrapping_sub(self.before_first);
        nth != 0 && nth <= self.transfers.wrapping_sub(self.before_first)
    }

    /// Handles a REJECT: cancels the transfer if it is still open.
    pub(crate) fn handle_reject(&mut self, transfer: u64, reason: Reason) -> Result<(), ProtocolError> {
        if !self.has_begun(transfer) {
            return Err(ProtocolError::RejectUnknownTransfer);
        }
        if let Some(open) = &mut self.open
            && open.id.number == transfer
            && open.rts_sent
        {
            if open.rejected.is_some() {
                return Err(ProtocolError::RejectTwice);
            }
            open.rejected = Some(reason);
            self.cancelled = Some(Cancelled { transfer, reason, remote: open.was_remote.then_some(open.id) });
        }
        Ok(())
    }
}
