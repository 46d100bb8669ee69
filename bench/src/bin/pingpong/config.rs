//! What is measured: message size and pattern, and how the connection is tuned.

use clap::Parser;
use serde_json::{Value, json};
use superpipe::{Protocol, Tuning, WaitStrategy};
use superpipe_bench::failure::Failure;
use superpipe_bench::options::Common;
use superpipe_bench::report::Describe;
use superpipe_bench::size::Size;
use superpipe_bench::task::Pattern;

const BYTES_MAX: usize = 1 << 32;

/// superpipe's half round trip and streaming rate over shared memory, between two pinned processes
#[derive(Parser)]
#[command(name = "pingpong", version)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Message sizes
    #[arg(long, value_delimiter = ',', alias = "bytes", default_value = "8,4K,16K,64K,256K,1M")]
    pub(crate) sizes: Vec<Size>,
    /// Ping-pong (half round trip), or one way (measured at the receiver)
    #[arg(long, value_delimiter = ',', value_enum, default_value = "pingpong")]
    pub(crate) pattern: Vec<Pattern>,
    /// Bytes of a block; 0 leaves it to superpipe
    #[arg(long, value_delimiter = ',', default_value = "0")]
    pub(crate) block: Vec<Size>,
    /// Bytes of a landing buffer; 0 leaves it to superpipe
    #[arg(long, value_delimiter = ',', default_value = "0")]
    pub(crate) landing: Vec<Size>,
    /// How messages cross: eager, copy, pipeline or superpipeline
    #[arg(long, value_delimiter = ',', value_parser = read_protocol, default_value = "superpipeline")]
    pub(crate) protocol: Vec<Protocol>,
    /// How to wait: spin, yield or sleep
    #[arg(long, default_value = "spin")]
    pub(crate) wait: WaitStrategy,
    /// Bytes by which the messages' own buffers miss a page boundary
    #[arg(long, default_value = "0")]
    pub(crate) offset: Size,
}

fn read_protocol(name: &str) -> Result<Protocol, String> {
    let found = Protocol::ALL.into_iter().find(|protocol| protocol.name() == name);
    found.ok_or_else(|| format!("'{name}' is none of eager, copy, pipeline and superpipeline"))
}

/// What one connection is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) block: usize,
    pub(crate) landing: usize,
    pub(crate) protocol: Protocol,
}

impl Link {
    /// Every combination that the options name.
    pub(crate) fn all(options: &Options) -> Vec<Self> {
        let mut links = Vec::new();
        for &Size(block) in &options.block {
            for &Size(landing) in &options.landing {
                links.extend(options.protocol.iter().map(|&protocol| Self { block, landing, protocol }));
            }
        }
        links
    }

    /// As wishes.
    pub(crate) fn tuning(self) -> Tuning {
        // Too large a wish is refused by superpipe, with the range in its text.
        let wish = |bytes: usize| (bytes != 0).then(|| u32::try_from(bytes).unwrap_or(u32::MAX));
        Tuning {
            protocol: Some(self.protocol),
            block_bytes: wish(self.block),
            landing_bytes: wish(self.landing),
            ..Tuning::default()
        }
    }
}

/// One configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) bytes: usize,
    pub(crate) pattern: Pattern,
    pub(crate) link: Link,
    /// which connection
    pub(crate) link_index: usize,
    pub(crate) wait: WaitStrategy,
}

impl Config {
    /// Every combination that the options name, grouped by size and pattern.
    pub(crate) fn all(options: &Options) -> Result<Vec<Vec<Self>>, Failure> {
        if let Some(size) = options.sizes.iter().find(|size| size.0 > BYTES_MAX) {
            return Err(Failure::Usage(format!("{} bytes are over 4 GiB", size.0)));
        }
        let links = Link::all(options);
        let mut groups = Vec::new();
        for &Size(bytes) in &options.sizes {
            for &pattern in &options.pattern {
                let with =
                    |(link_index, &link)| Self { bytes, pattern, link, link_index, wait: options.wait };
                groups.push(links.iter().enumerate().map(with).collect());
            }
        }
        Ok(groups)
    }
}

impl Describe for Config {
    const KIND: &'static str = "superpipe";

    fn parts(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("pattern", json!(self.pattern.name())),
            ("block", json!(self.link.block)),
            ("landing", json!(self.link.landing)),
            ("protocol", json!(self.link.protocol.name())),
            ("wait", json!(self.wait.name())),
        ]
    }

    fn message_bytes(&self) -> usize {
        self.bytes
    }
}
