//! The device of posted writes: reads images, makes pieces visible, and completes writes, as the seed decides.

use superpipe_core::{Completion, DestinationClaim, Registration, WrId};

use super::Posted;
use crate::fabric::buffers::Buffers;
use crate::fabric::memory::{Memories, Memory, Place};

/// Most pieces of a write: enough that a block's payload and flag arrive separately in any order.
const PIECES_MAX: usize = 6;

/// Target of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The memory of this image.
    Image(Memory),
    /// Memory of the peer's application.
    Remote(Ends),
}

/// Source and destination of a remote write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) from: Registration,
    pub(super) to: DestinationClaim,
}

/// A write on its way.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) id: u64,
    pub(super) link: usize,
    pub(super) target: Target,
    pub(super) wr: Option<WrId>,
    /// Invisible pieces as (offset, bytes). The first `pieces_left` of them count.
    pub(super) pieces: [(u32, u32); PIECES_MAX],
    pub(super) pieces_left: usize,
    /// Rest that the device has read before the completion, with its offset.
    pub(super) read: Option<(u32, Vec<u8>)>,
}

impl Write {
    /// Returns true if any of these bytes is still invisible.
    pub(super) fn covers(&self, at: u32, bytes: u32) -> bool {
        self.pieces[..self.pieces_left].iter().any(|piece| piece.0 < at + bytes && at < piece.0 + piece.1)
    }
}

impl Posted {
    /// Cuts a write into pieces, and shuffles them without order inside a write.
    pub(super) fn cut(&mut self, at: u32, bytes: u32) -> ([(u32, u32); PIECES_MAX], usize) {
        let mut cuts = [at + bytes; PIECES_MAX + 1];
        cuts[0] = at;
        let count = 1 + self.rng.below(PIECES_MAX);
        for cut in &mut cuts[1..count] {
            // Half of the cuts are near the end, where the flag is.
            let offset = self.rng.below(bytes as usize + 1);
            let near = bytes as usize - self.rng.below(bytes.min(24) as usize + 1);
            #[expect(clippy::cast_possible_truncation, reason = "below bytes")]
            let offset = (if self.rng.one_in(2) { offset } else { near }) as u32;
            *cut = at + offset;
        }
        cuts[..count].sort_unstable();
        let mut pieces = [(0, 0); PIECES_MAX];
        for (piece, pair) in pieces.iter_mut().zip(cuts.windows(2)).take(count) {
            *piece = (pair[0], pair[1] - pair[0]);
        }
        // Pieces are taken from the back.
        if self.setup.order_inside_write {
            pieces[..count].reverse();
        } else {
            for index in (1..count).rev() {
                pieces.swap(index, self.rng.below(index + 1));
            }
        }
        (pieces, count)
    }

    /// Makes one piece of one write visible.
    pub(super) fn place(&mut self) {
        if self.writes.is_empty() {
            return;
        }
        let index = self.rng.below(self.writes.len());
        if self.writes[index].pieces_left > 0 {
            self.place_piece(index);
        }
        // The write may have ended the link.
        if !self.has_ended {
            self.retire(index);
        }
    }

    /// Makes the next piece of this write visible.
    fn place_piece(&mut self, index: usize) {
        let write = &mut self.writes[index];
        write.pieces_left -= 1;
        let (at, bytes) = write.pieces[write.pieces_left];
        let Write { id, link, target, wr, pieces_left, .. } = *write;
        let from = source(&self.images, &self.buffers, &self.writes[index], (at, bytes));
        let to = match target {
            Target::Image(to) => to,
            Target::Remote(ends) => {
                let data = from.to_vec();
                return self.place_remote(link, ends, at, &data);
            }
        };
        self.memories.bytes_mut(to, at, bytes).copy_from_slice(from);
        // A peer that sees the whole line may acknowledge it, which gives it back.
        if pieces_left == 0 && (wr.is_none() || to.place == Place::ControlPage) {
            self.owned[link].retain(|owned| owned.id != id);
        }
    }

    /// Returns true if the memory holds the bytes of all pieces of a write to it that are not visible, so that its reader may have seen it complete.
    pub(super) fn holds_rest(&self, index: usize, to: Memory) -> bool {
        let write = &self.writes[index];
        write.pieces[..write.pieces_left].iter().all(|&(at, bytes)| {
            source(&self.images, &self.buffers, write, (at, bytes)) == self.memories.bytes(to, at, bytes)
        })
    }

    /// Makes the rest of a write visible.
    pub(super) fn place_rest(&mut self, index: usize) {
        while self.writes[index].pieces_left > 0 {
            self.place_piece(index);
        }
    }

    /// Forgets a write that is visible and completed.
    pub(super) fn retire(&mut self, index: usize) {
        if self.writes[index].pieces_left == 0
            && let Some((_, buffer)) = self.writes[index].read.take()
        {
            self.spare.push(buffer);
            self.writes.remove(index);
        }
    }

    /// Completes the oldest open write of an end.
    pub(super) fn complete(&mut self) {
        let link = self.rng.below(2);
        let early = self.rng.one_in(4);
        let Some(index) = self.writes.iter().position(|write| write.link == link && write.read.is_none())
        else {
            return;
        };
        if self.spare.is_empty() || self.writes[index].pieces_left > 0 && !early {
            return;
        }
        let Some(mut buffer) = self.spare.pop() else { return };
        buffer.clear();
        let write = &mut self.writes[index];
        let left = &write.pieces[..write.pieces_left];
        let start = left.iter().map(|piece| piece.0).min().unwrap_or(0);
        let end = left.iter().map(|piece| piece.0 + piece.1).max().unwrap_or(0);
        let bytes = match write.target {
            Target::Image(to) => self.images.bytes(to, start, end - start),
            Target::Remote(ends) => self.buffers.source(ends.from, start, end - start),
        };
        buffer.extend_from_slice(bytes);
        write.read = Some((start, buffer));
        match write.wr {
            Some(wr) => {
                let result = self.failures[link].take().map_or(Ok(()), Err);
                self.completions[link].push_back(Completion { wr, result });
            }
            None => {
                self.queued[link] -= 1;
                let id = write.id;
                self.owned[link].retain(|owned| owned.id != id);
            }
        }
        self.retire(index);
    }
}

/// Returns the bytes of a piece: what the device has read, or would read now.
fn source<'a>(
    images: &'a Memories,
    buffers: &'a Buffers,
    write: &'a Write,
    (at, bytes): (u32, u32),
) -> &'a [u8] {
    match (&write.read, write.target) {
        (Some((start, read)), _) => &read[(at - start) as usize..][..bytes as usize],
        (None, Target::Image(to)) => images.bytes(to, at, bytes),
        (None, Target::Remote(ends)) => buffers.source(ends.from, at, bytes),
    }
}
