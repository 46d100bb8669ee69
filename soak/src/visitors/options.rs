//! Command-line options of the visitors.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Processes whose connections come and go, served by one poller; they are stopped, continued and killed at random
#[derive(Args, Clone)]
pub(crate) struct VisitorsOptions {
    /// Time for which new visitors are started, in seconds
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) seconds: u64,
    /// Processes at a time
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) visitors: u32,
    /// Milliseconds after which all visitors leave, and what is left of them is counted
    #[arg(long, default_value_t = 4000, value_name = "MS", value_parser = clap::value_parser!(u64).range(100..=3_600_000))]
    pub(crate) round_ms: u64,
    /// Seed of the messages, the ways that they go, and the times of stops and kills; the kernel's scheduling stays random. Default: a new seed each time
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Be a visitor of this kind
    #[arg(long, hide = true, requires_all = ["seed", "parent", "socket", "number"])]
    pub(crate) visitor: Option<Kind>,
    /// Number of the visitor
    #[arg(long, hide = true)]
    pub(crate) number: Option<u32>,
    /// Socket of the poller
    #[arg(long, hide = true)]
    pub(crate) socket: Option<PathBuf>,
    /// Process whose end ends the visitor
    #[arg(long, hide = true)]
    pub(crate) parent: Option<u32>,
}

/// Kind of calls by which a visitor drives its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// one connection, by calls that wait
    Blocking,
    /// some connections, each in a task of tokio
    Tokio,
    /// some connections, by a poller
    Poller,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Blocking, Self::Tokio, Self::Poller];

    /// The name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Blocking => "blocking",
            Self::Tokio => "tokio",
            Self::Poller => "poller",
        }
    }
}
