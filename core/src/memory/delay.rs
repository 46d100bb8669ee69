//! Delay of growth: a sender makes do with a landing buffer that was not granted, until much has gone through it, or the peer takes nothing.

use core::hash::{Hash, Hasher};

use crate::nanos::Nanos;
use crate::wire::layout::Layout;

/// Wait after which a transfer ends the delay if its program tries seldom: about what [`GrowthDelay::tries`] tries take in a busy loop.
const WAIT_NS: u64 = 10_000;

/// Delay of a sender's first GROW, while it makes do with a landing buffer that was not granted, such as the base: where blocks soon come
/// back, a few rings go through it sooner than a larger one is provisioned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GrowthDelay {
    /// Rings of blocks that go through it first, unless a message is that long. 0: no delay, and `tries` does not count.
    pub rings: u32,
    /// Tries in turn that find no block free, after which the sender asks as well: the peer does not receive, and a larger ring holds the rest of
    /// the message.
    pub tries: u32,
}

impl GrowthDelay {
    /// The sender asks at once.
    pub const NONE: Self = Self { rings: 0, tries: 0 };
}

/// What a transfer has left, and what has gone through the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    /// Length of the message. `None`: a stream.
    pub(crate) message_bytes: Option<u64>,
    /// More is left than the ring holds.
    pub(crate) has_more: bool,
    /// Blocks that have gone through the ring.
    pub(crate) blocks: u64,
}

/// Delay that goes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delay {
    terms: GrowthDelay,
    /// Blocks that had gone through the ring when the current run of tries without a free block began.
    blocks: u64,
    /// Count of those tries.
    tries: u32,
    /// The value of `blocks` that the first tick of the current wait saw, and the time of that tick.
    waiting: Option<(u64, Nanos)>,
}

/// The time of a wait does not distinguish states.
impl Hash for Delay {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { terms, blocks, tries, waiting: _ } = self;
        (terms, blocks, tries).hash(state);
    }
}

impl Delay {
    pub(super) const fn new(terms: GrowthDelay) -> Self {
        Self { terms, blocks: 0, tries: 0, waiting: None }
    }

    /// Counts a try of a transfer that is longer than the ring of this layout. Returns true if a larger ring is to be asked for.
    pub(super) fn is_over(&mut self, layout: Layout, wish: Wish) -> bool {
        let GrowthDelay { rings, tries } = self.terms;
        if wish.has_more && is_worth_growing(rings, layout, wish) {
            return true;
        }
        if rings == 0 {
            return false;
        }
        if wish.blocks != self.blocks {
            (self.blocks, self.tries) = (wish.blocks, 0);
        }
        self.tries = (self.tries + 1).min(tries);
        self.tries == tries
    }

    /// Ends the delay at the next try, unless a block goes through before it. Returns true if tries had found no block and the delay was not over.
    pub(super) const fn hurry(&mut self) -> bool {
        let is_waiting = self.tries > 0 && self.tries < self.terms.tries;
        if is_waiting {
            self.tries = self.terms.tries;
        }
        is_waiting
    }

    /// Notes the time, at a tick. If ticks at least 10 µs apart find the same wait, the next try ends the delay, unless a block goes through before
    /// it.
    pub(super) fn note_time(&mut self, now: Nanos) {
        match self.waiting {
            _ if self.tries == 0 => self.waiting = None,
            // A clock that has jumped back begins the wait anew.
            Some((blocks, since)) if blocks == self.blocks && since.0 <= now.0 => {
                if now.0 - since.0 >= WAIT_NS {
                    self.hurry();
                }
            }
            _ => self.waiting = Some((self.blocks, now)),
        }
    }

    /// Begins again, in another landing buffer.
    pub(super) const fn begin_anew(&mut self) {
        (self.blocks, self.tries, self.waiting) = (0, 0, None);
    }
}

/// Returns true if the blocks that have gone through a ring of this layout, or the bytes of the message, are that many rings.
fn is_worth_growing(rings: u32, layout: Layout, wish: Wish) -> bool {
    let (rings, ring_bytes) = (u64::from(rings), u64::from(layout.capacity(layout.block_count)));
    wish.blocks >= rings * u64::from(layout.block_count)
        || wish.message_bytes.is_some_and(|bytes| bytes >= rings * ring_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::layout::FlagPlace;

    const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 8, flags: FlagPlace::Inside };

    #[test]
    fn growth_is_worth_it_after_rings_or_for_a_message_of_rings() {
        let ring = u64::from(LAYOUT.capacity(8));
        let is_worth = |rings, blocks, message_bytes| {
            is_worth_growing(rings, LAYOUT, Wish { message_bytes, has_more: true, blocks })
        };
        assert!(is_worth(0, 0, None) && is_worth(0, 0, Some(1)));
        for (blocks, message, expected) in [
            (0, None, false),
            (23, None, false),
            (24, None, true),
            (23, Some(3 * ring - 1), false),
            (24, Some(0), true),
            (0, Some(3 * ring), true),
            (u64::MAX, Some(u64::MAX), true),
        ] {
            assert_eq!(is_worth(3, blocks, message), expected, "{blocks} {message:?}");
        }
    }

    fn delay() -> Delay {
        Delay::new(GrowthDelay { rings: 100, tries: 10 })
    }

    fn is_over(delay: &mut Delay, blocks: u64) -> bool {
        delay.is_over(LAYOUT, Wish { message_bytes: None, has_more: true, blocks })
    }

    #[test]
    fn a_run_of_tries_without_a_block_ends_the_delay() {
        let mut delay = delay();
        for try_ in 1..10 {
            assert!(!is_over(&mut delay, 1), "{try_}");
        }
        assert!(!is_over(&mut delay, 2), "a block has gone through");
        for try_ in 2..10 {
            assert!(!is_over(&mut delay, 2), "{try_}");
        }
        assert!(is_over(&mut delay, 2));
    }

    #[test]
    fn ticks_ten_microseconds_apart_in_one_wait_end_the_delay() {
        let mut delay = delay();
        let mut tick_and_try = |now, blocks| {
            delay.note_time(Nanos(now));
            is_over(&mut delay, blocks)
        };
        assert!(!tick_and_try(0, 1), "nothing waits yet");
        assert!(!tick_and_try(5_000, 1), "the wait begins");
        assert!(!tick_and_try(14_999, 1));
        assert!(!tick_and_try(15_000, 2), "a block has gone through");
        assert!(!tick_and_try(20_000, 2), "another wait begins");
        assert!(!tick_and_try(29_999, 2));
        assert!(tick_and_try(30_000, 2));
    }

    #[test]
    fn a_clock_that_jumps_back_begins_the_wait_anew() {
        let mut delay = delay();
        let mut tick_and_try = |now| {
            delay.note_time(Nanos(now));
            is_over(&mut delay, 1)
        };
        assert!(!tick_and_try(0) && !tick_and_try(u64::MAX) && !tick_and_try(7));
        assert!(!tick_and_try(10_006));
        assert!(tick_and_try(10_007));
    }
}
