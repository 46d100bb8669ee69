//! Results of receiving calls.

use crate::error::Reason;
use crate::job::Exposed;
use crate::wire::header::{INLINE_BYTES_MAX, INLINE_PAYLOAD_AT};
use crate::wire::layout::{Layout, Piece, steps};
use crate::wire::line::LINE_BYTES;

/// Payload bytes in the first line of an inline message.
#[expect(clippy::cast_possible_truncation, reason = "it is 40")]
pub(super) const FIRST_LINE_BYTES: u32 = INLINE_BYTES_MAX as u32;

/// End of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The transfer goes on.
    No,
    /// The transfer is complete.
    Fin,
    /// The sender cancelled the transfer, which is incomplete.
    Cancelled(Reason),
}

/// Result of taking payload out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// Payload bytes.
    pub bytes: usize,
    /// End of the transfer, if these were its last bytes.
    pub end: End,
}

impl Pulled {
    pub(crate) const NOTHING: Self = Self { bytes: 0, end: End::No };
}

/// Result of [`Endpoint::try_recv`](crate::Endpoint::try_recv).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecv {
    /// Nothing has arrived.
    Nothing,
    /// A complete message, which was taken.
    Taken {
        /// The sender's tag.
        tag: u64,
        /// Bytes of the message.
        bytes: usize,
    },
    /// The first bytes of a message that fits; the others are late, or more than a call takes.
    /// [`Endpoint::pull_from`](crate::Endpoint::pull_from) takes the rest.
    Begun {
        /// The sender's tag.
        tag: u64,
        /// Bytes that were taken.
        bytes: usize,
    },
    /// Anything else, which [`Endpoint::incoming`](crate::Endpoint::incoming) shows.
    Other,
}

/// Result of reading in place.
#[derive(Clone, Copy, Debug)]
pub enum Readable<M> {
    /// Nothing has arrived.
    Nothing,
    /// Payload in blocks, in memory of the peer, or in memory that was offered to the peer.
    Run(Run<M>),
    /// The transfer has ended.
    Ended(End),
}

/// Payload that has arrived, in place. Valid until it is consumed.
#[derive(Clone, Copy, Debug)]
pub struct Run<M> {
    /// Memory that the offsets refer to.
    pub memory: M,
    /// Bytes in it; more than 0.
    pub bytes: u32,
    pub(super) place: Place,
}

/// Place of a run's payload.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// In blocks of the chunk that is being taken out.
    Blocks { layout: Layout, chunk: Chunk },
    /// In the slot line at `at`, and the line behind it if the message is longer; `offset` bytes of the payload were consumed.
    Line { at: u32, offset: u32 },
    /// In memory of the peer, from `at` on.
    Exposed { at: u32 },
    /// In memory of this end that was offered to the peer, from `at` on.
    Offered { exposed: Exposed, at: u32 },
}

impl<M> Run<M> {
    /// Returns the memory that this end has [offered](crate::Endpoint::offer) and its peer has written, with the offset of the first byte of this
    /// run in it; `None` for a run in other memory.
    #[must_use]
    pub const fn offered(&self) -> Option<(Exposed, u32)> {
        match self.place {
            Place::Offered { exposed, at } => Some((exposed, at)),
            Place::Blocks { .. } | Place::Line { .. } | Place::Exposed { .. } => None,
        }
    }

    /// Returns the spans as (offset, bytes), in order.
    pub fn spans(&self) -> impl Iterator<Item = (u32, u32)> + use<M> {
        let (place, mut rest) = (self.place, self.bytes);
        let groups = match place {
            Place::Blocks { layout, chunk } => steps(chunk.j, chunk.blocks, layout.group_blocks()),
            Place::Line { .. } => steps(0, 2, 1),
            Place::Exposed { .. } | Place::Offered { .. } => steps(0, 1, 1),
        };
        // A group may be empty: the first block of a right-aligned chunk, or one that was taken out to its last byte.
        groups.filter_map(move |j| {
            let (at, there) = match place {
                Place::Blocks { layout, chunk } => {
                    let piece = chunk.piece(layout, j);
                    let skip = if j == chunk.j { chunk.offset } else { 0 };
                    (piece.at + skip, piece.bytes - skip)
                }
                Place::Line { at, offset } if j == 0 => {
                    (at + INLINE_PAYLOAD_AT + offset, FIRST_LINE_BYTES.saturating_sub(offset))
                }
                Place::Line { at, offset } => {
                    (at + LINE_BYTES + offset.saturating_sub(FIRST_LINE_BYTES), rest)
                }
                Place::Exposed { at } | Place::Offered { at, .. } => (at, rest),
            };
            let bytes = there.min(rest);
            rest -= bytes;
            (bytes > 0).then_some((at, bytes))
        })
    }
}

/// The chunk that is being taken out.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Chunk {
    pub(super) first: u32,
    pub(super) bytes: u32,
    pub(super) blocks: u32,
    pub(super) left: bool,
    pub(super) whole: bool,
    pub(super) fin: bool,
    /// The sender wishes to know what copying the first group out takes.
    pub(super) timed: bool,
    /// First block of the next group, and the bytes of the group that were taken.
    pub(super) j: u32,
    pub(super) offset: u32,
    /// Blocks that are known to have arrived.
    pub(super) arrived: u32,
}

impl Chunk {
    /// Returns the payload of the group that begins with block `j`.
    #[inline]
    pub(super) const fn piece(&self, layout: Layout, j: u32) -> Piece {
        layout.piece(self.first, self.blocks, self.bytes, self.left, j)
    }

    /// Returns the first block behind the group that begins with block `j`.
    #[inline]
    pub(super) fn group_end(&self, layout: Layout, j: u32) -> u32 {
        (j + layout.group_blocks()).min(self.blocks)
    }
}
