//! Implementation of rsend, rrecv, rperf and superpipe-top. It is a library only so that the tools can share it, and promises no stability.
//! Programs that move data use the `superpipe` crate.
//!
//! ```text
//! command_line ──▶ transfer ──▶ connection ──▶ protocol      options; rsend and rrecv; their peer and the messages between them
//!                     │  ├─────▶ files                       where the bytes come from and go to
//!                     │  └─────▶ report, trace               progress, results and traces
//!                     └──▶ exit, signals                     exit codes, failures and signals
//! command_line ──▶ rperf ──▶ connection, report, trace       the tool rperf: see its module
//! command_line ──▶ top                                       the tool superpipe-top: see its module
//! ```
//!
//! Everything except data and results goes to standard error. A tool ends in one place, with an [`exit::Code`] and one line for
//! the outcome. Remarks and lost reports have separate lines.
// Only two modules of `os` allow it.
#![deny(unsafe_code)]

pub mod command_line;
pub mod connection;
pub mod exit;
pub mod files;
pub mod os;
pub mod protocol;
pub mod quantity;
pub mod report;
pub mod rperf;
#[cfg(test)]
mod scratch;
pub mod shell;
pub mod signals;
pub mod stderr;
pub mod timeouts;
pub mod top;
pub mod trace;
pub mod transfer;
