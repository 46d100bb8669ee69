//! The windows among which a sender chooses: parts of a ring, each a quarter of the one before.

use super::size_class::SizeClass;
use crate::wire::layout::Layout;

/// Most candidates: a ring of less than 1 GiB has seven of 128 KiB and more. More are left out, the smallest first.
pub(super) const CANDIDATES_MAX: usize = 8;

/// The candidates of a ring, in blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Windows {
    block_bytes: u32,
    /// Fewest blocks of a lap, whoever chooses it.
    least_blocks: u32,
    /// The whole ring first.
    blocks: [u32; CANDIDATES_MAX],
    count: usize,
}

impl Windows {
    /// Size with which a choice starts. It is the default ring's: the best one over all that was measured, where nothing is known
    /// (docs/performance.md, "The bare ring at each distance").
    pub(super) const START_BYTES: u32 = 512 << 10;

    /// Those of no ring.
    pub(super) const NONE: Self =
        Self { block_bytes: 1, least_blocks: 0, blocks: [0; CANDIDATES_MAX], count: 0 };

    /// Returns a ring as the only candidate.
    pub(super) const fn whole(layout: Layout, least_blocks: u32) -> Self {
        let Layout { block_bytes, block_count, .. } = layout;
        Self { block_bytes, least_blocks, blocks: [block_count; CANDIDATES_MAX], count: 1 }
    }

    /// Returns the candidates of a ring: of `least_blocks` blocks and `least_bytes` bytes at least, except for the ring.
    pub(super) fn of_ring(layout: Layout, least_blocks: u32, least_bytes: u32) -> Self {
        let Layout { block_bytes, block_count, .. } = layout;
        let mut windows = Self::whole(layout, least_blocks);
        for (index, blocks) in windows.blocks.iter_mut().enumerate().skip(1) {
            *blocks = block_count >> (2 * index);
            if *blocks < least_blocks.max(1) || *blocks * block_bytes < least_bytes {
                break;
            }
            windows.count += 1;
        }
        windows
    }

    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// Returns the blocks of a candidate.
    pub(super) const fn blocks(&self, candidate: usize) -> u32 {
        self.blocks[candidate]
    }

    /// Returns the bytes of a candidate.
    pub(super) const fn bytes(&self, candidate: usize) -> u32 {
        self.blocks[candidate] * self.block_bytes
    }

    /// Returns the candidate that is nearest to a number of bytes.
    pub(super) fn nearest(&self, bytes: u32) -> usize {
        (0..self.count).min_by_key(|&candidate| self.bytes(candidate).abs_diff(bytes)).unwrap_or(0)
    }

    /// Returns the blocks of a window of this many bytes: whole ones, as many as the ring has at most.
    pub(super) fn clamped(&self, bytes: u32) -> u32 {
        let [ring, ..] = self.blocks;
        (bytes / self.block_bytes).max(self.least_blocks).min(ring)
    }

    /// Returns true if messages of a class fill blocks, so that what they cycle through is what the window says.
    pub(super) const fn is_filled_by(&self, class: SizeClass) -> bool {
        class.least_bytes() >= self.block_bytes as u64
    }

    /// Returns true if messages of a class may try a candidate. One that is smaller than the start is for messages that fill it: others gained nothing by
    /// it between near cores, which is where small windows gain (docs/architecture/copying.md, "The choice of the window").
    pub(super) fn may_try(&self, candidate: usize, class: SizeClass) -> bool {
        let bytes = self.bytes(candidate);
        bytes >= self.bytes(self.nearest(Self::START_BYTES)) || class.least_bytes() >= u64::from(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::layout::FlagPlace;
    use std::vec::Vec;

    fn windows(block_bytes: u32, block_count: u32, least_bytes: u32) -> Windows {
        Windows::of_ring(
            Layout { block_bytes, block_count, flags: FlagPlace::Apart { group_blocks: 1 } },
            5,
            least_bytes,
        )
    }

    fn kib(windows: &Windows) -> Vec<u32> {
        (0..windows.count()).map(|candidate| windows.bytes(candidate) >> 10).collect()
    }

    #[test]
    fn candidates_are_quarters_down_to_the_smallest() {
        let least = 128 << 10;
        assert_eq!(kib(&windows(16 << 10, 32, least)), [512, 128]);
        assert_eq!(kib(&windows(16 << 10, 128, least)), [2048, 512, 128]);
        assert_eq!(kib(&windows(16 << 10, 31, least)), [496], "a quarter has 7 blocks");
        assert_eq!(kib(&windows(32 << 10, 16, least)), [512], "a quarter has 4 blocks");
        assert_eq!(kib(&windows(16 << 10, 65_535, least)).len(), 7);
        assert_eq!(windows(128, 65_535, 1).count(), 7);
        assert_eq!(Windows::NONE.count(), 0);
    }

    #[test]
    fn the_start_is_the_candidate_nearest_to_512_kib() {
        for (blocks, start) in [(16, 256), (32, 512), (64, 256), (128, 512), (200, 800), (4096, 256)] {
            let windows = windows(16 << 10, blocks, 128 << 10);
            assert_eq!(windows.bytes(windows.nearest(Windows::START_BYTES)) >> 10, start, "{blocks} blocks");
        }
    }

    #[test]
    fn small_windows_are_for_messages_that_fill_them() {
        let windows = windows(16 << 10, 128, 128 << 10);
        let allowed = |bytes| [0, 1, 2].map(|candidate| windows.may_try(candidate, SizeClass::of(bytes)));
        assert_eq!(allowed(16 << 10), [true, true, false]);
        assert_eq!(allowed(256 << 10), [true; 3]);
        assert!(
            !windows.is_filled_by(SizeClass::of(4 << 10)) && windows.is_filled_by(SizeClass::of(16 << 10))
        );
    }

    #[test]
    fn a_given_window_is_whole_blocks_within_the_ring() {
        let windows = windows(16 << 10, 32, 128 << 10);
        let clamped = [0, 100 << 10, u32::MAX].map(|bytes| windows.clamped(bytes));
        assert_eq!(clamped, [5, 6, 32]);
    }
}
