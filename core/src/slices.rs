//! A caller's slices: cursors into them, gathering from several, and scattering into several.

use core::mem;

/// Most slices that one call walks, so that a long list of short or empty ones costs a call no more than the copy of a full landing
/// buffer. Fewer would cut a message of many short slices into more calls.
const SLICES_MAX: usize = 1 << 14;

/// Most bytes that one call of a longer transfer moves, approximately. A peer that is as fast as this end, or a large ring, must
/// not keep a caller from its deadline. 1 MiB takes about 100 µs, and is more than the default ring: with less, a call would end before
/// the ring is full or empty.
pub(crate) const CALL_BYTES: u32 = 1 << 20;

/// Most blocks that one call takes, for the same reason: a block costs a line from the peer's core, up to 400 ns, however few bytes it carries.
/// They hold 4 MiB where blocks are of the default size.
pub(crate) const CALL_BLOCKS: u32 = 1 << 10;

/// Place in a list of slices: what an operation keeps of it between calls, instead of the slices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Cursor {
    index: usize,
    offset: usize,
}

impl Cursor {
    /// The place before the first byte.
    pub(crate) const START: Self = Self { index: 0, offset: 0 };

    /// Returns the place after `bytes` bytes of the first slice.
    pub(crate) const fn in_first(bytes: usize) -> Self {
        Self { index: 0, offset: bytes }
    }

    /// Returns true if there is room in these slices from here on.
    pub(crate) fn has_room(self, slices: &[&mut [u8]]) -> bool {
        let mut offset = self.offset;
        slices.get(self.index..).unwrap_or_default().iter().any(|slice| slice.len() > mem::take(&mut offset))
    }

    /// Returns the number of slices before the place.
    pub(crate) const fn index(self) -> usize {
        self.index
    }
}

/// Returns the bytes of all slices together, saturating: a list that names one piece of memory many times can exceed [`usize::MAX`].
#[inline]
#[must_use]
pub fn bytes_of(slices: &[&[u8]]) -> usize {
    slices.iter().fold(0, |bytes: usize, slice| bytes.saturating_add(slice.len()))
}

/// Reads through a list of slices in order.
pub(crate) struct Gather<'a> {
    rest: &'a [&'a [u8]],
    offset: usize,
    remaining: usize,
}

impl<'a> Gather<'a> {
    #[inline]
    pub(crate) fn new(slices: &'a [&'a [u8]]) -> Self {
        Self { rest: slices, offset: 0, remaining: bytes_of(slices) }
    }

    /// Reads from `cursor` on, at most `bytes_max` bytes of a bounded number of slices.
    pub(crate) fn window(slices: &'a [&'a [u8]], cursor: Cursor, bytes_max: usize) -> Self {
        let rest = slices.get(cursor.index..).unwrap_or_default();
        let mut remaining = 0_usize;
        let mut offset = cursor.offset;
        for slice in rest.iter().take(SLICES_MAX) {
            remaining = remaining.saturating_add(slice.len().saturating_sub(offset));
            offset = 0;
            if remaining >= bytes_max {
                break;
            }
        }
        Self { rest, offset: cursor.offset, remaining: remaining.min(bytes_max) }
    }

    /// Returns true if the slices have more bytes than those that remain. It walks a bounded number of slices.
    pub(crate) fn has_more(&self) -> bool {
        let (mut left, mut offset) = (self.remaining, self.offset);
        self.rest.iter().take(2 * SLICES_MAX).any(|slice| {
            let bytes = slice.len().saturating_sub(mem::take(&mut offset));
            let is_more = bytes > left;
            left = left.saturating_sub(bytes);
            is_more
        })
    }

    /// Returns the place of the next byte, in the list of `count` slices that is read. Empty slices before it are skipped, a bounded
    /// number of them.
    pub(crate) fn cursor(&self, count: usize) -> Cursor {
        let (mut rest, mut offset) = (self.rest, self.offset);
        let mut passed = 0;
        while passed < SLICES_MAX
            && let [first, after @ ..] = rest
            && offset >= first.len()
        {
            (rest, offset) = (after, 0);
            passed += 1;
        }
        Cursor { index: count - rest.len(), offset }
    }

    /// Returns the slices that remain, in the list of `count` slices that is read, as (index, bytes): a bounded number of them. Of the
    /// first one only the bytes that remain count.
    pub(crate) fn elements(&self, count: usize) -> impl Iterator<Item = (usize, usize)> + use<'a> {
        let (first, mut offset) = (count.saturating_sub(self.rest.len()), self.offset);
        let sizes = self.rest.iter().map(move |slice| slice.len().saturating_sub(mem::take(&mut offset)));
        sizes.take(SLICES_MAX).enumerate().map(move |(index, bytes)| (first + index, bytes))
    }

    /// Skips the next `skip` bytes.
    pub(crate) fn skip(&mut self, mut skip: usize) {
        while skip > 0 {
            match self.take(skip).len() {
                0 => return,
                skipped => skip -= skipped,
            }
        }
    }

    #[inline]
    pub(crate) const fn remaining(&self) -> usize {
        self.remaining
    }

    /// Takes the next contiguous bytes, at most `limit`. They are empty only if nothing remains or `limit` is 0.
    #[inline]
    pub(crate) fn take(&mut self, limit: usize) -> &'a [u8] {
        while let [first, rest @ ..] = self.rest {
            if self.offset < first.len() {
                let end = self.offset + limit.min(first.len() - self.offset);
                let run = first.get(self.offset..end).unwrap_or_default();
                self.offset = end;
                self.remaining -= run.len();
                return run;
            }
            self.rest = rest;
            self.offset = 0;
        }
        &[]
    }
}

/// Writes through a list of slices in order.
pub(crate) struct Scatter<'a, 'b> {
    slices: &'a mut [&'b mut [u8]],
    index: usize,
    offset: usize,
}

impl<'a, 'b> Scatter<'a, 'b> {
    #[inline]
    pub(crate) const fn new(slices: &'a mut [&'b mut [u8]]) -> Self {
        Self { slices, index: 0, offset: 0 }
    }

    /// Writes from `cursor` on.
    #[inline]
    pub(crate) const fn at(slices: &'a mut [&'b mut [u8]], cursor: Cursor) -> Self {
        Self { slices, index: cursor.index, offset: cursor.offset }
    }

    /// Returns the place of the next byte.
    #[inline]
    pub(crate) const fn cursor(&self) -> Cursor {
        Cursor { index: self.index, offset: self.offset }
    }

    /// Skips the next `skip` bytes.
    pub(crate) fn skip(&mut self, mut skip: usize) {
        while skip > 0 {
            match self.take(skip).len() {
                0 => return,
                skipped => skip -= skipped,
            }
        }
    }

    /// Takes the next contiguous room, at most `limit` bytes. It is empty only if none is left or `limit` is 0.
    #[inline]
    pub(crate) fn take(&mut self, limit: usize) -> &mut [u8] {
        while self.slices.get(self.index).is_some_and(|s| s.len() <= self.offset) {
            self.index += 1;
            self.offset = 0;
        }
        match self.slices.get_mut(self.index) {
            None => &mut [],
            Some(slice) => {
                let start = self.offset;
                let end = start + limit.min(slice.len() - start);
                self.offset = end;
                slice.get_mut(start..end).unwrap_or_default()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gathers_across_empty_and_short_slices() {
        let slices: [&[u8]; 5] = [&[], &[1, 2, 3], &[], &[4], &[5, 6]];
        let mut gather = Gather::new(&slices);
        assert_eq!(gather.remaining(), 6);
        assert_eq!(gather.take(2), [1, 2]);
        assert_eq!(gather.take(2), [3]);
        assert_eq!(gather.take(9), [4]);
        assert_eq!(gather.take(1), [5]);
        assert_eq!(gather.remaining(), 1);
        assert_eq!(gather.take(1), [6]);
        assert!(gather.take(1).is_empty());
    }

    #[test]
    fn a_window_ends_where_it_is_full_and_goes_on_from_its_cursor() {
        let slices: [&[u8]; 5] = [&[], &[1, 2, 3], &[], &[4], &[5, 6]];
        let mut cursor = Cursor::default();
        let mut got = std::vec::Vec::new();
        for bytes in [2, 2, 0, 9] {
            let mut gather = Gather::window(&slices, cursor, bytes);
            while gather.remaining() > 0 {
                got.extend_from_slice(gather.take(gather.remaining()));
            }
            cursor = gather.cursor(slices.len());
        }
        assert_eq!((got.as_slice(), cursor), (&[1, 2, 3, 4, 5, 6][..], Cursor { index: 5, offset: 0 }));
        let from_within = Gather::window(&slices, Cursor { index: 1, offset: 2 }, 9);
        assert_eq!(from_within.remaining(), 4, "the offset is the first slice's");
        let shorter: [&[u8]; 1] = [&[1]];
        for cursor in [cursor, Cursor { index: 0, offset: 7 }] {
            assert_eq!(Gather::window(&shorter, cursor, 9).remaining(), 0, "another list than before");
        }
    }

    #[test]
    fn bytes_behind_a_window_and_room_behind_a_cursor_are_found() {
        let slices: [&[u8]; 4] = [&[1, 2, 3], &[], &[4], &[]];
        for (cursor, bytes, has_more) in
            [(0, 3, true), (0, 4, false), (0, 9, false), (2, 2, false), (2, 1, true)]
        {
            let gather = Gather::window(&slices, Cursor { index: 0, offset: cursor }, bytes);
            assert_eq!(gather.has_more(), has_more, "{bytes} bytes from {cursor} on");
        }
        let (mut a, mut b) = ([0; 3], [0; 1]);
        let places: [&mut [u8]; 4] = [&mut a, &mut [], &mut b, &mut []];
        for (index, offset, has_room) in [
            (0, 0, true),
            (0, 3, true),
            (0, 9, true),
            (2, 0, true),
            (2, 1, false),
            (3, 0, false),
            (4, 0, false),
            (9, 9, false),
        ] {
            assert_eq!(Cursor { index, offset }.has_room(&places), has_room, "{index}, {offset}");
        }
    }

    #[test]
    fn empty_slices_are_walked_through_a_part_at_a_call() {
        let mut slices = std::vec![&[][..]; 3 * SLICES_MAX];
        slices.push(&[7]);
        let mut cursor = Cursor::default();
        for part in 1..=3 {
            let gather = Gather::window(&slices, cursor, 9);
            assert_eq!(gather.remaining(), 0);
            cursor = gather.cursor(slices.len());
            assert_eq!(cursor.index(), part * SLICES_MAX);
        }
        assert_eq!(Gather::window(&slices, cursor, 9).remaining(), 1);
    }

    #[test]
    fn scatters_across_empty_and_short_slices() {
        let (mut a, mut b) = ([0; 4], [0; 3]);
        let mut slices: [&mut [u8]; 3] = [&mut a, &mut [], &mut b];
        let mut scatter = Scatter::new(&mut slices);
        scatter.skip(1);
        scatter.take(9).fill(1);
        scatter.take(2).fill(2);
        scatter.take(9).fill(3);
        assert!(scatter.take(1).is_empty());
        assert_eq!((a, b), ([0, 1, 1, 1], [2, 2, 3]));
    }

    #[test]
    fn a_scatter_goes_on_from_its_cursor() {
        let (mut a, mut b) = ([0; 4], [0; 3]);
        let mut cursor = Cursor::in_first(1);
        for (bytes, fill, place) in
            [(2, 1, (0, 3)), (1, 2, (0, 4)), (1, 3, (2, 1)), (9, 4, (2, 3)), (9, 5, (3, 0))]
        {
            let mut slices: [&mut [u8]; 3] = [&mut a, &mut [], &mut b];
            let mut scatter = Scatter::at(&mut slices, cursor);
            scatter.take(bytes).fill(fill);
            cursor = scatter.cursor();
            assert_eq!((cursor.index, cursor.offset), place);
        }
        assert_eq!((a, b), ([0, 1, 1, 2], [3, 4, 4]));
        // Another list than before has no place there.
        assert!(Scatter::at(&mut [&mut a], Cursor { index: 1, offset: 9 }).take(1).is_empty());
        assert!(Scatter::at(&mut [&mut a], Cursor::in_first(7)).take(1).is_empty());
        assert_eq!(Cursor::START, Cursor::default());
    }
}
