//! Payload that is copied out, read in place, or discarded. wire.md 4.

use super::outcome::Place;
use super::{Chunk, End, Head, Open, Pulled, Readable, Receiver, Run};
use crate::error::ProtocolError;
use crate::fabric::{CopyHint, Fabric};
use crate::recording;
use crate::slices::Scatter;
use crate::wire::arrival::Arrival;
use crate::wire::header::Length;
use crate::wire::inline::unpack;
use crate::wire::layout::{Landing, Piece};
use crate::wire::sequence::after;

impl<F: Fabric> Receiver<F> {
    /// Copies out the payload of the open transfer that has arrived and fits: at most `blocks_max` blocks, so that they can be
    /// acknowledged while more is copied.
    pub(crate) fn pull(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        arrival: Arrival,
        to: &mut Scatter<'_, '_>,
        streaming_bytes: u64,
        blocks_max: u64,
    ) -> Result<Pulled, ProtocolError> {
        let upto = self.consumed.wrapping_add(blocks_max);
        let hint = match self.open {
            Some(Open { length: Length::Exact(length), .. }) if length >= streaming_bytes => {
                CopyHint::Streaming
            }
            _ => CopyHint::Cached,
        };
        let mut bytes = 0;
        loop {
            if !self.poll(fabric, link, arrival)? {
                return Ok(Pulled { bytes, end: End::No });
            }
            match self.head {
                Head::Nothing => return Ok(Pulled { bytes, end: End::No }),
                Head::Chunk(_) if self.withholds_blocks() => return Ok(Pulled { bytes, end: End::No }),
                Head::Inline { payload, bytes: all, offset } => {
                    let taken = unpack(&payload, offset, all, to);
                    bytes += taken as usize;
                    if offset + taken < all {
                        self.head = Head::Inline { payload, bytes: all, offset: offset + taken };
                        return Ok(Pulled { bytes, end: End::No });
                    }
                    record!(fabric, link, LineIn { sequence: self.sequence, bytes: all as usize });
                    self.finish_inline();
                    return Ok(Pulled { bytes, end: End::Fin });
                }
                Head::Cancel(reason) => {
                    self.finish_cancel();
                    return Ok(Pulled { bytes, end: End::Cancelled(reason) });
                }
                Head::Exposed(named) => return self.pull_exposed(fabric, link, named, to, hint),
                Head::Chunk(mut chunk) => {
                    let piece = chunk.piece(self.landing.layout, chunk.j);
                    let j = chunk.j;
                    let here = self.has_arrived(fabric, link, arrival, &mut chunk, j)?;
                    if here {
                        bytes += self.copy_piece(fabric, link, &mut chunk, piece, to, hint);
                    }
                    let done = here && chunk.offset == piece.bytes;
                    if !done {
                        self.head = Head::Chunk(chunk);
                        return Ok(Pulled { bytes, end: End::No });
                    }
                    if self.finish_block(chunk) {
                        return Ok(Pulled { bytes, end: End::Fin });
                    }
                    if self.consumed == upto {
                        return Ok(Pulled { bytes, end: End::No });
                    }
                }
            }
        }
    }

    /// Copies the rest of a block's piece out, as much as fits, and records it. Returns the bytes copied.
    fn copy_piece(
        &self,
        fabric: &mut F,
        link: &mut F::Link,
        chunk: &mut Chunk,
        piece: Piece,
        to: &mut Scatter<'_, '_>,
        hint: CopyHint,
    ) -> usize {
        let (begin, before) = (recording::begin(fabric, link), chunk.offset);
        while chunk.offset < piece.bytes {
            let place = to.take((piece.bytes - chunk.offset) as usize);
            if place.is_empty() {
                break;
            }
            fabric.copy_out(link, self.landing.memory, piece.at + chunk.offset, place, hint);
            chunk.offset += u32::try_from(place.len()).unwrap_or(0);
        }
        let bytes = chunk.offset - before;
        if bytes > 0 {
            record!(fabric, link, since begin, CopyOut { sequence: self.sequence, block: self.consumed, bytes });
        }
        bytes as usize
    }

    /// Discards the payload of the open transfer that has arrived. Stops after the blocks of both rings, even if the peer writes more
    /// meanwhile.
    pub(crate) fn drain(
        &mut self,
        fabric: &F,
        link: &F::Link,
        arrival: Arrival,
    ) -> Result<(), ProtocolError> {
        let upto = self.consumed.wrapping_add(self.blocks_of_both());
        while self.open.is_some() && self.consumed != upto && self.poll(fabric, link, arrival)? {
            match self.head {
                Head::Nothing => return Ok(()),
                Head::Inline { .. } => {
                    self.finish_inline();
                    planted!(BlockAckedTwice => self.consumed = self.consumed.wrapping_add(1));
                }
                Head::Cancel(_) => self.finish_cancel(),
                Head::Exposed(_) => _ = self.finish_exposed(),
                Head::Chunk(mut chunk) => {
                    let j = chunk.j;
                    if !self.has_arrived(fabric, link, arrival, &mut chunk, j)? {
                        self.head = Head::Chunk(chunk);
                        return Ok(());
                    }
                    self.finish_block(chunk);
                }
            }
        }
        Ok(())
    }

    /// Forgets the bytes shown in place, since another call has taken them out.
    #[inline]
    pub(crate) const fn hide(&mut self) {
        self.shown = 0;
    }

    /// Returns payload to be read in place, at most `max_bytes` bytes.
    pub(crate) fn readable(
        &mut self,
        fabric: &F,
        link: &F::Link,
        arrival: Arrival,
        max_bytes: u32,
    ) -> Result<Readable<F::Region>, ProtocolError> {
        let found = self.find_readable(fabric, link, arrival, max_bytes)?;
        match &found {
            Readable::Run(run) => self.shown = run.bytes,
            Readable::Ended(_) => self.shown = 0,
            Readable::Nothing => {}
        }
        Ok(found)
    }

    fn find_readable(
        &mut self,
        fabric: &F,
        link: &F::Link,
        arrival: Arrival,
        max_bytes: u32,
    ) -> Result<Readable<F::Region>, ProtocolError> {
        while self.poll(fabric, link, arrival)? {
            let Landing { memory, layout } = self.landing;
            planted!(InlineHasNoPlace => if matches!(self.head, Head::Inline { .. }) { return Ok(Readable::Nothing); });
            let mut chunk = match self.head {
                Head::Nothing => return Ok(Readable::Nothing),
                Head::Inline { bytes, offset, .. } if offset < bytes => {
                    let bytes = (bytes - offset).min(max_bytes);
                    let run =
                        Run { memory, bytes, place: Place::Line { at: layout.line_at(self.at), offset } };
                    return Ok(if bytes > 0 { Readable::Run(run) } else { Readable::Nothing });
                }
                Head::Inline { .. } => {
                    self.finish_inline();
                    return Ok(Readable::Ended(End::Fin));
                }
                Head::Cancel(reason) => {
                    self.finish_cancel();
                    return Ok(Readable::Ended(End::Cancelled(reason)));
                }
                Head::Exposed(named) => return self.readable_exposed(named, max_bytes),
                Head::Chunk(chunk) => chunk,
            };
            let mut bytes = 0;
            for j in chunk.j..chunk.blocks {
                if bytes >= max_bytes || !self.has_arrived(fabric, link, arrival, &mut chunk, j)? {
                    break;
                }
                bytes += chunk.piece(layout, j).bytes - if j == chunk.j { chunk.offset } else { 0 };
            }
            self.head = Head::Chunk(chunk);
            let bytes = bytes.min(max_bytes);
            if bytes > 0 {
                return Ok(Readable::Run(Run { memory, bytes, place: Place::Blocks { layout, chunk } }));
            }
            let empty = chunk.arrived > chunk.j && chunk.piece(layout, chunk.j).bytes == chunk.offset;
            if !empty {
                return Ok(Readable::Nothing);
            }
            if self.finish_block(chunk) {
                return Ok(Readable::Ended(End::Fin));
            }
        }
        Ok(Readable::Nothing)
    }

    /// Consumes `bytes` bytes that [`readable`](Self::readable) showed. Returns `None`, and consumes nothing, for 0 bytes or more than
    /// were shown. (`readable` itself reports a transfer that ends without a byte.)
    pub(crate) fn consume(&mut self, mut bytes: u32) -> Option<End> {
        if bytes == 0 || bytes > self.shown {
            return None;
        }
        self.shown -= bytes;
        if let Head::Inline { payload, bytes: all, offset } = self.head {
            let offset = offset + bytes;
            if offset < all {
                self.head = Head::Inline { payload, bytes: all, offset };
                return Some(End::No);
            }
            self.finish_inline();
            return Some(End::Fin);
        }
        if let Head::Exposed(named) = self.head {
            return Some(self.take_named(named, bytes));
        }
        let layout = self.landing.layout;
        while let Head::Chunk(mut chunk) = self.head {
            let rest = chunk.piece(layout, chunk.j).bytes - chunk.offset;
            if chunk.arrived <= chunk.j {
                break;
            }
            if bytes < rest {
                chunk.offset += bytes;
                self.head = Head::Chunk(chunk);
                return Some(End::No);
            }
            bytes -= rest;
            if self.finish_block(chunk) {
                return (bytes == 0).then_some(End::Fin);
            }
            if bytes == 0 {
                return Some(End::No);
            }
        }
        (bytes == 0).then_some(End::No)
    }

    /// Ends a message in a slot line.
    #[inline]
    pub(super) fn finish_inline(&mut self) {
        self.head = Head::Nothing;
        self.open = None;
        self.sequence = after(self.sequence);
        self.inlines += 1;
        self.consume_block();
    }

    /// Ends a transfer by its CANCEL.
    fn finish_cancel(&mut self) {
        self.head = Head::Nothing;
        self.open = None;
        self.end_split();
        self.sequence = after(self.sequence);
        self.chunks += 1;
        self.consume_block();
    }

    #[inline]
    pub(super) fn consume_block(&mut self) {
        self.consumed = self.consumed.wrapping_add(1);
        self.at += 1;
        if self.at == self.landing.layout.block_count {
            self.at = 0;
        }
    }

    /// Consumes a block of the chunk. Returns true if the transfer ends with it.
    pub(super) fn finish_block(&mut self, mut chunk: Chunk) -> bool {
        self.consume_block();
        chunk.j += 1;
        chunk.offset = 0;
        if chunk.j < chunk.blocks {
            self.head = Head::Chunk(chunk);
            return false;
        }
        self.head = Head::Nothing;
        self.sequence = after(self.sequence);
        self.chunks += 1;
        if chunk.fin {
            self.open = None;
        }
        chunk.fin
    }
}
