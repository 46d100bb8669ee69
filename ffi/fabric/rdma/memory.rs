//! Registered memory of a connection: ours, which the peer writes, and the image of the peer's.
//!
//! ```text
//! mine     control page | landing buffer     written by the NIC of this peer only
//! image    control page | landing buffer     of the peer: built here, read by our NIC
//! ```

use super::error::ConnectError;
use crate::fabric::Span;
use crate::os::Mapping;
use crate::os::page::round_to_pages;
use core::ptr::NonNull;
use superpipe_core::{CONTROL_PAGE_BYTES, Landing, Layout};
use superpipe_verbs::{Access, Memory, Mr, Pd};

/// A registered control page with the landing buffer behind it.
#[derive(Debug)]
pub(super) struct RegisteredMemory {
    pub(super) mr: Mr<Mapping>,
    layout: Layout,
}

impl RegisteredMemory {
    /// Maps and registers both, all zero.
    ///
    /// # Errors
    /// The memory cannot be mapped or pinned.
    pub(super) fn register(pd: &Pd, layout: Layout, access: Access) -> Result<Self, ConnectError> {
        let memory = Mapping::anonymous(bytes_of(layout) as usize)?;
        memory.populate()?;
        Ok(Self { mr: Mr::register(pd, memory, access)?, layout })
    }

    /// Returns the control page.
    pub(super) fn control_page(&self) -> Span {
        self.part(0, CONTROL_PAGE_BYTES)
    }

    /// Returns the landing buffer.
    pub(super) fn landing(&self) -> Landing<Span> {
        Landing { memory: self.part(CONTROL_PAGE_BYTES, self.layout.bytes()), layout: self.layout }
    }

    /// Returns the bytes that are registered for a layout, in whole pages.
    pub(super) fn bytes_for(layout: Layout) -> usize {
        let bytes = bytes_of(layout) as usize;
        round_to_pages(bytes).unwrap_or(bytes)
    }

    /// Returns the control page and the landing buffer.
    pub(super) fn all(&self) -> Span {
        self.part(0, self.bytes())
    }

    /// Returns the bytes of both. Whole pages are registered.
    pub(super) fn bytes(&self) -> u32 {
        bytes_of(self.layout)
    }

    fn part(&self, at: u32, bytes: u32) -> Span {
        assert!(at as usize + bytes as usize <= self.mr.len(), "the region was made to hold it");
        // SAFETY: 1. The assertion keeps the part inside the region, which the link holds for as long as its spans are
        // used. 2. A region gives out no reference.
        unsafe { Span::new(self.mr.as_ptr().add(at as usize), bytes) }
    }
}

// SAFETY: 1. A mapping is mapped until it is dropped, which any thread may do. 2. Its fields never change. 3. It gives out raw
// pointers only.
unsafe impl Memory for Mapping {
    fn as_ptr(&self) -> NonNull<u8> {
        self.as_ptr()
    }

    fn len(&self) -> usize {
        self.len()
    }
}

fn bytes_of(layout: Layout) -> u32 {
    CONTROL_PAGE_BYTES + layout.bytes()
}
