//! Command line.

use core::fmt;
use std::path::PathBuf;

use clap::{Args, Parser};

/// Two processes over superpipe's API and shared memory: the sender is stopped and continued at random, and whatever the
/// receiver takes without an error must be a message that was sent, whole and in order
#[derive(Clone, Parser)]
#[command(name = "superpipe-soak", version)]
pub(crate) struct Options {
    /// Seconds; up to four times as many while something has not happened that must
    #[arg(long, default_value_t = 45, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) seconds: u64,
    /// Decides what is sent, how, and how it is received; not how the operating system schedules. Default: another each time
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Milliseconds of a round, which has a connection of its own
    #[arg(long, default_value_t = 1000, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    pub(crate) round_ms: u64,
    /// Repeat this round only; then nothing must happen
    #[arg(long)]
    pub(crate) round: Option<u64>,
    #[command(flatten)]
    pub(crate) wishes: Wishes,
    /// Go on after a message that is wrong, and count them
    #[arg(long)]
    pub(crate) count: bool,
    /// Be the sender, at this socket
    #[arg(long, hide = true, value_name = "SOCKET", requires_all = ["seed", "round", "parent"])]
    pub(crate) sender: Option<PathBuf>,
    /// The process that the sender ends with
    #[arg(long, hide = true)]
    pub(crate) parent: Option<u32>,
}

/// Wishes that replace what a round draws.
#[derive(Args, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wishes {
    /// Bytes of a block, in every round
    #[arg(long, value_name = "BYTES")]
    pub(crate) block_bytes: Option<usize>,
    /// Bytes of a landing buffer, in every round
    #[arg(long, value_name = "BYTES")]
    pub(crate) landing_bytes: Option<usize>,
    /// The deadline of every receiving call, in microseconds
    #[arg(long, value_name = "US")]
    pub(crate) deadline_us: Option<u64>,
    /// Receive by `recv_into` alone, and streams by `read`
    #[arg(long)]
    pub(crate) plain: bool,
}

impl Options {
    /// Returns true if every kind of event must happen: nothing is left out on purpose.
    pub(crate) fn is_complete(&self) -> bool {
        self.round.is_none() && self.wishes == Wishes::default()
    }
}

impl fmt::Display for Wishes {
    /// As arguments, each after a space.
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
