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
    remaining: usize,
}

impl<'a, 'b> Scatter<'a, 'b> {
    #[inline]
    pub(crate) fn new(slices: &'a mut [&'b mut [u8]]) -> Self {
        let remaining = slices.iter().map(|s| s.len()).sum();
        Self { slices, index: 0, offset: 0, remaining }
    }

    /// Starts `skip` bytes in.
    pub(crate) fn skip(&mut self, mut skip: usize) {
        while skip > 0 {
            let run = self.take(skip).len();
            if run == 0 {
                return;
            }
            skip -= run;
        }
    }

    #[inline]
    pub(crate) const fn remaining(&self) -> usize {
        self.remaining
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
                self.remaining -= end - start;
                slice.get_mut(start..end).unwrap_or_default()
            }
        }
    }
}
