//! The command line.

use std::path::PathBuf;

use clap::Parser;
use superpipe_bench::failure::Failure;
use superpipe_bench::options::Slices;
use superpipe_bench::size::Size;
use superpipe_bench::work::WORD_BYTES;

use crate::way::Way;

/// The largest message. Of so many bytes, four are in a landing buffer.
const BYTES_MAX: usize = 8 << 20;

/// Messages that are built and read in place, beside a bare ring and copies
#[derive(Parser)]
#[command(name = "loans", version, mut_arg("slice_ms", |arg| arg.default_value("30")))]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) slices: Slices,
    /// Message sizes
    #[arg(long, value_delimiter = ',', default_value = "64K,1M")]
    sizes: Vec<Size>,
    /// Measure iceoryx2 as well, by this program, which scripts/peers.sh builds: target/peers/bin/iceoryx2
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) iceoryx2: Option<PathBuf>,
    /// Change words of a message that goes this way, which the program must detect
    #[arg(long, hide = true, value_name = "WAY")]
    pub(crate) flip_word: Option<Way>,
}

impl Options {
    /// Returns the sizes of messages.
    pub(crate) fn sizes(&self) -> Result<Vec<usize>, Failure> {
        let sizes: Vec<usize> = self.sizes.iter().map(|size| size.0).collect();
        let is_valid =
            |bytes: &usize| (WORD_BYTES..=BYTES_MAX).contains(bytes) && bytes.is_multiple_of(WORD_BYTES);
        if sizes.is_empty() || !sizes.iter().all(is_valid) {
            return Err(Failure::Usage("messages have 8 B to 8 MiB, in whole words of 8 B".into()));
        }
        Ok(sizes)
    }
}
