//! Memory of messages that are read in place.

use core::marker::PhantomData;
use core::{fmt, ptr};

use crate::blocking::dispatch::{AnyConnection, dispatch};
use crate::loan::Loan;

/// The memory of a loan, as contiguous spans in order: [`Connection::loan_spans`](crate::Connection::loan_spans). Over shared memory there are two at
/// most; over RDMA there is one per block.
#[derive(Clone)]
pub struct LoanSpans<'a> {
    connection: &'a AnyConnection,
    loan: superpipe_core::Loan,
    offset: u32,
}

impl<'a> LoanSpans<'a> {
    /// Makes an iterator over the spans of a loan that the connection holds.
    pub(crate) const fn new(connection: &'a AnyConnection, loan: &'a Loan) -> Self {
        Self { connection, loan: loan.loan, offset: 0 }
    }
}

impl<'a> Iterator for LoanSpans<'a> {
    type Item = LoanSpan<'a>;

    fn next(&mut self) -> Option<LoanSpan<'a>> {
        let (start, bytes) =
            dispatch!(AnyConnection, self.connection, inner => inner.loan_span(self.loan, self.offset))?;
        self.offset += bytes;
        Some(LoanSpan { start, bytes: bytes as usize, borrow: PhantomData })
    }
}

impl fmt::Debug for LoanSpans<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoanSpans")
            .field("loan", &self.loan)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

/// Contiguous bytes of a loan. The peer can write them at any time, so no reference to them is made: each read is volatile, or a copy. What is
/// read twice may differ: copy what you check, then use the copy.
#[derive(Clone, Copy)]
pub struct LoanSpan<'a> {
    start: *const u8,
    bytes: usize,
    borrow: PhantomData<&'a AnyConnection>,
}

impl LoanSpan<'_> {
    /// Returns the number of bytes, which is never 0.
    #[expect(clippy::len_without_is_empty, reason = "no span is empty")]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bytes
    }

    /// Returns the address of the first byte. It is valid for reads as long as the loan is held and the connection lives.
    #[must_use]
    pub const fn as_ptr(&self) -> *const u8 {
        self.start
    }

    /// Reads `N` bytes from `offset` on, by a volatile read; `None` if there are not so many.
    #[inline]
    #[must_use]
    pub fn read<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        let start = self.at(offset, N)?;
        // SAFETY: `at` has checked that `N` bytes from `start` on are in the span, which is mapped as long as it is borrowed; an array of bytes needs
        // no alignment, and any bytes are valid.
        Some(unsafe { ptr::read_volatile(start.cast::<[u8; N]>()) })
    }

    /// Copies the bytes from `offset` on. Returns false, and copies nothing, if the span has fewer.
    #[inline]
    #[must_use]
    pub fn copy_to(&self, offset: usize, to: &mut [u8]) -> bool {
        let Some(start) = self.at(offset, to.len()) else { return false };
        // SAFETY: `at` has checked that so many bytes from `start` on are in the span, which is mapped as long as it is borrowed. `to` is memory of this
        // process behind a unique reference, and the span is never behind one, so they do not overlap.
        unsafe { ptr::copy_nonoverlapping(start, to.as_mut_ptr(), to.len()) };
        true
    }

    /// Returns the address of `bytes` bytes at `offset`, if they are in the span.
    fn at(&self, offset: usize, bytes: usize) -> Option<*const u8> {
        let is_inside = self.bytes.checked_sub(offset).is_some_and(|room| bytes <= room);
        is_inside.then(|| self.start.wrapping_add(offset))
    }
}

impl fmt::Debug for LoanSpan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoanSpan").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
