//! Checks of a slot line against the state of the transfer, before it becomes the head. wire.md 3.2, 4.1 to 4.3.

use super::offered::SplitChunk;
use super::outcome::Chunk;
use super::{Head, Open, Receiver, Way};
use crate::error::ProtocolError;
use crate::fabric::Fabric;
use crate::wire::header::{Header, INLINE_BYTES_MAX, Length, RtsFields};
use crate::wire::line::Line;
use crate::wire::marks::Marks;
use crate::wire::sequence::is_before;

impl<F: Fabric> Receiver<F> {
    /// Checks that a chunk fits the blocks up to the end of the ring (wire.md 4.2).
    pub(super) fn shape(&self, bytes: u32, left: bool) -> Result<(), ProtocolError> {
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
    pub(super) fn accept(&mut self, line: &Line) -> Result<(), ProtocolError> {
        let header = Header::parse(line)?;
        let marks @ Marks { ends_lap, timed } = Marks::of(line);
        if marks != Marks::NONE && !F::DIRECT || timed && !header.may_be_timed() {
            return Err(ProtocolError::ReservedNotZero);
        }
        if self.close.is_some_and(|(last, _)| is_before(last, self.sequence)) {
            return Err(ProtocolError::ChunkAfterClose);
        }
        self.ends_lap = ends_lap;
        match header {
            Header::Inline { tag, bytes, payload } => {
                if usize::from(bytes) > INLINE_BYTES_MAX && !self.has_second_lines() {
                    return Err(ProtocolError::InlineTooLong);
                }
                self.check_none_open()?;
                let bytes = u32::from(bytes);
                let length = Length::Exact(u64::from(bytes));
                self.begin(tag, length, u64::from(bytes), false);
                self.head = Head::Inline { payload, bytes, offset: 0 };
            }
            Header::Chunk { transfer, bytes, fin, left, whole, remote, rts } => {
                self.shape(bytes, left)?;
                if let Some(RtsFields(rts)) = rts {
                    self.check_next(transfer)?;
                    check_length(rts.length, u64::from(bytes), fin)?;
                    self.begin(rts.tag, rts.length, u64::from(bytes), rts.want_cts);
                    if let (true, Some(open)) = (remote, &mut self.open) {
                        open.way = Way::Asked;
                    }
                } else {
                    let Some(open) = &mut self.open else { return Err(ProtocolError::NoTransferOpen) };
                    if transfer != open.transfer {
                        return Err(ProtocolError::WrongTransfer);
                    }
                    if bytes == 0 && !fin {
                        return Err(ProtocolError::ChunkEmpty);
                    }
                    let (before, way) = (open.seen, open.way);
                    let seen = open.see(bytes, remote)?;
                    check_length(open.length, seen, fin)?;
                    open.seen = seen;
                    if way == Way::Split {
                        return self.accept_tail(before, seen);
                    }
                    if remote {
                        self.note_remote_bytes(seen);
                    }
                }
                let layout = self.landing.layout;
                let (first, blocks) = (self.at, layout.blocks_for(bytes));
                self.head = Head::Chunk(Chunk {
                    first,
                    bytes,
                    blocks,
                    left,
                    whole,
                    fin,
                    timed,
                    j: 0,
                    offset: 0,
                    arrived: layout.group_blocks().min(blocks),
                });
            }
            Header::Exposed { transfer, tag, bytes, place, offset } => {
                self.accept_exposed(transfer, tag, bytes, [place, offset])?;
            }
            Header::Split { transfer, tag, bytes, head, place, offset } => {
                self.accept_split(SplitChunk { transfer, tag, bytes, head, source: [place, offset] })?;
            }
            Header::Cancel { transfer, reason } => {
                self.check_is_open(transfer)?;
                self.cancels += 1;
                self.head = Head::Cancel(reason);
            }
        }
        Ok(())
    }

    /// Checks that no transfer begins inside another (wire.md 4.1).
    const fn check_none_open(&self) -> Result<(), ProtocolError> {
        if self.open.is_some() { Err(ProtocolError::TransferOpen) } else { Ok(()) }
    }

    /// Checks that this is the next transfer, and that none is open (wire.md 4.1).
    pub(super) fn check_next(&self, transfer: u64) -> Result<(), ProtocolError> {
        self.check_none_open()?;
        if transfer == self.transfers.wrapping_add(1) { Ok(()) } else { Err(ProtocolError::WrongTransfer) }
    }

    /// Checks that a CANCEL names the open transfer (wire.md 4.1).
    fn check_is_open(&self, transfer: u64) -> Result<(), ProtocolError> {
        planted!(CancelOfNone => if self.open.is_none() { return Ok(()); });
        match &self.open {
            None => Err(ProtocolError::NoTransferOpen),
            Some(open) if open.transfer != transfer => Err(ProtocolError::WrongTransfer),
            Some(_) => Ok(()),
        }
    }

    pub(super) fn begin(&mut self, tag: u64, length: Length, seen: u64, want_cts: bool) {
        self.transfers = self.transfers.wrapping_add(1);
        self.open = Some(Open {
            transfer: self.transfers,
            tag,
            length,
            seen,
            want_cts,
            way: Way::Blocks,
            discarding: false,
            shown: false,
        });
    }
}

/// Checks that a message ends exactly when all of it was sent (wire.md 4.3).
fn check_length(length: Length, seen: u64, fin: bool) -> Result<(), ProtocolError> {
    match length {
        Length::Stream => Ok(()),
        Length::Exact(length) if seen > length => Err(ProtocolError::LengthExceeded),
        Length::Exact(length) if (seen == length) != fin => Err(ProtocolError::WrongEnd),
        Length::Exact(_) => Ok(()),
    }
}
