//! Command-line options of the crowd.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use superpipe::LandingMode;

/// Many connections at once, within a small budget
#[derive(Args, Clone)]
pub(crate) struct CrowdOptions {
    /// Time for which new messages are sent, in seconds
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) seconds: u64,
    /// Connections, of which each sends in one direction
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) connections: u32,
    /// Shared memory of each process, in MiB
    #[arg(long, default_value_t = 16, value_name = "MIB")]
    pub(crate) budget_mib: u64,
    /// When landing buffers are provisioned
    #[arg(long, value_enum, default_value_t = Landing::OnDemand)]
    pub(crate) landing: Landing,
    /// Seed of the messages. Default: a new seed each time
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Be the other process, at this socket
    #[arg(long, hide = true, requires_all = ["seed", "parent"])]
    pub(crate) socket: Option<PathBuf>,
    /// Process whose end ends this one
    #[arg(long, hide = true)]
    pub(crate) parent: Option<u32>,
}

/// `--landing`
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Landing {
    /// while connecting
    AtConnect,
    /// when more is sent than fits in a page
    OnDemand,
}

impl CrowdOptions {
    pub(crate) const fn budget_bytes(&self) -> u64 {
        self.budget_mib << 20
    }

    pub(crate) const fn landing(&self) -> LandingMode {
        match self.landing {
            Landing::AtConnect => LandingMode::AtConnect,
            Landing::OnDemand => LandingMode::OnDemand,
        }
    }

    /// Returns the arguments that the other process gets, too.
    pub(crate) fn to_arguments(&self) -> [String; 4] {
        [
            format!("--seconds={}", self.seconds),
            format!("--connections={}", self.connections),
            format!("--budget-mib={}", self.budget_mib),
            format!("--landing={}", self.landing().name()),
        ]
    }
}
