//! Messages of a connection that are read in place.

use core::slice;

use super::Connection;
use crate::blocking::dispatch::{AnyConnection, dispatch};
use crate::deadline::Deadline;
use crate::error::Error;
use crate::loan::Loan;
use crate::outcome::TryRecvLoan;
use crate::spans::{Holder, LoanSpans};

impl Connection {
    /// Receives the next message in place, if all of it is in the landing buffer: no copy is made. Later messages can be received meanwhile, in place
    /// or not. Never waits; makes no system call, except to wake a peer that sleeps, and allocates nothing.
    ///
    /// ```
    /// # use core::time::Duration;
    /// # use superpipe::{Address, Connection, Error, Listener, Options};
    /// # const DEADLINE: Duration = Duration::from_secs(30);
    /// # fn main() -> Result<(), Error> {
    /// # let path = std::env::temp_dir().join(format!("superpipe-loan-doc-{}.sock", std::process::id()));
    /// # let address = Address::Shm(path);
    /// # let mut listener = Listener::bind(&address, Options::default())?;
    /// # let peer = std::thread::spawn(move || -> Result<(), Error> {
    /// #     let mut connection = Connection::connect(&address, Options::default(), DEADLINE)?;
    /// #     connection.send(7, &[&[3; 10_000]], DEADLINE)?;
    /// #     connection.flush(DEADLINE)
    /// # });
    /// # let mut connection = listener.accept(DEADLINE)?;
    /// let loan = connection.recv_loan(DEADLINE)?;
    /// let mut sum = 0_u64;
    /// for span in connection.loan_spans(&loan)? {
    ///     for at in 0..span.len() {
    ///         sum += u64::from(span.read::<1>(at).unwrap()[0]);
    ///     }
    /// }
    /// assert_eq!((loan.tag(), sum), (7, 30_000));
    /// connection.give_back(loan)?;
    /// # peer.join().unwrap()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Closed`, `PeerLost`, `Protocol`, `Device`.
    pub fn try_recv_loan(&mut self) -> Result<TryRecvLoan, Error> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.try_recv_loan())
    }

    /// Waits for the next message, and receives it in place. Whatever fails, the message is still there.
    ///
    /// # Errors
    /// `Usage`: it cannot be read in place ([`TryRecvLoan::Elsewhere`]): receive it with [`recv_into`](Self::recv_into). `Limit`:
    /// [`LOANS_MAX`](crate::LOANS_MAX) loans are held. `Timeout`, `Closed`, `PeerLost`, `Protocol`, `Device`, `Interrupted`.
    pub fn recv_loan(&mut self, deadline: impl Into<Deadline>) -> Result<Loan, Error> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.recv_loan(deadline.into()))
    }

    /// Gives a loan back, so that the peer can use its blocks again. Loans are given back in any order, also once the connection has ended.
    ///
    /// # Errors
    /// `Usage`: the loan is of another connection, which still holds it. It is in the error, from which `?` makes an [`Error`].
    pub fn give_back(&mut self, loan: Loan) -> Result<(), (Loan, Error)> {
        let given_back = dispatch!(AnyConnection, &mut self.inner, inner => inner.give_back(&loan));
        given_back.map_err(|error| (loan, error))
    }

    /// Copies bytes of a loan out, from `offset` on.
    ///
    /// # Errors
    /// `Usage`: the message has fewer bytes, or the loan is of another connection. Nothing was copied.
    pub fn copy_from_loan(&mut self, loan: &Loan, offset: usize, to: &mut [u8]) -> Result<(), Error> {
        dispatch!(AnyConnection, &mut self.inner, inner => inner.copy_from_loan(loan, offset, to))
    }

    /// Returns the memory of a loan, for reads in place. Over shared memory a message is one span, or two if it lies around the end of the ring or in two
    /// lines; over RDMA there is one per block.
    ///
    /// # Errors
    /// `Usage`: the loan is of another connection.
    pub fn loan_spans<'a>(&'a self, loan: &'a Loan) -> Result<LoanSpans<'a>, Error> {
        dispatch!(AnyConnection, &self.inner, inner => inner.held(loan))?;
        Ok(LoanSpans::of_loan(Holder::Connection(&self.inner), loan))
    }

    /// Returns the memory of a loan as slices, for code that needs references.
    ///
    /// # Safety
    /// 1. The peer, its device and every process that has its memory write none of these bytes while a slice lives. A peer that follows the protocol does
    ///    not; one that is faulty or hostile can.
    /// 2. Over shared memory with landing on demand the peer removes no page of it.
    ///
    /// # Errors
    /// `Usage`: the loan is of another connection.
    pub unsafe fn loan_slices<'a>(
        &'a self,
        loan: &'a Loan,
    ) -> Result<impl Iterator<Item = &'a [u8]> + use<'a>, Error> {
        let spans = self.loan_spans(loan)?;
        // SAFETY: the span is mapped, and borrowed with the connection and the loan, which therefore is not given back meanwhile. The caller promises
        // that nobody else writes it; this end writes no landing buffer of its own.
        Ok(spans.map(|span| unsafe { slice::from_raw_parts(span.as_ptr(), span.len()) }))
    }
}
