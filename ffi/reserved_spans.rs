//! Memory of messages that are built in place.

use core::marker::PhantomData;
use core::{fmt, ptr};

use crate::blocking::dispatch::{AnyConnection, dispatch};
use crate::reserved::Reserved;

/// The memory of a message that is built in place, as contiguous spans in order: [`Connection::reserved_spans`](crate::Connection::reserved_spans).
pub struct ReservedSpans<'a> {
    connection: &'a AnyConnection,
    message: superpipe_core::ReservedMessage,
    offset: u32,
}

impl<'a> ReservedSpans<'a> {
    /// Makes an iterator over the spans of a message that is open on the connection.
    pub(crate) const fn new(connection: &'a AnyConnection, reserved: &'a Reserved) -> Self {
        Self { connection, message: reserved.message, offset: 0 }
    }
}

impl<'a> Iterator for ReservedSpans<'a> {
    type Item = ReservedSpan<'a>;

    fn next(&mut self) -> Option<ReservedSpan<'a>> {
        let (start, bytes) = dispatch!(AnyConnection, self.connection, inner => inner.message_span(self.message, self.offset))?;
        self.offset += bytes;
        Some(ReservedSpan { start, bytes: bytes as usize, borrow: PhantomData })
    }
}

impl fmt::Debug for ReservedSpans<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReservedSpans")
            .field("message", &self.message)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

/// Contiguous bytes of a message that is built in place. Over shared memory the peer can read and write them at any time, so no reference to them is made:
/// each write is volatile, or a copy.
pub struct ReservedSpan<'a> {
    start: *mut u8,
    bytes: usize,
    borrow: PhantomData<&'a AnyConnection>,
}

impl ReservedSpan<'_> {
    /// Returns the number of bytes, which is never 0.
    #[expect(clippy::len_without_is_empty, reason = "no span is empty")]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bytes
    }

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
        // needs no alignment.
        unsafe { ptr::write_volatile(start.cast::<[u8; N]>(), bytes) };
        true
    }

    /// Copies bytes to `offset`. Returns false, and copies nothing, if there is not so much room.
    #[inline]
    #[must_use]
    pub fn copy_from(&self, offset: usize, from: &[u8]) -> bool {
        let Some(start) = self.at(offset, from.len()) else { return false };
        // SAFETY: `at` has checked that so many bytes from `start` on are in the span, which is mapped for writing as long as it is borrowed. It is never behind
        // a reference, so `from` does not overlap it.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), start, from.len()) };
        true
    }

    /// Returns the address of `bytes` bytes at `offset`, if they are in the span.
    fn at(&self, offset: usize, bytes: usize) -> Option<*mut u8> {
        let is_inside = self.bytes.checked_sub(offset).is_some_and(|room| bytes <= room);
        is_inside.then(|| self.start.wrapping_add(offset))
    }
}

impl fmt::Debug for ReservedSpan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReservedSpan").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
