//! Messages of a receiving half that are read in place.

use core::slice;

use super::RecvHalf;
use crate::blocking::dispatch::{AnyHalf, dispatch};
use crate::deadline::Deadline;
use crate::error::Error;
use crate::loan::Loan;
use crate::outcome::TryRecvLoan;
use crate::spans::{Holder, LoanSpans};

impl RecvHalf {
    /// Receives the next message in place: see [`Connection::try_recv_loan`](crate::Connection::try_recv_loan). Returns [`TryRecvLoan::Nothing`] also while the other half holds the lock.
    ///
    /// # Errors
    /// As [`Connection::try_recv_loan`](crate::Connection::try_recv_loan).
    pub fn try_recv_loan(&mut self) -> Result<TryRecvLoan, Error> {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.try_recv_loan())
    }

    /// Waits for the next message, and receives it in place: see [`Connection::recv_loan`](crate::Connection::recv_loan).
    ///
    /// # Errors
    /// As [`Connection::recv_loan`](crate::Connection::recv_loan).
    pub fn recv_loan(&mut self, deadline: impl Into<Deadline>) -> Result<Loan, Error> {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.recv_loan(deadline.into()))
    }

    /// Gives a loan back: see [`Connection::give_back`](crate::Connection::give_back). A loan of the connection before it was split, and of this half once it is reunited, is the same.
    ///
    /// # Errors
    /// As [`Connection::give_back`](crate::Connection::give_back).
    pub fn give_back(&mut self, loan: Loan) -> Result<(), (Loan, Error)> {
        let given_back = dispatch!(AnyHalf, &mut self.inner, inner => inner.give_back(&loan));
        given_back.map_err(|error| (loan, error))
    }

    /// Copies bytes of a loan out: see [`Connection::copy_from_loan`](crate::Connection::copy_from_loan). Holds the lock meanwhile.
    ///
    /// # Errors
    /// As [`Connection::copy_from_loan`](crate::Connection::copy_from_loan).
    pub fn copy_from_loan(&mut self, loan: &Loan, offset: usize, to: &mut [u8]) -> Result<(), Error> {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.copy_from_loan(loan, offset, to))
    }

    /// Returns the memory of a loan: see [`Connection::loan_spans`](crate::Connection::loan_spans). The lock is held while the next span is looked up, and not while one is read.
    ///
    /// # Errors
    /// As [`Connection::loan_spans`](crate::Connection::loan_spans).
    pub fn loan_spans<'a>(&'a self, loan: &'a Loan) -> Result<LoanSpans<'a>, Error> {
        dispatch!(AnyHalf, &self.inner, inner => inner.held(loan))?;
        Ok(LoanSpans::of_loan(Holder::Half(&self.inner), loan))
    }

    /// Returns the memory of a loan as slices: see [`Connection::loan_slices`](crate::Connection::loan_slices).
    ///
    /// # Safety
    /// As [`Connection::loan_slices`](crate::Connection::loan_slices), 1 and 2.
    ///
    /// # Errors
    /// As [`Connection::loan_slices`](crate::Connection::loan_slices).
    pub unsafe fn loan_slices<'a>(
        &'a self,
        loan: &'a Loan,
    ) -> Result<impl Iterator<Item = &'a [u8]> + use<'a>, Error> {
        let spans = self.loan_spans(loan)?;
        // SAFETY: the span is mapped as long as the loan is held and this half lives, both of which are borrowed: the endpoint releases no landing buffer in which a loan lies. The caller
        // promises that nobody else writes it; neither half writes a landing buffer of its own.
        Ok(spans.map(|span| unsafe { slice::from_raw_parts(span.as_ptr(), span.len()) }))
    }
}
