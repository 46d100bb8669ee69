//! Whose the blocks of a landing buffer are: from the write that fills one until the receiver's acknowledgement they
//! are the receiver's, and nobody may write them.

use superpipe_core::{FlagPlace, LINE_STRIDE_BYTES, Layout};

/// The owner of each block of one landing buffer, told of every access; panics at the first that is wrong.
#[derive(Clone, Debug, Hash)]
pub struct Watch {
    layout: Layout,
    filled: Vec<bool>,
    /// The oldest filled block, and the acknowledged count that stands for it.
    oldest: usize,
    acknowledged: u64,
    /// A forged line ends the watch.
    off: bool,
}

impl Watch {
    /// All blocks are the sender's.
    #[must_use]
    pub fn new(layout: Layout) -> Self {
        let filled = vec![false; layout.block_count as usize];
        Self { layout, filled, oldest: 0, acknowledged: 0, off: false }
    }

    /// Counting starts here.
    pub const fn start(&mut self, blocks: u64) {
        self.acknowledged = blocks;
    }

    /// From now on nothing is wrong.
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

    /// The sender writes `bytes` bytes at `at`.
    pub fn on_write(&self, at: u32, bytes: u32) {
        if bytes > 0 {
            for block in self.block(at)..=self.block(at + bytes - 1) {
                assert!(self.off || !self.filled[block], "block {block} is written, and was not consumed");
            }
        }
    }

    /// The blocks that this range touches belong to the receiver now.
    pub fn on_filled(&mut self, at: u32, bytes: u32) {
        self.on_write(at, bytes);
        for block in self.block(at)..=self.block(at + bytes - 1) {
            self.filled[block] = true;
        }
    }

    /// The receiver reads payload.
    pub fn on_read(&self, at: u32, bytes: u32) {
        if bytes > 0 {
            for block in self.block(at)..=self.block(at + bytes - 1) {
                assert!(self.off || self.filled[block], "block {block} is read, and was not written");
            }
        }
    }

    /// The receiver acknowledges so many blocks, counted over the connection.
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
