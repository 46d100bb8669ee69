//! Sends a file or standard input to an rrecv.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    superpipe_tools::transfer::send::main()
}
