//! One experiment: messages of one length on a machine of the papers.

use superpipe_core::plan::{Machine, Pages};
use superpipe_core::{Config, FlagPlace, Layout, Protocol};

use super::connection::{Buffers, Terms};
use super::machine::simulated;
use super::ping_pong::PingPong;

/// Bytes of a block: the papers' sub-blocks.
pub(crate) const BLOCK_BYTES: u32 = 4096;

/// More chunks than a superpipeline, or a protocol with the largest ones, has of any message.
const GROWING_CHUNKS_MAX: u64 = 32;

/// Messages of one length on a machine of the papers.
#[derive(Clone, Copy)]
pub(crate) struct Experiment {
    pub(crate) machine: Machine,
    pub(crate) config: Config,
    pub(crate) buffers: Buffers,
    pub(crate) bytes: u64,
    /// Pages of the messages' memory.
    pub(crate) pages: Pages,
    pub(crate) block_bytes: u32,
    /// Bytes of the landing buffer; `None`: as many as the message needs at once.
    pub(crate) landing_bytes: Option<u64>,
}

impl Experiment {
    /// Makes an experiment in resident memory, whose landing buffer holds a message.
    pub(crate) const fn on(
        machine: &Machine,
        protocol: Protocol,
        buffers: Buffers,
        bytes: u64,
        config: Config,
    ) -> Self {
        // Messages up to C0 go in blocks, whatever the protocol.
        let c0_bytes = if matches!(buffers, Buffers::Unnamed) { config.c0_bytes } else { 1 };
        let config = Config { protocol, c0_bytes, folds: 1, ..config };
        let (pages, block_bytes, landing_bytes) = (Pages::RESIDENT, BLOCK_BYTES, None);
        Self { machine: *machine, config, buffers, bytes, pages, block_bytes, landing_bytes }
    }

    /// Returns what a connection for these messages must agree on.
    pub(crate) fn terms(&self) -> Result<Terms, String> {
        let Self { block_bytes, .. } = *self;
        let blocks = match self.landing_bytes {
            Some(bytes) => bytes / u64::from(block_bytes),
            // A block has a flag, and the first one of each chunk a slot line. The last block of each chunk may be nearly empty, and one block is kept free.
            None => self.bytes / u64::from(block_bytes - 64) + 4 + self.chunks_max(),
        };
        let block_count = u32::try_from(blocks).map_err(|error| error.to_string())?;
        Ok(Terms {
            config: self.config,
            layout: Layout { block_bytes, block_count, flags: FlagPlace::Inside },
            buffers: self.buffers,
            bytes: usize::try_from(self.bytes).map_err(|error| error.to_string())?,
            planner: None,
        })
    }

    /// Returns how many chunks there are at most.
    const fn chunks_max(&self) -> u64 {
        match self.config.chunk_bytes {
            0 => GROWING_CHUNKS_MAX,
            bytes => self.bytes.div_ceil(bytes as u64),
        }
    }

    fn ping_pong(self) -> Result<PingPong, String> {
        Ok(PingPong { profile: simulated(&self.machine, self.bytes, self.pages), terms: self.terms()? })
    }

    /// Returns the nanoseconds of each of `count` messages, there and back in turn.
    pub(crate) fn times(self, count: u64) -> Result<Vec<f64>, String> {
        let times = self.ping_pong()?.play(count)?;
        Ok(times.into_iter().map(|ns| ns as f64).collect())
    }

    /// Returns the nanoseconds of the first message. It begins at the first block, so it is not cut by the end of the landing buffer.
    pub(crate) fn ns(self) -> Result<f64, String> {
        self.times(1)?.first().copied().ok_or_else(|| "no message".to_owned())
    }

    /// Returns the nanoseconds of the first message, and its chunks.
    pub(crate) fn ns_and_chunks(self) -> Result<[f64; 2], String> {
        Ok(self.ping_pong()?.ns_and_chunks()?.map(|value| value as f64))
    }

    /// Returns the chunks of the first message.
    pub(crate) fn chunks(self) -> Result<f64, String> {
        self.ns_and_chunks().map(|[_, chunks]| chunks)
    }

    /// Returns the nanoseconds of registering the memory of a connection, and of the first message.
    pub(crate) fn first(self) -> Result<[f64; 2], String> {
        Ok(self.ping_pong()?.first()?.map(|ns| ns as f64))
    }

    /// Returns the CPU time of both ends in the first message: of copies, of jobs and of all else.
    pub(crate) fn worked_ns(self) -> Result<[f64; 3], String> {
        let worked = self.ping_pong()?.worked_ns()?;
        Ok(worked.map(|ns| ns as f64))
    }
}
