//! Move of the receiving half to another landing buffer. wire.md 2.5.

use super::{Head, Receiver};
use crate::fabric::Fabric;
use crate::wire::arrival::Arrival;
use crate::wire::layout::{Landing, Layout};

impl<F: Fabric> Receiver<F> {
    /// Polls this landing buffer, too, from now on: the next chunk may be at its first block.
    pub(crate) const fn expect(&mut self, next: Landing<F::Region>) {
        self.next = Some(next);
    }

    /// Polls the current landing buffer only: the peer does not use the other one.
    pub(crate) const fn expect_none(&mut self) {
        self.next = None;
    }

    /// Returns the sequence of the newest chunk consumed, if the next header was not read yet.
    pub(crate) fn newest_consumed(&self) -> Option<u64> {
        matches!(self.head, Head::Nothing).then(|| self.last())
    }

    /// Goes on at the first block of the other landing buffer. The next header was not read yet.
    pub(crate) fn enter(&mut self) {
        if let Some(next) = self.next.take() {
            self.landing = next;
            self.at = 0;
            (self.has_moved, self.moved_at) = (true, self.sequence);
        }
    }

    /// Returns the sequence of the first chunk in the landing buffer that was entered last.
    pub(crate) const fn moved_at(&self) -> u64 {
        self.moved_at
    }

    /// Returns true once after a chunk was found in the other landing buffer, or [`enter`](Self::enter) was called.
    pub(crate) const fn take_moved(&mut self) -> bool {
        core::mem::replace(&mut self.has_moved, false)
    }

    /// Returns the layout of the current landing buffer.
    pub(crate) const fn layout(&self) -> Layout {
        self.landing.layout
    }

    /// Returns a copy that reads the other landing buffer, if the next chunk may be there.
    pub(super) fn in_next(&self) -> Option<Self> {
        let landing = self.next.filter(|_| matches!(self.head, Head::Nothing))?;
        Some(Self { landing, next: None, at: 0, ..*self })
    }

    /// Goes on in the other landing buffer if the awaited chunk has begun to arrive there. Returns true if it has.
    #[cold]
    pub(super) fn enter_next(&mut self, fabric: &F, link: &F::Link, arrival: Arrival) -> bool {
        let Some(there) = self.in_next() else { return false };
        let has_arrived = match arrival {
            Arrival::Flag | Arrival::Notify => arrival.may_be(there.next_flag(fabric, link), self.sequence),
            // The upper half of a checked flag proves nothing.
            Arrival::CheckedFlag => there.arrival_here(fabric, link, arrival).is_some(),
        };
        if has_arrived {
            self.enter();
        }
        has_arrived
    }

    /// Returns the most blocks that can be filled and not consumed.
    pub(super) fn blocks_of_both(&self) -> u64 {
        let of = |landing: &Landing<F::Region>| u64::from(landing.layout.block_count);
        of(&self.landing) + self.next.as_ref().map_or(0, of)
    }
}
