//! One direction: a ring of blocks, each with a flag, and a count of consumed blocks for flow control.
//!
//! A message takes consecutive blocks; the first is the short one, its payload right-aligned. Blocks are counted
//! over the whole run, and the count is the flag, so no flag is ever used twice. The receiver writes its count of
//! consumed blocks a few times per turn of the ring; the sender reads it only when the ring seems full.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::failure::Failure;
use crate::kernels::Kernel;
use crate::map::{PAGE_BYTES, SharedMapping};
use crate::pattern::FLAG_BIT;
use crate::spin::{Timeout, await_count, await_word};

/// Updates of the count of consumed blocks per turn of the ring.
const CREDITS_PER_TURN: usize = 8;

/// Bytes between flags that stand apart, since processors fetch neighbouring lines in pairs.
const FLAG_STRIDE: usize = 128;

/// The layout of blocks and flags in the memory of one direction.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// blocks of the ring
    pub block_count: usize,
    /// bytes from one block to the next
    pub stride: usize,
    /// bytes of payload in a full block
    pub payload_bytes: usize,
    /// the first flag, from the first block on
    pub flags_at: usize,
    /// bytes from one flag to the next
    pub flag_stride: usize,
}

impl Layout {
    /// Lays out blocks of payload only, one behind the other, with the flags in an array behind them.
    #[must_use]
    pub const fn apart(block_count: usize, block_bytes: usize) -> Self {
        Self {
            block_count,
            stride: block_bytes,
            payload_bytes: block_bytes,
            flags_at: block_count * block_bytes,
            flag_stride: FLAG_STRIDE,
        }
    }

    /// Bytes of the blocks and the flags.
    #[must_use]
    pub const fn bytes(self) -> usize {
        let blocks_bytes = self.block_count * self.stride;
        let flags_bytes = self.flags_at + self.block_count * self.flag_stride;
        if blocks_bytes > flags_bytes { blocks_bytes } else { flags_bytes }
    }

    /// Bytes of a direction: a page for the count, then whole pages for blocks and flags.
    #[must_use]
    pub const fn direction_bytes(self) -> usize {
        PAGE_BYTES + self.bytes().next_multiple_of(PAGE_BYTES)
    }
}

/// Offset of the memory of a direction in the mapping: a page for the count, then blocks and flags.
#[derive(Clone, Copy)]
pub struct DirectionOffset(pub usize);

/// One end of a direction: the sender's or the receiver's.
pub struct Ring<'a> {
    map: &'a SharedMapping,
    consumed: &'a AtomicU64,
    timeout: &'a Timeout,
    layout: Layout,
    blocks_at: usize,
    slot: usize,
    count: u64,
    /// the sender: blocks known to be consumed
    consumed_known: u64,
    credit_mask: u64,
}

impl<'a> Ring<'a> {
    /// Makes an end of the direction at `offset`, through which `count` blocks went before, all of them consumed.
    #[must_use]
    pub fn new(
        map: &'a SharedMapping,
        offset: DirectionOffset,
        layout: Layout,
        count: u64,
        timeout: &'a Timeout,
    ) -> Self {
        let credit_every = (layout.block_count / CREDITS_PER_TURN).max(1).next_power_of_two();
        Self {
            map,
            consumed: &map.words(offset.0, 8)[0],
            timeout,
            layout,
            blocks_at: offset.0 + PAGE_BYTES,
            slot: 0,
            count,
            consumed_known: count,
            credit_mask: credit_every as u64 - 1,
        }
    }

    /// Blocks that went through this end, over the whole run.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Copies a message in, at the sender.
    ///
    /// # Errors
    /// [`Failure::Timeout`] or [`Failure::PeerLost`].
    pub fn send(&mut self, message: &[u8], kernel: Kernel) -> Result<(), Failure> {
        let (first, rest) = message.split_at(self.first_bytes(message.len()));
        self.send_block(first, kernel)?;
        for payload in rest.chunks(self.layout.payload_bytes) {
            self.send_block(payload, kernel)?;
        }
        Ok(())
    }

    /// Copies a message out, at the receiver.
    ///
    /// # Errors
    /// [`Failure::Timeout`] or [`Failure::PeerLost`].
    pub fn receive(&mut self, message: &mut [u8], kernel: Kernel) -> Result<(), Failure> {
        let (first, rest) = message.split_at_mut(self.first_bytes(message.len()));
        self.receive_block(first, kernel)?;
        for payload in rest.chunks_mut(self.layout.payload_bytes) {
            self.receive_block(payload, kernel)?;
        }
        kernel.fence();
        Ok(())
    }

    /// Notes at the sender that the answer came back, so that all blocks were consumed.
    pub const fn answered(&mut self) {
        self.consumed_known = self.count;
    }

    #[inline]
    fn send_block(&mut self, payload: &[u8], kernel: Kernel) -> Result<(), Failure> {
        let block_count = self.layout.block_count as u64;
        if self.count - self.consumed_known >= block_count {
            self.consumed_known = await_count(self.consumed, self.count - block_count + 1, self.timeout)?;
        }
        // SAFETY: fewer than block_count blocks are not consumed, so this slot's last payload was: the receiver's
        // Release of `consumed` (or its answer's flag) paired with our Acquire. It reads the slot again only
        // after the flag below. Only this end writes the direction's blocks.
        unsafe { self.map.copy_in(self.payload_at(payload.len()), payload, kernel) };
        kernel.fence();
        self.count += 1;
        // Pairs with the Acquire in `receive_block`.
        self.flag().store(FLAG_BIT | self.count, Ordering::Release);
        self.advance();
        Ok(())
    }

    #[inline]
    fn receive_block(&mut self, payload: &mut [u8], kernel: Kernel) -> Result<(), Failure> {
        self.count += 1;
        await_word::<true>(self.flag(), FLAG_BIT | self.count, self.timeout)?;
        // SAFETY: the flag's Acquire paired with the Release in `send_block`, and the sender writes the slot
        // again only after `consumed`, or an answer, has shown that this payload was read.
        unsafe { self.map.copy_out(self.payload_at(payload.len()), payload, kernel) };
        if self.count & self.credit_mask == 0 {
            // Pairs with the Acquire in `send_block`.
            self.consumed.store(self.count, Ordering::Release);
        }
        self.advance();
        Ok(())
    }

    const fn first_bytes(&self, message_bytes: usize) -> usize {
        match message_bytes % self.layout.payload_bytes {
            0 if message_bytes > 0 => self.layout.payload_bytes,
            short_bytes => short_bytes,
        }
    }

    /// The place of a payload, which ends where the payload of a full block ends.
    const fn payload_at(&self, bytes: usize) -> usize {
        self.blocks_at + self.slot * self.layout.stride + self.layout.payload_bytes - bytes
    }

    fn flag(&self) -> &'a AtomicU64 {
        &self.map.words(self.blocks_at + self.layout.flags_at + self.slot * self.layout.flag_stride, 8)[0]
    }

    const fn advance(&mut self) {
        self.slot += 1;
        if self.slot == self.layout.block_count {
            self.slot = 0;
        }
    }
}
