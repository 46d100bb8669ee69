//! Options of a connection over RDMA.

use super::ack_timeout::AckTimeout;
use super::completions::ShardSet;
use super::device::RdmaDevice;
use crate::os::MemoryNode;
use superpipe_core::driver::setup::Tuning;

/// Options of a connection, for connecting and accepting.
#[derive(Clone, Copy, Debug)]
pub struct RdmaOptions<'a> {
    /// Settings that are negotiated with the peer.
    pub tuning: &'a Tuning,
    /// Largest landing buffer that a peer may ask for.
    pub landing_bytes_max: u32,
    /// Time for which the peer may be silent, which it is told.
    pub idle_timeout_ns: u64,
    /// Device and GID.
    pub device: RdmaDevice,
    /// Time after which the device sends again.
    pub ack_timeout: AckTimeout,
    /// Memory node of what is registered.
    pub memory_node: MemoryNode,
    /// CQs that connections share. None: each has its own.
    pub shards: Option<&'a ShardSet>,
}
