//! Ownership of the blocks of landing buffers. A block belongs to the receiver from the write that fills it until the receiver's
//! acknowledgement. Meanwhile no one may write it.

use core::ops::RangeInclusive;
use std::collections::VecDeque;

use superpipe_core::{FlagPlace, LINE_STRIDE_BYTES, Layout, Line};

/// Bits of word 0 of a header whose chunk has no payload in blocks (wire.md 3.2): INLINE, CANCEL, REMOTE.
const WITHOUT_PAYLOAD: u64 = 1 << 2 | 1 << 7 | 1 << 16;

/// Owner of each block of an end's landing buffers, which have numbers as in [`Memory::index`](super::Memory). It sees every access, and
/// panics at the first wrong one.
#[derive(Clone, Debug, Hash)]
pub struct BlockOwnership {
    rings: [Option<Ring>; 4],
    /// Filled blocks in the order of their filling, as (landing buffer, block), and the count of acknowledged blocks.
    filled: VecDeque<(u8, usize)>,
    acknowledged: u64,
    /// A forged line ends the checks.
    off: bool,
}

#[derive(Clone, Debug, Hash)]
struct Ring {
    layout: Layout,
    is_filled: Vec<bool>,
    /// The next block that has a flag, and the last one, of a chunk that is being stored.
    storing: Option<[usize; 2]>,
}

impl Ring {
    fn new(layout: Layout) -> Self {
        Self { layout, is_filled: vec![false; layout.block_count as usize], storing: None }
    }

    const fn block(&self, at: u32) -> usize {
        let Layout { block_bytes, block_count, flags } = self.layout;
        let blocks_at = self.layout.bytes() - block_bytes * block_count;
        (match flags {
            FlagPlace::Apart { .. } if at < blocks_at => at / LINE_STRIDE_BYTES,
            FlagPlace::Apart { .. } | FlagPlace::Inside => (at - blocks_at) / block_bytes,
        }) as usize
    }

    /// Begins a chunk with this header in block `first`.
    fn begin(&mut self, first: usize, line: &Line) {
        #[expect(clippy::cast_possible_truncation, reason = "core writes no more than 32 bits")]
        let bytes = if line.0[0] & WITHOUT_PAYLOAD == 0 { line.0[3] as u32 } else { 0 };
        assert_eq!(self.storing, None, "a chunk begins before the flags of the one before are there");
        self.storing = Some([first, first + self.layout.blocks_for(bytes) as usize - 1]);
    }

    /// Returns the blocks of the group whose flag is that of block `index`, which must be the next one of the chunk.
    fn group(&mut self, index: usize) -> RangeInclusive<usize> {
        let Some([next, last]) = self.storing else { panic!("a flag of no chunk, in block {index}") };
        assert_eq!(index, next, "a flag of a block that is not the first of its group");
        let end = last.min(index + self.layout.group_blocks() as usize - 1);
        self.storing = (end < last).then_some([end + 1, last]);
        index..=end
    }
}

impl BlockOwnership {
    /// Makes the first landing buffer, whose blocks all belong to the sender.
    #[must_use]
    pub fn new(layout: Layout) -> Self {
        let rings = [Some(Ring::new(layout)), None, None, None];
        Self {
            rings,
            filled: VecDeque::with_capacity(layout.block_count as usize),
            acknowledged: 0,
            off: false,
        }
    }

    /// Makes another landing buffer.
    pub fn provision(&mut self, index: u8, layout: Layout) {
        let ring = &mut self.rings[usize::from(index)];
        assert!(ring.is_none(), "landing buffer {index} is provisioned twice");
        *ring = Some(Ring::new(layout));
    }

    /// Releases a landing buffer.
    pub fn release(&mut self, index: u8) {
        let ring = self.rings[usize::from(index)].take();
        assert!(ring.is_some(), "landing buffer {index} is released, and is not there");
        let is_in_use = self.filled.iter().any(|(of, _)| *of == index);
        assert!(
            self.off || !is_in_use,
            "landing buffer {index} is released with blocks that were not acknowledged"
        );
    }

    /// Sets the count of blocks at the start.
    pub const fn start(&mut self, blocks: u64) {
        self.acknowledged = blocks;
    }

    /// Ends the checks.
    pub const fn stop(&mut self) {
        self.off = true;
    }

    fn ring(&self, index: u8) -> &Ring {
        match &self.rings[usize::from(index)] {
            Some(ring) => ring,
            None => panic!("landing buffer {index} is used, and is not there"),
        }
    }

    /// Checks that the sender may write `bytes` bytes at `at`.
    pub fn on_write(&self, index: u8, at: u32, bytes: u32) {
        if self.off {
            return;
        }
        let ring = self.ring(index);
        if bytes > 0 {
            for block in ring.block(at)..=ring.block(at + bytes - 1) {
                assert!(
                    !ring.is_filled[block],
                    "block {block} of landing buffer {index} is written, and was not consumed"
                );
            }
        }
    }

    /// Gives the blocks of this range, which one write fills, to the receiver.
    pub fn on_filled(&mut self, index: u8, at: u32, bytes: u32) {
        if self.off {
            return;
        }
        self.on_write(index, at, bytes);
        let ring = self.ring(index);
        let blocks = ring.block(at)..=ring.block(at + bytes - 1);
        for block in blocks {
            if let Some(ring) = &mut self.rings[usize::from(index)] {
                ring.is_filled[block] = true;
            }
            self.filled.push_back((index, block));
        }
    }

    /// Gives the first group of a chunk to the receiver, whose header is stored at `at`.
    pub fn on_header(&mut self, index: u8, at: u32, line: &Line) {
        if let (false, Some(ring)) = (self.off, &mut self.rings[usize::from(index)]) {
            let first = ring.block(at);
            ring.begin(first, line);
        }
        self.on_flag(index, at);
    }

    /// Gives the group to the receiver whose flag is stored at `at`.
    pub fn on_flag(&mut self, index: u8, at: u32) {
        if self.off {
            return;
        }
        self.on_write(index, at, 8);
        let Some(ring) = &mut self.rings[usize::from(index)] else { return };
        let first = ring.block(at);
        for block in ring.group(first) {
            assert!(!ring.is_filled[block], "block {block} is filled twice");
            ring.is_filled[block] = true;
            self.filled.push_back((index, block));
        }
    }

    /// Checks that the receiver may read this range.
    pub fn on_read(&self, index: u8, at: u32, bytes: u32) {
        if self.off {
            return;
        }
        let ring = self.ring(index);
        if bytes > 0 {
            for block in ring.block(at)..=ring.block(at + bytes - 1) {
                assert!(ring.is_filled[block], "block {block} is read, and was not written");
            }
        }
    }

    /// Gives acknowledged blocks back to the sender. `blocks` counts from the start of the connection.
    pub fn on_acknowledge(&mut self, blocks: u64) {
        let known = core::mem::replace(&mut self.acknowledged, blocks);
        let count = blocks.wrapping_sub(known);
        if self.off {
            return;
        }
        assert!(count <= self.filled.len() as u64, "{known} blocks were consumed, and now {blocks}");
        for _ in 0..count {
            if let Some((index, block)) = self.filled.pop_front()
                && let Some(ring) = &mut self.rings[usize::from(index)]
            {
                ring.is_filled[block] = false;
            }
        }
    }
}
