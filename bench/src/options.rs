//! Options that several programs have.

use core::str::FromStr;

use crate::failure::Failure;

/// Two different cores, one per process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// the measuring process's
    pub client: usize,
    /// the other process's
    pub server: usize,
}

impl FromStr for Cores {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split(',').map(|part| part.trim().parse::<usize>()).collect::<Result<Vec<_>, _>>();
        match parts.as_deref() {
            Ok(&[client, server]) if client != server => Ok(Self { client, server }),
            Ok(_) | Err(_) => Err(format!("'{text}' is not two different core numbers, such as 0,1")),
        }
    }
}

/// Options of every program that measures in rounds.
#[derive(Clone, Debug, clap::Args)]
pub struct Common {
    /// The two cores, the measuring process's first
    #[arg(long, default_value = "0,1", value_name = "A,B")]
    pub cores: Cores,
    /// Rounds: each measures everything once
    #[arg(long, default_value_t = 3)]
    pub rounds: u64,
    /// Seconds of each measurement, besides checks and warm-up
    #[arg(long, default_value_t = 0.02, value_name = "SECONDS")]
    pub seconds_per_config: f64,
    /// Print JSON, one object per line, instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Options of every program whose contestants have a slice of time in each round. A program sets other defaults by `mut_arg`.
#[derive(Clone, Debug, clap::Args)]
pub struct Slices {
    /// The two cores, the measuring process's first
    #[arg(long, default_value = "0,1", value_name = "A,B")]
    pub cores: Cores,
    /// Rounds, in which each kind has a slice
    #[arg(long, default_value = "9", value_parser = clap::value_parser!(u16).range(1..))]
    pub rounds: u16,
    /// Milliseconds of a slice
    #[arg(long, default_value = "20")]
    pub slice_ms: u64,
    /// Print medians as JSON, instead of a table
    #[arg(long)]
    pub json: bool,
    /// Only show that everything works: one short round
    #[arg(long)]
    pub quick: bool,
}

impl Slices {
    /// Makes this one round with slices of so many milliseconds, if it is to be quick. Returns true then.
    pub fn shorten(&mut self, slice_ms: u64) -> bool {
        if self.quick {
            (self.rounds, self.slice_ms) = (1, slice_ms);
        }
        self.quick
    }
}

/// Further options of the limits.
#[derive(Clone, Debug, clap::Args)]
pub struct Limit {
    /// Sweep once, quickly; then visit only the best configuration of each size and pattern
    #[arg(long)]
    pub best: bool,
    /// Use huge pages where the kernel gives them
    #[arg(long)]
    pub huge: bool,
    /// Flip one byte in flight during the check, which the program must detect
    #[arg(long, hide = true)]
    pub flip_byte: bool,
}

impl Common {
    /// Nanoseconds of one visit.
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

#[cfg(test)]
mod tests {
    use super::Cores;

    #[test]
    fn cores_are_two_different_numbers() {
        assert_eq!("3, 1".parse(), Ok(Cores { client: 3, server: 1 }));
        for wrong in ["", "0", "1,1", "0,1,2", "a,b", "0,-1"] {
            assert!(wrong.parse::<Cores>().is_err(), "{wrong}");
        }
    }
}
