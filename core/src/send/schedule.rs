//! The chunk schedule: how large each chunk of a transfer is. Denis, equations 3, 4 and 5; wire.md 4.5.
//!
//! A schedule is the sender's own business: the receiver takes chunks of any size that the layout allows. Pure
//! integer arithmetic.

use crate::config::{Config, Protocol, Q_ONE};
use crate::wire::arrival::Arrival;
use crate::wire::layout::Layout;

/// The pipeline's chunk where none is configured.
const PIPELINE_CHUNK_BYTES: u32 = 64 << 10;

/// The chunk sizes of one transfer, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Schedule {
    next_bytes: u32,
    growth_q8: u32,
    max_bytes: u32,
    /// Chunks get smaller again towards the end of a message, none of them below this; 0: they do not.
    tail_bytes: u32,
}

impl Schedule {
    /// The schedule that `config` asks for, on a landing buffer of this layout.
    ///
    /// Superpipeline: C0, then C(i+1) = q C(i) (equation 5). Pipeline: fixed chunks. Eager and copy: as large as the
    /// landing buffer allows. None exceeds a fold, none is less than a block.
    #[must_use]
    pub fn new(config: &Config, layout: Layout) -> Self {
        let fold_blocks = (layout.block_count / u32::from(config.folds)).max(1);
        let block = layout.capacity(1);
        let max_bytes = layout.capacity(fold_blocks);
        let (first, growth_q8) = match config.protocol {
            Protocol::Superpipeline => (config.c0_bytes, config.growth_q8),
            Protocol::Pipeline if config.chunk_bytes == 0 => (PIPELINE_CHUNK_BYTES, Q_ONE),
            Protocol::Pipeline => (config.chunk_bytes, Q_ONE),
            Protocol::Eager | Protocol::Copy => (max_bytes, Q_ONE),
        };
        let largest = match config.protocol {
            Protocol::Superpipeline if config.chunk_bytes != 0 => config.chunk_bytes.clamp(block, max_bytes),
            _ => max_bytes,
        };
        // A chunk that is seen only once it is whole leaves the copy of the last one bare.
        let tail_bytes = match (config.arrival, config.protocol) {
            (Arrival::Notify, Protocol::Superpipeline) => config.c0_bytes.clamp(block, largest),
            _ => 0,
        };
        Self { next_bytes: first.clamp(block, largest), growth_q8, max_bytes: largest, tail_bytes }
    }

    /// The size that the next chunk should have.
    #[must_use]
    #[inline]
    pub const fn next_bytes(&self) -> u32 {
        self.next_bytes
    }

    /// [`next_bytes`](Self::next_bytes) where so many bytes are left of a message: with notifications no more than half of
    /// them, while that is at least C0. Each chunk costs a gap, so there are only as many as that takes.
    #[must_use]
    #[inline]
    pub fn next_of(&self, left: u64) -> u32 {
        match u32::try_from(left.div_ceil(2)) {
            Ok(half) if self.tail_bytes > 0 && half >= self.tail_bytes => half.min(self.next_bytes),
            _ => self.next_bytes,
        }
    }

    /// A chunk went out: the one after it is q times as large.
    #[inline]
    pub fn advance(&mut self) {
        if self.next_bytes < self.max_bytes {
            let grown = u64::from(self.next_bytes) * u64::from(self.growth_q8) / u64::from(Q_ONE);
            self.next_bytes = u32::try_from(grown).unwrap_or(self.max_bytes).min(self.max_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::layout::FlagPlace;

    fn sizes(config: &Config, count: usize) -> [u32; 8] {
        let layout = Layout { block_bytes: 4096, block_count: 96, flags: FlagPlace::Apart };
        let mut schedule = Schedule::new(config, layout);
        let mut out = [0; 8];
        for size in out.iter_mut().take(count) {
            *size = schedule.next_bytes();
            schedule.advance();
        }
        out
    }

    #[test]
    fn superpipeline_grows_by_q_up_to_a_fold() {
        let config = Config { c0_bytes: 12 << 10, growth_q8: 384, folds: 3, ..Config::default() };
        assert_eq!(sizes(&config, 8), [12288, 18432, 27648, 41472, 62208, 93312, 131_072, 131_072]);
    }

    #[test]
    fn where_chunks_are_notified_the_last_ones_halve_down_to_c0() {
        let layout = Layout { block_bytes: 4096, block_count: 96, flags: FlagPlace::Inside };
        let sizes = |arrival, mut left: u64| {
            let config = Config { arrival, c0_bytes: 12 << 10, ..Config::default() };
            let (mut schedule, mut out) = (Schedule::new(&config, layout), [0; 12]);
            for size in &mut out {
                *size = left.min(u64::from(schedule.next_of(left)));
                left -= *size;
                schedule.advance();
            }
            assert_eq!(left, 0);
            out
        };
        let kept = [12288, 18432, 27648, 41472, 62208, 93312, 6784, 0, 0, 0, 0, 0];
        assert_eq!(sizes(Arrival::Flag, 256 << 10), kept);
        let halved = [12288, 18432, 27648, 41472, 62208, 50048, 25024, 12512, 12512, 0, 0, 0];
        assert_eq!(sizes(Arrival::Notify, 256 << 10), halved);
        assert_eq!(sizes(Arrival::Notify, 20_000)[..3], [12288, 7712, 0]);
    }

    #[test]
    fn pipeline_is_flat_and_copy_is_as_large_as_can_be() {
        let config =
            Config { protocol: Protocol::Pipeline, chunk_bytes: 20_000, folds: 2, ..Config::default() };
        assert_eq!(sizes(&config, 3), [20_000, 20_000, 20_000, 0, 0, 0, 0, 0]);
        let config = Config { protocol: Protocol::Pipeline, folds: 2, ..Config::default() };
        assert_eq!(sizes(&config, 2)[..2], [64 << 10; 2]);
        let config = Config { protocol: Protocol::Copy, folds: 1, ..Config::default() };
        assert_eq!(sizes(&config, 2)[..2], [96 * 4096; 2]);
    }

    #[test]
    fn a_chunk_is_a_block_at_least_and_a_fold_at_most() {
        let config = Config { c0_bytes: 1, ..Config::default() };
        assert_eq!(sizes(&config, 1)[0], 4096);
        let config = Config { c0_bytes: u32::MAX, folds: 3, ..Config::default() };
        assert_eq!(sizes(&config, 1)[0], 32 * 4096);
    }
}
