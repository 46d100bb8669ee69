//! `rperf --connections`, `--idle` and `--bidirectional`: messages over many connections at once, from one thread at each end, by one poller.
//!
//! ```text
//! options    combinations that make no sense
//! connect    makes the connections             client    checks each, and has the runs performed
//! exchange   one end of a run, the same at both ends
//! ```

pub mod client;
mod connect;
pub mod exchange;
pub mod options;
