//! Messages that are read in place: what names them.

/// A message that lies in the landing buffer, where it arrived, until [`Connection::give_back`](crate::Connection::give_back).
///
/// It names the message to its connection and borrows nothing: several can be held, and all other calls go on. Loans are given back in any order.
/// The peer gets the blocks of a message, and of all messages behind it, back only once it and every older loan are given back. So a loan that is held
/// long stops the direction once the landing buffer is full, and nothing else. A loan that is dropped is held until the connection is.
#[derive(Debug, PartialEq, Eq, Hash)]
#[must_use = "a loan that is not given back keeps its part of the landing buffer"]
pub struct Loan {
    pub(crate) loan: superpipe_core::Loan,
    /// Number of the connection in this process.
    pub(crate) owner: u64,
}

impl Loan {
    /// Returns the sender's tag.
    #[must_use]
    pub const fn tag(&self) -> u64 {
        self.loan.tag
    }

    /// Returns the bytes of the message.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.loan.bytes as usize
    }
}

impl From<(Loan, Self)> for crate::Error {
    /// Drops the loan: it is held until the connection is dropped.
    fn from((_, error): (Loan, Self)) -> Self {
        error
    }
}
