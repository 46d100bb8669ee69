//! What a connection registers: what the peer writes, and the image of what we write of the peer's.
//!
//! ```text
//! mine     seat | landing buffer     the peer's NIC writes it; never another's
//! image    seat | landing buffer     of the peer's: built here, read by our NIC
//! ```

use super::error::ConnectError;
use crate::os::Mapping;
use crate::os::page::round_to_pages;
use crate::span::Span;
use crate::verbs::{Access, Error, Mr, Pd};
use superpipe_core::{Landing, Layout, SEAT_BYTES};

/// A registered seat with its landing buffer, one after the other.
#[derive(Debug)]
pub(super) struct Half {
    pub(super) mr: Mr,
    layout: Layout,
}

impl Half {
    /// Maps and registers one, all zero.
    ///
    /// # Errors
    /// When there is no memory, or no more may be pinned.
    pub(super) fn register(pd: &Pd, layout: Layout, access: Access) -> Result<Self, ConnectError> {
        let memory = Mapping::anonymous(bytes_of(layout) as usize).map_err(Error::Verb)?;
        memory.populate().map_err(Error::Verb)?;
        Ok(Self { mr: Mr::register(pd, memory, access)?, layout })
    }

    /// The seat.
    pub(super) fn seat(&self) -> Span {
        self.part(0, SEAT_BYTES)
    }

    /// The landing buffer.
    pub(super) fn landing(&self) -> Landing<Span> {
        Landing { memory: self.part(SEAT_BYTES, self.layout.bytes()), layout: self.layout }
    }

    /// Bytes that are registered for one, whole pages.
    pub(super) fn bytes_for(layout: Layout) -> usize {
        let bytes = bytes_of(layout) as usize;
        round_to_pages(bytes).unwrap_or(bytes)
    }

    /// All of it.
    pub(super) fn all(&self) -> Span {
        self.part(0, self.bytes())
    }

    /// Bytes of it; whole pages are registered.
    pub(super) fn bytes(&self) -> u32 {
        bytes_of(self.layout)
    }

    fn part(&self, at: u32, bytes: u32) -> Span {
        assert!(at as usize + bytes as usize <= self.mr.len(), "it was made to hold this");
        // SAFETY: 1. The assertion keeps the part inside the region, which the link holds for as long as its spans are
        // used. 2. A region gives out no reference.
        unsafe { Span::new(self.mr.as_ptr().add(at as usize), bytes) }
    }
}

fn bytes_of(layout: Layout) -> u32 {
    SEAT_BYTES + layout.bytes()
}
