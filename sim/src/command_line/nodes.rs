//! `nodes`: where registered memory should lie on hosts with two memory nodes.

use std::process::ExitCode;

use superpipe_sim::check_memory_nodes;

use super::EXIT_INTEGRITY;

/// Makes the check, and prints the times. Exits with 6 if a choice is not the best where it should be.
pub(super) fn check_nodes() -> ExitCode {
    match check_memory_nodes() {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(text) => {
            println!("{text}");
            ExitCode::from(EXIT_INTEGRITY)
        }
    }
}
