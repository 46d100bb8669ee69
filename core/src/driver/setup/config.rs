//! Configuration of a handshake.

use super::tuning::Tuning;
use crate::nanos::Nanos;

/// Role of this end in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It connected, and speaks first.
    Active,
    /// It accepted.
    Passive,
}

impl Role {
    /// Name of the role in texts.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Active => "connecting end",
            Self::Passive => "listener",
        }
    }
}

/// A fabric, as far as packets differ by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FabricKind {
    /// Shared memory: stores go direct, and memory is handed over beside a packet. wire.md 6.
    Direct {
        /// This process has registered with membarrier.
        is_fenced: bool,
        /// This process.
        pid: u32,
    },
    /// RDMA: writes are posted, and a packet names the memory. wire.md 10.2.
    Posted {
        /// The bytes of a write that arrives here become visible in order.
        keeps_order: bool,
        /// This CPU checks faster than it copies.
        has_fast_crc: bool,
        /// Receives that each end keeps posted for notifications.
        notices: u16,
    },
}

/// Configuration of a handshake.
#[derive(Clone, Copy, Debug)]
pub struct HandshakeConfig {
    /// Role of this end.
    pub role: Role,
    /// The fabric, and what this end can do on it.
    pub fabric: FabricKind,
    /// Wishes of this end's user.
    pub wishes: Tuning,
    /// Most bytes that a peer may make the landing buffer at either end, slot lines included. A landing buffer as large as this
    /// end's own wishes make it is allowed as well.
    pub landing_bytes_max: u32,
    /// Time between two HELLOs of an active end that hears nothing; none: HELLO is said once.
    pub hello_repeat: Option<Nanos>,
    /// The longest that a passive end waits for HELLO; none: up to the deadline.
    pub first_silence: Option<Nanos>,
    /// Time when it must be over.
    pub deadline: Nanos,
}

/// A region of the peer's that a packet named: it is aligned, and does not wrap. The device of the peer checks the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteRegion {
    /// Its address there.
    pub addr: u64,
    /// Its key.
    pub rkey: u32,
}
