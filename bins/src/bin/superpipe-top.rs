//! Shows the connections of processes that publish their metrics.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    superpipe_tools::top::main()
}
