//! Configuration of a handshake.

use super::tuning::Tuning;
use crate::nanos::Nanos;

/// Role of this end in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The connecting end, which sends HELLO.
    Active,
    /// The accepting end.
    Passive,
}

impl Role {
    /// Returns the name of the role in texts.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Active => "connecting end",
            Self::Passive => "listener",
        }
    }
}

/// Kind of fabric, with the values that its packets carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FabricKind {
    /// Shared memory, with direct store. A descriptor of the memory accompanies a packet. wire.md 6.
    Direct {
        /// This process has registered with membarrier.
        is_fenced: bool,
        /// This process id.
        pid: u32,
    },
    /// RDMA, with posted writes. A packet names the memory. wire.md 10.2.
    Posted {
        /// The bytes of a write that arrives here become visible in order.
        keeps_order: bool,
        /// This CPU checks faster than it copies.
        has_fast_crc: bool,
    },
}

/// Configuration of a handshake.
#[derive(Clone, Copy, Debug)]
pub struct HandshakeConfig {
    /// Role of this end.
    pub role: Role,
    /// Kind of fabric.
    pub fabric: FabricKind,
    /// Values that this end proposes.
    pub proposed: Tuning,
    /// Most bytes that a peer may make the landing buffer at either end, slot lines included. A landing buffer as large as this
    /// end's own proposal makes it is allowed as well.
    pub landing_bytes_max: u32,
    /// Time for which the peer may be silent, which the peer is told: at least four keepalives come in it. Told in milliseconds, 1 to 2^32 - 1.
    pub idle_timeout: Nanos,
    /// Time between two of at most [`RECEIVES_MIN`](super::RECEIVES_MIN) HELLOs of an active end that receives nothing; `None`: HELLO is
    /// sent once.
    pub hello_repeat: Option<Nanos>,
    /// Longest time that a passive end waits for HELLO; `None`: up to the deadline.
    pub first_silence: Option<Nanos>,
    /// Time at which the handshake fails if it is not over.
    pub deadline: Nanos,
}

/// Region of the peer that a packet named. It is aligned, and does not wrap. The peer's device checks the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteRegion {
    /// Address at the peer.
    pub addr: u64,
    /// Remote key.
    pub rkey: u32,
}

/// Regions of the peer that a packet named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteRegions {
    /// Control page, with the landing buffer that is in it or behind it.
    pub page: RemoteRegion,
    /// Small buffer of the provision protocol, if it was negotiated. wire.md 4.7.
    pub small: Option<RemoteRegion>,
}
