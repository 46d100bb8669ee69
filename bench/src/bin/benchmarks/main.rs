//! superpipe beside the raw limits and its peers: `run` measures and writes raw figures, `render` makes of them the report
//! that is read.
//!
//! ```text
//! run     part by part, in interleaved rounds:  limits ─┐
//!                                                rperf ─┼─▶ DIR/benchmarks/PART.jsonl
//!                                                peers ─┘
//! render  DIR/benchmarks/*.jsonl, causes.json  ──▶  DIR/benchmarks.md, DIR/benchmarks/*.svg
//! ```
//!
//! Nothing in the report is typed by hand, but the causes of targets that are missed. What is told of a contestant is the
//! median of its rounds, with the lowest and the highest; a ratio is formed inside one round, and the median of these is
//! told. A virtual machine's cores can be neighbours in one minute and far apart in the next: the distance is probed around
//! each round, a round that straddles a change is run again, and rounds of the two kinds are never mixed.

mod plan;
mod raw;
mod render;
mod run;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use superpipe_bench::failure::Failure;

/// Measures superpipe beside the raw limits and its peers, and renders the report
#[derive(Parser)]
#[command(name = "benchmarks", version)]
struct Options {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Measure, and write raw figures to DIR/benchmarks
    Run(run::Options),
    /// Make DIR/benchmarks.md and the plots from the raw figures
    Render(RenderOptions),
}

#[derive(clap::Args)]
struct RenderOptions {
    /// Where benchmarks.md and benchmarks/ are
    #[arg(long, default_value = "docs", value_name = "DIR")]
    dir: PathBuf,
    /// Write nothing, and fail if the files are not what would be written
    #[arg(long)]
    check: bool,
    /// Let a missed target stand without a cause in causes.json
    #[arg(long)]
    unexplained: bool,
}

fn main() -> ExitCode {
    let outcome = match Options::parse().task {
        Task::Run(options) => run::run(&options),
        Task::Render(options) => render::render(&options.dir, options.check, options.unexplained),
    };
    Failure::report(outcome)
}
