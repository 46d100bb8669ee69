//! What both processes have in common, and what each has of its own.

use superpipe_bench::failure::Failure;
use superpipe_bench::mailbox::MAILBOX_BYTES;
use superpipe_bench::map::{Buffer, PAGE_BYTES, SharedMapping};
use superpipe_bench::spin::Patience;

use crate::config::{Config, Options};
use crate::ring::{Place, Ring};

/// Where the first direction begins.
const RINGS_AT: usize = MAILBOX_BYTES.next_multiple_of(PAGE_BYTES);

/// What both processes have in common: made before the fork.
pub(crate) struct World<'a> {
    pub(crate) map: &'a SharedMapping,
    pub(crate) options: &'a Options,
    /// a command names a configuration by its index here
    pub(crate) configs: &'a [Config],
    /// client to server, server to client
    places: [Place; 2],
}

impl<'a> World<'a> {
    /// What the mapping needs for the largest of `configs`.
    pub(crate) fn bytes(configs: &[Config]) -> usize {
        RINGS_AT + 2 * direction_bytes(configs)
    }

    /// The world in `map`, which has [`World::bytes`].
    pub(crate) fn new(map: &'a SharedMapping, options: &'a Options, configs: &'a [Config]) -> Self {
        Self { map, options, configs, places: [Place(RINGS_AT), Place(RINGS_AT + direction_bytes(configs))] }
    }
}

fn direction_bytes(configs: &[Config]) -> usize {
    let bytes_max = configs.iter().map(|config| config.layout().bytes()).max().unwrap_or(0);
    // One page for the count.
    bytes_max.next_multiple_of(PAGE_BYTES) + PAGE_BYTES
}

/// What one process has: its buffers, and how many blocks went each way.
pub(crate) struct End<'a> {
    pub(crate) world: &'a World<'a>,
    pub(crate) patience: &'a Patience,
    from: Buffer,
    to: Buffer,
    counts: [u64; 2],
}

/// A message's two buffers, and the two directions.
pub(crate) struct Work<'b, 'a> {
    pub(crate) from: &'b mut [u8],
    pub(crate) to: &'b mut [u8],
    pub(crate) forth: Ring<'a>,
    pub(crate) back: Ring<'a>,
}

impl<'a> End<'a> {
    /// The buffers, resident.
    pub(crate) fn new(world: &'a World<'a>, patience: &'a Patience) -> Result<Self, Failure> {
        let options = world.options;
        let bytes_max = options.sizes.iter().map(|size| size.0).max().unwrap_or(0) + options.offset.0;
        let huge = options.limit.huge;
        let (from, to) = (Buffer::new(bytes_max, huge)?, Buffer::new(bytes_max, huge)?);
        Ok(Self { world, patience, from, to, counts: [0; 2] })
    }

    /// Blocks that went from the client to the server so far.
    pub(crate) const fn sent_count(&self) -> u64 {
        self.counts[0]
    }

    /// Runs `work` over the rings that `config` asks for.
    pub(crate) fn with_rings<R>(
        &mut self,
        config: Config,
        work: impl FnOnce(&mut Work) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let (map, places, layout) = (self.world.map, self.world.places, config.layout());
        let at = self.world.options.offset.0;
        let mut all = Work {
            from: &mut self.from.bytes_mut()[at..at + config.bytes],
            to: &mut self.to.bytes_mut()[at..at + config.bytes],
            forth: Ring::new(map, places[0], layout, self.counts[0], self.patience),
            back: Ring::new(map, places[1], layout, self.counts[1], self.patience),
        };
        let outcome = work(&mut all)?;
        self.counts = [all.forth.count(), all.back.count()];
        Ok(outcome)
    }
}
