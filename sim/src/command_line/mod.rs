//! Command line of the simulator, with one file per subcommand.

mod distance;
mod explore;
mod nodes;
mod output;
mod paper;
mod planner;
#[cfg(superpipe_planted)]
mod planted;
mod polled;
mod run;
mod swarm;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The exit code of the tools for arguments that cannot be used.
const EXIT_USAGE: u8 = 2;

/// The exit code of the tools for data that differs from what was sent.
const EXIT_INTEGRITY: u8 = 6;

/// The exit code of the tools for a file that cannot be written.
const EXIT_LOCAL_IO: u8 = 8;

/// Run superpipe's core in virtual time, with faults; one seed decides everything
#[derive(Parser)]
#[command(name = "superpipe-sim", version)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run one seed or scenario, and report its outcome
    Run(run::RunArguments),
    /// Run seeds in order until one fails or the limit is reached, and print what they covered
    Swarm(swarm::SwarmArguments),
    /// Run a seed again, and print its trace
    Replay {
        /// The seed that a failure reported
        seed: u64,
    },
    /// Plant each bug in core in turn, and run seeds until one fails
    #[cfg(superpipe_planted)]
    Planted(planted::PlantedArguments),
    /// Check that planned messages take hardly longer than by the best protocol, on machines that the planner does not know
    Planner(planner::PlannerArguments),
    /// Check connections of a poller, and what ten thousand idle ones cost it
    Polled(polled::PolledArguments),
    /// Check that the choice of copy kernels follows the distance of the cores
    Distance(distance::DistanceArguments),
    /// Check where registered memory should lie on hosts with two memory nodes
    Nodes,
    /// Make the papers' results and figures, from runs of the core on the papers' machines
    Paper(paper::PaperArguments),
    /// Explore every interleaving of small cases, and count the states
    Explore(explore::ExploreArguments),
}

/// Parses the arguments, and runs the subcommand.
pub(crate) fn main() -> ExitCode {
    // A checker panics. The subcommand reports that in one line.
    std::panic::set_hook(Box::new(|_| {}));
    match Options::parse().command {
        Command::Run(options) => run::run_one(&options),
        Command::Swarm(options) => swarm::swarm(&options),
        Command::Replay { seed } => run::replay(seed),
        #[cfg(superpipe_planted)]
        Command::Planted(options) => planted::run_planted(&options),
        Command::Planner(options) => planner::check(&options),
        Command::Polled(options) => polled::check(&options),
        Command::Distance(options) => distance::check_distances(&options),
        Command::Nodes => nodes::check_nodes(),
        Command::Paper(options) => paper::make(&options),
        Command::Explore(options) => explore::explore_all(&options),
    }
}
