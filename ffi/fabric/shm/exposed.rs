//! Memory of a registered buffer that a peer maps: a message out of it is copied once, by the peer, instead of twice.
//!
//! | access | seals | the peer |
//! |---|---|---|
//! | [`PeerAccess::Read`] | SHRINK, GROW, FUTURE_WRITE, SEAL | maps it for reading; nobody but the owner can write it, map it for writing, or remove a page |
//! | [`PeerAccess::ReadWrite`] | SHRINK, GROW, SEAL | writes it, too, for as long as it keeps its mapping, and can remove pages: only for a trusted peer |
//!
//! The owner maps the memory before it seals it. Both ends allocate all pages (fallocate), which no seal forbids, so no access for
//! reading ends in a SIGBUS. The owner's program may write while the peer reads: what the peer copies is then as torn as the program made
//! it, and never behind a reference.
//!
//! References: memfd_create(2), fcntl(2) "File sealing", shmem_fallocate in mm/shmem.c.

use core::mem;
use core::ptr::NonNull;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;

use super::ancillary::SentFd;
use super::segment::{SegmentError, check_kind, check_seals_for, check_size};
use crate::os::jobs::{Step, Steps};
use crate::os::memfd::{check_machine, reserve, reserve_part};
use crate::os::{Mapping, OsError, PeerAccess, ReadOnlyMapping};

/// Bytes of one step of mapping or unmapping: tens of microseconds.
const STEP_BYTES: usize = 256 << 10;

/// Exposed memory of a peer.
#[derive(Debug)]
pub enum PeerMemory {
    /// The peer lets this process read it.
    ReadOnly(ReadOnlyMapping),
    /// The peer trusts this process.
    Writable(Mapping),
}

impl PeerMemory {
    /// Maps memory that a peer exposes, if it passes every rule, and allocates its pages, which the caller has counted in the budget.
    /// Closes the descriptor.
    ///
    /// # Errors
    /// The first rule that the memory breaks, or this machine's refusal.
    pub fn adopt(fd: impl Into<SentFd>, agreed_bytes: u64, access: PeerAccess) -> Result<Self, SegmentError> {
        if access == PeerAccess::Read {
            let mut adopt = Adopt::new(fd, agreed_bytes);
            loop {
                if let Step::Done(mapping) = adopt.step() {
                    return mapping.map(Self::ReadOnly);
                }
            }
        }
        let (fd, len) = checked(fd.into(), agreed_bytes, access)?;
        reserve(fd.as_fd(), agreed_bytes)?;
        let mapping = Mapping::shared(fd.as_fd(), len)?;
        mapping.populate()?;
        Ok(Self::Writable(mapping))
    }

    /// Returns the address of the first byte, valid for reads of `len` bytes until the value is dropped. The peer may write there at any
    /// time.
    #[must_use]
    pub fn as_ptr(&self) -> NonNull<u8> {
        match self {
            Self::ReadOnly(mapping) => mapping.as_ptr(),
            Self::Writable(mapping) => mapping.as_ptr(),
        }
    }

    /// Returns the bytes, a multiple of the page size.
    #[must_use]
    #[cfg_attr(feature = "internals", expect(clippy::len_without_is_empty, reason = "memory is never empty"))]
    pub fn len(&self) -> usize {
        match self {
            Self::ReadOnly(mapping) => mapping.len(),
            Self::Writable(mapping) => mapping.len(),
        }
    }
}

/// Maps memory that a peer exposes for reading, in short steps.
#[derive(Debug)]
pub struct Adopt {
    bytes: u64,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Check(SentFd),
    /// With the descriptor, the bytes to map, and those that are allocated.
    Reserve(OwnedFd, usize, u64),
    /// With the bytes that are mapped for reading.
    Populate(ReadOnlyMapping, usize),
    Over,
}

impl Adopt {
    /// Begins to map memory as [`PeerMemory::adopt`] does.
    #[must_use]
    pub fn new(fd: impl Into<SentFd>, agreed_bytes: u64) -> Self {
        Self { bytes: agreed_bytes, phase: Phase::Check(fd.into()) }
    }

    fn next(&mut self) -> Result<Step<ReadOnlyMapping>, SegmentError> {
        self.phase = match mem::replace(&mut self.phase, Phase::Over) {
            Phase::Check(fd) => {
                let (fd, len) = checked(fd, self.bytes, PeerAccess::Read)?;
                check_machine(self.bytes)?;
                Phase::Reserve(fd, len, 0)
            }
            Phase::Reserve(fd, len, at) if at < self.bytes => {
                let end = self.bytes.min(at + STEP_BYTES as u64);
                reserve_part(fd.as_fd(), at..end)?;
                Phase::Reserve(fd, len, end)
            }
            Phase::Reserve(fd, len, _) => Phase::Populate(ReadOnlyMapping::shared(fd.as_fd(), len)?, 0),
            Phase::Populate(mapping, at) => {
                let end = mapping.len().min(at + STEP_BYTES);
                mapping.populate(at..end);
                if end == mapping.len() {
                    return Ok(Step::Done(mapping));
                }
                Phase::Populate(mapping, end)
            }
            Phase::Over => return Err(OsError::new(libc::EINVAL, "cannot map a peer's buffer twice").into()),
        };
        Ok(Step::More)
    }
}

impl Steps for Adopt {
    type Output = Result<ReadOnlyMapping, SegmentError>;

    fn step(&mut self) -> Step<Self::Output> {
        match self.next() {
            Ok(Step::More) => Step::More,
            Ok(Step::Done(mapping)) => Step::Done(Ok(mapping)),
            Err(error) => Step::Done(Err(error)),
        }
    }
}

/// Unmaps memory of a peer, in short steps.
#[derive(Debug)]
pub struct Discard {
    mapping: ReadOnlyMapping,
    at: usize,
}

impl Discard {
    /// Begins to unmap it.
    #[must_use]
    pub const fn new(mapping: ReadOnlyMapping) -> Self {
        Self { mapping, at: 0 }
    }
}

impl Steps for Discard {
    type Output = ();

    fn step(&mut self) -> Step<()> {
        let part = self.at..self.mapping.len().min(self.at + STEP_BYTES);
        if part.is_empty() || !self.mapping.is_here() {
            return Step::Done(());
        }
        self.at = part.end;
        self.mapping.forget(part);
        Step::More
    }
}

/// Checks memory of a peer. Returns its descriptor, whose close does not block, and the bytes to map.
fn checked(fd: SentFd, bytes: u64, access: PeerAccess) -> Result<(OwnedFd, usize), SegmentError> {
    // Seals first: a descriptor with seals is memory, so no later call enters a file system that may not respond.
    check_seals_for(fd.as_fd(), access.seals(), access == PeerAccess::ReadWrite)?;
    check_kind(fd.as_fd())?;
    check_size(fd.as_fd(), bytes)?;
    let too_large = |_| SegmentError::Os(OsError::of(Errno::NOMEM, "cannot map a peer's buffer"));
    let len = usize::try_from(bytes).map_err(too_large)?;
    Ok((fd.into_owned(), len))
}

#[cfg(test)]
mod tests;
