//! Laps: how much of the peer's landing buffer the sending half cycles through. Direct store only. wire.md 4.11.
//!
//! A lap begins in block 0, and ends with the window or with the ring. While blocks of the lap before are not acknowledged, the block at an
//! index is free once the block at this index of the lap before is: as many blocks may be under way as that lap had. Laps before that one
//! are acknowledged by then, so behind its end everything is free.

use super::Sender;
use crate::config::Config;
use crate::copying::LapNow;
use crate::fabric::Fabric;
use crate::wire::layout::Layout;
use crate::wire::marks::Marks;
use crate::wire::sequence::is_before;

/// The current lap, and the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Laps {
    /// Blocks of the laps that begin from now on.
    window: u32,
    /// Blocks of the current lap.
    blocks: u32,
    /// Count of the blocks before the current lap, and blocks of the lap before.
    begin: u64,
    blocks_before: u32,
    /// Fewest blocks of the next lap: those that are reserved in it.
    least_next: u32,
    /// Most blocks that may be sent and not acknowledged now.
    room: u32,
}

impl Laps {
    /// Begins the first lap in a ring of `blocks` blocks, all of which are free, after `begin` others.
    pub(super) const fn new(begin: u64, blocks: u32) -> Self {
        Self { window: blocks, blocks, begin, blocks_before: blocks, least_next: 0, room: blocks }
    }

    /// Returns the blocks of the current lap.
    #[inline]
    pub(super) const fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Returns the most blocks that may be sent and not acknowledged now. They may reach into the next lap.
    #[inline]
    pub(super) const fn room(&self) -> u32 {
        self.room
    }

    /// Begins the next lap after `begin` blocks. Those from the count `free_from` on are not acknowledged.
    pub(super) fn begin_next(&mut self, begin: u64, free_from: u64) {
        self.begin = begin;
        self.blocks_before = self.blocks;
        self.blocks = self.window.max(self.least_next);
        self.least_next = 0;
        self.update(free_from);
    }

    /// Lets the current lap have `blocks` blocks, and the next one `next` at least: its last chunk is not sent yet, so the peer does not know where it ends.
    pub(super) fn extend(&mut self, blocks: u32, next: u32, free_from: u64) {
        self.blocks = blocks;
        self.least_next = next;
        self.update(free_from);
    }

    /// Lets the next lap have `blocks` blocks at least, whatever the window is by then.
    pub(super) fn hold_next(&mut self, blocks: u32) {
        self.least_next = self.least_next.max(blocks);
    }

    /// Updates the room: blocks from `free_from` on are not acknowledged.
    #[inline]
    pub(super) fn update(&mut self, free_from: u64) {
        self.room = if is_before(free_from, self.begin) {
            // Nothing of the current lap is acknowledged, so the next one may not begin.
            let behind = u32::try_from(self.begin.wrapping_sub(free_from)).unwrap_or(u32::MAX);
            let mut to_end = self.blocks.saturating_add(behind);
            planted!(LapEndForgotten => to_end = u32::MAX);
            let mut before = self.blocks_before;
            planted!(LapBeforeForgotten => before = to_end);
            before.min(to_end)
        } else {
            self.blocks
        };
    }
}

impl<F: Fabric> Sender<F> {
    /// Sets the bytes of the laps that begin from now on, also after a move: whole blocks, as many as the ring has at most, and at least what holds a
    /// message of C0 bytes wherever it begins, so that no message that could be sent at once is too long for a lap. With `None` they are chosen.
    pub(crate) fn set_window(&mut self, bytes: Option<u32>, config: &Config) {
        self.pin_window(bytes);
        self.fit_window();
        self.fit_schedule(config);
    }

    /// Adapts the chunks of the open transfer to another landing buffer or window.
    pub(super) fn fit_schedule(&mut self, config: &Config) {
        let layout = self.window_layout();
        if let Some(open) = &mut self.open {
            let config = Config { protocol: open.protocol, ..*config };
            open.schedule.fit(&config, layout, open.length);
        }
    }

    /// Begins the next laps with what is chosen.
    pub(super) fn fit_window(&mut self) {
        if F::DIRECT {
            self.laps.window = self.next_window_blocks();
        }
    }

    /// Begins the first lap in a landing buffer.
    pub(super) fn enter_laps(&mut self, config: &Config) {
        let layout = self.landing.layout;
        self.laps = Laps::new(self.produced, layout.block_count);
        let least_blocks = layout.blocks_for(config.c0_bytes).saturating_add(1);
        self.enter_choices(least_blocks, config);
        self.fit_window();
        self.laps.blocks = self.laps.window;
        self.laps.update(self.free_from);
    }

    /// Returns the bytes of the window that was chosen or given. Laps that try another one do not count.
    pub(crate) fn chosen_window_bytes(&self) -> u64 {
        u64::from(self.window_layout().block_count) * u64::from(self.landing.layout.block_bytes)
    }

    /// Returns the lap in which the next chunk begins.
    #[inline]
    pub(super) const fn lap_now(&self) -> LapNow {
        let Laps { blocks, blocks_before, begin, .. } = self.laps;
        LapNow { blocks, before: blocks_before, is_first: begin == self.entered }
    }

    /// Returns the blocks of the laps that begin from now on.
    pub(crate) const fn window(&self) -> u32 {
        self.laps.window
    }

    /// Returns the layout of the window that was chosen or given, whose folds chunks are at most. Laps that try another one do not count.
    pub(super) fn window_layout(&self) -> Layout {
        let block_count = if F::DIRECT { self.chosen_window_blocks() } else { self.laps.window };
        Layout { block_count, ..self.landing.layout }
    }

    /// Returns the number of blocks up to the end of the lap.
    #[inline]
    pub(super) const fn to_end(&self) -> u32 {
        self.laps.blocks() - self.at
    }

    /// Returns the marks of a chunk of `blocks` blocks that is sent now.
    #[inline]
    pub(super) const fn marks(&self, blocks: u32) -> Marks {
        let ends_lap =
            F::DIRECT && blocks == self.to_end() && self.laps.blocks() < self.landing.layout.block_count;
        Marks { ends_lap, timed: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays laps over a ring whose blocks remember the count that was written into them last, and checks that no block is overwritten that
    /// is not acknowledged, and that nothing waits for ever.
    #[test]
    fn no_block_is_written_that_is_not_acknowledged() {
        const RING: u32 = 7;
        let mut seed = 1_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for origin in [0, u64::MAX - 100] {
            let mut laps = Laps::new(origin, RING);
            let (mut at, mut sent, mut acked) = (0_u32, origin, origin);
            let mut held = [None; RING as usize];
            let mut most = 0;
            for _ in 0..100_000 {
                if random(20) == 0 {
                    laps.window = 2 + u32::try_from(random(u64::from(RING) - 1)).unwrap();
                }
                let used = u32::try_from(sent.wrapping_sub(acked)).unwrap();
                most = most.max(used);
                let free = laps.room().saturating_sub(used);
                if free > 0 && random(3) > 0 {
                    if let Some(count) = held[at as usize] {
                        assert!(is_before(count, acked), "{laps:?}");
                    }
                    held[at as usize] = Some(sent);
                    sent = sent.wrapping_add(1);
                    at += 1;
                    if at == laps.blocks() {
                        at = 0;
                        laps.begin_next(sent, acked);
                    }
                } else if used > 0 {
                    acked = acked.wrapping_add(1 + random(u64::from(used)));
                    laps.update(acked);
                }
                assert!(sent != acked || laps.room() > 0, "{laps:?}");
            }
            assert_eq!(most, RING);
        }
    }

    #[test]
    fn what_is_free_does_not_shrink_with_the_end_of_a_lap() {
        // Nothing of the lap of two blocks is acknowledged: the block that a chunk leaves free for CANCEL must be in this lap.
        let mut laps = Laps::new(0, 8);
        laps.window = 2;
        laps.begin_next(8, 8);
        assert_eq!((laps.blocks(), laps.room()), (2, 2));
        laps.update(9);
        assert_eq!(laps.room() - 1, 1, "one is sent, and one of the next lap is not free yet");
        laps.begin_next(10, 9);
        assert_eq!(laps.room(), 2);
    }
}
