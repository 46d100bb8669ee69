//! The configurations of a sweep: message size, pattern, ring, block, place of the flag, copy kernels.

use clap::{Parser, ValueEnum};
use serde_json::{Value, json};
use superpipe_bench::failure::Failure;
use superpipe_bench::kernels::Kernel;
use superpipe_bench::options::{Common, Limit};
use superpipe_bench::report::Describe;
use superpipe_bench::ring::Layout;
use superpipe_bench::size::Size;

use crate::task::Pattern;

const LINE_BYTES: usize = 64;
const FLAG_BYTES: usize = 8;
const BLOCK_BYTES_MIN: usize = 256;
const BYTES_MAX: usize = 1 << 32;

/// The best half round trip and streaming rate over a bare ring of flagged blocks, between two pinned processes
#[derive(Parser)]
#[command(name = "limit_blocks", version)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) limit: Limit,
    /// Message sizes
    #[arg(long, value_delimiter = ',', alias = "bytes", default_value = "4K,8K,16K,32K,64K,256K,1M,4M,64M")]
    pub(crate) sizes: Vec<Size>,
    /// Ping-pong (half round trip), or one way (measured at the receiver)
    #[arg(long, value_delimiter = ',', value_enum, default_value = "pingpong,stream")]
    pub(crate) pattern: Vec<Pattern>,
    /// Bytes of a block
    #[arg(long, value_delimiter = ',', default_value = "2K,4K,8K,16K,32K,64K")]
    pub(crate) block: Vec<Size>,
    /// Bytes of a ring; combinations with less than one block are left out
    #[arg(long, value_delimiter = ',', default_value = "32K,64K,128K,256K,512K,1M,2M,4M")]
    pub(crate) ring: Vec<Size>,
    /// DirectionOffset of a block's flag
    #[arg(long, value_delimiter = ',', value_enum, default_value = "end,line,tail,apart")]
    pub(crate) flag: Vec<Flag>,
    /// Copy kernels of the sender, into the ring
    #[arg(
        long,
        value_delimiter = ',',
        value_enum,
        default_value = "plain,movsb,nt,prefetch,demote-to,demote-from"
    )]
    pub(crate) copy_in: Vec<Kernel>,
    /// Copy kernels of the receiver, out of the ring
    #[arg(long, value_delimiter = ',', value_enum, default_value = "plain,movsb,nt")]
    pub(crate) copy_out: Vec<Kernel>,
    /// Probe the distance of the cores before and after each visit, until every configuration has --rounds visits at one distance, and print at the
    /// end, for each distance that was seen, the best configurations and the reference beside them
    #[arg(long, conflicts_with = "best")]
    pub(crate) by_distance: bool,
    /// Further visits to each of the best configurations, with --by-distance
    #[arg(long, default_value_t = 9, requires = "by_distance")]
    pub(crate) final_visits: u64,
    /// Bytes by which the messages' own buffers miss a page boundary
    #[arg(long, default_value = "0")]
    pub(crate) offset: Size,
}

/// The place of a block's flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Flag {
    /// in the block's last 8 bytes
    End,
    /// alone in the block's last line
    Line,
    /// alone in a line of its own after the block, which it makes longer
    Tail,
    /// in an array of flags, 128 bytes from one to the next
    Apart,
}

/// One configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) bytes: usize,
    pub(crate) pattern: Pattern,
    pub(crate) block: usize,
    pub(crate) ring: usize,
    pub(crate) flag: Flag,
    pub(crate) copy_in: Kernel,
    pub(crate) copy_out: Kernel,
}

impl Config {
    /// Lists every combination of the options that has at least one block, grouped by size and pattern.
    pub(crate) fn all(options: &Options) -> Result<Vec<Vec<Self>>, Failure> {
        let too_large = |size: &&Size| size.0 > BYTES_MAX;
        if let Some(size) = options.sizes.iter().chain(&options.ring).find(too_large) {
            return Err(Failure::Usage(format!("{} bytes are over 4 GiB", size.0)));
        }
        if let Some(block) = options.block.iter().find(|b| b.0 < BLOCK_BYTES_MIN || !b.0.is_multiple_of(128))
        {
            return Err(Failure::Usage(format!(
                "blocks of {}: at least {BLOCK_BYTES_MIN}, and multiples of 128",
                block.0
            )));
        }
        let mut groups = Vec::new();
        for &Size(bytes) in &options.sizes {
            groups.extend(options.pattern.iter().map(|&pattern| Self::group(options, bytes, pattern)));
        }
        if groups.iter().any(Vec::is_empty) {
            return Err(Failure::Usage("no ring has room for a block".into()));
        }
        Ok(groups)
    }

    fn group(options: &Options, bytes: usize, pattern: Pattern) -> Vec<Self> {
        let mut group = Vec::new();
        for &Size(block) in &options.block {
            for &Size(ring) in options.ring.iter().filter(|ring| ring.0 >= block) {
                for &flag in &options.flag {
                    for &copy_in in &options.copy_in {
                        let with = |&copy_out| Self { bytes, pattern, block, ring, flag, copy_in, copy_out };
                        group.extend(options.copy_out.iter().map(with));
                    }
                }
            }
        }
        group
    }

    pub(crate) const fn layout(self) -> Layout {
        let block_count = self.ring / self.block;
        let (stride, payload_bytes) = match self.flag {
            Flag::End => (self.block, self.block - FLAG_BYTES),
            Flag::Line => (self.block, self.block - LINE_BYTES),
            Flag::Tail => (self.block + LINE_BYTES, self.block),
            Flag::Apart => return Layout::apart(block_count, self.block),
        };
        // The flag directly follows a full block's payload.
        Layout { block_count, stride, payload_bytes, flags_at: payload_bytes, flag_stride: stride }
    }
}

impl Describe for Config {
    const KIND: &'static str = "blocks";

    fn parts(&self) -> Vec<(&'static str, Value)> {
        let flag = match self.flag {
            Flag::End => "end",
            Flag::Line => "line",
            Flag::Tail => "tail",
            Flag::Apart => "apart",
        };
        vec![
            ("pattern", json!(self.pattern.name())),
            ("block", json!(self.block)),
            ("ring", json!(self.ring)),
            ("flag", json!(flag)),
            ("copy-in", json!(self.copy_in.name())),
            ("copy-out", json!(self.copy_out.name())),
        ]
    }

    fn message_bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::{Config, Flag, Kernel, Pattern};

    #[test]
    fn flags_and_payloads_never_overlap() {
        for flag in [Flag::End, Flag::Line, Flag::Tail, Flag::Apart] {
            let config = Config {
                bytes: 0,
                pattern: Pattern::Stream,
                block: 4096,
                ring: 32_768,
                flag,
                copy_in: Kernel::Plain,
                copy_out: Kernel::Plain,
            };
            let layout = config.layout();
            let mut used = vec![false; layout.bytes()];
            for slot in 0..layout.block_count {
                let payload_at = slot * layout.stride;
                let flag_at = layout.flags_at + slot * layout.flag_stride;
                for at in (payload_at..payload_at + layout.payload_bytes).chain(flag_at..flag_at + 8) {
                    assert!(!used[at], "{flag:?} slot {slot} byte {at}");
                    used[at] = true;
                }
                assert_eq!(flag_at % 8, 0);
            }
        }
    }
}
