//! Ownership of the blocks of a landing buffer. A block belongs to the receiver from the write that fills it until the receiver's
//! acknowledgement. Meanwhile no one may write it.

use superpipe_core::{FlagPlace, LINE_STRIDE_BYTES, Layout};

/// Owner of each block of one landing buffer. It sees every access, and panics at the first wrong one.
#[derive(Clone, Debug, Hash)]
pub struct BlockOwnership {
    layout: Layout,
    filled: Vec<bool>,
    /// Oldest filled block, and the count of acknowledged blocks.
    oldest: usize,
    acknowledged: u64,
    /// A forged line ends the checks.
    off: bool,
}

impl BlockOwnership {
    /// Makes a landing buffer whose blocks all belong to the sender.
    #[must_use]
    pub fn new(layout: Layout) -> Self {
        let filled = vec![false; layout.block_count as usize];
        Self { layout, filled, oldest: 0, acknowledged: 0, off: false }
    }

    /// Sets the count of blocks at the start.
    pub const fn start(&mut self, blocks: u64) {
        self.acknowledged = blocks;
    }

    /// Ends the checks.
    pub const fn stop(&mut self) {
        self.off = true;
    }

    const fn block(&self, at: u32) -> usize {
        let Layout { block_bytes, block_count, flags } = self.layout;
        let blocks_at = self.layout.bytes() - block_bytes * block_count;
        (match flags {
            FlagPlace::Apart if at < blocks_at => at / LINE_STRIDE_BYTES,
            FlagPlace::Apart | FlagPlace::Inside => (at - blocks_at) / block_bytes,
        }) as usize
    }

    /// Checks that the sender may write `bytes` bytes at `at`.
    pub fn on_write(&self, at: u32, bytes: u32) {
        if bytes > 0 {
            for block in self.block(at)..=self.block(at + bytes - 1) {
                assert!(self.off || !self.filled[block], "block {block} is written, and was not consumed");
            }
        }
    }

    /// Gives the blocks of this range to the receiver.
    pub fn on_filled(&mut self, at: u32, bytes: u32) {
        self.on_write(at, bytes);
        for block in self.block(at)..=self.block(at + bytes - 1) {
            self.filled[block] = true;
        }
    }

    /// Checks that the receiver may read this range.
    pub fn on_read(&self, at: u32, bytes: u32) {
        if bytes > 0 {
            for block in self.block(at)..=self.block(at + bytes - 1) {
                assert!(self.off || self.filled[block], "block {block} is read, and was not written");
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
            assert!(self.filled[self.oldest], "block {} is acknowledged, and was never written", self.oldest);
            self.filled[self.oldest] = false;
            self.oldest = (self.oldest + 1) % self.filled.len();
        }
    }
}
