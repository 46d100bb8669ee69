//! Measures messages between two processes.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    superpipe_tools::rperf::main()
}
