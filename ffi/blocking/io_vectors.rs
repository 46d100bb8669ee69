//! Parts of blocks, as the buffers of one system call.

/// Most buffers of one system call: the default ring has 32 groups of blocks, which are at most one buffer each. A larger ring fills several
/// calls. Each buffer takes 16 bytes of the stack.
const SPANS_MAX: usize = 64;

/// IoVectors for one system call; neighbours are joined.
pub(super) struct IoVectors {
    list: heapless::Vec<libc::iovec, SPANS_MAX>,
}

impl IoVectors {
    pub(super) const fn new() -> Self {
        Self { list: heapless::Vec::new() }
    }

    /// Adds a span. One that does not fit any more is left for the next call.
    pub(super) fn push(&mut self, place: *mut u8, bytes: u32) {
        let bytes = bytes as usize;
        if let Some(last) = self.list.last_mut()
            && last.iov_base.cast::<u8>().wrapping_add(last.iov_len) == place
        {
            last.iov_len += bytes;
            return;
        }
        let _ = self.list.push(libc::iovec { iov_base: place.cast(), iov_len: bytes });
    }

    pub(super) fn list(&self) -> &[libc::iovec] {
        &self.list
    }

    /// Calls `f` with the parts of the first `bytes` bytes.
    pub(super) fn each(&self, mut bytes: usize, mut f: impl FnMut(*mut u8, usize)) {
        for span in &self.list {
            let part = span.iov_len.min(bytes);
            if part == 0 {
                return;
            }
            f(span.iov_base.cast(), part);
            bytes -= part;
        }
    }
    /// The place of the byte at this offset of the first `bytes` bytes.
    pub(super) fn place_of(&self, offset: u64, bytes: usize) -> Option<*mut u8> {
        let mut left = usize::try_from(offset).ok()?;
        let mut found = None;
        self.each(bytes, |place, bytes| match left.checked_sub(bytes) {
            Some(beyond) => left = beyond,
            None => found = found.or(Some(place.wrapping_add(left))),
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_has_its_place_in_whatever_span_and_none_beyond() {
        let mut memory = [0_u8; 32];
        let at = |index: usize| memory.as_mut_ptr().wrapping_add(index);
        let [first, joined, second, third] = [8, 10, 20, 2].map(at);
        let mut spans = IoVectors::new();
        for (place, bytes) in [(first, 2), (joined, 3), (second, 4), (third, 4)] {
            spans.push(place, bytes);
        }
        assert_eq!(spans.list().len(), 3, "neighbours are joined");
        let places = [8, 9, 10, 11, 12, 20, 21, 22, 23, 2, 3, 4, 5];
        for bytes in 0..=places.len() + 1 {
            for (offset, index) in (0..).zip(places) {
                let expected = (offset < bytes as u64).then(|| first.wrapping_sub(8).wrapping_add(index));
                assert_eq!(spans.place_of(offset, bytes), expected, "{offset} of {bytes}");
            }
            for beyond in [bytes.max(places.len()) as u64, u64::MAX] {
                assert_eq!(spans.place_of(beyond, bytes), None);
            }
        }
    }
}
