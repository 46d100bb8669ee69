//! Look-ahead that consumes nothing: a copy of the receiver reads on from the head. It is dropped, or takes the
//! place of the receiver once it has found what the call takes (`take_loan`).

use super::{Chunk, Head, Open, Receiver, Way};
use crate::error::ProtocolError;
use crate::fabric::Fabric;
use crate::wire::arrival::Arrival;
use crate::wire::sequence::is_before;

/// Result of a look behind a chunk.
#[expect(clippy::large_enum_variant, reason = "it lives during one call, and core has no heap")]
pub(super) enum Behind<F: Fabric> {
    /// Nothing, or a part of the last chunk, is here.
    Late,
    /// What is next is not the transfer's last chunk, or that one waits for a CTS or is still to be announced.
    Other,
    /// It is here, and `ahead` is this half with it at the head.
    Here { ahead: Receiver<F>, last: Chunk },
}

/// Returns true if this chunk begins a message of which nothing was taken, and the rest of it does not wait for a CTS.
pub(super) fn comes_at_once(open: &Open, chunk: &Chunk) -> bool {
    let is_untaken = open.seen == u64::from(chunk.bytes) && chunk.j == 0 && chunk.offset == 0;
    open.way == Way::Blocks && is_untaken && (chunk.fin || !open.want_cts)
}

impl<F: Fabric> Receiver<F> {
    /// Returns true if all of the message at the head has arrived, and none of it was taken. It is in a line, in a chunk, or in two:
    /// a message that is sent at once may lie around the end of the ring.
    pub(crate) fn is_head_complete(
        &mut self,
        fabric: &F,
        link: &F::Link,
        arrival: Arrival,
    ) -> Result<bool, ProtocolError> {
        match self.head {
            Head::Nothing | Head::Cancel(_) => Ok(false),
            Head::Inline { offset, .. } => Ok(offset == 0),
            Head::Exposed(named) => {
                let is_untaken = self.open.is_some_and(|open| named.is_whole(open.seen));
                Ok(is_untaken && (!self.awaits_tail() || self.is_tail_here(fabric, link, arrival)?))
            }
            Head::Chunk(mut chunk) => {
                if !self.open.is_some_and(|open| comes_at_once(&open, &chunk)) {
                    return Ok(false);
                }
                let last = chunk.blocks - 1;
                let is_here = self.has_arrived(fabric, link, arrival, &mut chunk, last)?;
                self.head = Head::Chunk(chunk);
                let is_whole = |behind: Behind<F>| matches!(behind, Behind::Here { .. });
                Ok(is_here && (chunk.fin || self.behind(fabric, link, arrival, chunk).map(is_whole)?))
            }
        }
    }

    /// Looks for the transfer's last chunk behind this one, which is at the head and here.
    pub(super) fn behind(
        &self,
        fabric: &F,
        link: &F::Link,
        arrival: Arrival,
        chunk: Chunk,
    ) -> Result<Behind<F>, ProtocolError> {
        let mut ahead = Self { ..*self };
        ahead.pass(chunk);
        if !ahead.poll(fabric, link, arrival)? {
            return Ok(Behind::Late);
        }
        let Head::Chunk(mut last) = ahead.head else { return Ok(Behind::Other) };
        if !last.fin || ahead.withholds_blocks() {
            return Ok(Behind::Other);
        }
        let block = last.blocks - 1;
        let is_here = ahead.has_arrived(fabric, link, arrival, &mut last, block)?;
        Ok(if is_here { Behind::Here { ahead, last } } else { Behind::Late })
    }

    /// Returns true if the last chunk of the split message at the head is here.
    fn is_tail_here(&self, fabric: &F, link: &F::Link, arrival: Arrival) -> Result<bool, ProtocolError> {
        let mut ahead = Self { ..*self };
        ahead.finish_exposed();
        Ok(ahead.poll(fabric, link, arrival)? && matches!(ahead.head, Head::Exposed(_)))
    }

    /// Returns the same as [`next_arrival`](Self::next_arrival) behind this chunk, which is at the head and has arrived.
    pub(super) fn arrival_behind(
        &self,
        fabric: &F,
        link: &F::Link,
        arrival: Arrival,
        chunk: Chunk,
    ) -> Option<(u64, u32)> {
        let mut ahead = Self { ..*self };
        ahead.pass(chunk);
        ahead.next_arrival(fabric, link, arrival)
    }

    /// Makes the chunk behind this one the next.
    pub(super) fn pass(&mut self, chunk: Chunk) {
        self.head = Head::Chunk(chunk);
        while let Head::Chunk(chunk) = self.head {
            self.finish_group(chunk);
        }
    }

    /// Returns true if the end of the transfer at the head is here: an operation would reach it without further writes of the peer.
    pub(crate) fn has_end_of_head(&self, fabric: &F, link: &F::Link, arrival: Arrival) -> bool {
        let mut ahead = Self { ..*self };
        let blocks = self.blocks_of_both();
        while ahead.open.is_some() {
            let before = ahead.consumed;
            let drained = ahead.drain(fabric, link, arrival);
            let passed = ahead.consumed.wrapping_sub(self.consumed);
            if drained.is_err() || ahead.consumed == before || passed > blocks {
                return false;
            }
        }
        self.open.is_some()
    }

    /// Returns true if the peer has closed, and all chunks that its CLOSE names are here or were taken out.
    pub(crate) fn has_all_before_close(&self, fabric: &F, link: &F::Link, arrival: Arrival) -> bool {
        let Some((last, _)) = self.close else { return false };
        // The gate is open: no REJECT is due to a peer that has closed.
        let mut ahead = Self { ..*self };
        let blocks = self.blocks_of_both();
        while !is_before(last, ahead.sequence) {
            let before = ahead.consumed;
            let drained = ahead.poll(fabric, link, arrival).and_then(|_| ahead.drain(fabric, link, arrival));
            let passed = ahead.consumed.wrapping_sub(self.consumed);
            if drained.is_err() || ahead.consumed == before || passed > blocks {
                return false;
            }
        }
        ahead.open.is_none()
    }
}
