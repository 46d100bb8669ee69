//! Parts of blocks, for one system call.

/// Spans that go into one system call.
const SPANS_MAX: usize = 64;

/// Spans for one system call; neighbours are joined.
pub(super) struct Spans {
    list: heapless::Vec<libc::iovec, SPANS_MAX>,
}

impl Spans {
    pub(super) const fn new() -> Self {
        Self { list: heapless::Vec::new() }
    }

    /// Adds a span; what doesn't fit any more is left for the next call.
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
}
