//! What is measured, where and how long.

use clap::Parser;
use superpipe_bench::failure::Failure;
use superpipe_bench::pin::Cores;
use superpipe_bench::size::Size;

use crate::memory::Kind;

/// More would be a measurement of how the machine swaps.
const BYTES_MAX: usize = 1 << 30;

/// Receiving into memory that was never written, by kind of memory
#[derive(Parser)]
#[command(name = "cold", version)]
pub(crate) struct Options {
    /// The two cores, the measuring process's first
    #[arg(long, default_value = "0,1", value_name = "A,B")]
    pub(crate) cores: Cores,
    /// How many times everything is measured
    #[arg(long, default_value_t = 3)]
    pub(crate) rounds: u64,
    /// Seconds that one measurement takes
    #[arg(long, default_value_t = 0.1, value_name = "SECONDS")]
    pub(crate) seconds_per_config: f64,
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Message sizes
    #[arg(long, value_delimiter = ',', default_value = "64K,256K,1M,2M,4M,16M,64M")]
    pub(crate) sizes: Vec<Size>,
    /// What is received into
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Kind::ALL)]
    pub(crate) memory: Vec<Kind>,
}

impl Options {
    /// The nanoseconds of one measurement.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an hour's nanoseconds are positive and fit"
    )]
    pub(crate) fn budget_ns(&self) -> Result<u64, Failure> {
        if let Some(size) = self.sizes.iter().find(|size| size.0 > BYTES_MAX) {
            return Err(Failure::Usage(format!("{} bytes are over 1 GiB", size.0)));
        }
        if (1e-6..=3600.0).contains(&self.seconds_per_config) {
            return Ok((self.seconds_per_config * 1e9) as u64);
        }
        Err(Failure::Usage(format!(
            "--seconds-per-config is {}; it must be from 0.000001 to 3600",
            self.seconds_per_config
        )))
    }

    pub(crate) fn bytes_max(&self) -> usize {
        self.sizes.iter().map(|size| size.0).max().unwrap_or(0)
    }
}
