//! Runs the simulator from the command line.
#![forbid(unsafe_code)]

mod command_line;

fn main() -> std::process::ExitCode {
    command_line::main()
}
