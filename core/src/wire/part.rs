//! A run of payload in a landing buffer or its image: a chunk, or an inline message, and the spans of memory that it takes. wire.md 3.2, 4.2.

use super::header::{INLINE_BYTES_MAX, INLINE_PAYLOAD_AT};
use super::layout::{FlagPlace, Layout};

/// Payload bytes in the first line of an inline message.
#[expect(clippy::cast_possible_truncation, reason = "it is 40")]
const INLINE_FIRST_BYTES: u32 = INLINE_BYTES_MAX as u32;

/// A chunk, or an inline message, in a landing buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<M> {
    pub(crate) memory: M,
    pub(crate) layout: Layout,
    /// First block.
    pub(crate) first: u32,
    pub(crate) bytes: u32,
    pub(crate) filled: Filled,
}

/// Place of a part's payload in its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    /// In the slot line, and in the line behind it if the message is longer.
    Line,
    /// From the left of the first block.
    Left,
    /// To the end of the last block.
    Right,
}

impl<M: Copy> Part<M> {
    /// Returns the span (offset, bytes) of the landing buffer that has the payload from its byte `offset` on, as far as it is contiguous; `offset` is
    /// less than the part's bytes. Slot lines that lie apart interrupt nothing.
    pub(crate) fn span_at(&self, offset: u32) -> (u32, u32) {
        let Self { layout, first, bytes, filled, .. } = *self;
        match filled {
            Filled::Line if offset < INLINE_FIRST_BYTES => {
                (layout.line_at(first) + INLINE_PAYLOAD_AT + offset, bytes.min(INLINE_FIRST_BYTES) - offset)
            }
            Filled::Line => (layout.second_line_at(first) + offset - INLINE_FIRST_BYTES, bytes - offset),
            Filled::Left | Filled::Right if layout.flags == FlagPlace::Inside => {
                let (is_left, blocks) = (filled == Filled::Left, layout.blocks_for(bytes));
                let head = layout.piece(first, blocks, bytes, is_left, 0).bytes;
                let (j, skip) = match offset.checked_sub(head) {
                    None => (0, offset),
                    Some(behind) => (1 + behind / layout.later_capacity(), behind % layout.later_capacity()),
                };
                let piece = layout.piece(first, blocks, bytes, is_left, j);
                (piece.at + skip, piece.bytes - skip)
            }
            Filled::Left | Filled::Right => (layout.only_piece(first, 0, true).at + offset, bytes - offset),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const APART: Layout =
        Layout { block_bytes: 256, block_count: 8, flags: FlagPlace::Apart { group_blocks: 2 } };
    const INSIDE: Layout = Layout { block_bytes: 256, block_count: 8, flags: FlagPlace::Inside };

    #[test]
    fn spans_are_the_payload_in_order() {
        let spans = |layout, first, bytes, filled| {
            let part = Part { memory: (), layout, first, bytes, filled };
            let (mut out, mut offset) = ([(0, 0); 4], 0);
            for place in &mut out {
                if offset < bytes {
                    *place = part.span_at(offset);
                    assert_eq!(part.span_at(offset + place.1 - 1), (place.0 + place.1 - 1, 1));
                    offset += place.1;
                }
            }
            assert_eq!(offset, bytes);
            out
        };
        let none = (0, 0);
        assert_eq!(spans(APART, 2, 600, Filled::Left), [(4096 + 512, 600), none, none, none]);
        assert_eq!(spans(APART, 2, 41, Filled::Line), [(256 + 16, 40), (256 + 64, 1), none, none]);
        assert_eq!(spans(APART, 2, 0, Filled::Left), [none; 4]);
        assert_eq!(spans(INSIDE, 1, 300, Filled::Left), [(256, 192), (512, 108), none, none]);
        assert_eq!(spans(INSIDE, 1, 300, Filled::Right), [(256 + 140, 52), (512, 248), none, none]);
        assert_eq!(spans(INSIDE, 1, 40, Filled::Line), [(448 + 16, 40), none, none, none]);
    }
}
