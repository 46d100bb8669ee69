//! The shared state of both processes, and the state of each.

use memmap2::MmapMut;
use superpipe_bench::failure::Failure;
use superpipe_bench::map::{self, PAGE_BYTES, SharedMapping};
use superpipe_bench::probe::{self, PROBE_BYTES};
use superpipe_bench::ring::{DirectionOffset, Ring};
use superpipe_bench::spin::Timeout;

use crate::config::{Config, Options};

/// The two lines of a probe.
pub(crate) const PROBE_AT: usize = probe::BEHIND_CHANNEL;
/// The beginning of the first direction.
const RINGS_AT: usize = (PROBE_AT + PROBE_BYTES).next_multiple_of(PAGE_BYTES);

/// The state that both processes share, made before the fork.
pub(crate) struct SharedState<'a> {
    pub(crate) map: &'a SharedMapping,
    pub(crate) options: &'a Options,
    /// a command names a configuration by its index
    pub(crate) configs: &'a [Config],
    /// client to server, server to client
    offsets: [DirectionOffset; 2],
}

impl<'a> SharedState<'a> {
    /// Bytes of the mapping for the largest of `configs`.
    pub(crate) fn bytes(configs: &[Config]) -> usize {
        RINGS_AT + 2 * direction_bytes(configs)
    }

    /// Lays the state out in `map`, which has [`SharedState::bytes`].
    pub(crate) fn new(map: &'a SharedMapping, options: &'a Options, configs: &'a [Config]) -> Self {
        Self {
            map,
            options,
            configs,
            offsets: [DirectionOffset(RINGS_AT), DirectionOffset(RINGS_AT + direction_bytes(configs))],
        }
    }
}

fn direction_bytes(configs: &[Config]) -> usize {
    configs.iter().map(|config| config.layout().direction_bytes()).max().unwrap_or(0)
}

/// The state of one process: its buffers, and the blocks that went each way.
pub(crate) struct End<'a> {
    pub(crate) shared: &'a SharedState<'a>,
    pub(crate) timeout: &'a Timeout,
    from: MmapMut,
    to: MmapMut,
    counts: [u64; 2],
}

/// A message's two buffers, and the two directions.
pub(crate) struct Exchange<'b, 'a> {
    pub(crate) from: &'b mut [u8],
    pub(crate) to: &'b mut [u8],
    pub(crate) forth: Ring<'a>,
    pub(crate) back: Ring<'a>,
}

impl<'a> End<'a> {
    /// Makes the buffers, resident.
    pub(crate) fn new(shared: &'a SharedState<'a>, timeout: &'a Timeout) -> Result<Self, Failure> {
        let options = shared.options;
        let bytes_max = options.sizes.iter().map(|size| size.0).max().unwrap_or(0) + options.offset.0;
        let huge = options.limit.huge;
        let (from, to) = (map::resident(bytes_max, huge)?, map::resident(bytes_max, huge)?);
        Ok(Self { shared, timeout, from, to, counts: [0; 2] })
    }

    /// Blocks that went from the client to the server so far.
    pub(crate) const fn sent_count(&self) -> u64 {
        self.counts[0]
    }

    /// Runs `work` over the rings that `config` asks for.
    pub(crate) fn with_rings<R>(
        &mut self,
        config: Config,
        work: impl FnOnce(&mut Exchange) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let (map, offsets, layout) = (self.shared.map, self.shared.offsets, config.layout());
        let at = self.shared.options.offset.0;
        let mut all = Exchange {
            from: &mut self.from[at..at + config.bytes],
            to: &mut self.to[at..at + config.bytes],
            forth: Ring::new(map, offsets[0], layout, self.counts[0], self.timeout),
            back: Ring::new(map, offsets[1], layout, self.counts[1], self.timeout),
        };
        let outcome = work(&mut all)?;
        self.counts = [all.forth.count(), all.back.count()];
        Ok(outcome)
    }
}
