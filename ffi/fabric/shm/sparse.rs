//! A sparse segment: one memfd with a control page and room for two landing buffers (*slots*), which get and lose their pages while the
//! connection is in use. By the provision protocol the small buffer lies before the slots, and is there from the beginning. Offsets: the
//! page, the small buffer, slot 0, slot 1; each a multiple of the page size.
//!
//! The maker seals its size and its seals (SHRINK, GROW, SEAL), so no access is beyond its end, and no peer can add a seal. It is
//! not sealed against writing (FUTURE_WRITE), as a [`Segment`](super::Segment) is: that seal forbids removing pages. Long work is
//! [`Steps`](crate::os::jobs::Steps), each of a slab: [`Provision`] and [`Release`] at the owner, [`Populate`] and [`Vacate`] at the peer, which writes.
//!
//! **A peer can remove any page at any time.** The next access finds zeros in a new page, which is charged to the process that
//! accesses it. What that means:
//!
//! - Data that a peer removed reads as zeros, which is no worse than a peer that writes zeros.
//! - Each end accesses only what was provisioned or populated, so it never pays for more than that: a new page replaces one that
//!   was counted. Pages that a peer makes elsewhere in the file are charged to the peer; `Provision` and `Release` remove them.
//!   Pages that a peer does not provision, and a writer populates, are charged to the writer: `Vacate` removes them, whether the owner
//!   does or not.
//! - The new page needs memory at the time of the access. If the container's limit is reached the access ends in the OOM killer.
//!   Under strict overcommit (vm.overcommit_memory 2) removing a page also returns its commit charge, and an access for which the
//!   commit limit has no room is a SIGBUS. Without a hostile peer neither happens, since pages stay until they are released.
//! - Memory that a program locks (mlockall) is unlocked when it is released; mlockall makes the whole file resident.
//!
//! Neither end keeps the descriptor, unless the kernel lacks MADV_POPULATE_WRITE (before Linux 5.14). MADV_REMOVE is older than memfds.
//!
//! References: memfd_create(2), fcntl(2) "File sealing", madvise(2), shmem_fallocate in mm/shmem.c, wire.md 6.4.

mod steps;

pub use steps::{Populate, Provision, Release, Vacate};

use super::ancillary::SentFd;
use super::segment::{SegmentError, check_kind, check_seals, check_size};
use crate::os::map::HUGE_PAGE_BYTES;
use crate::os::memfd::{NOT_SEALED, SEALS, check_file_size, check_machine, fill, memfd};
use crate::os::page::{page_bytes, round_to_pages};
use crate::os::{Bytes, Mapping, MemoryPlacement, OsError};
use core::ffi::CStr;
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, Ordering};
use rustix::fs::{FallocateFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate};
use rustix::io::retry_on_intr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use steps::Phase;

/// Seals of a sparse segment.
const SEALS_SPARSE: SealFlags = SEALS.union(SealFlags::SEAL);
/// Bytes of one step. Measured on Linux 6.18: 35 µs to make them resident, 18 µs to remove them.
pub const SLAB_BYTES: usize = 64 << 10;
/// Bytes removed in one step where there are none (2 µs), or where they are one huge page. A peer that wrote where nothing is provisioned
/// makes the step longer (0.6 ms).
const CLEAR_BYTES: usize = HUGE_PAGE_BYTES;

/// Memory of a landing buffer: one of the two slots, or the small buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// The first slot.
    First,
    /// The slot behind the first.
    Second,
    /// The small buffer, behind the control page. It is provisioned from the beginning, and once it was released never again.
    Small,
}

/// Bytes of the parts of a sparse segment behind its control page. Each is rounded up to pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SparseSizes {
    /// The small buffer; 0: none.
    pub small_bytes: usize,
    /// Each of the two slots.
    pub slot_bytes: usize,
}

/// The pages of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageSize {
    /// The machine's usual pages.
    Base,
    /// Huge pages where they lie completely inside what is provisioned, if the machine has them for shared memory.
    Huge,
}

/// A sparse segment of this process.
#[derive(Debug)]
pub struct SparseSegment {
    memory: Arc<Memory>,
}

/// A peer's sparse segment, which this process writes.
#[derive(Debug)]
pub struct PeerSparseSegment {
    memory: Arc<Memory>,
}

/// The mapping, shared with the jobs that work on it.
#[derive(Debug)]
struct Memory {
    mapping: Mapping,
    /// Rounded up to pages.
    sizes: SparseSizes,
    page_size: PageSize,
    /// Some only if the kernel needs it.
    fd: Option<OwnedFd>,
    /// [`FREE`], [`CHANGING`] or [`PROVISIONED`], at the owner. They order nothing: the caller learns from the job that it is done.
    states: [AtomicU8; 3],
}

const FREE: u8 = 0;
const CHANGING: u8 = 1;
const PROVISIONED: u8 = 2;

impl SparseSegment {
    /// Makes a segment of these sizes, of which only the control page and the small buffer are resident. Returns the descriptor to send to
    /// the peer, which this end needs no more. The name is visible in /proc only.
    ///
    /// # Errors
    /// The kernel refuses: too little memory, or too many open files.
    pub fn create(name: &CStr, sizes: SparseSizes, page_size: PageSize) -> Result<(Self, OwnedFd), OsError> {
        Self::create_at(name, sizes, page_size, MemoryPlacement::default())
    }

    /// Makes a segment as [`create`](Self::create) does, of memory of this node: also what is provisioned later, by either end.
    ///
    /// # Errors
    /// Likewise.
    pub fn create_at(
        name: &CStr,
        sizes: SparseSizes,
        page_size: PageSize,
        memory: MemoryPlacement,
    ) -> Result<(Self, OwnedFd), OsError> {
        let slot_bytes = sizes.slot_bytes as u64;
        let doing = || format!("cannot make a sparse segment with slots of {}", Bytes(slot_bytes));
        let (sizes, len) = rounded(sizes).ok_or_else(|| OsError::new(libc::ENOMEM, doing()))?;
        check_file_size(len as u64)?;
        check_machine(sizes.slot_bytes as u64)?;
        let fd = memfd(name)?;
        retry_on_intr(|| ftruncate(&fd, len as u64)).map_err(|errno| OsError::of(errno, doing()))?;
        fcntl_add_seals(&fd, SEALS_SPARSE).map_err(|errno| OsError::of(errno, NOT_SEALED))?;
        let sent = fd.try_clone().map_err(|error| {
            OsError::new(error.raw_os_error().unwrap_or(0), "cannot duplicate a descriptor")
        })?;
        let memory = Memory::map(fd, sizes, len, page_size, memory)?;
        // A program that called mlockall has the kernel make each new mapping resident.
        Slot::BOTH.into_iter().try_for_each(|slot| memory.remove(memory.range_of(slot)))?;
        Ok((Self { memory: Arc::new(memory) }, sent))
    }

    /// Begins to make the first `bytes` of a slot resident, rounded up to pages.
    ///
    /// # Panics
    /// The slot is not free, or has not that many bytes.
    #[must_use]
    pub fn provision(&self, slot: Slot, bytes: usize) -> Provision {
        let memory = Arc::clone(&self.memory);
        let part = memory.part_of(slot, bytes);
        memory.change(slot, FREE, CHANGING);
        Provision { memory, slot, at: part.start, part, phase: Phase::Clear }
    }

    /// Begins to remove the pages of a provisioned slot, or of the small buffer.
    ///
    /// # Panics
    /// The slot is not provisioned.
    #[must_use]
    pub fn release(&self, slot: Slot) -> Release {
        let memory = Arc::clone(&self.memory);
        memory.change(slot, PROVISIONED, CHANGING);
        Release { rest: memory.range_of(slot), memory, slot, is_over: false }
    }

    /// Returns the address of the control page, valid until the segment and all its jobs are dropped. The peer may write there and in the
    /// slots at any time.
    #[must_use]
    pub fn control(&self) -> NonNull<u8> {
        self.memory.mapping.as_ptr()
    }

    /// Returns the address of a slot, valid for its [`sizes`](Self::sizes), as long as `control` is.
    #[must_use]
    pub fn slot(&self, slot: Slot) -> NonNull<u8> {
        self.memory.address_of(slot)
    }

    /// Returns the slot that begins at this address.
    pub(super) fn slot_at(&self, address: NonNull<u8>) -> Option<Slot> {
        self.memory.slot_at(address)
    }

    /// Returns the bytes of its parts, multiples of the page size.
    #[must_use]
    pub fn sizes(&self) -> SparseSizes {
        self.memory.sizes
    }
}

impl PeerSparseSegment {
    /// Maps a segment that a peer made with these sizes, if it passes every rule, and makes its control page and small buffer resident.
    /// Closes the descriptor.
    ///
    /// # Errors
    /// The first rule that the segment breaks, or this machine's refusal.
    pub fn adopt(
        fd: impl Into<SentFd>,
        sizes: SparseSizes,
        page_size: PageSize,
    ) -> Result<Self, SegmentError> {
        let fd = fd.into();
        // Seals first: a descriptor with seals is memory, so no later call enters a file system that may not respond.
        check_seals(fd.as_fd(), SEALS_SPARSE)?;
        check_kind(fd.as_fd())?;
        let too_large = || OsError::new(libc::ENOMEM, "cannot map a peer's sparse segment");
        let (sizes, len) = rounded(sizes).ok_or_else(too_large)?;
        check_size(fd.as_fd(), len as u64)?;
        check_machine(sizes.slot_bytes as u64)?;
        // Memory: its close does not block.
        let memory = Memory::map(fd.into_owned(), sizes, len, page_size, MemoryPlacement::default())?;
        Ok(Self { memory: Arc::new(memory) })
    }

    /// Begins to map the first `bytes` of a slot, rounded up to pages, which the peer has provisioned.
    ///
    /// # Panics
    /// The slot has not that many bytes.
    #[must_use]
    pub fn populate(&self, slot: Slot, bytes: usize) -> Populate {
        let part = self.memory.part_of(slot, bytes);
        self.memory.advise_huge(&part);
        Populate { memory: Arc::clone(&self.memory), at: part.start, part, phase: Phase::Populate }
    }

    /// Begins to remove the pages of a slot. The owner may provision it meanwhile: what it provisions is zero, and is populated anew.
    #[must_use]
    pub fn vacate(&self, slot: Slot) -> Vacate {
        Vacate { memory: Arc::clone(&self.memory), rest: self.memory.range_of(slot) }
    }

    /// Returns the address of the control page, valid until the segment and all its jobs are dropped. The peer may write there and in the
    /// slots at any time.
    #[must_use]
    pub fn control(&self) -> NonNull<u8> {
        self.memory.mapping.as_ptr()
    }

    /// Returns the address of a slot, as long as `control` is valid.
    #[must_use]
    pub fn slot(&self, slot: Slot) -> NonNull<u8> {
        self.memory.address_of(slot)
    }

    /// Returns the slot that begins at this address.
    pub(super) fn slot_at(&self, address: NonNull<u8>) -> Option<Slot> {
        self.memory.slot_at(address)
    }
}

impl Slot {
    pub(super) const BOTH: [Self; 2] = [Self::First, Self::Second];
    const ALL: [Self; 3] = [Self::First, Self::Second, Self::Small];

    /// Returns the slot with this number, which a peer may have sent. The small buffer has none.
    pub(super) fn of(number: u64) -> Option<Self> {
        Self::BOTH.into_iter().find(|slot| slot.index() as u64 == number)
    }

    pub(super) const fn index(self) -> usize {
        match self {
            Self::First => 0,
            Self::Second => 1,
            Self::Small => 2,
        }
    }
}

impl Memory {
    fn map(
        fd: OwnedFd,
        sizes: SparseSizes,
        len: usize,
        page_size: PageSize,
        memory: MemoryPlacement,
    ) -> Result<Self, OsError> {
        let mapping = Mapping::shared(fd.as_fd(), len)?;
        memory.place(&mapping)?;
        // The control page is one page, and a huge page beyond what is provisioned would not be counted.
        mapping.advise_huge(0..len, false);
        let first = 0..page_bytes() + sizes.small_bytes;
        let is_enough = match mapping.try_populate(first.clone()) {
            None => false,
            Some(populated) => populated.map(|()| true)?,
        };
        let states = [FREE, FREE, PROVISIONED].map(AtomicU8::new);
        let memory = Self { mapping, sizes, page_size, fd: (!is_enough).then_some(fd), states };
        if !is_enough {
            memory.populate(first)?;
        }
        Ok(memory)
    }

    fn range_of(&self, slot: Slot) -> Range<usize> {
        let SparseSizes { small_bytes, slot_bytes } = self.sizes;
        let slots = page_bytes() + small_bytes;
        match slot {
            Slot::Small => page_bytes()..slots,
            Slot::First => slots..slots + slot_bytes,
            Slot::Second => slots + slot_bytes..slots + 2 * slot_bytes,
        }
    }

    fn slot_at(&self, address: NonNull<u8>) -> Option<Slot> {
        let begins_there =
            |slot: &Slot| !self.range_of(*slot).is_empty() && self.address_of(*slot) == address;
        Slot::ALL.into_iter().find(begins_there)
    }

    fn part_of(&self, slot: Slot, bytes: usize) -> Range<usize> {
        let Range { start, end } = self.range_of(slot);
        let len = round_to_pages(bytes).filter(|len| *len <= end - start);
        let Some(len) = len else { panic!("a slot of {} has no {bytes} bytes", end - start) };
        start..start + len
    }

    fn address_of(&self, slot: Slot) -> NonNull<u8> {
        // SAFETY: a slot begins inside the mapping.
        unsafe { self.mapping.as_ptr().add(self.range_of(slot).start) }
    }

    fn change(&self, slot: Slot, from: u8, to: u8) {
        let state = &self.states[slot.index()];
        let changed = state.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
        assert_eq!(changed, Ok(from), "a slot is provisioned, then released");
    }

    fn end_change(&self, slot: Slot, state: u8) {
        self.states[slot.index()].store(state, Ordering::Relaxed);
    }

    /// Bytes that one step removes.
    const fn removed_bytes(&self) -> usize {
        match self.page_size {
            PageSize::Base => SLAB_BYTES,
            PageSize::Huge => CLEAR_BYTES,
        }
    }

    /// Asks for huge pages that lie completely inside `part`, if they are wanted, and for none around them.
    fn advise_huge(&self, part: &Range<usize>) {
        if self.page_size == PageSize::Huge && self.mapping.is_here() {
            self.mapping.advise_huge(part.clone(), false);
            let inside = huge_inside(part);
            if !inside.is_empty() {
                self.mapping.advise_huge(inside, true);
            }
        }
    }

    fn populate(&self, part: Range<usize>) -> Result<(), OsError> {
        self.check_here()?;
        let bytes = Bytes(part.len() as u64);
        let Some(fd) = &self.fd else {
            let refused = || Err(OsError::new(libc::EINVAL, format!("cannot make {bytes} resident")));
            return self.mapping.try_populate(part).unwrap_or_else(refused);
        };
        let allocate =
            |at: u64, len: u64| fallocate(fd, FallocateFlags::empty(), part.start as u64 + at, len);
        fill(part.len() as u64, allocate)
            .map_err(|errno| OsError::of(errno, format!("cannot reserve {bytes} of shared memory")))?;
        self.mapping.touch(part);
        Ok(())
    }

    /// Removes the pages of the first slab of `rest` that lie before `end`, and takes it out of `rest`.
    fn remove_first(&self, rest: &mut Range<usize>, end: usize) -> Result<(), OsError> {
        let slab = slab(&(rest.start..end), self.removed_bytes());
        rest.start = slab.end;
        self.remove(slab)
    }

    /// Removes the pages of a part, which may be empty.
    fn remove(&self, part: Range<usize>) -> Result<(), OsError> {
        self.check_here()?;
        if part.is_empty() { Ok(()) } else { self.mapping.remove(part) }
    }

    fn check_here(&self) -> Result<(), OsError> {
        if self.mapping.is_here() {
            return Ok(());
        }
        Err(OsError::new(libc::EFAULT, "cannot use a parent's sparse segment in its child"))
    }
}

/// Returns the sizes rounded up to pages, and the bytes of a segment that has them. None if an address cannot hold them.
fn rounded(SparseSizes { small_bytes, slot_bytes }: SparseSizes) -> Option<(SparseSizes, usize)> {
    // `round_to_pages` makes at least a page.
    let small_bytes = if small_bytes == 0 { 0 } else { round_to_pages(small_bytes)? };
    let slot_bytes = round_to_pages(slot_bytes)?;
    let len = slot_bytes.checked_mul(2)?.checked_add(page_bytes())?.checked_add(small_bytes)?;
    Some((SparseSizes { small_bytes, slot_bytes }, round_to_pages(len)?))
}

/// Returns the huge pages completely inside `part`. A mapping that has room for one begins at the boundary of one.
fn huge_inside(part: &Range<usize>) -> Range<usize> {
    part.start.next_multiple_of(HUGE_PAGE_BYTES)..part.end / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES
}

/// Returns the first part of `rest`, up to a multiple of `bytes` from the beginning of the mapping.
fn slab(rest: &Range<usize>, bytes: usize) -> Range<usize> {
    rest.start..rest.end.min((rest.start / bytes + 1) * bytes)
}

#[cfg(test)]
mod tests;
