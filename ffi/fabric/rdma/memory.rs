//! Registered memory of a connection: ours, which the peer writes, and the image of the peer's.
//!
//! ```text
//! mine     control page | landing buffer     written by the NIC of this peer only
//! image    control page | landing buffer     of the peer: built here, read by our NIC
//! growth   landing buffers and images that come and go, if landing is on demand; the first landing buffer is then
//!          inside the control page, or by the provision protocol the small buffer, which is one of them
//! lending  memory of the application, while messages go out of it or into it, and registrations of its buffers
//! ```

use super::error::ConnectError;
use super::growth::Growth;
use super::lending::Lending;
use crate::fabric::Span;
use crate::os::page::round_to_pages;
use crate::os::{Mapping, MemoryPlacement};
use core::ptr::NonNull;
use superpipe_core::driver::setup::{LandingMode, Negotiated};
use superpipe_core::{CONTROL_PAGE_BYTES, Landing, Layout, control_page};
use superpipe_verbs::{Access, Memory, Mr, Pd, RemoteAddr, Sge};

/// All memory of a connection that is registered for data.
#[derive(Debug)]
pub(super) struct LinkMemory {
    /// Memory that the peer writes.
    pub(super) mine: RegisteredMemory,
    pub(super) image: RegisteredMemory,
    /// The peer's memory that `image` is of.
    pub(super) remote: RemoteAddr,
    /// None if landing is at connect.
    pub(super) growth: Option<Box<Growth>>,
    /// Memory of the application.
    pub(super) lending: Box<Lending>,
}

/// A registered control page with the first landing buffer in it or behind it.
#[derive(Debug)]
pub(super) struct RegisteredMemory {
    pub(super) mr: Mr<Mapping>,
    first: FirstLanding,
}

/// The landing buffer with which a connection begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstLanding {
    /// Offset from the start of the control page.
    pub(super) at: u32,
    layout: Layout,
}

impl LinkMemory {
    /// Returns what a posted write of `bytes` at `at` reads here, and where it goes. `at` counts from the start of the control page, or is
    /// in a landing buffer that was grown (wire.md 10.3).
    #[inline]
    pub(super) fn outlet(&self, at: u32, bytes: u32) -> Option<(Sge<'_>, RemoteAddr)> {
        // What was grown is beyond every region, so that other writes pay nothing for it.
        let Some(from) = self.image.mr.sge(at as usize, bytes) else {
            return self.growth.as_ref()?.outlet(at, bytes);
        };
        let RemoteAddr { addr, rkey } = self.remote;
        Some((from, RemoteAddr { addr: addr.wrapping_add(u64::from(at)), rkey }))
    }

    /// Returns the memory that an enclosed write to `offset` goes to, with the offset there. None if the write is out of bounds.
    #[inline]
    pub(super) fn inlet(&self, offset: u32, bytes: u64) -> Option<(Span, u32)> {
        if u64::from(offset) + bytes <= u64::from(self.mine.bytes()) {
            return Some((self.mine.all(), offset));
        }
        self.growth.as_ref()?.inlet(offset, bytes)
    }
}

impl FirstLanding {
    /// Returns a landing buffer behind the control page.
    pub(super) const fn behind_page(layout: Layout) -> Self {
        Self { at: CONTROL_PAGE_BYTES, layout }
    }

    /// Returns the first landing buffer of a connection.
    pub(super) const fn of(negotiated: &Negotiated) -> Self {
        match negotiated.landing {
            LandingMode::AtConnect => Self::behind_page(negotiated.layout),
            LandingMode::OnDemand => Self { at: control_page::BASE, layout: control_page::BASE_LAYOUT },
        }
    }

    /// Returns the bytes of the control page and the landing buffer.
    const fn bytes(self) -> u32 {
        self.at + self.layout.bytes()
    }

    /// Returns the bytes that are registered for both, in whole pages.
    pub(super) fn registered_bytes(self) -> usize {
        let bytes = self.bytes() as usize;
        round_to_pages(bytes).unwrap_or(bytes)
    }
}

impl RegisteredMemory {
    /// Maps and registers both, all zero.
    ///
    /// # Errors
    /// The memory cannot be mapped or pinned.
    pub(super) fn register(
        pd: &Pd,
        first: FirstLanding,
        access: Access,
        placement: MemoryPlacement,
    ) -> Result<Self, ConnectError> {
        let memory = Mapping::anonymous(first.bytes() as usize)?;
        placement.place(&memory)?;
        memory.populate()?;
        Ok(Self { mr: Mr::register(pd, memory, access)?, first })
    }

    /// Returns the control page.
    pub(super) fn control_page(&self) -> Span {
        self.part(0, CONTROL_PAGE_BYTES)
    }

    /// Returns the first landing buffer.
    pub(super) fn landing(&self) -> Landing<Span> {
        let FirstLanding { at, layout } = self.first;
        Landing { memory: self.part(at, layout.bytes()), layout }
    }

    /// Returns the offset of the first landing buffer.
    pub(super) const fn landing_at(&self) -> u32 {
        self.first.at
    }

    /// Returns the control page and the landing buffer.
    pub(super) fn all(&self) -> Span {
        self.part(0, self.bytes())
    }

    /// Returns the bytes of both. Whole pages are registered.
    pub(super) fn bytes(&self) -> u32 {
        self.first.bytes()
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
