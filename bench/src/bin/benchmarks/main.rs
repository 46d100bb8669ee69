//! superpipe beside the raw limits and its peers: `run` measures and writes figures, `render` makes the page of them.
//!
//! ```text
//! run      part by part, in interleaved rounds:  limits ─┐
//!                                                 rperf ─┼─▶ DIR/benchmarks/PART.jsonl
//!                                                 peers ─┘
//! collect  the figures that a guest printed  ──▶  DIR/benchmarks/rdma.jsonl
//! render   DIR/benchmarks/*.jsonl, causes.json  ──▶  DIR/benchmarks.md, DIR/benchmarks/*.svg
//! ```
//!
//! Only the causes of missed targets are written by hand. The page shows the median of a contestant's rounds, with the lowest
//! and the highest. A ratio is formed inside one round, and the page shows the median of these. A virtual machine's cores can
//! share a cache cluster in one minute and not in the next: the distance is probed around each round, a round that straddles a
//! change is run again, and rounds of the two kinds are never mixed.

mod class;
mod figures;
mod plan;
mod render;
mod run;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use superpipe_bench::failure::Failure;

use figures::Figures;

/// Measures superpipe beside the raw limits and its peers, and renders the report
#[derive(Parser)]
#[command(name = "benchmarks", version)]
struct Options {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Measure, and write the figures to DIR/benchmarks
    Run(run::Options),
    /// Write the figures that a guest printed to DIR/benchmarks/rdma.jsonl
    Collect {
        /// The lines of the guest
        file: PathBuf,
        /// Directory of benchmarks/
        #[arg(long, default_value = "docs", value_name = "DIR")]
        dir: PathBuf,
    },
    /// Make DIR/benchmarks.md and the plots from the figures
    Render {
        /// Directory of benchmarks.md and benchmarks/
        #[arg(long, default_value = "docs", value_name = "DIR")]
        dir: PathBuf,
        /// Write nothing, and fail if the files are not what would be written
        #[arg(long)]
        check: bool,
        /// Accept a missed target that has no cause in causes.json
        #[arg(long)]
        unexplained: bool,
    },
}

fn main() -> ExitCode {
    let outcome = match Options::parse().task {
        Task::Run(options) => run::run(&options),
        Task::Collect { file, dir } => {
            Figures::read(&file).and_then(|figures| figures.write(&dir.join("benchmarks/rdma.jsonl")))
        }
        Task::Render { dir, check, unexplained } => render::render(&dir, check, unexplained),
    };
    Failure::report(outcome)
}
