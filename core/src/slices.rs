//! Cursors over a caller's slices: gathering from several, scattering into several.

/// Reads through a list of slices in order.
pub(crate) struct Gather<'a> {
    rest: &'a [&'a [u8]],
    offset: usize,
    remaining: usize,
}

impl<'a> Gather<'a> {
    #[inline]
    pub(crate) fn new(slices: &'a [&'a [u8]]) -> Self {
        Self { rest: slices, offset: 0, remaining: slices.iter().map(|s| s.len()).sum() }
    }

    /// Starts `skip` bytes in.
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

    /// The next run of at most `limit` bytes: never empty unless nothing remains or `limit` is 0.
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

    /// Starts `skip` bytes in.
    pub(crate) fn skip(&mut self, mut skip: usize) {
        while skip > 0 {
            match self.take(skip).len() {
                0 => return,
                skipped => skip -= skipped,
            }
        }
    }

    /// The next place for at most `limit` bytes: never empty unless there is none or `limit` is 0.
    #[inline]
    pub(crate) fn take(&mut self, limit: usize) -> &mut [u8] {
        while self.slices.get(self.index).is_some_and(|s| s.len() == self.offset) {
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
}
