//! Memory of a registered buffer that a peer maps: a message out of it is copied once, by the peer, instead of twice.
//!
//! | access | seals | the peer |
//! |---|---|---|
//! | [`PeerAccess::Read`] | SHRINK, GROW, FUTURE_WRITE, SEAL | maps it for reading; nobody but the owner can write it, map it for writing, or remove a page |
//! | [`PeerAccess::ReadWrite`] | SHRINK, GROW, SEAL | writes it, too, for as long as it keeps its mapping, and can remove pages: only for a trusted peer |
//!
//! The owner maps the memory before it seals it. Both ends allocate all pages (fallocate), which no seal forbids, so no access for
//! reading ends in a SIGBUS. Pages of memory that the peer can write may be removed by either end (no seal against that leaves it writable):
//! the next access allocates such a page anew, and is a SIGBUS only where the machine has no memory for it. The owner's program may write
//! while the peer reads: what the peer copies is then as torn as the program made it, and never behind a reference.
//!
//! References: memfd_create(2), fcntl(2) "File sealing", shmem_fallocate in mm/shmem.c.

use core::mem;
use core::ops::Range;
use core::ptr::NonNull;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use super::ancillary::SentFd;
use super::segment::{SegmentError, check_kind, check_seals_for, check_size};
use crate::os::jobs::{Step, Steps};
use crate::os::memfd::{check_machine, reserve_part};
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
        let mut adopt = Adopt::new(fd, agreed_bytes, access);
        loop {
            if let Step::Done(memory) = adopt.step() {
                return memory;
            }
        }
    }

    fn map(fd: BorrowedFd<'_>, len: usize, access: PeerAccess) -> Result<Self, OsError> {
        Ok(match access {
            PeerAccess::Read => Self::ReadOnly(ReadOnlyMapping::shared(fd, len)?),
            PeerAccess::ReadWrite => Self::Writable(Mapping::shared(fd, len)?),
        })
    }

    /// Maps the pages of a part.
    fn populate(&self, part: Range<usize>) -> Result<(), OsError> {
        match self {
            Self::ReadOnly(mapping) => mapping.populate(part),
            Self::Writable(mapping) => match mapping.try_populate(part.clone()) {
                Some(populated) => populated?,
                None => mapping.touch(part),
            },
        }
        Ok(())
    }

    /// Unmaps the pages of a part, so that dropping the memory takes less time.
    fn forget(&self, part: Range<usize>) {
        match self {
            Self::ReadOnly(mapping) => mapping.forget(part),
            Self::Writable(mapping) => mapping.forget(part),
        }
    }

    /// Returns false in a child of fork, which has no such mapping.
    fn is_here(&self) -> bool {
        match self {
            Self::ReadOnly(mapping) => mapping.is_here(),
            Self::Writable(mapping) => mapping.is_here(),
        }
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

/// Maps memory that a peer exposes, in short steps.
#[derive(Debug)]
pub struct Adopt {
    bytes: u64,
    access: PeerAccess,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Check(SentFd),
    /// With the descriptor, the bytes to map, and those that are allocated.
    Reserve(OwnedFd, usize, u64),
    /// With the bytes that are populated.
    Populate(PeerMemory, usize),
    Over,
}

impl Adopt {
    /// Begins to map memory as [`PeerMemory::adopt`] does.
    #[must_use]
    pub fn new(fd: impl Into<SentFd>, agreed_bytes: u64, access: PeerAccess) -> Self {
        Self { bytes: agreed_bytes, access, phase: Phase::Check(fd.into()) }
    }

    fn next(&mut self) -> Result<Step<PeerMemory>, SegmentError> {
        self.phase = match mem::replace(&mut self.phase, Phase::Over) {
            Phase::Check(fd) => {
                let (fd, len) = checked(fd, self.bytes, self.access)?;
                check_machine(self.bytes)?;
                Phase::Reserve(fd, len, 0)
            }
            Phase::Reserve(fd, len, at) if at < self.bytes => {
                let end = self.bytes.min(at + STEP_BYTES as u64);
                reserve_part(fd.as_fd(), at..end)?;
                Phase::Reserve(fd, len, end)
            }
            Phase::Reserve(fd, len, _) => Phase::Populate(PeerMemory::map(fd.as_fd(), len, self.access)?, 0),
            Phase::Populate(memory, at) => {
                let end = memory.len().min(at + STEP_BYTES);
                memory.populate(at..end)?;
                if end == memory.len() {
                    return Ok(Step::Done(memory));
                }
                Phase::Populate(memory, end)
            }
            Phase::Over => return Err(OsError::new(libc::EINVAL, "cannot map a peer's buffer twice").into()),
        };
        Ok(Step::More)
    }
}

impl Steps for Adopt {
    type Output = Result<PeerMemory, SegmentError>;

    fn step(&mut self) -> Step<Self::Output> {
        match self.next() {
            Ok(Step::More) => Step::More,
            Ok(Step::Done(memory)) => Step::Done(Ok(memory)),
            Err(error) => Step::Done(Err(error)),
        }
    }
}

/// Unmaps memory of a peer, in short steps.
#[derive(Debug)]
pub struct Discard {
    memory: PeerMemory,
    at: usize,
}

impl Discard {
    /// Begins to unmap it.
    #[must_use]
    pub const fn new(memory: PeerMemory) -> Self {
        Self { memory, at: 0 }
    }
}

impl Steps for Discard {
    type Output = ();

    fn step(&mut self) -> Step<()> {
        let part = self.at..self.memory.len().min(self.at + STEP_BYTES);
        if part.is_empty() || !self.memory.is_here() {
            return Step::Done(());
        }
        self.at = part.end;
        self.memory.forget(part);
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
