//! Layout of control pages and landing buffers, as pure arithmetic. wire.md 2.
//!
//! A **control page** is one page that the peer writes as long as the connection lives: its acknowledgements, and the mailbox of
//! control lines. A **landing buffer** is a ring of blocks. Each block has a *slot line*: 64 bytes whose last word is the
//! block's flag, and whose other words hold the chunk header if the block is the first of its chunk. A message of at most 40
//! bytes travels in the slot line itself, and one of at most 104 in it and the line behind it, where slot lines lie apart.
//!
//! The slot lines have one of two places, depending on the fabric:
//!
//! ```text
//! FlagPlace::Inside   a chunk is one contiguous write     FlagPlace::Apart   direct store: payload stays aligned
//!  block i: | payload ....... | slot line i (64) |         line 0 . line 1 . line 2 . ...  (stride 128)
//!  later blocks of a chunk:                                | block 0 | block 1 | block 2 | ...
//!           | payload ................ | flag (8) |
//! ```
//!
//! From its first block on, the blocks of a chunk form *groups*: one block each inside, and `group_blocks` apart, where they are contiguous
//! memory. Only the first block of a group has a flag, which proves all of the group. So short messages lie close together, and long ones have few
//! flags.

use core::fmt;
use core::iter::successors;

use crate::wire::line::LINE_BYTES;

/// Bytes of a control page.
pub const CONTROL_PAGE_BYTES: u32 = 4096;

/// Distance of slot lines that lie apart. CPUs fetch neighbouring cache lines in pairs, so two slot lines share none.
pub const LINE_STRIDE_BYTES: u32 = 128;

/// Offsets in a control page. wire.md 2.1.
pub mod control_page {
    use super::{CONTROL_PAGE_BYTES, FlagPlace, LINE_BYTES, Layout};

    /// The line of acknowledgements.
    pub const ACK: u32 = 0;
    /// 128 bytes for the fabric's own use (shared memory: the sleep flag).
    pub const FABRIC: u32 = 128;
    /// The first control line.
    pub const MAILBOX: u32 = 256;
    /// Control lines in the mailbox.
    pub const MAILBOX_SLOTS: u32 = 16;

    /// The base: the landing buffer of a connection whose landing is on demand, before it grows (wire.md 2.1).
    pub const BASE: u32 = MAILBOX + MAILBOX_SLOTS * LINE_BYTES;
    /// Layout of the base.
    pub const BASE_LAYOUT: Layout = Layout { block_bytes: 256, block_count: 11, flags: FlagPlace::Inside };

    const _: () = assert!(BASE + BASE_LAYOUT.bytes() == CONTROL_PAGE_BYTES);
}

/// Place of a landing buffer's slot lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlagPlace {
    /// At the end of each block, so that a chunk is one contiguous write.
    Inside,
    /// In an array of their own before the blocks, so that payload stays aligned. Direct store only.
    Apart {
        /// Blocks of a group, of which only the first has a flag: 1, 2, 4, 8 or 16.
        group_blocks: u8,
    },
}

/// Most blocks of a ring.
pub(crate) const BLOCKS_MAX: u32 = 1 << 16;

/// Most blocks of a group.
pub(crate) const GROUP_BLOCKS_MAX: u8 = 16;

/// Layout of a landing buffer. It never changes while the landing buffer lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Bytes of a block: a multiple of 64, 128 at least.
    pub block_bytes: u32,
    /// Blocks in the ring.
    pub block_count: u32,
    /// Place of the slot lines.
    pub flags: FlagPlace,
}

/// The memory of one landing buffer, with its layout.
#[derive(Clone, Copy, Debug)]
pub struct Landing<M> {
    /// The memory: a [`Region`](crate::Fabric::Region) or a [`Remote`](crate::Fabric::Remote).
    pub memory: M,
    /// Layout of the memory.
    pub layout: Layout,
}

/// Invalid layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLayout(pub Layout);

impl fmt::Display for BadLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Layout { block_bytes, block_count, .. } = self.0;
        write!(
            f,
            "cannot divide a landing buffer into {block_count} blocks of {block_bytes} bytes: a block is a multiple \
             of 64, from 128 to 1048576 bytes, there are 2 to 65536, and together they are less than 1 GiB"
        )?;
        match self.0.flags {
            FlagPlace::Apart { group_blocks } if !is_group(group_blocks) => {
                write!(f, "; a group has 1, 2, 4, 8 or 16 of them, and not {group_blocks}")
            }
            FlagPlace::Apart { .. } | FlagPlace::Inside => Ok(()),
        }
    }
}

/// Returns true if a group can have this number of blocks.
const fn is_group(group_blocks: u8) -> bool {
    group_blocks.is_power_of_two() && group_blocks <= GROUP_BLOCKS_MAX
}

/// Returns every `step`th number from `from` to before `to`. `step_by` divides.
#[inline]
pub(crate) fn steps(from: u32, to: u32, step: u32) -> impl Iterator<Item = u32> + use<> {
    successors(Some(from), move |at| Some(at + step)).take_while(move |at| *at < to)
}

/// A run of payload bytes inside one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) at: u32,
    pub(crate) bytes: u32,
}

impl Layout {
    /// Checks the ranges that the arithmetic below relies on.
    ///
    /// # Errors
    /// [`BadLayout`], whose text gives them.
    pub const fn validate(self) -> Result<Self, BadLayout> {
        let sane = self.block_bytes >= 128
            && self.block_bytes <= 1 << 20
            && self.block_bytes.is_multiple_of(LINE_BYTES)
            && self.block_count >= 2
            && self.block_count <= BLOCKS_MAX
            && (self.block_bytes as u64) * (self.block_count as u64) < 1 << 30
            && match self.flags {
                FlagPlace::Inside => true,
                FlagPlace::Apart { group_blocks } => is_group(group_blocks),
            };
        if sane { Ok(self) } else { Err(BadLayout(self)) }
    }

    /// Bytes of the whole landing buffer.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        self.blocks_at() + self.block_bytes * self.block_count
    }

    /// Offset of the first block.
    const fn blocks_at(self) -> u32 {
        match self.flags {
            FlagPlace::Inside => 0,
            FlagPlace::Apart { .. } => (self.block_count * LINE_STRIDE_BYTES).next_multiple_of(4096),
        }
    }

    /// Offset of block `index`.
    #[inline]
    const fn block_at(self, index: u32) -> u32 {
        self.blocks_at() + index * self.block_bytes
    }

    /// Offset of the slot line of block `index`.
    #[must_use]
    #[inline]
    pub const fn line_at(self, index: u32) -> u32 {
        match self.flags {
            FlagPlace::Inside => (index + 1) * self.block_bytes - LINE_BYTES,
            FlagPlace::Apart { .. } => index * LINE_STRIDE_BYTES,
        }
    }

    /// Offset of the line behind the slot line of block `index`, which belongs to its slot where slot lines lie apart.
    #[inline]
    pub(crate) const fn second_line_at(self, index: u32) -> u32 {
        self.line_at(index) + LINE_BYTES
    }

    /// Offset of the flag of block `index`: the last word of its slot line.
    #[must_use]
    #[inline]
    pub const fn flag_at(self, index: u32) -> u32 {
        self.line_at(index) + LINE_BYTES - 8
    }

    /// Blocks of a group: from the first block of a chunk on, one block in so many has a flag.
    #[must_use]
    #[inline]
    pub const fn group_blocks(self) -> u32 {
        match self.flags {
            FlagPlace::Inside => 1,
            FlagPlace::Apart { group_blocks } => group_blocks as u32,
        }
    }

    /// Returns the largest number of whole groups up to `blocks` blocks, in blocks; `blocks`, if that is less than a group.
    #[inline]
    pub(crate) const fn whole_groups(self, blocks: u32) -> u32 {
        let group = self.group_blocks();
        if blocks < group { blocks } else { blocks & !(group - 1) }
    }

    /// Payload that fits the first block of a chunk.
    #[inline]
    pub(crate) const fn first_capacity(self) -> u32 {
        match self.flags {
            FlagPlace::Inside => self.block_bytes - LINE_BYTES,
            FlagPlace::Apart { .. } => self.block_bytes,
        }
    }

    /// Payload that fits any later block.
    #[inline]
    pub(crate) const fn later_capacity(self) -> u32 {
        match self.flags {
            FlagPlace::Inside => self.block_bytes - 8,
            FlagPlace::Apart { .. } => self.block_bytes,
        }
    }

    /// Payload that fits a chunk of `blocks` blocks.
    #[must_use]
    #[inline]
    pub const fn capacity(self, blocks: u32) -> u32 {
        if blocks == 0 { 0 } else { self.first_capacity() + (blocks - 1) * self.later_capacity() }
    }

    /// Blocks of a chunk of `bytes` payload bytes: one at least.
    #[must_use]
    #[inline]
    pub const fn blocks_for(self, bytes: u32) -> u32 {
        if bytes <= self.first_capacity() {
            1
        } else {
            1 + (bytes - self.first_capacity()).div_ceil(self.later_capacity())
        }
    }

    /// Returns true if a chunk of `bytes` bytes can be right-aligned: not with slot lines that lie apart, and not for the few
    /// sizes that are too long for one block less and yet leave nothing for the first (wire.md 4.2).
    #[must_use]
    #[inline]
    pub const fn can_right_align(self, bytes: u32) -> bool {
        matches!(self.flags, FlagPlace::Inside)
            && bytes >= (self.blocks_for(bytes) - 1) * self.later_capacity()
    }

    /// Returns the first blocks of the groups of a chunk of `blocks` blocks, from the group that begins with block `j` on.
    #[inline]
    pub(crate) fn groups(self, j: u32, blocks: u32) -> impl Iterator<Item = u32> + use<> {
        steps(j, blocks, self.group_blocks())
    }

    /// The payload of the group that begins with block `j` of a chunk of `bytes` bytes in `blocks` blocks, which starts at block `first`. `j` is a
    /// multiple of [`group_blocks`](Self::group_blocks).
    ///
    /// With `left` the chunk is filled from the left and its last block is the short one; without it, where
    /// [`can_right_align`](Self::can_right_align), the first is, its payload right-aligned against the header.
    #[inline]
    pub(crate) const fn piece(self, first: u32, blocks: u32, bytes: u32, left: bool, j: u32) -> Piece {
        let index = first + j;
        let head = self.first_capacity();
        let rest = self.later_capacity();
        if left {
            let before = if j == 0 { 0 } else { head + (j - 1) * rest };
            let room = if j == 0 { head } else { rest } + (self.group_blocks() - 1) * rest;
            let left_over = bytes - before;
            Piece { at: self.block_at(index), bytes: if left_over < room { left_over } else { room } }
        } else if j == 0 {
            let short = bytes - (blocks - 1) * rest;
            Piece { at: self.block_at(index) + head - short, bytes: short }
        } else {
            Piece { at: self.block_at(index), bytes: rest }
        }
    }

    /// The payload of a chunk of one block, `first`.
    #[inline]
    pub(crate) const fn only_piece(self, first: u32, bytes: u32, left: bool) -> Piece {
        let skipped = if left { 0 } else { self.first_capacity() - bytes };
        Piece { at: self.block_at(first) + skipped, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: [FlagPlace; 4] = [
        FlagPlace::Inside,
        FlagPlace::Apart { group_blocks: 1 },
        FlagPlace::Apart { group_blocks: 2 },
        FlagPlace::Apart { group_blocks: 16 },
    ];

    fn layout(block_bytes: u32, flags: FlagPlace) -> Layout {
        Layout { block_bytes, block_count: 8, flags }
    }

    #[test]
    fn pieces_cover_the_chunk_once_and_never_touch_a_flag() {
        for flags in PLACES {
            for block_bytes in [128, 192, 256] {
                let l = layout(block_bytes, flags);
                for bytes in 0..=l.capacity(5) {
                    for left in [false, true] {
                        if !left && !l.can_right_align(bytes) {
                            continue;
                        }
                        let blocks = l.blocks_for(bytes);
                        let mut used = [0u8; 8 * 384 + 4096];
                        let mut sum = 0;
                        for j in (0..blocks).step_by(l.group_blocks() as usize) {
                            let piece = l.piece(2, blocks, bytes, left, j);
                            if blocks == 1 {
                                assert_eq!(piece, l.only_piece(2, bytes, left));
                            }
                            sum += piece.bytes;
                            for at in piece.at..piece.at + piece.bytes {
                                used[at as usize] += 1;
                            }
                            let guard = if j == 0 {
                                l.line_at(2)..l.line_at(2) + 64
                            } else {
                                l.flag_at(2 + j)..l.flag_at(2 + j) + 8
                            };
                            for at in guard {
                                used[at as usize] += 1;
                            }
                        }
                        assert_eq!(sum, bytes);
                        assert!(used.iter().all(|n| *n <= 1), "{l:?} {bytes} {left}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_right_aligned_chunk_is_one_contiguous_write() {
        let l = layout(256, FlagPlace::Inside);
        for bytes in (0..=l.capacity(4)).filter(|bytes| l.can_right_align(*bytes)) {
            let blocks = l.blocks_for(bytes);
            let mut next = l.piece(1, blocks, bytes, false, 0).at;
            for j in 0..blocks {
                let piece = l.piece(1, blocks, bytes, false, j);
                assert_eq!(piece.at, next);
                next = piece.at + piece.bytes + if j == 0 { 64 } else { 8 };
            }
            assert_eq!(next, l.line_at(blocks) + 64);
        }
    }

    #[test]
    fn absurd_layouts_are_refused() {
        for (block_bytes, block_count) in
            [(0, 8), (64, 8), (130, 8), (128, 1), (1 << 21, 8), (1 << 20, 1 << 16)]
        {
            assert!(Layout { block_bytes, block_count, flags: FlagPlace::Inside }.validate().is_err());
        }
    }

    #[test]
    fn a_group_is_a_power_of_two_up_to_16() {
        let valid: [u8; 5] = [1, 2, 4, 8, 16];
        for group_blocks in 0..=u8::MAX {
            let valid = valid.contains(&group_blocks);
            assert_eq!(layout(256, FlagPlace::Apart { group_blocks }).validate().is_ok(), valid);
        }
    }
}
