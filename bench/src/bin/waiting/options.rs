//! The options: tests, placements and times.

use clap::{Parser, ValueEnum};
use superpipe::WaitStrategy;
use superpipe_bench::failure::Failure;
use superpipe_bench::options::Common;
use superpipe_bench::options::Cores;
use superpipe_bench::size::Size;

/// The largest message; larger ones show nothing more about waiting.
const BYTES_MAX: usize = 64 << 20;

/// The cost of waiting: latency, CPU use and wake-up by wait strategy, on two cores and on one
#[derive(Parser)]
#[command(name = "waiting", version)]
// The time of a visit must hold many pauses.
#[command(mut_arg("seconds_per_config", |arg| arg.default_value("0.1")))]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Wait strategies
    #[arg(long, value_delimiter = ',', default_value = "spin,yield,sleep")]
    pub(crate) wait: Vec<WaitStrategy>,
    /// Placement of the two ends
    #[arg(long, value_delimiter = ',', value_enum, default_value = "two-cores,one-core")]
    pub(crate) placement: Vec<Placement>,
    /// Message sizes for the latency
    #[arg(long, value_delimiter = ',', default_value = "8,64K")]
    pub(crate) sizes: Vec<Size>,
    /// Microseconds without a message before a wake-up
    #[arg(long, value_delimiter = ',', default_value = "10,100,1000,10000", value_name = "US")]
    pub(crate) pauses_us: Vec<u32>,
}

/// Placement of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Placement {
    /// each on its own
    TwoCores,
    /// both on the first
    OneCore,
}

impl Placement {
    /// The name on the command line and in JSON.
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
    /// Returns the nanoseconds of one measurement, if the options are valid.
    pub(crate) fn visit_ns(&self) -> Result<u64, Failure> {
        if let Some(size) = self.sizes.iter().find(|size| size.0 > BYTES_MAX) {
            return Err(Failure::Usage(format!("{} bytes are over 64 MiB", size.0)));
        }
        if let Some(pause_us) = self.pauses_us.iter().find(|&&pause_us| pause_us > 1_000_000) {
            return Err(Failure::Usage(format!("a pause of {pause_us} us is over a second")));
        }
        self.common.visit_ns()
    }

    pub(crate) fn bytes_max(&self) -> usize {
        self.sizes.iter().map(|size| size.0).max().unwrap_or(0).max(crate::server::STAMP_BYTES)
    }
}
