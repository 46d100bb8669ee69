//! Memory of a registered buffer that a peer may map: sealed, so that the peer cannot be harmed by reading it.
//!
//! The owner maps the memory before it seals it, since a seal forbids further mappings for writing.

use core::ffi::CStr;
use core::ptr::NonNull;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{SealFlags, fcntl_add_seals, ftruncate};
use rustix::io::{Errno, retry_on_intr};

use super::bytes::Bytes;
use super::error::OsError;
use super::map::Mapping;
use super::memfd::{NOT_SEALED, SEALS, check_file_size, memfd, reserve};
use super::memory_node::MemoryPlacement;
use super::page::round_to_pages;

/// What a peer may do with exposed memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerAccess {
    /// Read it.
    Read,
    /// Read and write it, for ever: the peer is trusted.
    ReadWrite,
}

impl PeerAccess {
    /// Returns the seals that the memory must have.
    pub(crate) const fn seals(self) -> SealFlags {
        match self {
            Self::Read => SEALS.union(SealFlags::FUTURE_WRITE).union(SealFlags::SEAL),
            Self::ReadWrite => SEALS.union(SealFlags::SEAL),
        }
    }
}

/// Memory of this process that peers may map.
#[derive(Debug)]
pub struct ExposedMemory {
    mapping: Mapping,
    fd: OwnedFd,
    bytes: usize,
    access: PeerAccess,
}

impl ExposedMemory {
    /// Makes memory of `bytes`, at least 1, in pages that are resident and zero. The name is visible in /proc only.
    ///
    /// # Errors
    /// The kernel refuses: too little memory, too many open files, or, for [`PeerAccess::Read`], a kernel before Linux 5.1.
    pub fn create(name: &CStr, bytes: usize, access: PeerAccess) -> Result<Self, OsError> {
        Self::create_at(name, bytes, access, MemoryPlacement::default())
    }

    /// Makes memory as [`create`](Self::create) does, of this node.
    ///
    /// # Errors
    /// Likewise.
    pub fn create_at(
        name: &CStr,
        bytes: usize,
        access: PeerAccess,
        memory: MemoryPlacement,
    ) -> Result<Self, OsError> {
        let doing = || format!("cannot make a buffer of {} that a peer can map", Bytes(bytes as u64));
        round_to_pages(bytes).ok_or_else(|| OsError::new(libc::ENOMEM, doing()))?;
        let bytes = bytes.max(1);
        let size = bytes as u64;
        check_file_size(size)?;
        let fd = memfd(name)?;
        retry_on_intr(|| ftruncate(&fd, size)).map_err(|errno| OsError::of(errno, doing()))?;
        // Before the seals: FUTURE_WRITE lets nobody map it for writing.
        let mapping = Mapping::shared(fd.as_fd(), bytes)?;
        // The policy of a mapping is that of the file, whose pages come next.
        memory.place(&mapping)?;
        reserve(fd.as_fd(), size)?;
        mapping.populate()?;
        fcntl_add_seals(&fd, access.seals()).map_err(|errno| not_sealed(errno, access))?;
        Ok(Self { mapping, fd, bytes, access })
    }

    /// Returns the address of the first byte, valid for all pages until the value is dropped.
    #[must_use]
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.mapping.as_ptr()
    }

    /// Returns the bytes, which are those of the file.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the bytes of its pages.
    #[cfg(feature = "verbs")]
    pub(crate) fn page_bytes(&self) -> usize {
        self.mapping.len()
    }

    /// Returns what a peer may do.
    #[must_use]
    pub const fn access(&self) -> PeerAccess {
        self.access
    }

    /// Returns the descriptor to send to a peer.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Returns the mapping.
    #[cfg(test)]
    pub(crate) const fn mapping(&self) -> &Mapping {
        &self.mapping
    }
}

/// Returns the error of a seal that the kernel refused.
fn not_sealed(errno: Errno, access: PeerAccess) -> OsError {
    if (errno, access) == (Errno::INVAL, PeerAccess::Read) {
        let cause =
            "cannot make a buffer that a peer can only read: the kernel lacks the seal F_SEAL_FUTURE_WRITE";
        return OsError::of(errno, cause).with_remedy("use Linux 5.1 or newer");
    }
    OsError::of(errno, NOT_SEALED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::memory_node::some_placement;

    #[test]
    fn exposed_memory_is_of_the_node_that_is_asked_for() {
        let Some(placement) = some_placement() else { return };
        for access in [PeerAccess::Read, PeerAccess::ReadWrite] {
            let memory = ExposedMemory::create_at(c"test", 8192, access, placement).unwrap();
            assert_eq!(memory.mapping.preferred_node(), placement.node());
            assert_eq!(memory.mapping.node_at(4096), placement.node());
        }
    }

    #[test]
    fn a_seal_that_the_kernel_lacks_is_named_with_the_remedy() {
        let text = |errno, access| not_sealed(errno, access).to_string();
        assert_eq!(
            text(Errno::INVAL, PeerAccess::Read),
            "cannot make a buffer that a peer can only read: the kernel lacks the seal F_SEAL_FUTURE_WRITE: invalid argument; \
             use Linux 5.1 or newer"
        );
        for (errno, access) in [(Errno::PERM, PeerAccess::Read), (Errno::INVAL, PeerAccess::ReadWrite)] {
            assert!(text(errno, access).starts_with("cannot seal a shared segment: "));
        }
    }
}
