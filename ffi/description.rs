//! Description of a connection, and its peer.

use core::net::SocketAddr;

use superpipe_core::driver::setup::Negotiated;

#[cfg(feature = "verbs")]
use crate::fabric::rdma::DeviceName;
use crate::fabric::shm::PeerCred;

/// Fabric and settings of a connection, for reports.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Description {
    /// Name of the fabric: `shm` or `verbs`.
    pub fabric: &'static str,
    /// RDMA device.
    #[cfg(feature = "verbs")]
    pub device: Option<DeviceName>,
    /// Negotiated settings.
    pub negotiated: Negotiated,
    /// Reason for the arrival mode.
    pub arrival_reason: &'static str,
    /// Bytes of the process's [`Budget`](crate::Budget) that the connection takes: over shared memory both segments, over RDMA
    /// what this end registered.
    pub provisioned_bytes: u64,
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
    /// Returns true if both peers may be the same program: they are one process, or have the same host.
    #[must_use]
    pub fn may_be(self, other: Self) -> bool {
        match (self, other) {
            // Each connection has a port of its own.
            (Self::Host(one), Self::Host(other)) => one.ip() == other.ip(),
            (one, other) => one == other,
        }
    }
}

#[cfg(test)]
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
    }
}
