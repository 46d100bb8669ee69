//! Memory of messages that are read or built in place.

use core::marker::PhantomData;
use core::{fmt, ptr};

use crate::blocking::dispatch::{AnyConnection, AnyHalf, dispatch};
use crate::loan::Loan;
use crate::reserved::Reserved;

/// The memory of a loan: [`Connection::loan_spans`](crate::Connection::loan_spans).
pub type LoanSpans<'a> = MessageSpans<'a, Reading>;
/// Contiguous bytes of a loan.
pub type LoanSpan<'a> = MessageSpan<'a, Reading>;
/// The memory of a message that is built in place: [`Connection::reserved_spans`](crate::Connection::reserved_spans).
pub type ReservedSpans<'a> = MessageSpans<'a, Writing>;
/// Contiguous bytes of a message that is built in place.
pub type ReservedSpan<'a> = MessageSpan<'a, Writing>;

/// MessageSpans that can be read: those of a [`Loan`].
#[derive(Clone, Copy, Debug)]
pub enum Reading {}

/// MessageSpans that can be written: those of a [`Reserved`] message.
#[derive(Clone, Copy, Debug)]
pub enum Writing {}

/// The memory of a message in place, as contiguous spans in order. Over shared memory there are two at most; over RDMA there is one per block.
pub struct MessageSpans<'a, A> {
    holder: Holder<'a>,
    message: Message,
    offset: u32,
    access: PhantomData<A>,
}

/// The connection, or the half of one, that holds the message.
#[derive(Clone, Copy)]
pub(crate) enum Holder<'a> {
    Connection(&'a AnyConnection),
    Half(&'a AnyHalf),
}

#[derive(Clone, Copy, Debug)]
enum Message {
    Loan(superpipe_core::Loan),
    Reserved(superpipe_core::ReservedMessage),
}

impl<'a> MessageSpans<'a, Reading> {
    /// Makes an iterator over the spans of a loan that is held there.
    pub(crate) const fn of_loan(holder: Holder<'a>, loan: &'a Loan) -> Self {
        Self { holder, message: Message::Loan(loan.loan), offset: 0, access: PhantomData }
    }
}

impl<'a> MessageSpans<'a, Writing> {
    /// Makes an iterator over the spans of a message that is open there. The caller borrows the connection or half mutably for `'a`: no other thread makes spans of the same message meanwhile.
    pub(crate) const fn of_reserved(holder: Holder<'a>, reserved: &'a Reserved) -> Self {
        Self { holder, message: Message::Reserved(reserved.message), offset: 0, access: PhantomData }
    }
}

impl<'a, A> Iterator for MessageSpans<'a, A> {
    type Item = MessageSpan<'a, A>;

    fn next(&mut self) -> Option<MessageSpan<'a, A>> {
        let (message, offset) = (self.message, self.offset);
        let found = match self.holder {
            Holder::Connection(connection) => {
                dispatch!(AnyConnection, connection, inner => match message {
                    Message::Loan(loan) => inner.loan_span(loan, offset),
                    Message::Reserved(reserved) => inner.message_span(reserved, offset),
                })
            }
            Holder::Half(half) => {
                dispatch!(AnyHalf, half, inner => match message {
                    Message::Loan(loan) => inner.loan_span(loan, offset),
                    Message::Reserved(reserved) => inner.message_span(reserved, offset),
                })
            }
        };
        let (start, bytes) = found?;
        self.offset += bytes;
        Some(MessageSpan { start, bytes: bytes as usize, borrow: PhantomData })
    }
}

impl Clone for MessageSpans<'_, Reading> {
    fn clone(&self) -> Self {
        Self { holder: self.holder, message: self.message, offset: self.offset, access: PhantomData }
    }
}

impl<A> fmt::Debug for MessageSpans<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageSpans")
            .field("message", &self.message)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

/// Contiguous bytes of a message in place. The peer can write them at any time, and those of a message that is built over shared memory it can read as well. So no reference to them is made:
/// each access is volatile, or a copy. What is read twice may differ: copy what you check, then use the copy.
pub struct MessageSpan<'a, A> {
    start: *mut u8,
    bytes: usize,
    borrow: PhantomData<(&'a AnyConnection, A)>,
}

impl<A> MessageSpan<'_, A> {
    /// Returns the number of bytes, which is never 0.
    #[expect(clippy::len_without_is_empty, reason = "no span is empty")]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bytes
    }

    /// Returns the address of `bytes` bytes at `offset`, if they are in the span.
    fn at(&self, offset: usize, bytes: usize) -> Option<*mut u8> {
        let is_inside = self.bytes.checked_sub(offset).is_some_and(|room| bytes <= room);
        is_inside.then(|| self.start.wrapping_add(offset))
    }
}

impl MessageSpan<'_, Reading> {
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
        unsafe { ptr::copy_nonoverlapping(start.cast_const(), to.as_mut_ptr(), to.len()) };
        true
    }
}

impl Clone for MessageSpan<'_, Reading> {
    fn clone(&self) -> Self {
        *self
    }
}

impl Copy for MessageSpan<'_, Reading> {}

impl MessageSpan<'_, Writing> {
    /// Returns the address of the first byte. It is valid for writes until the message is committed or abandoned, or the connection ends.
    #[must_use]
    pub const fn as_mut_ptr(&self) -> *mut u8 {
        self.start
    }

    /// Writes `N` bytes from `offset` on, by a volatile write. Returns false, and writes nothing, if there is not so much room.
    #[inline]
    #[must_use]
    pub fn write<const N: usize>(&self, offset: usize, bytes: [u8; N]) -> bool {
        let Some(start) = self.at(offset, N) else { return false };
        // SAFETY: `at` has checked that `N` bytes from `start` on are in the span, which is mapped for writing as long as it is borrowed; an array of bytes
        // needs no alignment. No other thread of this process has a span of the message: it is not `Send`, and `of_reserved` has an exclusive borrow.
        unsafe { ptr::write_volatile(start.cast::<[u8; N]>(), bytes) };
        true
    }

    /// Copies bytes to `offset`. Returns false, and copies nothing, if there is not so much room.
    #[inline]
    #[must_use]
    pub fn copy_from(&self, offset: usize, from: &[u8]) -> bool {
        let Some(start) = self.at(offset, from.len()) else { return false };
        // SAFETY: `at` has checked that so many bytes from `start` on are in the span, which is mapped for writing as long as it is borrowed. It is never behind
        // a reference, so `from` does not overlap it. No other thread of this process has a span of the message, as in `write`.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), start, from.len()) };
        true
    }
}

impl<A> fmt::Debug for MessageSpan<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageSpan").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
