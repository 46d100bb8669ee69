//! What a reader found.

use super::connection_line::ConnectionLine;
use super::poller_line::PollerLine;
use super::process_line::ProcessLine;

/// What a process published, at one time of reading. Lines were copied at their own times: each is whole, and no two are of the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Process, by its number in the reader's pid namespace.
    pub pid: u32,
    /// Name of the program, as the kernel has it: 15 bytes at most, with `?` for what cannot be printed.
    pub program: String,
    /// Version of the library in the process: major, minor, patch.
    pub library: [u16; 3],
    /// Time of reading: nanoseconds of the monotonic clock.
    pub read_at_ns: u64,
    /// What its connections have in common.
    pub process: ProcessLine,
    /// Pollers, in no order.
    pub pollers: Vec<PollerLine>,
    /// Connections, by their numbers: those that were made first come first.
    pub connections: Vec<ConnectionLine>,
    /// Lines that are left out, since they were being written at each of several looks: their process was stopped meanwhile.
    pub unsettled: u64,
}
