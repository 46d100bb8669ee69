//! Receives from an rsend, into a file or to standard output.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    superpipe_tools::transfer::receive::main()
}
