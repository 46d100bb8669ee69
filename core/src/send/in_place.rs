//! Messages that the application builds in the blocks that they are sent from: in the peer's landing buffer, or in its image. wire.md 4.2.
//!
//! All blocks of such a message are free, and reserved, before the application gets them. So it goes out complete, without a CTS, in one chunk, or in two if
//! a lap or the ring ends in it. Until then it is the open transfer, of which nothing was sent: no other transfer can begin, and this end moves to no other
//! landing buffer.

use super::{Sender, TransferId};
use crate::config::Config;
use crate::error::RefusedSend;
use crate::fabric::Fabric;
use crate::protocol::Protocol;
use crate::wire::header::Length;
use crate::wire::layout::{Landing, Layout};
use crate::wire::part::{Filled, Part};

/// Chunks of such a message, at most.
const CHUNKS_MAX: usize = 2;

/// Message whose bytes the application writes in place ([`Endpoint::reserve_message`](crate::Endpoint::reserve_message)), until it is committed or
/// abandoned. Clones name the same one. A stale one is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReservedMessage {
    /// Bytes of the message.
    pub bytes: u32,
    pub(super) id: TransferId,
}

impl ReservedMessage {
    pub(crate) const fn id(&self) -> TransferId {
        self.id
    }
}

/// Bytes of the two chunks; the second may have none, and then it is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct InPlace {
    first: u32,
    rest: u32,
}

/// Returns the most bytes of a message that fits a ring of this layout wherever it begins, in one chunk or two.
pub(crate) const fn reservable_bytes(layout: Layout) -> u32 {
    layout.capacity(layout.block_count) - (layout.later_capacity() - layout.first_capacity())
}

impl<F: Fabric> Sender<F> {
    /// Reserves the blocks of a message, and opens it. The caller has checked that it is [reservable](reservable_bytes).
    pub(crate) fn reserve_message(
        &mut self,
        config: &Config,
        tag: u64,
        bytes: u32,
    ) -> Result<ReservedMessage, RefusedSend> {
        let layout = self.landing.layout;
        let mut to_end = self.to_end();
        let mut chunks = cut(layout, to_end, bytes);
        let [first, second] = chunks.blocks(layout);
        if first + second > self.laps.blocks() || second > self.window() {
            // The window is too small. The current lap goes on to the end of the ring.
            let blocks = layout.block_count;
            to_end = blocks - (self.laps.blocks() - to_end);
            chunks = cut(layout, to_end, bytes);
            let [_, second] = chunks.blocks(layout);
            self.laps.extend(blocks, second, self.free_from);
        }
        let [first, second] = chunks.blocks(layout);
        let has_room = F::DIRECT || self.in_flight.len() + CHUNKS_MAX <= self.in_flight.capacity();
        if first + second > self.free() || !has_room {
            return Err(RefusedSend::NoCredit);
        }
        let config = Config { protocol: Protocol::Eager, ..*config };
        let id = self.start(&config, tag, Length::Exact(u64::from(bytes)))?;
        self.laps.hold_next(second);
        if let Some(open) = &mut self.open {
            open.in_place = Some(chunks);
            open.reserved = bytes;
        }
        Ok(ReservedMessage { bytes, id })
    }

    /// Returns the span (memory, offset, bytes) that has the message from its byte `offset` on, as far as it is contiguous; `None` if the message is
    /// not open, or has no such byte.
    pub(crate) fn message_span(
        &self,
        message: ReservedMessage,
        offset: u32,
    ) -> Option<(F::Remote, u32, u32)> {
        let InPlace { first, rest } = self.in_place(message)?;
        let Landing { memory, layout } = self.landing;
        let filled = Filled::Left;
        let (part, skip) = match offset.checked_sub(first) {
            None => (Part { memory, layout, first: self.at, bytes: first, filled }, offset),
            Some(skip) => (Part { memory, layout, first: 0, bytes: rest, filled }, skip),
        };
        (skip < part.bytes).then(|| {
            let (at, bytes) = part.span_at(skip);
            (memory, at, bytes)
        })
    }

    /// Returns the bytes of the chunks of a message that is open.
    pub(crate) fn message_chunks(&self, message: ReservedMessage) -> Option<[u32; CHUNKS_MAX]> {
        self.in_place(message).map(|InPlace { first, rest }| [first, rest])
    }

    /// Returns true while the application builds a message in place.
    pub(crate) fn is_building(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.in_place.is_some())
    }

    fn in_place(&self, message: ReservedMessage) -> Option<InPlace> {
        self.open.as_ref().filter(|open| open.id == message.id)?.in_place
    }
}

/// Cuts a message into a chunk up to the end of the lap, and the rest.
fn cut(layout: Layout, to_end: u32, bytes: u32) -> InPlace {
    let first = bytes.min(layout.capacity(to_end));
    InPlace { first, rest: bytes - first }
}

impl InPlace {
    /// Returns the blocks of both chunks.
    const fn blocks(self, layout: Layout) -> [u32; CHUNKS_MAX] {
        let second = if self.rest == 0 { 0 } else { layout.blocks_for(self.rest) };
        [layout.blocks_for(self.first), second]
    }
}
