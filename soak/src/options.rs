//! Command-line options.

use core::fmt;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::crowd::CrowdOptions;
use crate::visitors::VisitorsOptions;

/// Stop and continue a sending process at random, and check that every message received from it over shared memory is complete
/// and in order
#[derive(Clone, Parser)]
#[command(name = "superpipe-soak", version, args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) mode: Option<Mode>,
    /// Run time in seconds; up to four times as long until every event has occurred
    #[arg(long, default_value_t = 45, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) seconds: u64,
    /// Seed of what is sent and how it is sent and received; the kernel's scheduling stays random. Default: a new seed each time
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Length of a round in milliseconds; each round has its own connection
    #[arg(long, default_value_t = 1000, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    pub(crate) round_ms: u64,
    /// Repeat this round only, and do not require that every event occurs
    #[arg(long)]
    pub(crate) round: Option<u64>,
    #[command(flatten)]
    pub(crate) overrides: Overrides,
    /// Count wrong messages and continue after them
    #[arg(long)]
    pub(crate) count: bool,
    /// Be the sender, at this socket
    #[arg(long, hide = true, value_name = "SOCKET", requires_all = ["seed", "round", "parent"])]
    pub(crate) sender: Option<PathBuf>,
    /// Process whose end ends the sender
    #[arg(long, hide = true)]
    pub(crate) parent: Option<u32>,
}

/// What is run instead.
#[derive(Clone, Subcommand)]
pub(crate) enum Mode {
    /// Many connections between two processes at once, within a small budget
    Crowd(CrowdOptions),
    /// Processes whose connections come and go, served by one poller
    Visitors(VisitorsOptions),
}

/// Values that replace what a round draws.
#[derive(Args, Clone, Default, PartialEq, Eq)]
pub(crate) struct Overrides {
    /// Bytes of a block, in every round
    #[arg(long, value_name = "BYTES")]
    pub(crate) block_bytes: Option<usize>,
    /// Bytes of a landing buffer, in every round
    #[arg(long, value_name = "BYTES")]
    pub(crate) landing_bytes: Option<usize>,
    /// Deadline of every receiving call, in microseconds
    #[arg(long, value_name = "US")]
    pub(crate) deadline_us: Option<u64>,
    /// Receive only by `recv_into`, and streams by `read`
    #[arg(long)]
    pub(crate) plain: bool,
}

impl Options {
    /// Returns true if every event must occur, because nothing is left out on purpose.
    pub(crate) fn is_complete(&self) -> bool {
        self.round.is_none() && self.overrides == Overrides::default()
    }
}

impl fmt::Display for Overrides {
    /// Writes the values as arguments, each after a space.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = [
            ("block-bytes", self.block_bytes.map(|bytes| bytes as u64)),
            ("landing-bytes", self.landing_bytes.map(|bytes| bytes as u64)),
            ("deadline-us", self.deadline_us),
        ];
        for (name, number) in numbers {
            if let Some(number) = number {
                write!(f, " --{name} {number}")?;
            }
        }
        if self.plain { f.write_str(" --plain") } else { Ok(()) }
    }
}
