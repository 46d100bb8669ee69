//! Memory of a registered buffer: one mapping, which devices register and peers map.

use core::ffi::CStr;
use core::ptr::NonNull;

#[cfg(feature = "verbs")]
use super::Registrations;
use crate::os::{ExposedMemory, MemoryPlacement, OsError, PeerAccess};

/// Name in /proc.
const NAME: &CStr = c"superpipe-buffer";

/// Memory of a [`RegisteredBuf`](crate::RegisteredBuf). Registrations keep it.
#[derive(Debug)]
pub struct RegisteredMemory {
    exposed: ExposedMemory,
    #[cfg(feature = "verbs")]
    registrations: Registrations,
}

impl RegisteredMemory {
    /// Makes `bytes` zeros of a memory node, all of them resident.
    ///
    /// # Errors
    /// The kernel refuses: too little memory, or too many open files.
    pub(crate) fn new(bytes: usize, memory: MemoryPlacement) -> Result<Self, OsError> {
        Ok(Self {
            exposed: ExposedMemory::create_at(NAME, bytes, PeerAccess::Read, memory)?,
            #[cfg(feature = "verbs")]
            registrations: Registrations::default(),
        })
    }

    /// Returns the address of the first byte, valid until the value is dropped.
    pub(crate) fn as_ptr(&self) -> NonNull<u8> {
        self.exposed.as_ptr()
    }

    /// Returns the bytes, a multiple of the page size.
    #[cfg(feature = "verbs")]
    pub(crate) fn len(&self) -> usize {
        self.exposed.page_bytes()
    }

    /// Returns its registrations with devices.
    #[cfg(feature = "verbs")]
    pub(crate) const fn registrations(&self) -> &Registrations {
        &self.registrations
    }

    /// Returns the memory as a peer on this host can map it.
    pub(crate) const fn exposed(&self) -> &ExposedMemory {
        &self.exposed
    }
}
