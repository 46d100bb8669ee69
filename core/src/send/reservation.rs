//! Blocks that the application fills in place.

use super::{Sender, TransferId};
use crate::fabric::Fabric;
use crate::wire::layout::{Landing, Layout};

/// Free payload bytes in blocks, which the application fills in place. Valid until anything else is sent.
#[derive(Clone, Copy, Debug)]
pub struct Reservation<M> {
    /// The memory that the offsets refer to.
    pub memory: M,
    layout: Layout,
    first: u32,
    bytes: u32,
}

impl<M> Reservation<M> {
    /// Returns the number of bytes; more than 0.
    #[must_use]
    pub const fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Returns the spans as (offset, bytes), in order.
    pub fn spans(&self) -> impl Iterator<Item = (u32, u32)> + use<M> {
        let (layout, first, bytes) = (self.layout, self.first, self.bytes);
        let blocks = layout.blocks_for(bytes);
        layout.groups(0, blocks).map(move |j| {
            let piece = layout.piece(first, blocks, bytes, true, j);
            (piece.at, piece.bytes)
        })
    }
}

impl<F: Fabric> Sender<F> {
    /// Reserves free payload for at most `max_bytes` bytes, `allowed` by [`next_chunk`](Self::next_chunk).
    pub(crate) fn reserve(&mut self, allowed: u32, max_bytes: u32) -> Reservation<F::Remote> {
        let bytes = allowed.min(max_bytes);
        if let Some(open) = &mut self.open {
            open.reserved = bytes;
        }
        let Landing { memory, layout } = self.landing;
        Reservation { memory, layout, first: self.at, bytes }
    }

    /// Ends the reservation of a transfer: nothing of it is sent.
    pub(crate) fn end_reservation(&mut self, id: TransferId) {
        if let Ok(open) = self.open(id) {
            open.reserved = 0;
        }
    }

    /// Returns the bytes that were reserved, and may be committed.
    pub(crate) const fn reserved(&self) -> u32 {
        match &self.open {
            Some(open) => open.reserved,
            None => 0,
        }
    }
}
