//! Ownership of the blocks of landing buffers. A block belongs to the receiver from the write that fills it until the receiver's
//! acknowledgement. Meanwhile no one may write it.

use std::collections::VecDeque;

use superpipe_core::{FlagPlace, LINE_STRIDE_BYTES, Layout};

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
}

impl Ring {
    fn new(layout: Layout) -> Self {
        Self { layout, is_filled: vec![false; layout.block_count as usize] }
    }

    const fn block(&self, at: u32) -> usize {
        let Layout { block_bytes, block_count, flags } = self.layout;
        let blocks_at = self.layout.bytes() - block_bytes * block_count;
        (match flags {
            FlagPlace::Apart if at < blocks_at => at / LINE_STRIDE_BYTES,
            FlagPlace::Apart | FlagPlace::Inside => (at - blocks_at) / block_bytes,
        }) as usize
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

    /// Gives the blocks of this range to the receiver.
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
