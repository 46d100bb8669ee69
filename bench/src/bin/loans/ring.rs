//! The limit: a ring of places for whole messages, which are written and read where they lie. Each place has a flag, and the receiver counts the messages
//! that it has read.

use core::sync::atomic::{AtomicU64, Ordering};

use superpipe_bench::failure::Failure;
use superpipe_bench::map::{PAGE_BYTES, SharedMapping};
use superpipe_bench::spin::{Timeout, await_count, await_word};

/// Fewest messages that have room.
const PLACES_MIN: usize = 4;
/// Most messages that have room.
const PLACES_MAX: usize = 64;
/// Bytes of a ring, if as many messages have room: superpipe's default landing buffer.
const RING_BYTES: usize = 512 << 10;
/// Bytes between flags, since processors fetch neighbouring lines in pairs.
const FLAG_STRIDE: usize = 128;
/// The count has a page of its own, and so have the flags.
const FLAGS_AT: usize = PAGE_BYTES;
const PLACES_AT: usize = FLAGS_AT + (PLACES_MAX * FLAG_STRIDE).next_multiple_of(PAGE_BYTES);

/// Places of a ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    bytes: usize,
    count: usize,
}

impl Layout {
    /// Lays out a ring for messages of `bytes` bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { bytes, count: (RING_BYTES / bytes).clamp(PLACES_MIN, PLACES_MAX) }
    }

    /// Bytes of all messages that have room.
    pub(crate) const fn ring_bytes(&self) -> usize {
        self.bytes * self.count
    }

    /// Bytes of the mapping.
    pub(crate) fn map_bytes(&self) -> usize {
        PLACES_AT + self.ring_bytes()
    }
}

/// One end of the ring: the sender's or the receiver's.
pub(crate) struct Ring<'a> {
    map: &'a SharedMapping,
    layout: Layout,
    timeout: &'a Timeout,
    consumed: &'a AtomicU64,
    /// Messages that went through this end.
    count: u64,
    /// At the sender: messages that are known to be read.
    consumed_known: u64,
    place: usize,
}

impl<'a> Ring<'a> {
    pub(crate) fn new(map: &'a SharedMapping, layout: Layout, timeout: &'a Timeout) -> Self {
        let consumed = &map.words(0, 8)[0];
        Self { map, layout, timeout, consumed, count: 0, consumed_known: 0, place: 0 }
    }

    /// Writes a message in place, at the sender.
    pub(crate) fn send(&mut self, write: impl FnOnce(&mut [u8])) -> Result<(), Failure> {
        let places = self.layout.count as u64;
        if self.count - self.consumed_known >= places {
            self.consumed_known = await_count(self.consumed, self.count - places + 1, self.timeout)?;
        }
        // SAFETY: 1. fewer messages than there are places are not read, so the last one in this place was: the receiver's Release of `consumed` paired with the
        // Acquire of `await_count`. The receiver reads the place again only after the flag below. 2. `write` has the only reference.
        write(unsafe { self.map.slice_mut(self.place_at(), self.layout.bytes) });
        self.count += 1;
        // Pairs with the Acquire in `receive`.
        self.flag().store(self.count, Ordering::Release);
        self.advance();
        Ok(())
    }

    /// Reads a message in place, at the receiver.
    pub(crate) fn receive<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Result<R, Failure> {
        self.count += 1;
        await_word::<true>(self.flag(), self.count, self.timeout)?;
        // SAFETY: 1. the flag's Acquire paired with the Release in `send`, and the sender writes the place again only after `consumed` has shown that it was read.
        let result = read(unsafe { self.map.slice(self.place_at(), self.layout.bytes) });
        // Pairs with the Acquire in `send`.
        self.consumed.store(self.count, Ordering::Release);
        self.advance();
        Ok(result)
    }

    const fn place_at(&self) -> usize {
        PLACES_AT + self.place * self.layout.bytes
    }

    fn flag(&self) -> &'a AtomicU64 {
        &self.map.words(FLAGS_AT + self.place * FLAG_STRIDE, 8)[0]
    }

    const fn advance(&mut self) {
        self.place += 1;
        if self.place == self.layout.count {
            self.place = 0;
        }
    }
}
