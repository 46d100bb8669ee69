//! Description of a connection, and its peer.

use core::net::SocketAddr;

use superpipe_core::driver::setup::{LandingMode, Negotiated};
use superpipe_core::{Arrival, FirstChunk, Protocol};

#[cfg(feature = "verbs")]
use crate::fabric::rdma::DeviceName;
use crate::fabric::shm::PeerCred;
use crate::os::MemoryPlacement;

/// Fabric and negotiated settings of a connection, for reports. Both ends have the same settings; [`Tuning`](crate::Tuning) proposes them.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Description {
    /// Fabric, by the scheme of its addresses: `shm` for shared memory, `verbs` for RDMA.
    pub fabric: &'static str,
    /// RDMA device of this end; `None` over shared memory.
    #[cfg(feature = "verbs")]
    pub device: Option<DeviceName>,
    /// Protocol of transfers.
    pub protocol: Protocol,
    /// Arrival mode.
    pub arrival: Arrival,
    /// Reason for the arrival mode, as a phrase.
    pub arrival_reason: &'static str,
    /// Folds of a landing buffer: a chunk takes at most one of them.
    pub folds: u8,
    /// C0: bytes of the first chunk, and of the longest message without a rendezvous.
    pub c0_bytes: u32,
    /// Growth of chunks, in 1/256.
    pub growth_q8: u32,
    /// When the first chunk of a longer message is sent.
    pub first_chunk: FirstChunk,
    /// Chunks are copied out block by block while they arrive.
    pub sub_blocks: bool,
    /// Chunk i waits until chunk i - 2 is acknowledged.
    pub triple_buffer: bool,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Blocks of a group, which have one flag; 1 over RDMA.
    pub group_blocks: u32,
    /// When landing buffers are provisioned.
    pub landing: LandingMode,
    /// Bytes of all blocks of a landing buffer; of the largest one, if landing is on demand.
    pub landing_bytes: u32,
    /// Bytes of the longest message that arrives as a whole without an operation of its receiver: [`try_recv`](crate::Connection::try_recv) that finds a part of it finds all of it soon, unless the peer is faulty.
    pub whole_bytes_max: u32,
    /// Bytes of the largest chunk, if an end has set a limit. Otherwise the folds are the limit.
    pub chunk_bytes: Option<u32>,
    /// Bytes of the process's [`Budget`](crate::Budget) that the connection takes: over shared memory both segments, over RDMA
    /// what this end registered. If landing is on demand, landing buffers take more while they are there.
    pub provisioned_bytes: u64,
    /// Bytes of these that are posted receives, with what messages are sent from; 0 over shared memory.
    pub receive_bytes: u64,
    /// Memory node of this end's landing buffers and images, and the reason for it. Over shared memory each end places its own segment.
    pub memory: MemoryPlacement,
}

impl Description {
    /// Describes a connection of this configuration. The caller sets the device.
    pub(crate) fn new(
        fabric: &'static str,
        negotiated: &Negotiated,
        arrival_reason: &'static str,
        provisioned_bytes: u64,
        memory: MemoryPlacement,
    ) -> Self {
        let Negotiated { config, layout, landing, .. } = negotiated;
        Self {
            fabric,
            #[cfg(feature = "verbs")]
            device: None,
            protocol: config.protocol,
            arrival: config.arrival,
            arrival_reason,
            folds: config.folds,
            c0_bytes: config.c0_bytes,
            growth_q8: config.growth_q8,
            first_chunk: config.first_chunk,
            sub_blocks: config.sub_blocks,
            triple_buffer: config.triple_buffer,
            block_bytes: layout.block_bytes,
            group_blocks: layout.group_blocks(),
            landing: *landing,
            landing_bytes: layout.block_bytes * layout.block_count,
            whole_bytes_max: negotiated.whole_bytes_max(),
            chunk_bytes: if config.chunk_bytes == 0 { None } else { Some(config.chunk_bytes) },
            provisioned_bytes,
            receive_bytes: 0,
            memory,
        }
    }
}

/// Peer of a connection, as the kernel or the device of this host reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Peer {
    /// A process of this host.
    Process(PeerCred),
    /// An address of this host or another.
    Host(SocketAddr),
    /// A peer that neither of them reports.
    Unknown,
}

impl Peer {
    /// Returns true if nothing tells this peer from others: a process of another pid namespace has no number here.
    #[cfg(feature = "internals")]
    #[must_use]
    pub const fn is_anonymous(self) -> bool {
        matches!(self, Self::Unknown | Self::Process(PeerCred { pid: 0, .. }))
    }

    /// Returns true if both peers may be the same program: they are one process, or have the same host.
    #[cfg(feature = "internals")]
    #[must_use]
    pub fn may_be(self, other: Self) -> bool {
        match (self, other) {
            // Each connection has a port of its own.
            (Self::Host(one), Self::Host(other)) => one.ip() == other.ip(),
            (one, other) => one == other,
        }
    }
}

#[cfg(all(test, feature = "internals"))]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_known_by_its_address_and_a_process_by_its_number() {
        let host = |text: &str| Peer::Host(text.parse().unwrap());
        assert!(host("10.0.0.1:5").may_be(host("10.0.0.1:6")));
        assert!(!host("10.0.0.1:5").may_be(host("10.0.0.2:5")));
        let process = |pid| Peer::Process(PeerCred { pid, uid: 1, gid: 1 });
        assert!(process(7).may_be(process(7)) && !process(7).may_be(process(8)));
        assert!(!process(7).may_be(host("10.0.0.1:5")) && Peer::Unknown.may_be(Peer::Unknown));
        assert!(process(0).may_be(process(0)) && process(0).is_anonymous() && !process(7).is_anonymous());
    }
}
