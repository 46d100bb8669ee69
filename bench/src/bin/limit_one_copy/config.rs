//! The options, and the configurations that they ask for: message size, way, copy kernel, state of the source.

use clap::{Parser, ValueEnum};
use serde_json::{Value, json};
use superpipe_bench::failure::Failure;
use superpipe_bench::kernels::Kernel;
use superpipe_bench::options::Common;
use superpipe_bench::report::Describe;
use superpipe_bench::ring::Layout;
use superpipe_bench::size::Size;

/// Messages have a multiple of two lines, so that the halves of `split` share none.
const BYTES_UNIT: usize = 128;
/// Eight buffers of this size, and two of them in each process, are 8 GiB.
const BYTES_MAX: usize = 1 << 30;

/// The best half round trip out of memory that both processes map: one copy, or one that both share, beside a bare ring
#[derive(Parser)]
#[command(name = "limit_one_copy", version, mut_arg("rounds", |arg| arg.default_value("9")))]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Message sizes, multiples of 128
    #[arg(long, value_delimiter = ',', alias = "bytes", default_value = "64K,256K,1M,4M,16M,64M")]
    pub(crate) sizes: Vec<Size>,
    /// Ways of a message
    #[arg(long, value_delimiter = ',', value_enum, default_value = "ring,one,split")]
    pub(crate) way: Vec<Way>,
    /// Copy kernels
    #[arg(long, value_delimiter = ',', value_enum, default_value = "plain")]
    pub(crate) copy: Vec<Kernel>,
    /// Bytes of a block of the ring
    #[arg(long, default_value = "16K")]
    pub(crate) block: Size,
    /// Bytes of the ring
    #[arg(long, default_value = "512K")]
    pub(crate) ring: Size,
    /// Leave the sources as they are, instead of writing each before its message
    #[arg(long)]
    pub(crate) unwritten: bool,
    /// Read each message at its receiver before the next one, outside of the time
    #[arg(long)]
    pub(crate) read: bool,
    /// Probe the distance of the cores before and after each round: rounds near and far have medians of their own, and one in which it changed
    /// has none
    #[arg(long)]
    pub(crate) probe: bool,
    /// Use huge pages where the kernel gives them
    #[arg(long)]
    pub(crate) huge: bool,
    /// Flip one byte in flight during the check, which the program must detect
    #[arg(long, hide = true)]
    pub(crate) flip_byte: bool,
}

impl Options {
    pub(crate) const fn layout(&self) -> Layout {
        Layout::apart(self.ring.0 / self.block.0, self.block.0)
    }

    pub(crate) fn bytes_max(&self) -> usize {
        self.sizes.iter().map(|size| size.0).max().unwrap_or(0)
    }
}

/// The way of a message from its source to its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// through a ring: two copies, which overlap
    Ring,
    /// one copy, by the receiver
    One,
    /// one copy, the first half by the receiver and the second by the sender
    Split,
    /// superpipe, out of registered buffers (not among the default ways)
    Registered,
    /// the same, into trusted buffers, so that both ends copy a half (not among the default ways)
    Trusted,
}

/// One configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) bytes: usize,
    pub(crate) way: Way,
    pub(crate) copy: Kernel,
    pub(crate) unwritten: bool,
    pub(crate) read: bool,
}

impl Config {
    /// Lists every combination of the options. The ways of a size and kernel follow each other, so that a round compares them.
    pub(crate) fn all(options: &Options) -> Result<Vec<Self>, Failure> {
        let wrong = |size: &&Size| size.0 == 0 || size.0 > BYTES_MAX || !size.0.is_multiple_of(BYTES_UNIT);
        if let Some(size) = options.sizes.iter().find(wrong) {
            let bytes = size.0;
            return Err(Failure::Usage(format!("{bytes} bytes: a multiple of {BYTES_UNIT}, up to 1 GiB")));
        }
        let (block, ring) = (options.block.0, options.ring.0);
        if block == 0 || !block.is_multiple_of(BYTES_UNIT) || block > ring || ring > BYTES_MAX {
            return Err(Failure::Usage(format!(
                "blocks of {block} in a ring of {ring}: multiples of {BYTES_UNIT}, at least one, up to 1 GiB"
            )));
        }
        let (unwritten, read) = (options.unwritten, options.read);
        let mut configs = Vec::new();
        for &Size(bytes) in &options.sizes {
            for &copy in &options.copy {
                configs.extend(options.way.iter().map(|&way| Self { bytes, way, copy, unwritten, read }));
            }
        }
        Ok(configs)
    }

    /// Returns true for the ways of superpipe.
    pub(crate) const fn is_registered(self) -> bool {
        matches!(self.way, Way::Registered | Way::Trusted)
    }

    /// The kernel of copies into the ring: the bytes are to stay in the caches.
    pub(crate) const fn copy_into_ring(self) -> Kernel {
        match self.copy {
            Kernel::Nt => Kernel::Plain,
            other => other,
        }
    }

    /// Bytes that the receiver copies in `split`.
    pub(crate) const fn first_half(self) -> usize {
        (self.bytes / 2).next_multiple_of(BYTES_UNIT / 2)
    }
}

impl Describe for Config {
    const KIND: &'static str = "one-copy";

    fn parts(&self) -> Vec<(&'static str, Value)> {
        let way = match self.way {
            Way::Ring => "ring",
            Way::One => "one",
            Way::Split => "split",
            Way::Registered => "registered",
            Way::Trusted => "trusted",
        };
        vec![
            ("way", json!(way)),
            ("copy", json!(self.copy.name())),
            ("unwritten", json!(self.unwritten)),
            ("read", json!(self.read)),
        ]
    }

    fn message_bytes(&self) -> usize {
        self.bytes
    }
}
