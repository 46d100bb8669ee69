//! The segments of a connection, by the negotiated landing mode: whole, with the landing buffer in it, or sparse, with room for two that
//! come and go. wire.md 6.4.

use core::ptr::NonNull;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use superpipe_core::driver::setup::{LandingMode, Negotiated};
use superpipe_core::{CONTROL_PAGE_BYTES, Layout};

use super::ancillary::SentFd;
use super::segment::{Segment, SegmentError};
use super::sparse::{PageSize, PeerSparseSegment, SparseSegment, SparseSizes};
use crate::budget::{BudgetShare, MemoryKind, OverBudget};
use crate::os::map::HUGE_PAGE_BYTES;
use crate::os::page::page_bytes;
use crate::os::{MemoryPlacement, OsError};

/// Name of the memory in /proc.
const NAME: &core::ffi::CStr = c"superpipe";

/// Both segments of a connection.
#[derive(Debug)]
pub enum Segments {
    /// Each holds a control page and a landing buffer, as long as the connection.
    Whole {
        /// Our segment.
        mine: Segment,
        /// The peer's.
        theirs: Segment,
    },
    /// Each holds a control page, and landing buffers on demand.
    Sparse {
        /// Our segment.
        mine: SparseSegment,
        /// The peer's.
        theirs: PeerSparseSegment,
        /// The connection's share of the budget, which grows with the landing buffers.
        share: Arc<BudgetShare>,
        /// Small buffers of both, by the provision protocol.
        small: Option<SmallBuffers>,
    },
}

/// The small buffers of both sparse segments. wire.md 4.7.
#[derive(Debug)]
pub struct SmallBuffers {
    /// Layout of each.
    pub(super) layout: Layout,
    /// Parts of the connection's share of the budget: for ours, and for the peer's.
    pub(super) parts: [BudgetShare; 2],
}

/// The segment of this end while the handshake lasts.
#[derive(Debug)]
pub(super) enum Own {
    Whole(Segment),
    /// With the descriptor for the peer.
    Sparse(SparseSegment, OwnedFd),
}

/// The peer's segment, of the same kind.
#[derive(Debug)]
pub(super) enum Adopted {
    Whole(Segment),
    Sparse(PeerSparseSegment),
}

/// Returns the bytes of a segment for this layout.
#[must_use]
pub const fn segment_bytes(layout: Layout) -> u32 {
    CONTROL_PAGE_BYTES + layout.bytes()
}

/// Returns the bytes of a segment that are resident when the connection begins.
#[must_use]
pub fn first_segment_bytes(negotiated: &Negotiated) -> u64 {
    match negotiated.landing {
        LandingMode::AtConnect => u64::from(segment_bytes(negotiated.layout)),
        LandingMode::OnDemand => {
            let page_bytes = page_bytes() as u64;
            u64::from(CONTROL_PAGE_BYTES).next_multiple_of(page_bytes) + small_segment_bytes(negotiated)
        }
    }
}

/// Returns the bytes of a segment that are the small buffer, in whole pages. 0 without one.
fn small_segment_bytes(negotiated: &Negotiated) -> u64 {
    let small = negotiated.small_buffer();
    small.map_or(0, |layout| u64::from(layout.bytes()).next_multiple_of(page_bytes() as u64))
}

/// Takes the share of the budget for the segments of both ends. It grows if they do.
pub(super) fn take_share(negotiated: &Negotiated) -> Result<BudgetShare, OverBudget> {
    let bytes = 2 * first_segment_bytes(negotiated);
    match negotiated.landing {
        LandingMode::OnDemand => BudgetShare::open(MemoryKind::Shared, bytes),
        // Registered buffers are lent to it.
        LandingMode::AtConnect if negotiated.config.protocol.uses_registered() => {
            BudgetShare::open(MemoryKind::Shared, bytes)
        }
        LandingMode::AtConnect => BudgetShare::take(MemoryKind::Shared, bytes),
    }
}

impl Own {
    /// Makes the segment for what was negotiated.
    pub(super) fn create(negotiated: &Negotiated, memory: MemoryPlacement) -> Result<Self, OsError> {
        let layout = negotiated.layout;
        Ok(match negotiated.landing {
            LandingMode::AtConnect => {
                Self::Whole(Segment::create_at(NAME, segment_bytes(layout) as usize, memory)?)
            }
            LandingMode::OnDemand => {
                let small_bytes = negotiated.small_buffer().map_or(0, |small| small.bytes() as usize);
                let sizes = SparseSizes { small_bytes, slot_bytes: layout.bytes() as usize };
                let (segment, fd) =
                    SparseSegment::create_at(NAME, sizes, page_size(sizes.slot_bytes), memory)?;
                Self::Sparse(segment, fd)
            }
        })
    }

    /// Returns the descriptor for the peer.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Whole(segment) => segment.fd(),
            Self::Sparse(_, fd) => fd.as_fd(),
        }
    }

    /// Maps the peer's segment, of the same kind and size.
    pub(super) fn adopt(&self, fd: SentFd) -> Result<Adopted, SegmentError> {
        Ok(match self {
            Self::Whole(own) => Adopted::Whole(Segment::adopt(fd, own.len() as u64)?),
            Self::Sparse(own, _) => {
                let sizes = own.sizes();
                Adopted::Sparse(PeerSparseSegment::adopt(fd, sizes, page_size(sizes.slot_bytes))?)
            }
        })
    }

    /// Keeps the pages for good, now that the peer has mapped them. Those of a sparse segment may come and go.
    pub(super) fn hold(&self) -> Result<(), SegmentError> {
        match self {
            Self::Whole(segment) => segment.hold(),
            Self::Sparse(..) => Ok(()),
        }
    }
}

impl SmallBuffers {
    /// Returns the small buffers that were negotiated, and takes their parts out of the connection's share.
    pub(super) fn of(negotiated: &Negotiated, share: &mut BudgetShare) -> Option<Self> {
        let layout = negotiated.small_buffer()?;
        let bytes = small_segment_bytes(negotiated);
        Some(Self { layout, parts: [share.split(bytes), share.split(bytes)] })
    }

    /// Returns the bytes of the budget for both.
    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().map(BudgetShare::bytes).sum()
    }
}

impl Segments {
    /// Returns both, and closes the descriptor of a sparse one, which nobody needs any more.
    pub(super) fn of(own: Own, peer: Adopted, share: &Arc<BudgetShare>, small: Option<SmallBuffers>) -> Self {
        match (own, peer) {
            (Own::Whole(mine), Adopted::Whole(theirs)) => Self::Whole { mine, theirs },
            (Own::Sparse(mine, _), Adopted::Sparse(theirs)) => {
                Self::Sparse { mine, theirs, share: Arc::clone(share), small }
            }
            (Own::Whole(_), Adopted::Sparse(_)) | (Own::Sparse(..), Adopted::Whole(_)) => {
                unreachable!("`adopt` maps the kind of the own segment")
            }
        }
    }

    /// Returns the bytes of the budget for what may be released before the connection ends, which are no part of its share any more.
    pub(crate) fn small_bytes(&self) -> u64 {
        match self {
            Self::Whole { .. } | Self::Sparse { small: None, .. } => 0,
            Self::Sparse { small: Some(small), .. } => small.bytes(),
        }
    }

    /// Returns the addresses of both control pages, each at the beginning of its segment: ours, then the peer's.
    pub(crate) fn control_pages(&self) -> [NonNull<u8>; 2] {
        match self {
            Self::Whole { mine, theirs } => [mine.as_ptr(), theirs.as_ptr()],
            Self::Sparse { mine, theirs, .. } => [mine.control(), theirs.control()],
        }
    }
}

/// Returns the size of the pages of a slot: huge ones where it has room for one.
const fn page_size(slot_bytes: usize) -> PageSize {
    if slot_bytes < 2 * HUGE_PAGE_BYTES { PageSize::Base } else { PageSize::Huge }
}
