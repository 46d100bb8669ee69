//! Release of a landing buffer that has grown and is not used any more. wire.md 5.5.

use super::Driver;
use crate::fabric::Fabric;
use crate::nanos::Nanos;

/// Time without a chunk after which the owner of a landing buffer that has grown asks the peer to leave it. It costs less than a
/// millisecond to grow again (docs/architecture/memory.md, "Growth"), so a connection that is used once in this time spends less than a
/// thousandth of it on that. With a shorter time, a program that works in bursts would pay for growth in each.
pub const RELEASE_AFTER_NS: u64 = 10_000_000_000;

/// Use of this end's landing buffer, as the ticks have seen it.
#[derive(Clone, Debug)]
pub(super) struct Releasing {
    after_ns: u64,
    /// Blocks consumed, and the first tick that found this count.
    used: u64,
    since: Nanos,
}

impl Releasing {
    pub(super) const fn new(now: Nanos) -> Self {
        Self { after_ns: RELEASE_AFTER_NS, used: 0, since: now }
    }

    /// Returns true if something came since the tick before.
    const fn is_used(&self, used: u64) -> bool {
        used != self.used
    }

    /// Notes the blocks consumed. Returns true if nothing came for so long that memory is to be released: since the tick before, if memory
    /// is short.
    fn is_due(&mut self, used: u64, is_short: bool, now: Nanos) -> bool {
        let is_used = self.is_used(used);
        let after_ns = if is_short { 0 } else { self.after_ns };
        let is_due = !is_used && now.0.saturating_sub(self.since.0) >= after_ns;
        if is_used || is_due {
            (self.used, self.since) = (used, now);
        }
        is_due
    }
}

impl<F: Fabric> Driver<F> {
    /// Sets the time after which a landing buffer that has grown is released if no chunk came. Default: [`RELEASE_AFTER_NS`]. It is
    /// checked once per keepalive period.
    pub const fn set_release_after(&mut self, after_ns: u64) {
        self.releasing.after_ns = after_ns;
    }

    /// Asks the peer to leave the landing buffer of this end that has grown, if there is one, whether it is used or not. The memory is
    /// released once the peer has left it. For a program that needs the memory elsewhere.
    pub fn release_memory(&mut self) -> bool {
        self.endpoint.shrink()
    }

    /// If others wait for the memory: asks the peer to leave a landing buffer that has grown, and gives up an image without a grant.
    pub(super) fn release_wanted(&mut self, fabric: &F) {
        let (has_grown, has_image) = (self.endpoint.has_grown(), self.endpoint.has_image_beside());
        if (has_grown || has_image) && fabric.must_release(self.endpoint.link()) {
            if has_grown {
                self.endpoint.reclaim();
            }
            self.endpoint.give_up_image_beside();
        }
    }

    /// Asks the peer to leave a landing buffer that has grown and is not used. Gives up an image without a grant if memory is short.
    pub(super) fn release_unused(&mut self, fabric: &F, now: Nanos) {
        if self.endpoint.has_image_beside() && fabric.is_memory_short(self.endpoint.link()) {
            self.endpoint.give_up_image_beside();
        }
        if self.endpoint.has_grown() {
            let is_used = self.releasing.is_used(self.endpoint.blocks_consumed());
            fabric.note_idle(self.endpoint.link(), !is_used);
            let is_short = fabric.is_memory_short(self.endpoint.link());
            if self.releasing.is_due(self.endpoint.blocks_consumed(), is_short, now) {
                if is_short {
                    self.endpoint.reclaim();
                } else {
                    self.endpoint.shrink();
                }
            }
        } else {
            // The time begins with the memory.
            self.releasing.since = now;
        }
    }
}
