//! Payload that is copied out, read in place, or discarded. wire.md 4.

use core::ops::Range;

use super::outcome::{FIRST_LINE_BYTES, Place};
use super::timing::Destination;
use super::{Chunk, End, Head, Pulled, Readable, Receiver, Run};
use crate::copying::{CopyKernel, SizeClass};
use crate::error::ProtocolError;
use crate::fabric::{Fabric, times_copies};
use crate::recording;
use crate::slices::{CALL_BLOCKS, Scatter};
use crate::wire::arrival::Arrival;
use crate::wire::header::Length;
use crate::wire::inline::unpack;
use crate::wire::layout::{Landing, Piece};
use crate::wire::sequence::after;

impl<F: Fabric> Receiver<F> {
    /// Copies out the payload of the open transfer that has arrived and fits, up to the group with which that is `blocks_max` blocks, so that they
    /// can be acknowledged while more is copied.
    pub(crate) fn pull(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        arrival: Arrival,
        to: &mut Scatter<'_, '_>,
        destination: Destination,
        blocks_max: u64,
    ) -> Result<Pulled, ProtocolError> {
        let begin = self.consumed;
        let mut bytes = 0;
        loop {
            if !self.poll(fabric, link, arrival)? {
                return Ok(Pulled { bytes, end: End::No });
            }
            match self.head {
                Head::Nothing => return Ok(Pulled { bytes, end: End::No }),
                Head::Chunk(_) if self.withholds_blocks() => return Ok(Pulled { bytes, end: End::No }),
                Head::Inline { payload, bytes: all, offset } => {
                    let taken = self.take_payload_of_lines(fabric, link, &payload, offset..all, to);
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
                Head::Exposed(named) => {
                    return self.pull_exposed(fabric, link, named, to, self.exposed_kernel(destination));
                }
                Head::Chunk(mut chunk) => {
                    let piece = chunk.piece(self.landing.layout, chunk.j);
                    let j = chunk.j;
                    let here = self.has_arrived(fabric, link, arrival, &mut chunk, j)?;
                    if here {
                        bytes += self.copy_piece(fabric, link, &mut chunk, piece, to, destination);
                    }
                    let done = here && chunk.offset == piece.bytes;
                    if !done {
                        self.head = Head::Chunk(chunk);
                        return Ok(Pulled { bytes, end: End::No });
                    }
                    if self.finish_group(chunk) {
                        return Ok(Pulled { bytes, end: End::Fin });
                    }
                    if self.consumed.wrapping_sub(begin) >= blocks_max {
                        return Ok(Pulled { bytes, end: End::No });
                    }
                }
            }
        }
    }

    /// Copies the rest of a message in one line or two out, as much as fits. Returns the bytes copied.
    fn take_payload_of_lines(
        &self,
        fabric: &mut F,
        link: &mut F::Link,
        payload: &[u64; 5],
        rest: Range<u32>,
        to: &mut Scatter<'_, '_>,
    ) -> u32 {
        let Landing { memory, layout } = self.landing;
        let mut at = rest.start + unpack(payload, rest.start, rest.end.min(FIRST_LINE_BYTES), to);
        while at >= FIRST_LINE_BYTES && at < rest.end {
            let place = to.take((rest.end - at) as usize);
            if place.is_empty() {
                break;
            }
            let from = layout.second_line_at(self.at) + at - FIRST_LINE_BYTES;
            fabric.copy_out(link, memory, from, place, CopyKernel::Plain);
            at += u32::try_from(place.len()).unwrap_or(0);
        }
        at - rest.start
    }

    /// Copies the rest of a group's piece out, as much as fits, and records it. Returns the bytes copied.
    fn copy_piece(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        chunk: &mut Chunk,
        piece: Piece,
        to: &mut Scatter<'_, '_>,
        destination: Destination,
    ) -> usize {
        let (begin, before) = (recording::begin(fabric, link), chunk.offset);
        let length = self.open.map_or(Length::Stream, |open| open.length);
        let kernel = self.block_kernel(length, destination);
        let is_timed = chunk.timed && chunk.j == 0 && destination == Destination::Any;
        while chunk.offset < piece.bytes {
            let place = to.take((piece.bytes - chunk.offset) as usize);
            if place.is_empty() {
                break;
            }
            if times_copies::<F>() && is_timed && place.len() == piece.bytes as usize {
                self.copy_out_timed(fabric, link, SizeClass::of_length(length), piece.at, place);
            } else {
                fabric.copy_out(link, self.landing.memory, piece.at + chunk.offset, place, kernel);
            }
            chunk.offset += u32::try_from(place.len()).unwrap_or(0);
        }
        let bytes = chunk.offset - before;
        if bytes > 0 {
            record!(fabric, link, since begin, CopyOut { sequence: self.sequence, block: self.consumed, bytes });
        }
        bytes as usize
    }

    /// Discards the payload of the open transfer that has arrived. Stops after the blocks of both rings or of one call, even if the peer
    /// writes more meanwhile.
    pub(crate) fn drain(
        &mut self,
        fabric: &F,
        link: &F::Link,
        arrival: Arrival,
    ) -> Result<(), ProtocolError> {
        let (begin, blocks_max) = (self.consumed, self.blocks_of_both().min(u64::from(CALL_BLOCKS)));
        while self.open.is_some()
            && self.consumed.wrapping_sub(begin) < blocks_max
            && self.poll(fabric, link, arrival)?
        {
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
                    self.finish_group(chunk);
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
            let (mut bytes, begin) = (0, chunk.j);
            for j in layout.groups(chunk.j, chunk.blocks) {
                if bytes >= max_bytes
                    || j - begin >= CALL_BLOCKS
                    || !self.has_arrived(fabric, link, arrival, &mut chunk, j)?
                {
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
            if self.finish_group(chunk) {
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
            if self.finish_group(chunk) {
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
        self.consume_block_of_lap(self.ends_lap);
    }

    /// Ends a transfer by its CANCEL.
    fn finish_cancel(&mut self) {
        self.head = Head::Nothing;
        self.open = None;
        self.end_split();
        self.sequence = after(self.sequence);
        self.chunks += 1;
        self.consume_block_of_lap(self.ends_lap);
    }

    /// Consumes a group of the chunk. Returns true if the transfer ends with it.
    pub(super) fn finish_group(&mut self, mut chunk: Chunk) -> bool {
        let end = chunk.group_end(self.landing.layout, chunk.j);
        let count = end - chunk.j;
        (chunk.j, chunk.offset) = (end, 0);
        if chunk.j < chunk.blocks {
            self.consume_blocks_of_lap(count, false);
            self.head = Head::Chunk(chunk);
            return false;
        }
        self.consume_blocks_of_lap(count, self.ends_lap);
        self.head = Head::Nothing;
        self.sequence = after(self.sequence);
        self.chunks += 1;
        if chunk.fin {
            self.open = None;
        }
        chunk.fin
    }
}
