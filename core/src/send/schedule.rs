//! Size of the next chunk, by three limits: the schedule, the CTS, and the free blocks. Denis, equations 3, 4 and 5; wire.md 4.5.
//!
//! The schedule is not part of the wire format: a receiver takes chunks of any size that the layout allows. It is pure integer
//! arithmetic.

use super::{Open, Sender};
use crate::config::{Config, FirstChunk};
use crate::fabric::Fabric;
use crate::protocol::{Protocol, Q_ONE};
use crate::wire::arrival::Arrival;
use crate::wire::header::Length;
use crate::wire::layout::Layout;
use crate::wire::sequence::{Advance, judge};

/// Bytes of a pipeline's chunk in a stream, whose length is not known, if none is configured. Smaller chunks would cost more gaps between
/// them, larger ones a longer first copy and last copy, which nothing overlaps.
const STREAM_CHUNK_BYTES: u32 = 64 << 10;

/// Size of the next chunk of the open transfer, or what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextChunk {
    /// A chunk of at most this number of bytes.
    Bytes(u32),
    /// Wait for acknowledgements or completions.
    NoCredit,
    /// Wait for the CTS.
    NoCts,
}

/// Permission for a chunk to be the last of its transfer, which may take the block that is kept for CANCEL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastChunk {
    /// The chunk carries exactly the bytes that it is allowed.
    Possible,
    /// The caller may commit fewer.
    Never,
}

impl<F: Fabric> Sender<F> {
    /// Returns how large the next chunk may be. The caller has `wanted` bytes at hand; 0 for an end without payload.
    pub(crate) fn next_chunk(&self, config: &Config, wanted: u64, last: LastChunk) -> NextChunk {
        let Some(open) = &self.open else { return NextChunk::NoCredit };
        let wanted_bytes = u32::try_from(wanted).unwrap_or(u32::MAX);
        let scheduled_bytes = open.scheduled_bytes(wanted, self.landing.layout);
        let bytes = wanted_bytes.min(scheduled_bytes).min(open.bytes_before_cts(config));
        if bytes == 0 && wanted > 0 && open.rts_sent {
            return NextChunk::NoCts;
        }
        let ends = match open.length {
            Length::Exact(length) => open.sent + u64::from(bytes) == length,
            Length::Stream => wanted == 0,
        };
        self.limit_to_free_blocks(config, bytes, ends && last == LastChunk::Possible)
    }

    /// Returns how many of `bytes` bytes the free blocks up to the end of the lap hold. One free block is kept for CANCEL, unless this
    /// is the last chunk and all of it fits.
    pub(super) fn limit_to_free_blocks(&self, config: &Config, bytes: u32, may_be_last: bool) -> NextChunk {
        let layout = self.landing.layout;
        let free = self.free();
        let to_end = self.to_end();
        let needed = layout.blocks_for(bytes);
        let is_last = may_be_last && needed <= free.min(to_end);
        let mut kept = u32::from(!is_last);
        planted!(BlockNotKept => kept = 0);
        let run = free.saturating_sub(kept).min(to_end);
        if run == 0
            || config.triple_buffer
                && judge(self.chunk_ends[0], self.acked, self.produced) == Advance::Forward
        {
            return NextChunk::NoCredit;
        }
        // Each posted chunk costs a gap on the wire: wait for half a fold instead of posting small chunks. By direct store wait for a whole group, which
        // has its flag alone. Neither waits for more than there can be, or than is left of the lap.
        let enough = if F::DIRECT {
            layout.group_blocks().min(self.laps.blocks().saturating_sub(kept))
        } else {
            fold_blocks(config, layout).div_ceil(2)
        };
        if run < enough.min(needed).min(to_end) {
            return NextChunk::NoCredit;
        }
        let run = if needed > run { layout.whole_groups(run) } else { run };
        NextChunk::Bytes(bytes.min(layout.capacity(run)))
    }
}

impl Open {
    /// Returns the bytes that the next chunk may have by the schedule. By the provision protocol what the ring holds at once is one chunk:
    /// the rest of a message, or the `wanted` bytes of a stream.
    fn scheduled_bytes(&self, wanted: u64, layout: Layout) -> u32 {
        let left = match self.length {
            Length::Exact(length) => Some(length - self.sent),
            Length::Stream => None,
        };
        let held = layout.capacity(layout.block_count);
        if self.protocol == Protocol::Provision && left.unwrap_or(wanted) <= u64::from(held) {
            return held;
        }
        left.map_or(self.schedule.next_bytes(), |left| self.schedule.next_of(left))
    }

    /// Returns the bytes that may be sent now by the rendezvous: without limit if no CTS is awaited. Before the CTS a superpipeline that starts
    /// optimistically sends C0 bytes, and all others none.
    fn bytes_before_cts(&self, config: &Config) -> u32 {
        if !self.want_cts || self.cts_received {
            return u32::MAX;
        }
        let starts_at_once = matches!(self.first_chunk, FirstChunk::WithRts | FirstChunk::WithoutCts);
        if !starts_at_once || !self.protocol.starts_with_c0() {
            return 0;
        }
        let left = u64::from(config.c0_bytes).saturating_sub(self.sent);
        u32::try_from(left).unwrap_or(u32::MAX)
    }
}

/// Sizes of the chunks of one transfer, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Schedule {
    next_bytes: u32,
    growth_q8: u32,
    max_bytes: u32,
    /// Smallest size to which chunks shrink again towards the end of a message; 0 if they do not shrink.
    tail_bytes: u32,
}

impl Schedule {
    /// Makes the schedule of `config` for a transfer of this length, and a landing buffer of this layout.
    ///
    /// Superpipeline: C0, then C(i+1) = q C(i) (equation 5). Pipeline: chunks of one size, C_opt (equation 3) or the configured one. Eager, copy and provision: as large as
    /// the landing buffer allows. None exceeds a fold, none is less than a block.
    #[must_use]
    pub fn new(config: &Config, layout: Layout, length: Length) -> Self {
        let block = layout.capacity(1);
        let max_bytes = layout.capacity(fold_blocks(config, layout));
        let protocol = config.protocol.in_chunks();
        let (first, growth_q8) = match protocol {
            Protocol::Superpipeline => (config.c0_bytes, config.growth_q8),
            Protocol::Pipeline if config.chunk_bytes == 0 => (optimal_chunk_bytes(config, length), Q_ONE),
            Protocol::Pipeline => (config.chunk_bytes, Q_ONE),
            Protocol::Eager
            | Protocol::Copy
            | Protocol::Provision
            | Protocol::Register
            | Protocol::RegisterCached
            | Protocol::Auto => (max_bytes, Q_ONE),
        };
        let largest = match protocol {
            Protocol::Superpipeline if config.chunk_bytes != 0 => config.chunk_bytes.clamp(block, max_bytes),
            _ => max_bytes,
        };
        // In notify mode the receiver sees a chunk only once all of it has arrived. Nothing overlaps the copy of the last chunk, so the
        // last chunks get smaller.
        let tail_bytes = match (config.arrival, protocol) {
            (Arrival::Notify, Protocol::Superpipeline) => config.c0_bytes.clamp(block, largest),
            _ => 0,
        };
        Self { next_bytes: first.clamp(block, largest), growth_q8, max_bytes: largest, tail_bytes }
    }

    /// Adapts to another layout: chunks go on growing, up to its fold.
    pub(crate) fn fit(&mut self, config: &Config, layout: Layout, length: Length) {
        let fresh = Self::new(config, layout, length);
        let next_bytes = self.next_bytes.max(fresh.next_bytes).min(fresh.max_bytes);
        *self = Self { next_bytes, ..fresh };
    }

    /// Returns the size that the next chunk should have.
    #[must_use]
    #[inline]
    pub const fn next_bytes(&self) -> u32 {
        self.next_bytes
    }

    /// Returns [`next_bytes`](Self::next_bytes) for a message that has `left` bytes left. In notify mode that is at most half of them,
    /// as long as half is at least C0: not less, since each chunk costs a gap on the wire.
    #[must_use]
    #[inline]
    pub fn next_of(&self, left: u64) -> u32 {
        match u32::try_from(left.div_ceil(2)) {
            Ok(half) if self.tail_bytes > 0 && half >= self.tail_bytes => half.min(self.next_bytes),
            _ => self.next_bytes,
        }
    }

    /// Advances to the next chunk, which is q times as large.
    #[inline]
    pub fn advance(&mut self) {
        if self.next_bytes < self.max_bytes {
            let grown = u64::from(self.next_bytes) * u64::from(self.growth_q8) / u64::from(Q_ONE);
            self.next_bytes = u32::try_from(grown).unwrap_or(self.max_bytes).min(self.max_bytes);
        }
    }
}

/// Returns C_opt = √(L · g · B_copy / 2), Denis, equation 3.
fn optimal_chunk_bytes(config: &Config, length: Length) -> u32 {
    match length {
        Length::Exact(bytes) => {
            let squared = bytes.saturating_mul(config.gap_bytes.into()) / 2;
            u32::try_from(squared.isqrt()).unwrap_or(u32::MAX)
        }
        Length::Stream => STREAM_CHUNK_BYTES,
    }
}

/// Returns the blocks of a fold: whole groups, if it has one.
fn fold_blocks(config: &Config, layout: Layout) -> u32 {
    layout.whole_groups((layout.block_count / u32::from(config.folds)).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::layout::FlagPlace;

    fn sizes(config: &Config, count: usize) -> [u32; 8] {
        sizes_of(config, Length::Stream, count)
    }

    fn sizes_of(config: &Config, length: Length, count: usize) -> [u32; 8] {
        let layout =
            Layout { block_bytes: 4096, block_count: 96, flags: FlagPlace::Apart { group_blocks: 1 } };
        let mut schedule = Schedule::new(config, layout, length);
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
            let (mut schedule, mut out) = (Schedule::new(&config, layout, Length::Exact(left)), [0; 12]);
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
        // √(1 MiB · 8 KiB / 2), and the longest message there is.
        let config = Config { gap_bytes: 8 << 10, ..config };
        assert_eq!(sizes_of(&config, Length::Exact(1 << 20), 2)[..2], [64 << 10; 2]);
        assert_eq!(sizes_of(&config, Length::Exact(4 << 20), 1)[0], 128 << 10);
        assert_eq!(sizes_of(&config, Length::Exact(u64::MAX), 1)[0], 48 * 4096, "a fold");
        let config = Config { protocol: Protocol::Copy, folds: 1, ..Config::default() };
        assert_eq!(sizes(&config, 2)[..2], [96 * 4096; 2]);
    }

    #[test]
    fn a_fold_has_whole_groups() {
        for (block_count, group_blocks, folds, blocks) in
            [(128, 4, 3, 40), (128, 1, 3, 42), (16, 4, 3, 4), (11, 4, 3, 3), (5, 16, 1, 5), (33, 16, 1, 32)]
        {
            let layout = Layout { block_bytes: 4096, block_count, flags: FlagPlace::Apart { group_blocks } };
            let config = Config { protocol: Protocol::Eager, folds, ..Config::default() };
            assert_eq!(
                Schedule::new(&config, layout, Length::Stream).next_bytes(),
                blocks * 4096,
                "{layout:?}"
            );
        }
    }

    #[test]
    fn a_chunk_is_a_block_at_least_and_a_fold_at_most() {
        let config = Config { c0_bytes: 1, ..Config::default() };
        assert_eq!(sizes(&config, 1)[0], 4096);
        let config = Config { c0_bytes: u32::MAX, folds: 3, ..Config::default() };
        assert_eq!(sizes(&config, 1)[0], 32 * 4096);
    }
}
