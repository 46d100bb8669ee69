//! The receiving half of one direction: polls the next slot line, checks what it says, and hands out payload block by
//! block as it arrives. wire.md 4.
//!
//! ```text
//!          slot line with RTS            last block of FIN, or of the chunk that CANCEL names
//!   NONE ---------------------> OPEN ------------------------------------------------------> NONE
//!                                | reject                                                      ^
//!                                +--> DISCARDING ---------- the same ---------------------------+
//! ```
//!
//! What the peer writes is read once, then checked, then used.

use crate::arrival::Arrival;
use crate::error::{ProtocolError, Reason};
use crate::fabric::{CopyHint, Fabric};
use crate::header::{Header, Length, RtsFields};
use crate::layout::{Landing, Layout, Piece};
use crate::line::Line;
use crate::sequence::{after, before, is_before};
use crate::slices::Scatter;

/// How the bytes of a transfer ended, if they did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// There is more to come.
    No,
    /// That was all of it.
    Fin,
    /// The sender gave the transfer up; what came is incomplete.
    Cancelled(Reason),
}

/// What a call took out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// Payload bytes.
    pub bytes: usize,
    /// Whether they were the last.
    pub end: End,
}

impl Pulled {
    pub(crate) const NOTHING: Self = Self { bytes: 0, end: End::No };
}

/// What [`Endpoint::try_recv`](crate::Endpoint::try_recv) found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecv {
    /// Nothing has come.
    Nothing,
    /// A message that came in a line; it was taken.
    Taken {
        /// The sender's tag.
        tag: u64,
        /// Its bytes.
        bytes: usize,
    },
    /// Anything else: ask [`Endpoint::incoming`](crate::Endpoint::incoming).
    Other,
}

/// What can be read in place.
#[derive(Clone, Copy, Debug)]
pub enum Readable<M> {
    /// Nothing has arrived.
    Nothing,
    /// Payload in blocks.
    Run(Run<M>),
    /// The transfer is over.
    Ended(End),
}

/// Payload that has arrived, in place; valid until it is consumed.
#[derive(Clone, Copy, Debug)]
pub struct Run<M> {
    /// The memory that the offsets refer to.
    pub memory: M,
    layout: Layout,
    chunk: Chunk,
    /// Bytes in it; more than 0.
    pub bytes: u32,
}

impl<M> Run<M> {
    /// The spans as (offset, bytes), in order.
    pub fn spans(&self) -> impl Iterator<Item = (u32, u32)> + use<M> {
        let (layout, chunk, mut rest) = (self.layout, self.chunk, self.bytes);
        // A block may be empty: the first of a right-aligned chunk, or one that was taken out to its last byte.
        (chunk.j..chunk.blocks).filter_map(move |j| {
            let piece = chunk.piece(layout, j);
            let skip = if j == chunk.j { chunk.offset } else { 0 };
            let bytes = (piece.bytes - skip).min(rest);
            rest -= bytes;
            (bytes > 0).then_some((piece.at + skip, bytes))
        })
    }
}

/// The chunk that is being taken out.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    first: u32,
    bytes: u32,
    blocks: u32,
    left: bool,
    whole: bool,
    fin: bool,
    /// The block that comes next, and how much of it was taken.
    j: u32,
    offset: u32,
    /// Blocks before this one were seen to have arrived.
    arrived: u32,
}

impl Chunk {
    #[inline]
    const fn piece(&self, layout: Layout, j: u32) -> Piece {
        layout.piece(self.first, self.blocks, self.bytes, self.left, j)
    }
}

/// What is at the head.
#[derive(Clone, Copy, Debug)]
enum Head {
    Nothing,
    Inline { payload: [u64; 5], bytes: u32, offset: u32 },
    Chunk(Chunk),
}

/// The transfer that is at the head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    pub(crate) transfer: u64,
    pub(crate) tag: u64,
    pub(crate) length: Length,
    /// Bytes in the headers so far.
    seen: u64,
    pub(crate) want_cts: bool,
    pub(crate) discarding: bool,
    /// The application has seen it: then it must also see how it ends.
    pub(crate) shown: bool,
}

#[derive(Clone, Copy, Debug)]
struct Ending {
    transfer: u64,
    last: u64,
    reason: Reason,
}

pub(crate) struct Receiver<F: Fabric> {
    landing: Landing<F::Region>,
    /// The sequence awaited, and the block where its slot line is.
    sequence: u64,
    at: u32,
    consumed: u64,
    transfers: u64,
    open: Option<Open>,
    head: Head,
    cancel: Option<Ending>,
    /// The CANCEL of the transfer after that one: the sender goes on once the blocks are consumed, and the application
    /// may not have been told of the first yet. There can be no third: it needs a block of the second consumed.
    next_cancel: Option<Ending>,
    close: Option<(u64, Reason)>,
    pub(crate) check_misses: u64,
    pub(crate) chunks: u64,
    pub(crate) inlines: u64,
}

impl<F: Fabric> Receiver<F> {
    pub(crate) const fn new(landing: Landing<F::Region>, sequence: u64, blocks: u64, transfers: u64) -> Self {
        Self {
            landing,
            sequence,
            at: 0,
            consumed: blocks,
            transfers,
            open: None,
            head: Head::Nothing,
            cancel: None,
            next_cancel: None,
            close: None,
            check_misses: 0,
            chunks: 0,
            inlines: 0,
        }
    }

    /// Blocks consumed, counted over the connection.
    #[inline]
    pub(crate) const fn consumed(&self) -> u64 {
        self.consumed
    }

    #[inline]
    pub(crate) const fn open(&self) -> Option<&Open> {
        self.open.as_ref()
    }

    pub(crate) const fn open_mut(&mut self) -> Option<&mut Open> {
        self.open.as_mut()
    }

    /// Whether the head transfer is to be thrown away by [`drain`](Self::drain).
    pub(crate) fn is_draining(&self) -> bool {
        self.open.is_some_and(|open| open.discarding || self.is_cancelled(open.transfer))
    }

    fn is_cancelled(&self, transfer: u64) -> bool {
        self.cancel.is_some_and(|cancel| cancel.transfer == transfer)
    }

    /// The reason that the peer closed with, once all that it sent before was taken out.
    pub(crate) fn closed(&self) -> Option<Reason> {
        let (last, reason) = self.close?;
        let done = is_before(last, self.sequence) && self.open.is_none();
        (done || reason != Reason::DONE).then_some(reason)
    }

    pub(crate) const fn is_closing(&self) -> bool {
        self.close.is_some()
    }

    pub(crate) fn handle_close(&mut self, last: u64, reason: Reason) -> Result<(), ProtocolError> {
        if self.close.is_some() {
            return Err(ProtocolError::CloseTwice);
        }
        if is_before(last, before(self.sequence)) {
            return Err(ProtocolError::ChunkAfterClose);
        }
        self.close = Some((last, reason));
        Ok(())
    }

    pub(crate) fn handle_cancel(
        &mut self,
        transfer: u64,
        last: u64,
        reason: Reason,
    ) -> Result<(), ProtocolError> {
        if self.next_cancel.is_some() || self.is_cancelled(transfer) {
            return Err(ProtocolError::CancelPending);
        }
        let begun = self.open.is_some_and(|open| open.transfer == transfer);
        let to_come = is_before(self.transfers, transfer);
        let window = u64::from(self.landing.layout.block_count);
        let beyond = last.wrapping_sub(before(self.sequence)) > window + 1;
        if !(begun || to_come) || is_before(last, before(self.sequence)) || beyond {
            return Err(ProtocolError::CancelUnknownTransfer);
        }
        let ending = Some(Ending { transfer, last, reason });
        *(if self.cancel.is_none() { &mut self.cancel } else { &mut self.next_cancel }) = ending;
        Ok(())
    }

    /// Looks for the next slot line, and checks it. Whether there is something at the head.
    #[inline]
    pub(crate) fn poll(
        &mut self,
        fabric: &F,
        link: &F::Link,
        arrival: Arrival,
    ) -> Result<bool, ProtocolError> {
        if !matches!(self.head, Head::Nothing) {
            return Ok(true);
        }
        let Landing { memory, layout } = self.landing;
        let flag = fabric.flag(link, memory, layout.flag_at(self.at));
        if !arrival.may_be(flag, self.sequence) {
            return Ok(false);
        }
        let line = fabric.take_line(link, memory, layout.line_at(self.at));
        if arrival == Arrival::CheckedFlag && !self.is_whole(fabric, link, &line) {
            self.check_misses += 1;
            return Ok(false);
        }
        self.accept(&line)
    }

    /// What has come that is awaited next: its sequence, and how many blocks of its chunk came before.
    pub(crate) fn next_arrival(&self, fabric: &F, link: &F::Link, arrival: Arrival) -> Option<(u64, u32)> {
        let Landing { memory, layout } = self.landing;
        let (index, blocks) = match self.head {
            Head::Nothing => (self.at, 0),
            Head::Inline { .. } => return Some((self.sequence, 1)),
            Head::Chunk(chunk) if chunk.arrived < chunk.blocks => {
                (chunk.first + chunk.arrived, chunk.arrived)
            }
            Head::Chunk(chunk) => return Some((self.sequence, chunk.blocks)),
        };
        let came = arrival.may_be(fabric.flag(link, memory, layout.flag_at(index)), self.sequence);
        came.then_some((self.sequence, blocks))
    }

    /// Sequence of the newest chunk that was taken out.
    pub(crate) const fn last(&self) -> u64 {
        before(self.sequence)
    }

    /// Whether a slot line, and the payload that its flag stands for, match the CRC in the flag.
    fn is_whole(&self, fabric: &F, link: &F::Link, line: &Line) -> bool {
        let arrival = Arrival::CheckedFlag;
        let Landing { memory, layout } = self.landing;
        match Header::parse(line) {
            Ok(Header::Inline { .. }) => arrival.line_flag(fabric, line, self.sequence) == line.flag(),
            Ok(Header::Chunk { bytes, left, .. }) if self.shape(bytes, left).is_ok() => {
                let piece = layout.piece(self.at, layout.blocks_for(bytes), bytes, left, 0);
                let seed = arrival.seed(fabric, self.sequence, piece.bytes);
                let crc = fabric.crc_out(link, memory, piece.at, piece.bytes, seed);
                arrival.flag(self.sequence, Arrival::body_crc(fabric, line, crc)) == line.flag()
            }
            // Half arrived, or nonsense: only the deadline can tell.
            Ok(Header::Chunk { .. }) | Err(_) => false,
        }
    }

    /// wire.md 4.2: a chunk fits the blocks up to the end of the ring.
    fn shape(&self, bytes: u32, left: bool) -> Result<(), ProtocolError> {
        let layout = self.landing.layout;
        if bytes > layout.capacity(layout.block_count - self.at) {
            return Err(ProtocolError::ChunkTooLong);
        }
        if !left && !layout.can_right_align(bytes) {
            return Err(ProtocolError::ChunkShape);
        }
        Ok(())
    }

    /// Checks a slot line against the state, and makes it the head.
    #[inline]
    fn accept(&mut self, line: &Line) -> Result<bool, ProtocolError> {
        let header = Header::parse(line)?;
        if self.close.is_some_and(|(last, _)| is_before(last, self.sequence)) {
            return Err(ProtocolError::ChunkAfterClose);
        }
        match header {
            Header::Inline { tag, bytes, payload, after_cancel } => {
                if !self.may_begin(after_cancel)? {
                    return Ok(false);
                }
                let bytes = u32::from(bytes);
                let length = Length::Exact(u64::from(bytes));
                self.begin(tag, length, u64::from(bytes), false);
                self.head = Head::Inline { payload, bytes, offset: 0 };
            }
            Header::Chunk { transfer, bytes, fin, left, whole, rts } => {
                self.shape(bytes, left)?;
                if let Some(RtsFields(rts)) = rts {
                    if !self.may_begin(rts.after_cancel)? {
                        return Ok(false);
                    }
                    if transfer != self.transfers.wrapping_add(1) {
                        return Err(ProtocolError::WrongTransfer);
                    }
                    check_length(rts.length, u64::from(bytes), fin)?;
                    self.begin(rts.tag, rts.length, u64::from(bytes), rts.want_cts);
                } else {
                    let Some(open) = &mut self.open else { return Err(ProtocolError::NoTransferOpen) };
                    if transfer != open.transfer {
                        return Err(ProtocolError::WrongTransfer);
                    }
                    if bytes == 0 && !fin {
                        return Err(ProtocolError::ChunkEmpty);
                    }
                    let seen =
                        open.seen.checked_add(u64::from(bytes)).ok_or(ProtocolError::LengthExceeded)?;
                    check_length(open.length, seen, fin)?;
                    open.seen = seen;
                }
                let blocks = self.landing.layout.blocks_for(bytes);
                let first = self.at;
                self.head = Head::Chunk(Chunk {
                    first,
                    bytes,
                    blocks,
                    left,
                    whole,
                    fin,
                    j: 0,
                    offset: 0,
                    arrived: 1,
                });
            }
        }
        Ok(true)
    }

    /// Whether a transfer can begin: not inside another, unless that was cancelled and CANCEL is yet to come.
    fn may_begin(&self, after_cancel: bool) -> Result<bool, ProtocolError> {
        match (self.open.is_some(), after_cancel) {
            (false, _) => Ok(true),
            (true, true) => Ok(false),
            (true, false) => Err(ProtocolError::TransferOpen),
        }
    }

    fn begin(&mut self, tag: u64, length: Length, seen: u64, want_cts: bool) {
        self.transfers = self.transfers.wrapping_add(1);
        self.open = Some(Open {
            transfer: self.transfers,
            tag,
            length,
            seen,
            want_cts,
            discarding: false,
            shown: false,
        });
    }

    /// Whether block `j` of the chunk at the head has arrived; with [`Chunk::whole`], whether all have.
    #[inline]
    fn has_arrived(
        &mut self,
        fabric: &F,
        link: &F::Link,
        arrival: Arrival,
        chunk: &mut Chunk,
        j: u32,
    ) -> bool {
        let upto = if chunk.whole { chunk.blocks } else { j + 1 };
        while chunk.arrived < upto {
            let Landing { memory, layout } = self.landing;
            let flag = fabric.flag(link, memory, layout.flag_at(chunk.first + chunk.arrived));
            if !arrival.may_be(flag, self.sequence) {
                return false;
            }
            if arrival == Arrival::CheckedFlag {
                let piece = chunk.piece(layout, chunk.arrived);
                let seed = arrival.seed(fabric, self.sequence, piece.bytes);
                let crc = fabric.crc_out(link, memory, piece.at, piece.bytes, seed);
                if arrival.flag(self.sequence, crc) != flag {
                    self.check_misses += 1;
                    return false;
                }
            }
            chunk.arrived += 1;
        }
        true
    }

    /// Takes a message that came in a line, if that is what comes next and there is nothing unusual about it.
    #[inline]
    pub(crate) fn try_inline(
        &mut self,
        fabric: &F,
        link: &F::Link,
        arrival: Arrival,
        to: &mut [&mut [u8]],
    ) -> TryRecv {
        if self.open.is_some() || self.close.is_some() || arrival != Arrival::Flag {
            return TryRecv::Other;
        }
        let Landing { memory, layout } = self.landing;
        if fabric.flag(link, memory, layout.flag_at(self.at)) != self.sequence {
            return TryRecv::Nothing;
        }
        let line = fabric.take_line(link, memory, layout.line_at(self.at));
        let Some((tag, bytes, payload)) = Header::plain_inline(&line) else { return TryRecv::Other };
        if !unpack_whole(&payload, bytes, to) {
            return TryRecv::Other;
        }
        self.transfers = self.transfers.wrapping_add(1);
        self.sequence = after(self.sequence);
        self.inlines += 1;
        self.consume_block();
        TryRecv::Taken { tag, bytes }
    }

    /// Takes what has arrived of the head transfer, and fits.
    pub(crate) fn pull(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        arrival: Arrival,
        to: &mut Scatter<'_, '_>,
        streaming_bytes: u64,
    ) -> Result<Pulled, ProtocolError> {
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
                Head::Inline { payload, bytes: all, offset } => {
                    let taken = unpack(&payload, offset, all, to);
                    bytes += taken as usize;
                    if offset + taken < all {
                        self.head = Head::Inline { payload, bytes: all, offset: offset + taken };
                        return Ok(Pulled { bytes, end: End::No });
                    }
                    self.finish_inline();
                    return Ok(Pulled { bytes, end: End::Fin });
                }
                Head::Chunk(mut chunk) => {
                    let piece = chunk.piece(self.landing.layout, chunk.j);
                    let j = chunk.j;
                    let here = self.has_arrived(fabric, link, arrival, &mut chunk, j);
                    while here && chunk.offset < piece.bytes {
                        let place = to.take((piece.bytes - chunk.offset) as usize);
                        if place.is_empty() {
                            break;
                        }
                        fabric.copy_out(link, self.landing.memory, piece.at + chunk.offset, place, hint);
                        bytes += place.len();
                        chunk.offset += u32::try_from(place.len()).unwrap_or(0);
                    }
                    let done = here && chunk.offset == piece.bytes;
                    if !done {
                        self.head = Head::Chunk(chunk);
                        return Ok(Pulled { bytes, end: End::No });
                    }
                    if self.finish_block(chunk) {
                        return Ok(Pulled { bytes, end: End::Fin });
                    }
                }
            }
        }
    }

    /// Throws away what has arrived of a transfer that is rejected or cancelled, at most one chunk's worth of blocks a
    /// call.
    ///
    /// Gives the reason once a cancelled transfer is gone that the application has not rejected.
    pub(crate) fn drain(
        &mut self,
        fabric: &F,
        link: &F::Link,
        arrival: Arrival,
    ) -> Result<Pulled, ProtocolError> {
        let Some(open) = self.open else { return Ok(Pulled::NOTHING) };
        loop {
            if let Some(cancel) = self.cancel.filter(|cancel| cancel.transfer == open.transfer)
                && is_before(cancel.last, self.sequence)
                && matches!(self.head, Head::Nothing)
            {
                self.cancel = self.next_cancel.take();
                self.open = None;
                let end = if open.discarding { End::No } else { End::Cancelled(cancel.reason) };
                return Ok(Pulled { bytes: 0, end });
            }
            if !self.poll(fabric, link, arrival)? {
                return Ok(Pulled::NOTHING);
            }
            match self.head {
                Head::Nothing => return Ok(Pulled::NOTHING),
                Head::Inline { .. } => {
                    self.finish_inline();
                    return Ok(Pulled::NOTHING);
                }
                Head::Chunk(mut chunk) => {
                    let j = chunk.j;
                    if !self.has_arrived(fabric, link, arrival, &mut chunk, j) {
                        self.head = Head::Chunk(chunk);
                        return Ok(Pulled::NOTHING);
                    }
                    if self.finish_block(chunk) {
                        // It ended although it was cancelled or rejected: then that came too late.
                        if self.is_cancelled(open.transfer) {
                            return Err(ProtocolError::CancelUnknownTransfer);
                        }
                        return Ok(Pulled::NOTHING);
                    }
                }
            }
        }
    }

    /// What can be read in place, of at most `max_bytes` bytes.
    pub(crate) fn readable(
        &mut self,
        fabric: &F,
        link: &F::Link,
        arrival: Arrival,
        max_bytes: u32,
    ) -> Result<Readable<F::Region>, ProtocolError> {
        let Landing { memory, layout } = self.landing;
        while self.poll(fabric, link, arrival)? {
            let Head::Chunk(mut chunk) = self.head else { return Ok(Readable::Nothing) };
            let mut bytes = 0;
            for j in chunk.j..chunk.blocks {
                if bytes >= max_bytes || !self.has_arrived(fabric, link, arrival, &mut chunk, j) {
                    break;
                }
                bytes += chunk.piece(layout, j).bytes - if j == chunk.j { chunk.offset } else { 0 };
            }
            self.head = Head::Chunk(chunk);
            let bytes = bytes.min(max_bytes);
            if bytes > 0 {
                return Ok(Readable::Run(Run { memory, layout, chunk, bytes }));
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

    /// Gives back `bytes` bytes that [`readable`](Self::readable) showed. `None` if it did not show as many.
    pub(crate) fn consume(&mut self, mut bytes: u32) -> Option<End> {
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

    /// A message in a slot line was taken out.
    #[inline]
    fn finish_inline(&mut self) {
        self.head = Head::Nothing;
        self.open = None;
        self.sequence = after(self.sequence);
        self.inlines += 1;
        self.consume_block();
    }

    #[inline]
    fn consume_block(&mut self) {
        self.consumed = self.consumed.wrapping_add(1);
        self.at += 1;
        if self.at == self.landing.layout.block_count {
            self.at = 0;
        }
    }

    /// A block of the chunk was taken out. Whether the transfer ended with it.
    fn finish_block(&mut self, mut chunk: Chunk) -> bool {
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

/// wire.md 4.3: a message ends exactly when all of it was sent.
fn check_length(length: Length, seen: u64, fin: bool) -> Result<(), ProtocolError> {
    match length {
        Length::Stream => Ok(()),
        Length::Exact(length) if seen > length => Err(ProtocolError::LengthExceeded),
        Length::Exact(length) if (seen == length) != fin => Err(ProtocolError::WrongEnd),
        Length::Exact(_) => Ok(()),
    }
}

/// Puts a whole inline payload into slices, if it fits.
#[inline]
fn unpack_whole(payload: &[u64; 5], bytes: usize, to: &mut [&mut [u8]]) -> bool {
    if let [one] = to
        && let (Some(place), 8) = (one.first_chunk_mut::<8>(), bytes)
    {
        *place = payload[0].to_le_bytes();
        return true;
    }
    let room = to.iter().map(|slice| slice.len()).sum::<usize>();
    let all = u32::try_from(bytes).unwrap_or(u32::MAX);
    bytes <= room && unpack(payload, 0, all, &mut Scatter::new(to)) == all
}

/// Bytes of an inline payload from `offset` on, as many as fit.
fn unpack(payload: &[u64; 5], offset: u32, bytes: u32, to: &mut Scatter<'_, '_>) -> u32 {
    let mut flat = [0; 40];
    for (place, word) in flat.as_chunks_mut::<8>().0.iter_mut().zip(payload) {
        *place = word.to_le_bytes();
    }
    let mut taken = offset;
    while taken < bytes {
        let place = to.take((bytes - taken) as usize);
        let end = taken as usize + place.len();
        match flat.get(taken as usize..end) {
            Some(run) if !run.is_empty() => place.copy_from_slice(run),
            _ => break,
        }
        taken += u32::try_from(place.len()).unwrap_or(0);
    }
    taken - offset
}
