//! What is measured, where and how long.

use clap::{Parser, ValueEnum};
use superpipe::WaitStrategy;
use superpipe_bench::failure::Failure;
use superpipe_bench::pin::Cores;
use superpipe_bench::size::Size;

/// Larger messages say nothing more of waiting.
const BYTES_MAX: usize = 64 << 20;

/// What waiting costs: latency, CPU use and wake-up by wait strategy, on two cores and on one
#[derive(Parser)]
#[command(name = "waiting", version)]
pub(crate) struct Options {
    /// The two cores, the measuring process's first; on one core both are there
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
    /// How to wait
    #[arg(long, value_delimiter = ',', default_value = "spin,yield,sleep")]
    pub(crate) wait: Vec<WaitStrategy>,
    /// Where the two ends run
    #[arg(long, value_delimiter = ',', value_enum, default_value = "two-cores,one-core")]
    pub(crate) placement: Vec<Placement>,
    /// Message sizes for the latency
    #[arg(long, value_delimiter = ',', default_value = "8,64K")]
    pub(crate) sizes: Vec<Size>,
    /// Microseconds without a message before a wake-up
    #[arg(long, value_delimiter = ',', default_value = "10,100,1000,10000", value_name = "US")]
    pub(crate) pauses_us: Vec<u32>,
}

/// Where the two ends run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Placement {
    /// each on its own
    TwoCores,
    /// both on the first
    OneCore,
}

impl Placement {
    /// What the command line and the JSON call it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::TwoCores => "two-cores",
            Self::OneCore => "one-core",
        }
    }

    pub(crate) const fn cores(self, given: Cores) -> Cores {
        match self {
            Self::TwoCores => given,
            Self::OneCore => Cores { client: given.client, server: given.client },
        }
    }
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
            return Err(Failure::Usage(format!("{} bytes are over 64 MiB", size.0)));
        }
        if let Some(pause_us) = self.pauses_us.iter().find(|&&pause_us| pause_us > 1_000_000) {
            return Err(Failure::Usage(format!("a pause of {pause_us} us is over a second")));
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
        self.sizes.iter().map(|size| size.0).max().unwrap_or(0).max(crate::server::STAMP_BYTES)
    }
}
