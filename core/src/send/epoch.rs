//! Move of the sending half to another landing buffer. wire.md 2.5.

use super::Sender;
use crate::config::Config;
use crate::fabric::Fabric;
use crate::memory::Wish;
use crate::protocol::Protocol;
use crate::wire::header::Length;
use crate::wire::layout::{Landing, Layout};
use crate::wire::sequence::is_before;

impl<F: Fabric> Sender<F> {
    /// Returns true at a chunk boundary: every chunk is posted, and blocks are neither filled in place nor prepared.
    pub(crate) const fn is_at_boundary(&self) -> bool {
        self.unposted.is_none() && self.reserved() == 0 && self.prepared() == 0
    }

    /// Continues at the first block of another landing buffer. The open transfer keeps its place in the message.
    pub(crate) fn enter(&mut self, landing: Landing<F::Remote>, config: &Config) {
        debug_assert!(self.is_at_boundary(), "the caller has checked it");
        self.landing = landing;
        self.at = 0;
        self.entered = self.produced;
        self.free_from = self.produced;
        self.enter_laps(config);
        self.fit_schedule(config);
    }

    /// Returns true if the peer has consumed all that was sent before the current landing buffer, and the device has written it.
    pub(crate) fn has_left_behind(&self) -> bool {
        let mut is_consumed = !is_before(self.acked, self.entered);
        planted!(RetiredUnconsumed => is_consumed = true);
        let mut is_written = self.in_flight.front().is_none_or(|chunk| !is_before(chunk.from, self.entered));
        planted!(RetiredUnwritten => is_written = true);
        is_consumed && is_written
    }

    /// Returns what the open transfer has left, if it is longer than the ring of this layout. A stream may be. The provision protocol does not
    /// count: it asks before it sends.
    pub(crate) fn wish(&self, layout: Layout) -> Option<Wish> {
        let open = self.open.as_ref().filter(|open| open.protocol != Protocol::Provision)?;
        let ring = u64::from(layout.capacity(layout.block_count));
        let (message_bytes, has_more) = match open.length {
            Length::Exact(bytes) => (Some(bytes), bytes - open.sent > ring),
            Length::Stream => (None, true),
        };
        let blocks = self.produced.wrapping_sub(self.entered);
        message_bytes.is_none_or(|bytes| bytes > ring).then_some(Wish { message_bytes, has_more, blocks })
    }
}
