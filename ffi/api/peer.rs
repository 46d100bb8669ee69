//! The peer of a connection.

use core::net::SocketAddr;

use crate::shm::PeerCred;

/// Peer of a connection, as this host's kernel or the device names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Peer {
    /// A process of this host.
    Process(PeerCred),
    /// An address, of this host or another.
    Host(SocketAddr),
    /// A peer that neither of them names.
    Unknown,
}

impl Peer {
    /// Returns true if the peer of another connection may be the same program: it is of the same process, or host.
    #[must_use]
    pub fn is_maybe(self, other: Self) -> bool {
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
        assert!(host("10.0.0.1:5").is_maybe(host("10.0.0.1:6")));
        assert!(!host("10.0.0.1:5").is_maybe(host("10.0.0.2:5")));
        let process = |pid| Peer::Process(PeerCred { pid, uid: 1, gid: 1 });
        assert!(process(7).is_maybe(process(7)) && !process(7).is_maybe(process(8)));
        assert!(!process(7).is_maybe(host("10.0.0.1:5")) && Peer::Unknown.is_maybe(Peer::Unknown));
    }
}
