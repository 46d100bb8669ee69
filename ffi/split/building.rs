//! Messages of a sending half that are built in place.

use core::slice;

use super::SendHalf;
use crate::blocking::dispatch::{AnyHalf, dispatch};
use crate::deadline::Deadline;
use crate::error::Error;
use crate::outcome::TryReserve;
use crate::reserved::Reserved;
use crate::spans::{Holder, ReservedSpans};

impl SendHalf {
    /// Reserves space for a message: see [`Connection::try_reserve`](crate::Connection::try_reserve). Returns [`TryReserve::Pending`] also while the other half holds the lock. While the
    /// message is open, the other half receives.
    ///
    /// # Errors
    /// As [`Connection::try_reserve`](crate::Connection::try_reserve).
    pub fn try_reserve(&mut self, tag: u64, bytes: usize) -> Result<TryReserve, Error> {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.try_reserve(tag, bytes))
    }

    /// Reserves space for a message, and waits until there is room: see [`Connection::reserve`](crate::Connection::reserve).
    ///
    /// # Errors
    /// As [`Connection::reserve`](crate::Connection::reserve).
    pub fn reserve(
        &mut self,
        tag: u64,
        bytes: usize,
        deadline: impl Into<Deadline>,
    ) -> Result<Reserved, Error> {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.reserve(tag, bytes, deadline.into()))
    }

    /// Copies bytes to their place in a message: see [`Connection::copy_into`](crate::Connection::copy_into). Holds the lock meanwhile.
    ///
    /// # Errors
    /// As [`Connection::copy_into`](crate::Connection::copy_into).
    pub fn copy_into(&mut self, reserved: &Reserved, offset: usize, from: &[u8]) -> Result<(), Error> {
        dispatch!(AnyHalf, &mut self.inner, inner => inner.copy_into(reserved, offset, from))
    }

    /// Returns the memory of a message: see [`Connection::reserved_spans`](crate::Connection::reserved_spans). The lock is held while the next span is looked up, and not while one is written. If the
    /// connection ends meanwhile, what is left of the spans is not returned, and what is written to the others is lost. Borrowed mutably: no other thread writes to them meanwhile.
    ///
    /// # Errors
    /// As [`Connection::reserved_spans`](crate::Connection::reserved_spans).
    pub fn reserved_spans<'a>(&'a mut self, reserved: &'a Reserved) -> Result<ReservedSpans<'a>, Error> {
        dispatch!(AnyHalf, &self.inner, inner => inner.open_message(reserved))?;
        Ok(ReservedSpans::of_reserved(Holder::Half(&self.inner), reserved))
    }

    /// Returns the memory of a message as slices: see [`Connection::reserved_slices`](crate::Connection::reserved_slices).
    ///
    /// # Safety
    /// As [`Connection::reserved_slices`](crate::Connection::reserved_slices), 1 and 2.
    ///
    /// # Errors
    /// As [`Connection::reserved_slices`](crate::Connection::reserved_slices).
    pub unsafe fn reserved_slices<'a>(
        &'a mut self,
        reserved: &'a mut Reserved,
    ) -> Result<impl Iterator<Item = &'a mut [u8]> + use<'a>, Error> {
        let spans = self.reserved_spans(reserved)?;
        // SAFETY: the span is mapped for writing as long as this half, which is borrowed mutably, lives: the endpoint leaves no landing buffer and no image in which a message is
        // open, and releases none once it is closed. The half sends nothing out of it meanwhile; spans do not overlap. The caller promises that nobody else uses it.
        Ok(spans.map(|span| unsafe { slice::from_raw_parts_mut(span.as_mut_ptr(), span.len()) }))
    }

    /// Sends a message that was built in place: see [`Connection::commit`](crate::Connection::commit).
    ///
    /// # Errors
    /// As [`Connection::commit`](crate::Connection::commit).
    pub fn commit(&mut self, reserved: Reserved) -> Result<(), (Reserved, Error)> {
        let committed = dispatch!(AnyHalf, &mut self.inner, inner => inner.commit_message(&reserved));
        committed.map_err(|error| (reserved, error))
    }

    /// Gives reserved space up: see [`Connection::abandon`](crate::Connection::abandon).
    ///
    /// # Errors
    /// As [`Connection::abandon`](crate::Connection::abandon).
    pub fn abandon(&mut self, reserved: Reserved) -> Result<(), (Reserved, Error)> {
        let abandoned = dispatch!(AnyHalf, &mut self.inner, inner => inner.abandon_message(&reserved));
        abandoned.map_err(|error| (reserved, error))
    }
}
