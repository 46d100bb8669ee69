//! The options that several programs have.

use crate::failure::Failure;
use crate::pin::Cores;

/// Where, how long and how often: of every program that measures in rounds.
#[derive(Clone, Debug, clap::Args)]
pub struct Common {
    /// The two cores, the measuring process's first
    #[arg(long, default_value = "0,1", value_name = "A,B")]
    pub cores: Cores,
    /// How many times everything is measured
    #[arg(long, default_value_t = 3)]
    pub rounds: u64,
    /// Seconds that each measurement takes, checks and warm-up not counted
    #[arg(long, default_value_t = 0.02, value_name = "SECONDS")]
    pub seconds_per_config: f64,
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    pub json: bool,
}

/// What the limits have besides.
#[derive(Clone, Debug, clap::Args)]
pub struct Limit {
    /// Sweep quickly once, then visit only the best configuration of each size and pattern
    #[arg(long)]
    pub best: bool,
    /// Use huge pages where the kernel gives them
    #[arg(long)]
    pub huge: bool,
    /// Flip one byte in flight during the check: the program must notice
    #[arg(long, hide = true)]
    pub flip_byte: bool,
}

impl Common {
    /// The nanoseconds of one visit.
    ///
    /// # Errors
    /// [`Failure::Usage`] if the seconds are no number between a microsecond and an hour.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an hour's nanoseconds are positive and fit"
    )]
    pub fn visit_ns(&self) -> Result<u64, Failure> {
        if (1e-6..=3600.0).contains(&self.seconds_per_config) {
            return Ok((self.seconds_per_config * 1e9) as u64);
        }
        Err(Failure::Usage(format!(
            "--seconds-per-config is {}; it must be from 0.000001 to 3600",
            self.seconds_per_config
        )))
    }
}
