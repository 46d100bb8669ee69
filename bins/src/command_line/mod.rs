//! The command line of the tools: options, help, man pages and completions.

pub mod command;
pub mod generate;
pub(crate) mod help;
pub mod options;
