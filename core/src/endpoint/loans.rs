//! Loans: messages that the application reads in place, and gives back in any order. wire.md 4.6.
//!
//! ```text
//!  acknowledged            released                       consumed (taken off the head)
//!       |                      |                               |
//!  -----+----------------------+===========+----------+========+------> blocks of the direction
//!                              | oldest    | given    | loan   |
//!                                loan        back
//! ```
//!
//! Without a loan all that is consumed is released, and may be acknowledged.

use super::{Endpoint, Incoming};
use crate::copying::CopyKernel;
use crate::fabric::Fabric;
use crate::receive::{Loan, LoanAttempt};
use crate::wire::sequence::before;

/// Refusal of [`Endpoint::take_loan`]. The transfer stays at the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedLoan {
    /// [`LOANS_MAX`](crate::LOANS_MAX) loans are held: give one back, or receive the message by another call.
    Full(Incoming),
    /// The message has not arrived completely.
    Incomplete(Incoming),
    /// The transfer does not lie in the landing buffer as a whole, or never will: a stream, a message that waits for a CTS, comes in more than two
    /// chunks, is longer than the landing buffer, lies in other memory, was cancelled, or was taken in part. Other calls receive it.
    Elsewhere(Incoming),
}

impl<F: Fabric> Endpoint<F> {
    /// Takes the message at the head as a loan, which is read in place until [`give_back`](Self::give_back). Later messages can be received meanwhile, as far as
    /// the peer has blocks for them: those behind the oldest loan are not acknowledged. Returns `None` if nothing has arrived.
    ///
    /// # Errors
    /// [`RefusedLoan`]. The transfer stays at the head.
    pub fn take_loan(&mut self, fabric: &mut F) -> Result<Option<Loan>, RefusedLoan> {
        let Some(incoming) = self.incoming(fabric) else { return Ok(None) };
        if self.loans.is_full() {
            return Err(RefusedLoan::Full(incoming));
        }
        let (size, in_line) = (self.open_size(), self.receiver.line_bytes());
        let attempt = self.receiver.take_loan(fabric, &self.link, self.config.arrival);
        let loaned = match self.judged(fabric, attempt) {
            // The peer broke a rule, and there is no head any more.
            None => return Ok(None),
            Some(LoanAttempt::Late) => return Err(RefusedLoan::Incomplete(incoming)),
            Some(LoanAttempt::Never) => return Err(RefusedLoan::Elsewhere(incoming)),
            Some(LoanAttempt::Taken(loaned)) => loaned,
        };
        let loan = self.loans.add(incoming.tag, loaned, size);
        debug_assert!(loan.is_some(), "the table is not full");
        if let Some(bytes) = in_line {
            self.record_line(fabric, bytes);
        }
        let chunk_bytes = if in_line.is_some() { 0 } else { loaned.bytes as usize };
        self.took(fabric, chunk_bytes, size, in_line.is_none());
        Ok(loan)
    }

    /// Gives a loan back, in any order. Its blocks are acknowledged once all older loans are given back. Returns false, and does nothing, if it was
    /// given back before.
    pub fn give_back(&mut self, fabric: &mut F, loan: Loan) -> bool {
        let released = self.released();
        let Some(size) = self.loans.take_back(loan, self.receiver.consumed()) else { return false };
        if released != self.released() {
            self.idle_rounds = 0;
            self.acknowledge_due(fabric, size, true);
        }
        true
    }

    /// Returns the span (memory, offset, bytes) that has the payload of a loan from its byte `offset` on, as far as it is contiguous. `None` if the
    /// loan was given back, or has no such byte. The peer can write these bytes at any time, although one that follows the protocol does not.
    #[must_use]
    pub fn loan_span(&self, loan: Loan, offset: u32) -> Option<(F::Region, u32, u32)> {
        self.loans.span_at(loan, offset)
    }

    /// Returns true if a loan was not given back.
    #[must_use]
    pub fn holds_loan(&self, loan: Loan) -> bool {
        self.loans.is_held(loan)
    }

    /// Copies bytes of a loan out, from `offset` on. Returns false, and copies nothing, if the loan was given back or has fewer bytes.
    pub fn copy_from_loan(&mut self, fabric: &mut F, loan: Loan, offset: u32, to: &mut [u8]) -> bool {
        let end = u32::try_from(to.len()).ok().and_then(|bytes| offset.checked_add(bytes));
        if !self.loans.is_held(loan) || end.is_none_or(|end| end > loan.bytes) {
            return false;
        }
        let (mut offset, mut rest) = (offset, to);
        while !rest.is_empty() {
            let Some((memory, at, bytes)) = self.loans.span_at(loan, offset) else { return false };
            let (part, after) = rest.split_at_mut(rest.len().min(bytes as usize));
            fabric.copy_out(&mut self.link, memory, at, part, CopyKernel::Plain);
            offset += bytes;
            rest = after;
        }
        true
    }

    /// Returns the count of blocks that were consumed and are not behind a loan that is held: those that may be acknowledged.
    #[inline]
    pub(super) fn released(&self) -> u64 {
        planted!(LoanAckedEarly => return self.receiver.consumed());
        match self.loans.held_from() {
            None => self.receiver.consumed(),
            Some(begin) => begin,
        }
    }

    /// Returns the sequence of the newest chunk that may be acknowledged, and the same if nothing behind it was read yet.
    pub(super) fn newest_released(&self) -> (u64, Option<u64>) {
        match self.loans.oldest_sequence() {
            None => (self.receiver.last(), self.receiver.newest_consumed()),
            Some(sequence) => (before(sequence), None),
        }
    }
}
